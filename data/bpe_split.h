// How a text is split into pieces before merging: no token crosses a piece boundary. In Hugging Face's file format
// these are pre_tokenizers; as regular expressions, the first matching alternative applies:
//
//   gpt2     "ByteLevel":  's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   digits   "Digits", individually, then ByteLevel on the text between them
//   llama3   "Split":      (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
//                          | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   qwen2    the same with \p{N} alone
//   sentencepiece  ▁*[^▁]*, not a pre_tokenizer of the format: most vocabularies have no token across (BpeTables)
//
// A byte that starts no valid UTF-8 character counts as a character that is not a letter, number or space.
#pragma once

#include <cstddef>
#include <string_view>

#include "data/bpe.h"

namespace mantissa::data {

inline constexpr std::string_view written_space = "\xe2\x96\x81";  // ▁, U+2581: SentencePiece's space

// The regular expression of llama3 or qwen2, as written in files.
const char* split_pattern(Pieces pieces);

// The end of the piece that begins at `at`, which is inside `text`. Takes time proportional to the piece.
std::size_t piece_end(std::string_view text, std::size_t at, Pieces pieces = Pieces::gpt2);

}  // namespace mantissa::data
