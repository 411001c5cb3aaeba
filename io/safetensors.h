// safetensors files: named tensors plus text metadata, the format PyTorch, JAX and Hugging Face read.
// Layout: u64 header length, JSON header, raw little-endian data in row-major order.
// Invariant: a file yields a complete, consistent set of tensors or a FormatError; never a partial result. Format:
// https://github.com/huggingface/safetensors. Stricter where it is unspecified: duplicate keys, unknown fields and
// bytes other than 0 and 1 in a BOOL tensor are rejected.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/named_tensors.h"

namespace mantissa::io {

using Metadata = std::vector<std::pair<std::string, std::string>>;

// The tensor of that name in a list such as nn::state_dict's; an Error that suggests the nearest name if there is none.
// Linear search.
Tensor tensor_named(const NamedTensors& tensors, const std::string& name);

struct Safetensors {
  NamedTensors tensors;  // in file order; on the CPU, contiguous
  Metadata metadata;
  // Tensors loaded in another form than stored: "x: F8_E4M3 loaded as raw u8 bytes". Usually empty.
  std::vector<std::string> notices;

  // The tensor of that name: load_safetensors(path)["fc.weight"].
  Tensor operator[](const std::string& name) const { return tensor_named(tensors, name); }
};

struct SafetensorsLimits {
  std::int64_t header_bytes = 10'000'000;  // the format allows 100 000 000
  std::int64_t tensors = 1'000'000;
  std::int64_t name_bytes = 65'536;
};

// Reads the whole file. Dtypes BOOL U8 I32 I64 F16 BF16 F32 F64 are kept; I8 I16 U16 widen to i32, U32 and U64 to i64
// (a U64 above 2^63 is an error), F8 types load as raw u8 with a notice. At most 8 dimensions. Throws FormatError with
// path and reason, OutOfMemory, or Error if the file cannot be opened.
Safetensors load_safetensors(const std::string& path, SafetensorsLimits limits = {});

// Writes atomically (io/file.h). Any layout and device; the file order is that of the reference implementation: widest
// dtype first, then by name. Names and metadata are UTF-8. Throws Error for a duplicate or empty name and for any
// system error; an existing file is then untouched.
void save_safetensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata = {});

}  // namespace mantissa::io
