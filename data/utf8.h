// Decoding of UTF-8 text that may be invalid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mantissa::data {

struct Utf8Character {
  std::uint32_t code_point;
  std::size_t bytes;
  bool valid;  // if not, one byte that starts no character; code_point is that byte
};
// The character at `at`, which is inside `text`.
inline Utf8Character utf8_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[at + i]); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() - at < length) return {first, 1, false};
  std::uint32_t c = first & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return {first, 1, false};
    c = c << 6 | (byte(i) & 0x3fu);
  }
  const bool too_long = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
  if (too_long || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff) return {first, 1, false};
  return {c, length, true};
}

}  // namespace mantissa::data
