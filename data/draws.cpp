#include "data/draws.h"

#include <cmath>

namespace mantissa::data {
namespace {

double positive_uniform(Draws& draws) { return 1 - static_cast<double>(draws.uniform()); }  // (0, 1]

}  // namespace

double Draws::normal() {  // Box-Muller transform, 1958
  const double radius = std::sqrt(-2 * std::log(positive_uniform(*this)));
  return radius * std::cos(6.283185307179586 * uniform());
}

double Draws::log_gamma(double a) {  // Marsaglia and Tsang, 2000; for a < 1 via a + 1
  if (a < 1) {
    const double larger = log_gamma(a + 1);
    return larger + std::log(positive_uniform(*this)) / a;
  }
  const double d = a - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal(), v = (1 + c * x) * (1 + c * x) * (1 + c * x);
    if (v > 0 && std::log(positive_uniform(*this)) < 0.5 * x * x + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

std::uint64_t drawn_seed() {
  const RngState at = reserve_random(1);
  const Philox::Words bits = Philox{at.seed}(at.offset);
  return std::uint64_t{bits.v[0]} << 32 | bits.v[1];
}

}  // namespace mantissa::data
