#include "data/bpe_split.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "data/unicode_ranges.h"
#include "data/utf8.h"

namespace mantissa::data {
namespace {

enum class Kind : std::uint8_t { letter, number, space, other };

constexpr std::array<Kind, 128> ascii = [] {
  std::array<Kind, 128> kinds{};
  for (int c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), number = c >= '0' && c <= '9';
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    kinds[static_cast<std::size_t>(c)] = letter   ? Kind::letter
                                         : number ? Kind::number
                                         : space  ? Kind::space
                                                  : Kind::other;
  }
  return kinds;
}();

// For characters above 0x7f. Spaces are those with the property White_Space.
Kind kind_of(std::uint32_t c) {
  if (c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
      c == 0x202f || c == 0x205f || c == 0x3000)
    return Kind::space;
  const auto* range = std::upper_bound(std::begin(unicode::ranges), std::end(unicode::ranges), c,
                                       [](std::uint32_t x, const unicode::Range& r) { return x < r.first; });
  if (range == std::begin(unicode::ranges) || c > (--range)->last) return Kind::other;
  return range->kind == unicode::L ? Kind::letter : Kind::number;
}

struct Character {
  Kind kind;
  std::size_t bytes;
};
Character character_at(std::string_view text, std::size_t at) {
  const Utf8Character c = utf8_at(text, at);
  if (c.code_point < 0x80) return {ascii[c.code_point], 1};
  return {c.valid ? kind_of(c.code_point) : Kind::other, c.bytes};
}

// Length of 's, 't, 're, 've, 'm, 'll or 'd at the beginning of `text`, which starts with an apostrophe; else 0.
std::size_t contraction(std::string_view text) {
  const char a = text.size() > 1 ? text[1] : '\0', b = text.size() > 2 ? text[2] : '\0';
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}
// The same case-insensitively, which includes the long s.
std::size_t contraction_of_any_case(std::string_view text) {
  if (text.substr(1).starts_with("\u017f")) return 3;
  char small[3] = {'\'', '\0', '\0'};
  for (std::size_t i = 1; i < std::min<std::size_t>(3, text.size()); ++i)
    small[i] = text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] + 32) : text[i];
  return contraction({small, std::min<std::size_t>(3, text.size())});
}

// The end of a run of characters of this kind, at most `most` of them.
std::size_t end_of(Kind kind, std::string_view text, std::size_t from, std::size_t most = std::string_view::npos) {
  for (; from < text.size() && most > 0; --most) {
    const Character c = character_at(text, from);
    if (c.kind != kind) break;
    from += c.bytes;
  }
  return from;
}
bool is_line_end(char c) { return c == '\r' || c == '\n'; }

// With digits_apart, a following number is treated as the end of the text.
std::size_t gpt2_end(std::string_view text, std::size_t at, bool digits_apart) {
  if (text[at] == '\'') {
    if (const std::size_t bytes = contraction(text.substr(at)); bytes > 0) return at + bytes;
  }
  const Character first = character_at(text, at);
  if (first.kind == Kind::number && digits_apart) return at + first.bytes;
  if (first.kind != Kind::space) return end_of(first.kind, text, at + first.bytes);
  std::size_t end = at + first.bytes, last = at;  // end of the spaces, start of the last one
  while (end < text.size()) {
    const Character c = character_at(text, end);
    if (c.kind == Kind::number && digits_apart) return end;
    if (c.kind != Kind::space) {
      if (last == at && text[at] == ' ') return end_of(c.kind, text, end);  // a single space is part of the next piece
      return last == at ? end : last;                                       // of several, the last one is
    }
    last = end;
    end += c.bytes;
  }
  return end;
}

std::size_t llama3_end(std::string_view text, std::size_t at, std::size_t most_digits) {
  if (text[at] == '\'') {
    if (const std::size_t bytes = contraction_of_any_case(text.substr(at)); bytes > 0) return at + bytes;
  }
  const Character first = character_at(text, at);
  const std::size_t next = at + first.bytes;
  const Kind following = next < text.size() ? character_at(text, next).kind : Kind::space;
  if (first.kind == Kind::letter) return end_of(Kind::letter, text, next);
  if (first.kind == Kind::number) return end_of(Kind::number, text, next, most_digits - 1);
  if (following == Kind::letter && !is_line_end(text[at])) return end_of(Kind::letter, text, next);
  if (first.kind == Kind::other || (text[at] == ' ' && following == Kind::other)) {
    std::size_t end = end_of(Kind::other, text, next);
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }
  // Spaces: up to the last line end among them; otherwise all but the last, which is part of the next piece.
  std::size_t end = at, last = at, behind_line = at;
  while (end < text.size()) {
    const Character c = character_at(text, end);
    if (c.kind != Kind::space) break;
    last = end;
    end += c.bytes;
    if (is_line_end(text[last])) behind_line = end;
  }
  if (behind_line > at) return behind_line;
  return end == text.size() || last == at ? end : last;
}

// Words with their preceding spaces, written as ▁.
std::size_t word_end(std::string_view text, std::size_t at) {
  while (text.substr(at).starts_with(written_space)) at += written_space.size();
  return std::min(text.find(written_space, at), text.size());
}

}  // namespace

#define MANTISSA_PATTERN(numbers)                                     \
  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" numbers \
  R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
const char* split_pattern(Pieces pieces) {
  return pieces == Pieces::llama3 ? MANTISSA_PATTERN(R"(\p{N}{1,3})") : MANTISSA_PATTERN(R"(\p{N})");
}
#undef MANTISSA_PATTERN

std::size_t piece_end(std::string_view text, std::size_t at, Pieces pieces) {
  if (pieces == Pieces::sentencepiece) return word_end(text, at);
  if (pieces == Pieces::llama3) return llama3_end(text, at, 3);
  if (pieces == Pieces::qwen2) return llama3_end(text, at, 1);
  return gpt2_end(text, at, pieces == Pieces::digits);
}

}  // namespace mantissa::data
