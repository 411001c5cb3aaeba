// What tests of random training programs share: the net, the dice and the comparison of bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "mantissa.h"

namespace mantissa::test {

struct Net {
  nn::Linear in{4, 12};
  nn::BatchNorm1d norm{12};
  nn::Dropout drop{.p = 0.25};
  nn::Linear out{12, 2};
  MANTISSA_FIELDS(in, norm, drop, out)
  Tensor operator()(const Tensor& x) const { return out(drop(relu(norm(in(x))))); }
};

class Dice {
 public:
  explicit Dice(std::uint64_t number) : engine_(number) {}
  bool chance(double p) { return std::uniform_real_distribution<>()(engine_) < p; }
  int choose(int n) { return std::uniform_int_distribution<>(0, n - 1)(engine_); }

 private:
  std::mt19937_64 engine_;
};

// All NaN are equal.
inline bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y) || (std::isnan(x) && std::isnan(y));
  });
}

}  // namespace mantissa::test
