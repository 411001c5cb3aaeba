#include "data/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/error.h"
#include "data/utf8.h"

namespace mantissa::data {
namespace {

using Characters = std::vector<utf8proc_int32_t>;

// It composes with nothing, but utf8proc 2.8 treats it as part of Korean syllables and drops it.
constexpr std::uint32_t no_trailing_consonant = 0x11a7;

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

void append_decomposed(Characters& to, std::uint32_t c) {
  std::array<utf8proc_int32_t, 16> parts{};  // a character decomposes into at most 4
  int boundary = 0;
  const auto n = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c), parts.data(), static_cast<utf8proc_ssize_t>(parts.size()),
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE), &boundary);
  check(n > 0 && n <= static_cast<utf8proc_ssize_t>(parts.size()), "utf8proc cannot decompose U+", c, ": ",
        utf8proc_errmsg(n));
  to.insert(to.end(), parts.begin(), parts.begin() + n);
}
// Sorts marks by combining class. (utf8proc's own algorithm is quadratic.)
void order_marks(Characters& c) {
  for (auto begin = c.begin(); begin != c.end();) {
    begin = std::find_if(begin, c.end(), combining_class);
    const auto end = std::find_if_not(begin, c.end(), combining_class);
    std::ranges::stable_sort(begin, end, {}, combining_class);
    begin = end;
  }
}
void append_composed(std::string& to, Characters& c) {
  order_marks(c);
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const auto n = utf8proc_normalize_utf32(c.data(), static_cast<utf8proc_ssize_t>(c.size()), options);
  check(n >= 0, "utf8proc cannot compose: ", utf8proc_errmsg(n));
  std::array<utf8proc_uint8_t, 4> bytes{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    const auto size = utf8proc_encode_char(c[i], bytes.data());
    to.append(bytes.begin(), bytes.begin() + size);
  }
}
bool is_ascii(char c) { return static_cast<std::uint8_t>(c) < 0x80; }

}  // namespace

std::string nfc(std::string_view text) {
  std::string out;
  Characters characters;
  for (std::size_t at = 0; at < text.size();) {
    // An ASCII character is its own normal form unless a non-ASCII character follows.
    const bool alone = is_ascii(text[at]) && (at + 1 == text.size() || is_ascii(text[at + 1]));
    const Utf8Character first = utf8_at(text, at);
    if (alone || !first.valid) {
      out += text[at++];
      continue;
    }
    characters.clear();
    append_decomposed(characters, first.code_point);
    for (at += first.bytes; at < text.size() && !is_ascii(text[at]);) {
      const Utf8Character next = utf8_at(text, at);
      if (!next.valid || next.code_point == no_trailing_consonant) break;
      append_decomposed(characters, next.code_point);
      at += next.bytes;
    }
    append_composed(out, characters);
  }
  return out;
}

}  // namespace mantissa::data
