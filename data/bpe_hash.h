// Hashes for tables keyed by data from files, with a random seed per run, so that no file can be crafted to make all
// keys collide. Results do not depend on the seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

namespace mantissa::data {

inline std::uint64_t hash_seed() {
  static const std::uint64_t seed = [] {
    std::random_device device;
    return static_cast<std::uint64_t>(device()) << 32 | device();
  }();
  return seed;
}
// Folds both halves of the product: each bit of the result depends on all bits of both inputs.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

struct SeededHash {
  std::uint64_t seed = hash_seed();
  std::size_t operator()(std::uint64_t key) const { return mix(key ^ seed, seed | 1); }
  std::size_t operator()(std::string_view bytes) const {
    std::uint64_t h = seed;
    const std::size_t size = bytes.size();
    for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data(), 8);
      h = mix(h ^ word, 0x9e3779b97f4a7c15u ^ seed);
    }
    std::uint64_t rest = 0;
    for (const char c : bytes) rest = rest << 8 | static_cast<std::uint8_t>(c);
    return mix(h ^ rest, (0xc2b2ae3d27d4eb4fu ^ seed) + size);
  }
};

}  // namespace mantissa::data
