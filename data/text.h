// Text for language models: a file of bytes, its characters as tokens, and windows of tokens. For longer tokens:
// data/bpe.h.
// Invariant: a batch is a pure function of the tokens, the seed and the batch's number, so a resumed run sees the same
// batches as an uninterrupted one.
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
  std::string source;  // description of their origin, for printing

  std::int64_t size() const { return tokens.defined() ? tokens.size(0) : 0; }

  // `count` windows of `length` tokens at random positions. Error unless there are more than `length` tokens.
  TextBatch batch(std::int64_t count, std::int64_t length, std::uint64_t seed, std::uint64_t number) const;
  // Consecutive windows, from window `first` on, at most `count`: for an evaluation that sees every token once.
  TextBatch windows(std::int64_t first, std::int64_t count, std::int64_t length) const;
  std::int64_t windows_of(std::int64_t length) const {
    check(length >= 1, "Tokens: a window has at least one token, got ", length);
    return size() > 0 ? (size() - 1) / length : 0;
  }
};

// A text whose tokens are characters: bytes, numbered by those that occur.
struct Text : Tokens {
  std::string alphabet;  // the bytes that occur, ascending; token i stands for alphabet[i]; tokens are u8

  Tensor encode(std::string_view text) const;   // i64 [n]; Error for a character not in the alphabet
  std::string decode(const Tensor& tokens) const;  // integers of any shape, in row-major order
};

struct RawText {
  std::string bytes, source;
};

// `name` is "tinyshakespeare" or "synthetic". `where` is a text file of any name, or a folder: then
// where/<name>/input.txt or where/input.txt. If empty, input.txt is searched for in usual_folders(name)
// (data/folders.h), and if it is not found the text is synthetic_text(); its source says which it was. At most 2 GiB.
RawText load_raw_text(const std::string& name = "tinyshakespeare", const std::string& where = "");
Text load_text(const std::string& name = "tinyshakespeare", const std::string& where = "");

Text text_from(std::string_view bytes, const std::string& source);

// The last part of the text, in file order, is for validation; both parts share memory and alphabet.
struct TextSplit {
  Text train, validation;
};
TextSplit split(const Text& text, double validation = 0.1);
struct TokensSplit {
  Tokens train, validation;
};
TokensSplit split(const Tokens& tokens, double validation = 0.1);
// Index of the first validation token; Error if a part would be empty.
std::int64_t first_of_validation(std::int64_t size, double validation);

// Simple English sentences from a seeded grammar, `length` characters, for tests and for a first run without data.
std::string synthetic_text(std::int64_t length, std::uint64_t seed = 0);

}  // namespace mantissa::data
