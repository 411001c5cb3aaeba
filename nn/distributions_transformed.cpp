#include "nn/distributions_transformed.h"

#include <numbers>

namespace mantissa::distributions {
using namespace detail;

AffineTransform::AffineTransform(const Parameter& l, const Parameter& s) {
  const auto both = together("AffineTransform", {l, s});
  loc = both[0], scale = both[1];
  check_range("AffineTransform", "scale must not be 0", scale != 0);
  // two numbers adapt to a base of any dtype and device
  if (l.is_number() && s.is_number()) loc = Tensor(loc.item<double>()), scale = Tensor(scale.item<double>());
}
Tensor AffineTransform::log_abs_det(const Tensor& x, const Tensor&) const {
  const Tensor logs = log(abs(scale)).to(x.dtype()).to(x.device());
  return expand(logs, broadcast(logs.sizes(), x.sizes()));
}

Tensor TanhTransform::inverse(const Tensor& y) const {
  const double edge = 1 - smallest_step(y);
  return atanh(clamp(y, -edge, edge));
}
Tensor TanhTransform::log_abs_det(const Tensor& x, const Tensor&) const {
  return 2 * (std::numbers::ln2 - x - softplus(-2 * x));
}

namespace {
// log of K - 1, K - 2, ..., 1: x = 0 gives equal shares
Tensor log_offset(const Tensor& x) { return log(arange(static_cast<double>(x.size(-1)), 0, -1, like(x))); }
}  // namespace
Tensor StickBreakingTransform::operator()(const Tensor& x) const {
  const Tensor z = sigmoid(x - log_offset(x)), left = cumprod(1 - z, -1);
  return pad(z, {0, 1}, "constant", 1) * pad(left, {1, 0}, "constant", 1);
}
Tensor StickBreakingTransform::inverse(const Tensor& y) const {
  const Tensor taken = slice(y, -1, 0, -1), left = flip(cumsum(flip(slice(y, -1, 1), {-1}), -1), {-1});
  return log(taken) - log(left) + log_offset(taken);
}
Tensor StickBreakingTransform::log_abs_det(const Tensor& x, const Tensor& y) const {
  const Tensor z = x - log_offset(x);
  return (log(slice(y, -1, 0, -1)) + logsigmoid(-z)).sum(-1);
}

}  // namespace mantissa::distributions
