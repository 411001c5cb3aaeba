// Dtypes of files: how they are stored, and the dtype they are loaded as; unsupported ones are widened.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace mantissa::io {

struct FileDtype {
  const char* name;    // safetensors' name: "F32"
  std::int64_t bytes;  // per element in the file
  Dtype loaded_as;
  enum Conversion { none, widen_i8, widen_i16, widen_u16, widen_u32, widen_u64, raw_bytes } conversion = none;

  bool is_widened() const { return conversion != none && conversion != raw_bytes; }
};
const FileDtype* find_file_dtype(std::string_view name);  // null if not supported
const FileDtype& file_dtype_of(Dtype dtype);              // the dtype it is written as

// Converts elements stored little-endian in a file into `out`: contiguous, on the CPU, of dtype stored.loaded_as.
// `bytes` may be out's own memory if nothing is widened. Returns an error, such as "a U64 above 2^63 does not fit i64",
// or "".
std::string take_stored(const FileDtype& stored, const void* bytes, const Tensor& out);

}  // namespace mantissa::io
