#include "nn/distribution.h"

#include <cmath>
#include <string>

#include "core/gamma_slope.h"
#include "core/finfo.h"
#include "core/ops_special.h"
#include "core/random.h"
#include "core/variates.h"
#include "ops/check_values.h"
#include "ops/function.h"

namespace mantissa::distributions {

Parameter::Parameter(const Tensor& value) : value_(value) {
  check(value.is_floating(), "a distribution's parameters are floating tensors or numbers, got ", value);
}

namespace detail {

Tensor wide(const Tensor& x) { return x.dtype() == f64 ? x : cast(x, f32); }
Tensor as_value(const Tensor& value, const Tensor& parameter) {
  return value.is_floating() ? wide(value) : cast(value, parameter.dtype());
}

std::vector<Tensor> together(const char* name, std::initializer_list<Parameter> parameters) {
  const Tensor* leading = nullptr;  // gives dtype and device to numbers and 0-d tensors
  for (const Parameter& p : parameters)
    if (!p.is_number() && (!leading || (leading->dim() == 0 && p.value().dim() > 0))) leading = &p.value();
  std::vector<Tensor> all;
  for (const Parameter& p : parameters) {
    Tensor x = p.value();
    if (leading && (p.is_number() || (x.dim() == 0 && leading->dim() > 0)))
      x = x.to(leading->dtype()).to(leading->device());
    all.push_back(wide(x));
    check(all.back().dtype() == all.front().dtype(), name, ": the parameters are ", all.front().dtype(), " and ",
          all.back().dtype());
  }
  return broadcast_tensors(all);
}

void check_range(const char* name, const char* what, const Tensor& inside) {
  if (!inside.device().is_cpu()) return check_all(name, inside, what);
  check(static_cast<bool>(all(inside)), name, ": ", what, " for every element; in ",
        inside.numel() - sum(inside).item<std::int64_t>(), " of ", inside.numel(), " it is not (or is NaN)");
}
void check_positive(const char* name, const char* parameter, const Tensor& x) {
  check_range(name, (std::string(parameter) + " must be positive").c_str(), x > 0);
}

void check_one(const char* name, const ProbsOrLogits& o) {
  check(o.probs.defined() != o.logits.defined(), name, ": give either probs or logits");
  const Tensor& x = o.probs.defined() ? o.probs : o.logits;
  check(x.is_floating(), name, ": needs a floating tensor, got ", x);
}
double smallest_step(const Tensor& x) { return x.dtype() == f64 ? 0x1p-52 : 0x1p-23; }
Odds odds_of(const char* name, const ProbsOrLogits& o) {
  check_one(name, o);
  if (o.logits.defined()) {
    const Tensor logits = wide(o.logits);
    return {sigmoid(logits), logits};
  }
  const Tensor probs = wide(o.probs);
  check_range(name, "probs must lie between 0 and 1", logical_and(probs >= 0, probs <= 1));
  return {probs, logit(probs, smallest_step(probs))};
}

Dims extended(const Dims& shape, const Dims& batch) {
  Dims all = shape;
  for (const std::int64_t size : batch) all.push_back(size);
  return all;
}
TensorOptions like(const Tensor& x) { return {.dtype = x.dtype(), .device = x.device()}; }
Tensor noise(const Tensor& parameter, const Dims& shape) {
  return randn(extended(shape, parameter.sizes()), like(parameter));
}
Tensor open_uniform(const Tensor& parameter, const Dims& shape) {
  const Tensor u = rand(extended(shape, parameter.sizes()), like(parameter));
  const double step = parameter.dtype() == f64 ? 0x1p-33 : 0x1p-25;  // half a step of rand
  return clamp_max(u + step, parameter.dtype() == f64 ? 1 - 0x1p-53 : 1 - 0x1p-24);
}

namespace {
struct StandardGamma {
  static constexpr auto name = "standard_gamma";
  static constexpr bool once_differentiable = true;
  Tensor forward(Saved& saved, const Tensor& alpha) const {
    const Tensor x = cast(draw_variates(Variate::gamma, alpha.detach()), alpha.dtype());
    saved.save({alpha, x});
    return x;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    return {g * gamma_slope(saved[0], saved[1])};
  }
};
}  // namespace
Tensor standard_gamma(const Tensor& alpha) {
  // A small alpha's samples may underflow; 0 is none of them.
  return clamp_min(apply_function(StandardGamma{}, alpha), finfo(alpha.dtype()).tiny);
}
Tensor in_open_unit(const Tensor& x, Dtype dtype) {
  return cast(clamp(x, finfo(dtype).tiny, 1 - finfo(dtype).eps / 2), dtype);
}

Tensor log_beta(const Tensor& a, const Tensor& b) { return lgamma(a) + lgamma(b) - lgamma(a + b); }
Tensor nan_like(const Tensor& x) { return full(x.sizes(), NAN, like(x)); }
Tensor sum_last(const Tensor& x, int dims) {
  Dims last;
  for (int d = 1; d <= dims; ++d) last.push_back(-d);
  return dims == 0 ? x : x.sum(last);
}

}  // namespace detail
}  // namespace mantissa::distributions
