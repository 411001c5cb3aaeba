// Random numbers for the data pipeline: one stream per purpose, epoch and batch.
// Invariant: a batch is a pure function of (seed, epoch, batch), independent of which thread makes it, of the number of
// threads, and of whether the run was resumed in between.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"

namespace mantissa::data {

enum class Purpose : std::uint64_t { shuffle = 1, augment = 2, synthetic = 3, color = 4 };

class Draws {
 public:
  // Purposes use separate streams, far from stream 0, which the default generator uses.
  Draws(std::uint64_t seed, Purpose purpose, std::uint64_t epoch, std::uint64_t item = 0)
      : philox_{seed}, stream_((static_cast<std::uint64_t>(purpose) << 56) | epoch), offset_(item << 32) {}

  std::uint32_t bits() {
    if (used_ == 4) {
      words_ = philox_(offset_++, stream_);
      used_ = 0;
    }
    return words_.v[used_++];
  }
  float uniform() { return uniform_from_bits(bits()); }                               // [0, 1)
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  // [0, n): the high part of a 64-bit random number times n; bias below n / 2^64.
  std::int64_t below(std::int64_t n) {
    const std::uint64_t high = bits();
    const std::uint64_t random = high << 32 | bits();
    return static_cast<std::int64_t>(
        (static_cast<unsigned __int128>(random) * static_cast<std::uint64_t>(n)) >> 64);
  }
  double normal();                 // standard normal
  // The logarithm of a sample of Gamma(shape, 1); for a small shape the sample itself is close to 0.
  double log_gamma(double shape);

 private:
  Philox philox_;
  std::uint64_t stream_, offset_;
  Philox::Words words_{};
  int used_ = 4;
};

// A seed, drawn from the default generator (core/random.h), for what is not given one.
std::uint64_t drawn_seed();

// 0 .. n-1 in the random order of an epoch (Fisher-Yates).
std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::uint64_t epoch);

}  // namespace mantissa::data
