// Text for language models: a file of bytes, its characters as tokens, and windows of tokens. data/bpe.h makes longer
// tokens of it.
// Invariant: a batch is a pure function of the tokens, the seed and the batch's number, so a run that resumes at a step
// sees what an undisturbed one would have seen.
//
//   auto [train, validation] = data::split(data::load_text());
//   auto [input, target] = train.batch(32, 128, seed, step);     // random windows
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace mantissa::data {

struct TextBatch {
  Tensor input, target;  // i64 [B, T]: target[b, t] is the token after input[b, t]
};

struct Tokens {
  Tensor tokens;       // u8, i32 or i64 [N], on the CPU
  std::string source;  // where they came from, as a sentence to print

  std::int64_t size() const { return tokens.defined() ? tokens.size(0) : 0; }

  // `count` windows of `length` tokens at random places. Error when there are not more tokens than a window has.
  TextBatch batch(std::int64_t count, std::int64_t length, std::uint64_t seed, std::uint64_t number) const;
  // Windows side by side, from window `first` on, at most `count`: for an evaluation that sees every token once.
  TextBatch windows(std::int64_t first, std::int64_t count, std::int64_t length) const;
  std::int64_t windows_of(std::int64_t length) const {
    check(length >= 1, "Tokens: a window has at least one token, got ", length);
    return size() > 0 ? (size() - 1) / length : 0;
  }
};

// A text whose tokens are characters: bytes, numbered by those that occur.
struct Text : Tokens {
  std::string alphabet;  // the bytes that occur, ascending; token i stands for alphabet[i]; tokens are u8

  Tensor encode(std::string_view text) const;   // i64 [n]; Error for a character that the alphabet lacks
  std::string decode(const Tensor& tokens) const;  // integers of any shape, row by row
};

struct RawText {
  std::string bytes, source;
};

// `name` is "tinyshakespeare" or "synthetic". `where` is a text file, of whatever name, or a folder: then
// where/<name>/input.txt or where/input.txt. Without it, input.txt is looked for in usual_folders(name)
// (data/folders.h), and when it is nowhere the text is synthetic_text(); its source says which it was. At most 2 GiB.
RawText load_raw_text(const std::string& name = "tinyshakespeare", const std::string& where = "");
Text load_text(const std::string& name = "tinyshakespeare", const std::string& where = "");

Text text_from(std::string_view bytes, const std::string& source);

// The last part of the text, in the order of the file, is for validation; both parts share memory and alphabet.
struct TextSplit {
  Text train, validation;
};
TextSplit split(const Text& text, double validation = 0.1);
struct TokensSplit {
  Tokens train, validation;
};
TokensSplit split(const Tokens& tokens, double validation = 0.1);
// The first token of the part for validation; Error where a part would be empty.
std::int64_t first_of_validation(std::int64_t size, double validation);

// Simple English sentences drawn by a seeded grammar, `length` characters, for tests and for a first run without data.
std::string synthetic_text(std::int64_t length, std::uint64_t seed = 0);

}  // namespace mantissa::data
