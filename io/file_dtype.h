// How the dtypes that files know are stored, and as what they are loaded: what we do not have is widened.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace mantissa::io {

struct FileDtype {
  const char* name;    // of safetensors: "F32"
  std::int64_t bytes;  // of an element in the file
  Dtype loaded_as;
  enum Conversion { none, widen_i8, widen_i16, widen_u16, widen_u32, widen_u64, raw_bytes } conversion = none;

  bool is_widened() const { return conversion != none && conversion != raw_bytes; }
};
const FileDtype* find_file_dtype(std::string_view name);  // null when not supported
const FileDtype& file_dtype_of(Dtype dtype);              // as which it is written

// Elements as a file has them, little-endian, into `out`: contiguous, on the CPU, of stored.loaded_as. `bytes` may be
// out's own memory where nothing is widened. Returns what is wrong with a value, as "a U64 above 2^63 does not fit
// i64", or nothing.
std::string take_stored(const FileDtype& stored, const void* bytes, const Tensor& out);

}  // namespace mantissa::io
