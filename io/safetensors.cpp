// Reading and writing safetensors files; the header is in io/safetensors_header.cpp. Data are transferred directly
// between the file and the tensors: with pread, never mmap, so a file that shrinks while it is read causes an error and
// not a signal.
#include "io/safetensors.h"

#include <algorithm>

#include "io/file.h"
#include "io/safetensors_header.h"

namespace mantissa::io {
namespace {

constexpr std::int64_t prefix_bytes = 8;

Tensor read_tensor(const FileReader& file, const HeaderEntry& e, std::int64_t data_start) {
  const Tensor t = Tensor::allocate(e.shape, e.dtype->loaded_as);
  std::string stored(e.dtype->is_widened() ? static_cast<std::size_t>(e.end - e.begin) : 0, '\0');
  void* to = e.dtype->is_widened() ? stored.data() : t.raw_data();
  file.read(to, e.end - e.begin, data_start + e.begin);
  const std::string wrong = take_stored(*e.dtype, to, t);
  if (!wrong.empty()) fail_format(file.path(), "tensor ", quote(e.name), ": ", wrong);
  return t;
}

Header read_header(const FileReader& file, const SafetensorsLimits& limits, std::int64_t* data_start) {
  const char* foreign = recognise(file.head());
  const std::string hint = foreign ? concat("; it looks like ", foreign) : "";
  if (file.size() < prefix_bytes)
    fail_format(file.path(), "is too short for a safetensors file: ", file.size(), " bytes", hint);
  std::uint64_t length;
  file.read(&length, prefix_bytes, 0);
  const std::int64_t rest = file.size() - prefix_bytes;
  if (length == 0 || length > static_cast<std::uint64_t>(rest))
    fail_format(file.path(), "is truncated or not a safetensors file: its header length is ", length, ", ",
                rest, " bytes follow", hint);
  if (length > static_cast<std::uint64_t>(limits.header_bytes))
    fail_format(file.path(), "has a header of ", length, " bytes, at most ", limits.header_bytes,
                " are allowed", hint);
  std::string json(length, '\0');
  file.read(json.data(), static_cast<std::int64_t>(length), prefix_bytes);
  *data_start = prefix_bytes + static_cast<std::int64_t>(length);
  return parse_header(json, file.size() - *data_start, file.path(), limits);
}

// The reference implementation's order, widest dtype first and then by name, so that files are byte-identical.
int rank_of(Dtype dtype) {
  constexpr Dtype order[] = {i64, f64, f32, i32, bf16, f16, u8, boolean};
  return static_cast<int>(std::find(std::begin(order), std::end(order), dtype) - order);
}
void sort_as_reference(NamedTensors& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    const int rank_a = rank_of(a.second.dtype()), rank_b = rank_of(b.second.dtype());
    return rank_a != rank_b ? rank_a < rank_b : a.first < b.first;
  });
}

}  // namespace

void check_names(const std::string& path, const NamedTensors& tensors, const Metadata& metadata) {
  const SafetensorsLimits limits;
  std::vector<std::string_view> names, keys;
  for (const auto& [name, tensor] : tensors) {
    check(tensor.defined(), "cannot write ", path, ": tensor ", quote(name), " is undefined and cannot be saved");
    check(!name.empty() && name != "__metadata__", "cannot write ", path, ": a tensor cannot be saved under the name ",
          quote(name));
    check(static_cast<std::int64_t>(name.size()) <= limits.name_bytes, "cannot write ", path, ": the name ",
          quote(name), " is too long");
    names.push_back(name);
  }
  for (const auto& [key, value] : metadata) keys.push_back(key);
  for (auto* list : {&names, &keys}) {
    const std::string_view* twice = find_duplicate(*list);
    check(!twice, "cannot write ", path, ": the name ", quote(twice ? *twice : ""), " is given twice");
  }
}

Tensor storable(const Tensor& t) {
  if (!t.device().is_cpu()) return storable(t.detach().to(cpu));
  return t.is_contiguous() ? t : t.detach().contiguous();
}

Safetensors load_safetensors(const std::string& path, SafetensorsLimits limits) {
  const FileReader file(path);
  std::int64_t data_start = 0;
  Header header = read_header(file, limits, &data_start);
  Safetensors result;
  result.metadata = std::move(header.metadata);
  result.tensors.reserve(header.entries.size());
  for (HeaderEntry& e : header.entries) {
    Tensor t = read_tensor(file, e, data_start);
    if (e.dtype->conversion == FileDtype::raw_bytes)
      result.notices.push_back(concat(e.name, ": ", e.dtype->name, " loaded as raw u8 bytes"));
    result.tensors.emplace_back(std::move(e.name), std::move(t));
  }
  return result;
}

void save_safetensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata) {
  check_names(path, tensors, metadata);
  NamedTensors sorted = tensors;
  sort_as_reference(sorted);
  Header header;
  header.metadata = metadata;
  std::int64_t at = 0;
  for (auto& [name, t] : sorted) {
    t = storable(t);
    header.entries.push_back({name, &file_dtype_of(t.dtype()), t.sizes(), at, at + t.nbytes()});
    at += t.nbytes();
  }
  const std::string json = write_header(header);
  check(static_cast<std::int64_t>(json.size()) <= SafetensorsLimits{}.header_bytes, "cannot write ", path,
        ": the names, shapes and metadata take ", json.size(), " bytes, at most ",
        SafetensorsLimits{}.header_bytes, " are allowed");
  const std::uint64_t length = json.size();
  AtomicFile file(path);
  file.write(&length, prefix_bytes);
  file.write(json);
  for (const auto& [name, t] : sorted) file.write(t.raw_data(), static_cast<std::size_t>(t.nbytes()));
  file.commit();
}

}  // namespace mantissa::io
