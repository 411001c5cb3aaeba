#include "io/file_dtype.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace mantissa::io {
namespace {

static_assert(std::endian::native == std::endian::little, "data of files are little-endian and not swapped here");

constexpr FileDtype file_dtypes[] = {
    {"F64", 8, f64},
    {"F32", 4, f32},
    {"F16", 2, f16},
    {"BF16", 2, bf16},
    {"I64", 8, i64},
    {"I32", 4, i32},
    {"U8", 1, u8},
    {"BOOL", 1, boolean},
    {"I8", 1, i32, FileDtype::widen_i8},
    {"I16", 2, i32, FileDtype::widen_i16},
    {"U16", 2, i32, FileDtype::widen_u16},
    {"U32", 4, i64, FileDtype::widen_u32},
    {"U64", 8, i64, FileDtype::widen_u64},
    {"F8_E4M3", 1, u8, FileDtype::raw_bytes},
    {"F8_E5M2", 1, u8, FileDtype::raw_bytes},
};

template <class From, class To> void widen(const void* bytes, const Tensor& out) {
  To* to = out.data<To>();
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    From value;
    std::memcpy(&value, static_cast<const char*>(bytes) + i * static_cast<std::int64_t>(sizeof(From)), sizeof(From));
    to[i] = static_cast<To>(value);
  }
}

std::string check_bool(const Tensor& t) {  // any other value in a bool is undefined behaviour
  const auto* bytes = static_cast<const unsigned char*>(t.raw_data());
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    if (bytes[i] > 1)
      return concat("element ", i, " of a BOOL tensor is ", static_cast<int>(bytes[i]), ", expected 0 or 1");
  }
  return "";
}

}  // namespace

const FileDtype* find_file_dtype(std::string_view name) {
  for (const FileDtype& t : file_dtypes) if (name == t.name) return &t;
  return nullptr;
}

const FileDtype& file_dtype_of(Dtype dtype) {
  for (const FileDtype& t : file_dtypes) if (t.loaded_as == dtype && t.conversion == FileDtype::none) return t;
  fail("dtype ", dtype, " cannot be written to a file");
}

std::string take_stored(const FileDtype& stored, const void* bytes, const Tensor& out) {
  switch (stored.conversion) {
    case FileDtype::none:
    case FileDtype::raw_bytes:
      if (bytes != out.raw_data() && out.nbytes() > 0)
        std::memcpy(out.raw_data(), bytes, static_cast<std::size_t>(out.nbytes()));
      return out.dtype() == boolean ? check_bool(out) : "";
    case FileDtype::widen_i8: widen<std::int8_t, std::int32_t>(bytes, out); return "";
    case FileDtype::widen_i16: widen<std::int16_t, std::int32_t>(bytes, out); return "";
    case FileDtype::widen_u16: widen<std::uint16_t, std::int32_t>(bytes, out); return "";
    case FileDtype::widen_u32: widen<std::uint32_t, std::int64_t>(bytes, out); return "";
    case FileDtype::widen_u64: break;
  }
  widen<std::uint64_t, std::int64_t>(bytes, out);
  const std::int64_t* values = out.data<std::int64_t>();
  const bool fits = std::all_of(values, values + out.numel(), [](std::int64_t v) { return v >= 0; });
  return fits ? "" : "a U64 above 2^63 does not fit i64";
}

}  // namespace mantissa::io
