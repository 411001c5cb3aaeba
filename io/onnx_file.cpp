#include "io/onnx_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <map>

#include "core/layout.h"
#include "io/file.h"
#include "io/file_dtype.h"
#include "io/protobuf_reader.h"

namespace mantissa::io {
namespace {

using protobuf::Reader;
namespace fs = std::filesystem;

constexpr std::int64_t most_bytes = std::numeric_limits<std::int32_t>::max();  // of a protocol buffer
constexpr int most_nested = 32;                  // nesting depth of subgraphs
constexpr std::int64_t most_things = 4'000'000;  // nodes, names, ...: each takes more memory than file bytes

struct OnnxDtype {
  const char* name;    // of TensorProto.DataType
  const char* stored;  // name in io/file_dtype.h; null: cannot be loaded
};
constexpr OnnxDtype onnx_dtypes[] = {
    {"UNDEFINED", nullptr},  {"FLOAT", "F32"},     {"UINT8", "U8"},   {"INT8", "I8"},      {"UINT16", "U16"},
    {"INT16", "I16"},        {"INT32", "I32"},     {"INT64", "I64"},  {"STRING", nullptr}, {"BOOL", "BOOL"},
    {"FLOAT16", "F16"},      {"DOUBLE", "F64"},    {"UINT32", "U32"}, {"UINT64", "U64"},   {"COMPLEX64", nullptr},
    {"COMPLEX128", nullptr}, {"BFLOAT16", "BF16"},
};

const FileDtype* stored_as(std::int64_t type, std::string* name) {
  const bool known = type > 0 && type < static_cast<std::int64_t>(std::size(onnx_dtypes));
  if (name) *name = known ? onnx_dtypes[type].name : concat("number ", type);
  return known && onnx_dtypes[type].stored ? find_file_dtype(onnx_dtypes[type].stored) : nullptr;
}

class Parser {
 public:
  explicit Parser(const std::string& path) : path_(path) {}

  OnnxFile model(std::string_view bytes) {
    OnnxFile file;
    file.path = path_;
    bool has_graph = false;
    std::vector<std::string_view> functions;
    for (Reader r(bytes, path_); r.next();) {
      if (r.field() == 7) {
        if (has_graph) fail_format(path_, "is damaged: it has two graphs");
        has_graph = true;
        file.graph = graph(r.message());
      } else if (r.field() == 8) {
        opset(r.message(), file.opset);
      } else if (r.field() == 25) {
        functions.push_back(r.bytes());
      }
    }
    if (!has_graph) fail_format(path_, "is no ONNX file: it has no graph");
    for (const std::string_view f : functions) file.functions.push_back(function({f, path_}, file.opset));
    return file;
  }

  std::pair<std::string, Tensor> tensor(Reader r) {
    count();
    TensorData t;
    for (; r.next();) {
      switch (r.field()) {
        case 1: r.add_to(t.sizes); break;
        case 2: t.type = r.integer(); break;
        case 3:
          fail_format(path_, "has a tensor in segments, which is not supported");
        case 4: r.add_to(t.floats); break;
        case 5: case 7: case 11: r.add_to(t.integers); break;
        case 8: t.name = r.text(); break;
        case 9: t.raw = r.bytes(), t.has_raw = true; break;
        case 10: r.add_to(t.doubles); break;
        case 13: external(r.message(), t); break;
        case 14: t.is_external = r.integer() == 1; break;
        default: break;
      }
    }
    return {t.name, load(t)};
  }

 private:
  struct TensorData {
    std::string name, location;
    std::int64_t type = 0, offset = 0, length = -1;
    std::vector<std::int64_t> sizes, integers;
    std::vector<float> floats;
    std::vector<double> doubles;
    std::string_view raw;
    bool has_raw = false, is_external = false;
  };

  void count() {
    if (++things_ > most_things) fail_format(path_, "has more than ", most_things, " nodes, names and attributes");
  }
  std::string name_of(const Reader& r) {
    count();
    return r.text();
  }
  static std::string domain_of(const Reader& r) { return r.bytes() == "ai.onnx" ? "" : r.text(); }

  void opset(Reader r, int& version) {
    std::string domain;
    std::int64_t v = 0;
    for (; r.next();) {
      if (r.field() == 1) domain = domain_of(r);
      if (r.field() == 2) v = r.integer();
    }
    if (domain.empty()) version = static_cast<int>(std::clamp<std::int64_t>(v, 0, 1'000'000));
  }

  std::int64_t number(std::string_view text, const TensorData& t) const {
    std::int64_t n = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc() || end != text.data() + text.size() || n < 0)
      fail_format(path_, "tensor ", quote(t.name), " lies at ", quote(text), " of its file, which is no number");
    return n;
  }
  void external(Reader r, TensorData& t) {
    std::string_view key, value;
    for (; r.next();) {
      if (r.field() == 1) key = r.bytes();
      if (r.field() == 2) value = r.bytes();
    }
    if (key == "location") t.location = value;
    if (key == "offset") t.offset = number(value, t);
    if (key == "length") t.length = number(value, t);
  }
  // An external data file in the model's folder; paths outside it are rejected.
  struct Beside {
    std::unique_ptr<FileReader> reader;
    std::int64_t taken = 0;
  };
  Beside& beside(const TensorData& t) {
    const auto known = files_.find(t.location);
    if (known != files_.end()) return known->second;
    const fs::path place(t.location);
    const bool leaves = place.is_absolute() || std::ranges::any_of(place, [](const fs::path& p) { return p == ".."; });
    if (t.location.empty() || t.location.find('\0') != std::string::npos || leaves)
      fail_format(path_, "tensor ", quote(t.name), " lies in the file ", quote(t.location),
                  ", which is not in the model's folder");
    count();
    const std::string whole = (fs::path(path_).parent_path() / place).string();
    return files_.emplace(t.location, Beside{std::make_unique<FileReader>(whole)}).first->second;
  }

  Tensor load(const TensorData& t) {
    std::string type;
    const FileDtype* stored = stored_as(t.type, &type);
    if (!stored) fail_format(path_, "tensor ", quote(t.name), " is of type ", type, ", which Mantissa has not");
    if (t.sizes.size() > Dims::max_rank)
      fail_format(path_, "tensor ", quote(t.name), " has ", t.sizes.size(), " dimensions, at most 8 are supported");
    std::int64_t numel = 1;
    for (const std::int64_t n : t.sizes)
      if (n < 0 || __builtin_mul_overflow(numel, n, &numel) || numel > (std::int64_t{1} << 48))
        fail_format(path_, "tensor ", quote(t.name), " has the sizes ", listed(t.sizes), ", which cannot be");
    const std::int64_t nbytes = numel * stored->bytes;
    const auto must_be = [&](std::int64_t found, std::int64_t needed, const char* unit) {
      if (found != needed)
        fail_format(path_, "tensor ", quote(t.name), " has the sizes ", listed(t.sizes), " and ", found, " ", unit,
                    " instead of ", needed);
    };
    std::string bytes;
    std::string_view data = t.raw;
    if (t.is_external) {
      Beside& from = beside(t);
      const FileReader& file = *from.reader;
      if (t.length >= 0) must_be(t.length, nbytes, "bytes");
      if (t.offset > file.size() || nbytes > file.size() - t.offset)
        fail_format(path_, "tensor ", quote(t.name), " lies beyond the end of ", quote(t.location));
      from.taken += nbytes;  // tensors may share data, but a small file must not fill all memory
      if (from.taken > 4 * file.size())
        fail_format(path_, "its tensors take more than four times all of ", quote(t.location));
      const Tensor x = Tensor::allocate(Dims(t.sizes), stored->loaded_as);
      bytes.resize(stored->is_widened() ? static_cast<std::size_t>(nbytes) : 0);
      void* to = stored->is_widened() ? bytes.data() : x.raw_data();
      if (nbytes > 0) file.read(to, nbytes, t.offset);
      return taken(*stored, to, x, t);
    }
    if (!t.has_raw) { data = bytes = typed(t, stored->bytes, numel, must_be); }
    must_be(static_cast<std::int64_t>(data.size()), nbytes, "bytes");
    return taken(*stored, data.data(), Tensor::allocate(Dims(t.sizes), stored->loaded_as), t);
  }
  Tensor taken(const FileDtype& stored, const void* bytes, const Tensor& x, const TensorData& t) const {
    if (x.numel() == 0) return x;
    const std::string wrong = take_stored(stored, bytes, x);
    if (!wrong.empty()) fail_format(path_, "tensor ", quote(t.name), ": ", wrong);
    return x;
  }
  // Elements from the numeric fields, as bytes of the dtype's width.
  template <class F> static std::string typed(const TensorData& t, std::int64_t width, std::int64_t numel, F must_be) {
    const auto copy = [&](const auto& list) {
      must_be(static_cast<std::int64_t>(list.size()), numel, "numbers");
      return std::string(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(list[0]));
    };
    if (t.type == 1) return copy(t.floats);
    if (t.type == 11) return copy(t.doubles);
    must_be(static_cast<std::int64_t>(t.integers.size()), numel, "numbers");
    std::string bytes;
    for (const std::int64_t n : t.integers)  // the low-order bytes, little-endian
      bytes.append(reinterpret_cast<const char*>(&n), static_cast<std::size_t>(width));
    return bytes;
  }
  static std::string listed(const std::vector<std::int64_t>& sizes) {
    std::string s = "[";
    for (std::size_t i = 0; i < sizes.size(); ++i) s += concat(i ? ", " : "", sizes[i]);
    return s + "]";
  }

  OnnxFileAttribute attribute(Reader r) {
    using A = OnnxFileAttribute;
    count();
    A a;
    std::int64_t type = 0;
    A::Kind seen = A::none;  // old files do not state the type
    const auto is = [&](A::Kind kind) { seen = kind; };
    for (; r.next();) {
      switch (r.field()) {
        case 1: a.name = r.text(); break;
        case 2: a.number = static_cast<double>(r.real()), is(A::real); break;
        case 3: a.whole = r.integer(), is(A::integer); break;
        case 4: a.letters = r.text(), is(A::text); break;
        case 5: a.value = tensor(r.message()).second, is(A::tensor); break;
        case 6: a.body = std::make_shared<OnnxFileGraph>(graph(r.message())), is(A::graph); break;
        case 7: {
          std::vector<float> list;
          r.add_to(list);
          a.numbers.insert(a.numbers.end(), list.begin(), list.end()), is(A::reals);
          break;
        }
        case 8: r.add_to(a.wholes), is(A::integers); break;
        case 9: a.strings.push_back(name_of(r)), is(A::texts); break;
        case 10: case 11: case 14: case 15: case 22: case 23:
          is(A::other);
          break;
        case 20: type = r.integer(); break;
        case 21: a.refers_to = r.text(); break;
        default: break;
      }
    }
    a.kind = type == 0 ? seen : type >= A::real && type <= A::texts ? static_cast<A::Kind>(type) : A::other;
    if ((a.kind == A::tensor || a.kind == A::graph) && seen != a.kind) a.kind = A::other;  // declared but missing
    return a;
  }
  OnnxFileNode node(Reader r) {
    count();
    OnnxFileNode n;
    for (; r.next();) {
      switch (r.field()) {
        case 1: n.inputs.push_back(name_of(r)); break;
        case 2: n.outputs.push_back(name_of(r)); break;
        case 3: n.name = r.text(); break;
        case 4: n.type = r.text(); break;
        case 5: n.attributes.push_back(attribute(r.message())); break;
        case 7: n.domain = domain_of(r); break;
        default: break;
      }
    }
    return n;
  }
  OnnxFilePort port(Reader r) {
    count();
    OnnxFilePort p;
    for (; r.next();) {
      if (r.field() == 1) p.name = r.text();
      if (r.field() != 2) continue;
      for (Reader type = r.message(); type.next();) {
        if (type.field() != 1) continue;  // sequences, maps, optional tensors
        p.is_tensor = true;
        for (Reader t = type.message(); t.next();) {
          if (t.field() == 1) {
            if (const Dtype* dtype = find_onnx_dtype(t.integer())) p.dtype = *dtype, p.has_dtype = true;
          } else if (t.field() == 2) {
            p.has_sizes = true;
            for (Reader shape = t.message(); shape.next();)
              if (shape.field() == 1) p.sizes.push_back(size(shape.message()));
          }
        }
      }
    }
    return p;
  }
  OnnxSize size(Reader r) {
    count();
    OnnxSize s;
    for (; r.next();) {
      if (r.field() == 1) s.number = r.integer();
      if (r.field() == 2) s.name = r.text();
    }
    return s;
  }
  OnnxFileGraph graph(Reader r) {
    if (++depth_ > most_nested) fail_format(path_, "has graphs within graphs, more than ", most_nested, " deep");
    OnnxFileGraph g;
    for (; r.next();) {
      switch (r.field()) {
        case 1: g.nodes.push_back(node(r.message())); break;
        case 5: g.initialisers.push_back(tensor(r.message())); break;
        case 11: g.inputs.push_back(port(r.message())); break;
        case 12: g.outputs.push_back(port(r.message())); break;
        case 15:
          fail_format(path_, "has sparse tensors, which are not supported");
        default: break;
      }
    }
    --depth_;
    return g;
  }
  OnnxFileFunction function(Reader r, int model_opset) {
    count();
    OnnxFileFunction f;
    f.opset = model_opset;
    for (; r.next();) {
      switch (r.field()) {
        case 1: f.name = r.text(); break;
        case 4: f.inputs.push_back(name_of(r)); break;
        case 5: f.outputs.push_back(name_of(r)); break;
        case 7: f.nodes.push_back(node(r.message())); break;
        case 9: opset(r.message(), f.opset); break;
        case 10: f.domain = domain_of(r); break;
        case 11: f.defaults.push_back(attribute(r.message())); break;
        default: break;
      }
    }
    return f;
  }

  const std::string& path_;
  std::map<std::string, Beside> files_;
  std::int64_t things_ = 0;
  int depth_ = 0;
};

std::string contents(const std::string& path) {
  const FileReader file(path);
  if (const char* foreign = recognise(file.head())) fail_format(path, "is no ONNX file; it looks like ", foreign);
  return read_file(path, most_bytes);
}

}  // namespace

const Dtype* find_onnx_dtype(std::int64_t type, std::string* name) {
  const FileDtype* stored = stored_as(type, name);
  return stored ? &stored->loaded_as : nullptr;
}

OnnxFile read_onnx(const std::string& path) { return Parser(path).model(contents(path)); }

Tensor read_onnx_tensor(const std::string& path) {
  const std::string bytes = contents(path);
  return Parser(path).tensor({bytes, path}).second;
}

}  // namespace mantissa::io
