// The JSON header of a safetensors file, separate from reading and writing the data.
// Invariant: the result of parse_header is consistent: unique names, sizes that match the shapes, and data ranges that
// tile [0, data_bytes) without gap or overlap. Used by io/safetensors.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_dtype.h"
#include "io/safetensors.h"

namespace mantissa::io {

struct HeaderEntry {
  std::string name;
  const FileDtype* dtype = nullptr;
  Dims shape;
  std::int64_t begin = 0, end = 0;  // bytes, from the start of the data
};
struct Header {
  std::vector<HeaderEntry> entries;  // ordered by begin
  Metadata metadata;
};

// Throws FormatError that starts with `path`.
Header parse_header(std::string_view json, std::int64_t data_bytes, const std::string& path,
                    const SafetensorsLimits& limits);

// The header as text, padded with spaces to a multiple of 8 bytes. Throws Error on invalid UTF-8.
std::string write_header(const Header& header);

// A name that occurs twice, or null. Sorts `names`.
const std::string_view* find_duplicate(std::vector<std::string_view>& names);

// Throws for undefined tensors, and for empty, too long or duplicate names, before anything is written.
void check_names(const std::string& path, const NamedTensors& tensors, const Metadata& metadata = {});

// The tensor itself, or a contiguous copy on the CPU, whose bytes can be written.
Tensor storable(const Tensor& t);

}  // namespace mantissa::io
