// What a data::Bpe looks things up in. Not for users.
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

using BpeNumbers = std::unordered_map<std::string_view, std::int32_t, SeededHash>;  // of tokens, by their bytes

struct BpeTables {
  std::vector<std::string> tokens;  // the bytes of each; what the keys below refer to
  std::vector<std::string> shown;   // of sentencepiece: what each stands for
  std::size_t before_added = 0;     // so many were there before tokens were added
  Bpe::Merges merges;
  std::vector<AddedToken> added;
  BpeOptions options;

  std::array<std::int32_t, 256> of_byte{};  // -1: there is no such token
  bool of_characters() const { return options.pieces == Pieces::sentencepiece; }
  // Of sentencepiece: no token reaches over a word's end, so that words are pieces. Else a text is one.
  bool has_words = false;
  BpeNumbers numbers;  // of what was there before tokens were added, whose text may be another's
  BpeNumbers whole;    // of those that a piece of the same bytes becomes
  // By the numbers of both parts, 32 bits each: the rank of the merge; by rank: what it makes.
  std::unordered_map<std::uint64_t, std::uint32_t, SeededHash> ranks;
  std::vector<std::int32_t> merged;
  // By round and first byte, in the order of their texts, which are in the second round as a text is in it.
  std::array<std::array<std::vector<AddedToken>, 256>, 2> added_by_byte;
};

}  // namespace mantissa::data
