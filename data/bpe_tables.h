// Lookup tables of data::Bpe. Internal.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/bpe.h"
#include "data/bpe_hash.h"

namespace mantissa::data {

using BpeNumbers = std::unordered_map<std::string_view, std::int32_t, SeededHash>;  // token ids by their bytes

struct BpeTables {
  std::vector<std::string> tokens;  // the bytes of each; the keys below refer to them
  std::vector<std::string> shown;   // for sentencepiece: the text of each
  std::size_t before_added = 0;     // number of tokens before tokens were added
  Bpe::Merges merges;
  std::vector<AddedToken> added;
  BpeOptions options;

  std::array<std::int32_t, 256> of_byte{};  // -1: no such token
  bool of_characters() const { return options.pieces == Pieces::sentencepiece; }
  // For sentencepiece: no token crosses a word boundary, so words are pieces. Otherwise the whole text is one piece.
  bool has_words = false;
  BpeNumbers numbers;  // tokens before additions (an added token may have the same text)
  BpeNumbers whole;    // tokens that a piece with the same bytes becomes
  // Keyed by the ids of both parts, 32 bits each: the merge's rank; `merged`, by rank: the result.
  std::unordered_map<std::uint64_t, std::uint32_t, SeededHash> ranks;
  std::vector<std::int32_t> merged;
  // By round and first byte, sorted by text; texts of the second round are normalised like the input.
  std::array<std::array<std::vector<AddedToken>, 256>, 2> added_by_byte;
};

}  // namespace mantissa::data
