// Constants of the zip format for io/zip.cpp and io/zip_writer.cpp.
#pragma once

#include <bit>
#include <cstdint>

namespace mantissa::io {

static_assert(std::endian::native == std::endian::little, "zip's numbers are little-endian and not swapped here");

// Signatures of the records, and their lengths without names and extra fields.
inline constexpr std::uint32_t local_mark = 0x04034b50, central_mark = 0x02014b50, end_mark = 0x06054b50;
inline constexpr std::uint32_t end64_mark = 0x06064b50, locator64_mark = 0x07064b50;
inline constexpr std::int64_t local_bytes = 30, central_bytes = 46, end_bytes = 22;
inline constexpr std::int64_t end64_bytes = 56, locator64_bytes = 20;

inline constexpr std::uint32_t in_zip64 = 0xffffffff;  // the value is in the zip64 field
inline constexpr std::uint16_t zip64_field = 1, stored = 0, deflate = 8;

}  // namespace mantissa::io
