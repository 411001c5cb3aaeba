#include "nn/distributions_circle.h"

#include <cmath>
#include <numbers>

#include "core/random.h"
#include "core/special.h"

namespace mantissa::distributions {
using namespace detail;
namespace {
constexpr double pi = std::numbers::pi;
}  // namespace

VonMises::VonMises(const Parameter& l, const Parameter& c) {
  const auto both = together("VonMises", {l, c});
  loc = both[0], concentration = both[1];
  check_positive("VonMises", "concentration", concentration);
}
Tensor VonMises::sample(const Dims& shape) const {
  const NoGrad no_grad;
  const Tensor k = expand(cast(concentration, f64), extended(shape, loc.sizes()));
  const Tensor r = 1 + sqrt(1 + 4 * square(k)), rho = (r - sqrt(2 * r)) / (2 * k);
  const Tensor s = where(k < 1e-5, reciprocal(k) + k, (1 + square(rho)) / (2 * rho));  // rho loses all digits there
  Tensor result = zeros(k.sizes(), like(k)), open = ones(k.sizes(), {.dtype = boolean, .device = k.device()});
  for (int round = 0; round < 1000 && any(open); ++round) {
    const Tensor z = cos(pi * open_uniform(k, {})), u = open_uniform(k, {});
    const Tensor f = (1 + s * z) / (s + z), c = k * (s - f);
    const Tensor accepted = logical_or(c * (2 - c) > u, log(c / u) + 1 - c >= 0);
    const Tensor now = logical_and(open, accepted);
    const Tensor side = where(open_uniform(k, {}) < 0.5, Tensor(-1.0), Tensor(1.0));
    result = where(now, side * acos(clamp(f, -1, 1)), result);
    open = logical_and(open, logical_not(accepted));
  }
  const Tensor angle = remainder(result + cast(loc, f64) + pi, Tensor(2 * pi)) - pi;
  return cast(angle, loc.dtype());
}
Tensor VonMises::log_prob(const Tensor& value) const {
  // cos(x) - 1, accurate near 0: it is multiplied by the concentration, which may be large
  const Tensor off = -2 * square(sin(0.5 * (wide(value) - loc)));
  return concentration * off - std::log(2 * pi) - log(i0e(concentration));
}
Tensor VonMises::entropy() const { return std::log(2 * pi) + log(i0e(concentration)) + concentration * variance(); }
Tensor VonMises::variance() const { return 1 - i1e(concentration) / i0e(concentration); }

}  // namespace mantissa::distributions
