#include "io/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <optional>

#include "io/file_dtype.h"
#include "io/safetensors_header.h"
#include "io/zip.h"

namespace mantissa::io {
namespace {

constexpr std::string_view magic{"\x93NUMPY", 6};
constexpr std::int64_t longest_header = 10'000;  // NumPy's limit for untrusted files

struct Descr {
  const char* text;  // NumPy's type string, without the byte order
  const char* stored;
};
constexpr Descr descrs[] = {{"f4", "F32"}, {"f8", "F64"}, {"f2", "F16"}, {"i8", "I64"}, {"i4", "I32"}, {"i2", "I16"},
                            {"i1", "I8"},  {"u8", "U64"}, {"u4", "U32"}, {"u2", "U16"}, {"u1", "U8"},  {"b1", "BOOL"}};

struct Header {
  const FileDtype* stored = nullptr;
  bool swapped = false, fortran = false;
  Dims sizes;
};

// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: exactly these three keys, in any order.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& where) : rest_(text), where_(where) {}
  Header parse() {
    Header h;
    bool order = false, shape = false;
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !h.stored) read_descr(h);
      else if (key == "fortran_order" && !order) h.fortran = truth(), order = true;
      else if (key == "shape" && !shape) h.sizes = tuple(), shape = true;
      else fail_format(where_, "its header has the key ", quote(key), " that does not belong there");
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (!rest_.empty()) wrong();
    if (!h.stored || !order || !shape) fail_format(where_, "its header lacks descr, fortran_order or shape");
    return h;
  }

 private:
  [[noreturn]] void wrong() const {
    fail_format(where_, "its header is not understood at ", quote(rest_.substr(0, 20)),
                "; it must be the dictionary that numpy.save writes");
  }
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n\t"), rest_.size())); }
  bool take(char c) {
    skip_spaces();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) wrong();
  }
  std::string_view quoted() {
    skip_spaces();
    const char mark = rest_.empty() ? ' ' : rest_[0];
    const std::size_t end = mark == '\'' || mark == '"' ? rest_.find(mark, 1) : rest_.npos;
    if (end == rest_.npos) wrong();
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool truth() {
    skip_spaces();
    for (const std::string_view word : {std::string_view("True"), std::string_view("False")}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return word == "True";
    }
    wrong();
  }
  Dims tuple() {
    Dims sizes;
    expect('(');
    while (!take(')')) {
      skip_spaces();
      std::int64_t n = -1;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), n);
      if (error != std::errc() || n < 0) wrong();
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      take('L');  // suffix of Python 2's integers
      if (sizes.rank() == Dims::max_rank) fail_format(where_, "has more than ", Dims::max_rank, " dimensions");
      sizes.push_back(n);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }
  void read_descr(Header& h) {
    skip_spaces();
    if (rest_.starts_with('[')) fail_format(where_, "is a structured array; save its fields as arrays of their own");
    const std::string_view text = quoted();
    if (text.size() > 1 && text[1] == 'O')
      fail_format(where_, "is an array of Python objects, which are never read");
    const char order = text.empty() ? ' ' : text[0];
    const std::string_view kind = text.substr(std::min<std::size_t>(1, text.size()));
    const auto* d = std::ranges::find_if(descrs, [&](const Descr& o) { return kind == o.text; });
    if (d == std::end(descrs) || std::string_view("<>|=").find(order) == std::string_view::npos)
      fail_format(where_, "has the dtype ", quote(text), ", which is not read; astype('float32') makes one that is");
    h.stored = find_file_dtype(d->stored);
    h.swapped = order == '>' && h.stored->bytes > 1;
  }

  std::string_view rest_;
  const std::string& where_;
};

// The source of an array's bytes: a file, or an entry of an archive.
struct Source {
  std::string where;  // for messages
  std::int64_t size;
  std::function<void(void* out, std::int64_t nbytes, std::int64_t offset)> read;
};

void swap_bytes(char* data, std::int64_t count, std::int64_t bytes) {
  for (std::int64_t i = 0; i < count; ++i) std::reverse(data + i * bytes, data + (i + 1) * bytes);
}

Tensor read_array(const Source& source) {
  char start[10];
  const char* too_short = "is too short for NumPy's format";
  if (source.size < 10) fail_format(source.where, too_short, ": ", source.size, " bytes");
  source.read(start, 10, 0);
  if (std::string_view(start, 6) != magic) {
    const char* foreign = recognise(std::string_view(start, 10));
    fail_format(source.where, "does not begin as NumPy's .npy files do",
                foreign ? concat("; it looks like ", foreign) : "");
  }
  const int version = start[6];
  if (version < 1 || version > 3)
    fail_format(source.where, "is of version ", version, " of NumPy's format; 1 to 3 are read");
  std::int64_t at = version == 1 ? 10 : 12;
  std::uint32_t length = 0;
  if (source.size < at) fail_format(source.where, too_short, ": ", source.size, " bytes");
  source.read(&length, version == 1 ? 2 : 4, 8);
  if (length > longest_header || length > source.size - at)
    fail_format(source.where, "has a header of ", length, " bytes, at most ",
                std::min(longest_header, source.size - at), " are possible");
  std::string text(length, '\0');
  source.read(text.data(), length, at);
  at += length;
  const Header h = HeaderParser(text, source.where).parse();
  std::int64_t numel = 0;
  try {
    checked_nbytes(h.sizes, f64);
    numel = checked_numel(h.sizes);
  } catch (const Error& e) {
    fail_format(source.where, "its shape ", h.sizes, " is impossible: ", e.what());
  }
  if (numel * h.stored->bytes != source.size - at)
    fail_format(source.where, "has ", source.size - at, " bytes of data, its shape ", h.sizes, " asks for ",
                numel * h.stored->bytes);
  // Fortran order is the row-major order of the transposed array.
  Dims sizes = h.sizes;
  if (h.fortran) std::reverse(sizes.begin(), sizes.end());
  const Tensor t = Tensor::allocate(sizes, h.stored->loaded_as);
  std::string stored(h.stored->is_widened() ? static_cast<std::size_t>(source.size - at) : 0, '\0');
  char* to = h.stored->is_widened() ? stored.data() : static_cast<char*>(t.raw_data());
  source.read(to, source.size - at, at);
  if (h.swapped) swap_bytes(to, numel, h.stored->bytes);
  const std::string wrong = take_stored(*h.stored, to, t);
  if (!wrong.empty()) fail_format(source.where, wrong);
  if (!h.fortran) return t;
  Dims back;
  for (int d = sizes.rank() - 1; d >= 0; --d) back.push_back(d);
  return t.permute(back).contiguous();
}

// Magic, version and header, padded so that the data are aligned to 64 bytes.
std::string write_header(const Tensor& t) {
  const char* stored = file_dtype_of(t.dtype()).name;
  const auto* d = std::ranges::find_if(descrs, [&](const Descr& o) { return std::string_view(stored) == o.stored; });
  check(d != std::end(descrs), "NumPy has no ", t.dtype(), "; save x.to(f32), or a safetensors file");
  std::string text = concat("{'descr': '", file_dtype_of(t.dtype()).bytes > 1 ? "<" : "|", d->text,
                            "', 'fortran_order': False, 'shape': (");
  for (int i = 0; i < t.dim(); ++i) text += concat(i ? ", " : "", t.size(i));
  text += t.dim() == 1 ? ",), }" : "), }";
  text.resize((10 + text.size()) / 64 * 64 + 64 - 11, ' ');
  text += '\n';
  const auto length = static_cast<std::uint16_t>(text.size());
  std::string s(magic);
  s += '\1';
  s += '\0';
  s.append(reinterpret_cast<const char*>(&length), 2);
  return s + text;
}

std::string_view bytes_of(const Tensor& t) {
  return {static_cast<const char*>(t.raw_data()), static_cast<std::size_t>(t.nbytes())};
}

}  // namespace

Tensor load_npy(const std::string& path) {
  const FileReader file(path);
  return read_array({path, file.size(), [&](void* out, std::int64_t n, std::int64_t at) { file.read(out, n, at); }});
}

NamedTensors load_npz(const std::string& path) {
  const ZipReader zip(path);
  NamedTensors tensors;
  for (const ZipEntry& e : zip.entries()) {
    if (!e.name.ends_with(".npy")) fail_format(path, "entry ", quote(e.name), " is not one of np.savez: no .npy");
    const std::string bytes = zip.read(e);
    const auto read = [&](void* out, std::int64_t n, std::int64_t at) {
      if (n > 0) std::memcpy(out, bytes.data() + at, static_cast<std::size_t>(n));
    };
    tensors.emplace_back(e.name.substr(0, e.name.size() - 4),
                         read_array({concat(path, ", entry ", quote(e.name)), e.size, read}));
  }
  return tensors;
}

void save_npy(const std::string& path, const Tensor& tensor) {
  check(tensor.defined(), "cannot write ", path, ": the tensor is undefined");
  const Tensor t = storable(tensor);
  const std::string header = write_header(t);
  AtomicFile file(path);
  file.write(header);
  file.write(bytes_of(t));
  file.commit();
}

void save_npz(const std::string& path, const NamedTensors& tensors) {
  check_names(path, tensors);
  ZipWriter zip(path);
  for (const auto& [name, tensor] : tensors) {
    const Tensor t = storable(tensor);
    zip.add(name + ".npy", write_header(t), bytes_of(t));
  }
  zip.commit();
}

}  // namespace mantissa::io
