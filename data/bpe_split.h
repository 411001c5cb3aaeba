// How a text is cut before bytes are merged: no token reaches over the end of a piece. Of the file format of Hugging
// Face these are pre_tokenizers; as regular expressions, the first alternative that fits:
//
//   gpt2     "ByteLevel":  's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   digits   "Digits", one by one, and then ByteLevel of what is between them
//   llama3   "Split":      (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
//                          | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   qwen2    the same with \p{N} alone
//   sentencepiece  ▁*[^▁]*, which are no pieces of the format: tokens of most vocabularies end there (BpeTables)
//
// A byte that begins no character of UTF-8 counts as a character that is no letter, number or space.
#pragma once

#include <cstddef>
#include <string_view>

#include "data/bpe.h"

namespace mantissa::data {

inline constexpr std::string_view written_space = "\xe2\x96\x81";  // ▁, U+2581: a space, as SentencePiece writes it

// The regular expression of llama3 or qwen2, as files have it.
const char* split_pattern(Pieces pieces);

// Where the piece ends that begins at `at`, which is inside `text`. Takes time in proportion to the piece.
std::size_t piece_end(std::string_view text, std::size_t at, Pieces pieces = Pieces::gpt2);

}  // namespace mantissa::data
