// How GPT-2 cuts a text before it merges bytes: no token reaches over the end of a piece. Of the file format of
// Hugging Face this is the pre_tokenizer "ByteLevel"; as a regular expression, the first alternative that fits:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// A byte that begins no character of UTF-8 counts as a character that is no letter, number or space.
#pragma once

#include <cstddef>
#include <string_view>

namespace mantissa::data {

// Where the piece ends that begins at `at`, which is inside `text`. Takes time in proportion to the piece.
std::size_t piece_end(std::string_view text, std::size_t at);

}  // namespace mantissa::data
