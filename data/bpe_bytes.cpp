#include "data/bpe_bytes.h"

#include <algorithm>
#include <numeric>

namespace mantissa::data {

const std::array<std::uint16_t, 256>& shown_bytes() {
  static const auto shown = [] {
    std::array<std::uint16_t, 256> table{};
    std::uint16_t next = 0x100;
    for (std::uint16_t b = 0; b < 256; ++b) {
      const bool visible = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      table[b] = visible ? b : next++;
    }
    return table;
  }();
  return shown;
}

const std::array<std::uint8_t, 256>& bytes_in_order() {
  static const auto order = [] {
    std::array<std::uint8_t, 256> bytes{};
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
    std::ranges::sort(bytes, {}, [](std::uint8_t b) { return shown_bytes()[b]; });
    return bytes;
  }();
  return order;
}

std::string show_bytes(std::string_view bytes) {
  std::string shown;
  for (const char byte : bytes) {
    const unsigned c = shown_bytes()[static_cast<std::uint8_t>(byte)];
    if (c < 0x80) {
      shown += static_cast<char>(c);
    } else {
      shown += static_cast<char>(0xc0u | c >> 6);
      shown += static_cast<char>(0x80u | (c & 0x3fu));
    }
  }
  return shown;
}

std::optional<std::string> unshow_bytes(std::string_view shown) {
  static const auto byte_of = [] {
    std::array<std::int16_t, 0x200> table{};
    table.fill(-1);
    for (std::size_t b = 0; b < 256; ++b) table[shown_bytes()[b]] = static_cast<std::int16_t>(b);
    return table;
  }();
  std::string bytes;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    unsigned c = static_cast<std::uint8_t>(shown[i]);
    if (c >= 0x80) {
      const unsigned next = i + 1 < shown.size() ? static_cast<std::uint8_t>(shown[i + 1]) : 0;
      if (c < 0xc2 || c > 0xc7 || (next & 0xc0u) != 0x80u) return {};
      c = (c & 0x1fu) << 6 | (next & 0x3fu);
      ++i;
    }
    if (byte_of[c] < 0) return {};
    bytes += static_cast<char>(byte_of[c]);
  }
  return bytes;
}

}  // namespace mantissa::data
