// Text for language models of characters: a file of bytes, numbered by the bytes that occur in it, and windows of it.
// Invariant: a batch is a pure function of the text, the seed and the batch's number, so a run that resumes at a step
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
  Tensor input, target;  // i64 [B, T]: target[b, t] is the character after input[b, t]
};

struct Text {
  Tensor tokens;         // u8 [N], each below alphabet.size()
  std::string alphabet;  // the bytes that occur, ascending; token i stands for alphabet[i]
  std::string source;    // where it came from, as a sentence to print

  std::int64_t size() const { return tokens.defined() ? tokens.size(0) : 0; }

  // `count` windows of `length` characters at random places. Error when the text is not longer than a window.
  TextBatch batch(std::int64_t count, std::int64_t length, std::uint64_t seed, std::uint64_t number) const;
  // Windows side by side, from window `first` on, at most `count`: for an evaluation that sees every character once.
  TextBatch windows(std::int64_t first, std::int64_t count, std::int64_t length) const;
  std::int64_t windows_of(std::int64_t length) const { return size() > 0 ? (size() - 1) / length : 0; }

  Tensor encode(std::string_view text) const;   // i64 [n]; Error for a character that the alphabet lacks
  std::string decode(const Tensor& tokens) const;  // integers of any shape, row by row
};

// `name` is "tinyshakespeare" or "synthetic". `where` is a text file, of whatever name, or a folder: then
// where/<name>/input.txt or where/input.txt. Without it, input.txt is looked for in usual_folders(name)
// (data/folders.h), and when it is nowhere the text is synthetic_text(); Text::source says which it was. At most 2 GiB.
Text load_text(const std::string& name = "tinyshakespeare", const std::string& where = "");

Text text_from(std::string_view bytes, const std::string& source);

// The last part of the text, in the order of the file, is for validation; both parts share memory and alphabet.
struct TextSplit {
  Text train, validation;
};
TextSplit split(const Text& text, double validation = 0.1);

// Simple English sentences drawn by a seeded grammar, `length` characters, for tests and for a first run without data.
std::string synthetic_text(std::int64_t length, std::uint64_t seed = 0);

}  // namespace mantissa::data
