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
  Bpe::Merges merges;
  std::vector<AddedToken> added;
  BpeOptions options;

  std::array<std::int32_t, 256> of_byte{};  // -1: there is no such token
  BpeNumbers numbers;                       // of all tokens
  BpeNumbers whole;                         // of those that a piece of the same bytes becomes
  // By the numbers of both parts, 32 bits each: the rank of the merge; by rank: what it makes.
  std::unordered_map<std::uint64_t, std::uint32_t, SeededHash> ranks;
  std::vector<std::int32_t> merged;
  // By round and first byte, in the order of their texts.
  std::array<std::array<std::vector<AddedToken>, 256>, 2> added_by_byte;
};

}  // namespace mantissa::data
