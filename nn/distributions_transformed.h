// Distributions of transformed samples: TransformedDistribution, and the transforms. Read nn/distributions.h first.
//
//   const TransformedDistribution logistic(Uniform(zeros(3), 1), Inverse(SigmoidTransform()), AffineTransform(m, s));
//   const TransformedDistribution flow(Normal(zeros(8), 1), MyCoupling{net});
//
// A transform is a value with four members; you can define your own:
//   Tensor operator()(const Tensor& x) const;
//   Tensor inverse(const Tensor& y) const;
//   Tensor log_abs_det(const Tensor& x, const Tensor& y) const;   // log |det dy/dx|, one number per event
//   static constexpr int event_dims = 0;                          // dimensions it acts on jointly; 0: elementwise
// and, if it is elementwise and monotone, `Tensor sign() const`, 1 where increasing, -1 where decreasing: for cdf,
// icdf.
#pragma once

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "nn/distributions_combined.h"
#include "nn/distributions_normal.h"

namespace mantissa::distributions {

struct AffineTransform {  // loc + scale x, scale not 0
  AffineTransform(const Parameter& loc, const Parameter& scale);
  Tensor operator()(const Tensor& x) const { return loc + scale * x; }
  Tensor inverse(const Tensor& y) const { return (y - loc) / scale; }
  Tensor log_abs_det(const Tensor& x, const Tensor& y) const;
  Tensor sign() const { return mantissa::sign(scale); }
  static constexpr int event_dims = 0;
  Tensor loc, scale;
};
struct ExpTransform {
  Tensor operator()(const Tensor& x) const { return exp(x); }
  Tensor inverse(const Tensor& y) const { return log(y); }
  Tensor log_abs_det(const Tensor& x, const Tensor&) const { return x; }
  Tensor sign() const { return Tensor(1.0); }
  static constexpr int event_dims = 0;
};
struct PowerTransform {  // x^exponent of x > 0, exponent not 0
  explicit PowerTransform(const Parameter& e) : exponent(detail::wide(e.value())) {}
  Tensor operator()(const Tensor& x) const { return pow(x, exponent.to(x.dtype())); }
  Tensor inverse(const Tensor& y) const { return pow(y, reciprocal(exponent.to(y.dtype()))); }
  Tensor log_abs_det(const Tensor& x, const Tensor& y) const { return log(abs(exponent.to(x.dtype()) * y / x)); }
  Tensor sign() const { return mantissa::sign(exponent); }
  static constexpr int event_dims = 0;
  Tensor exponent;
};
struct SigmoidTransform {
  Tensor operator()(const Tensor& x) const { return sigmoid(x); }
  Tensor inverse(const Tensor& y) const { return logit(y, detail::smallest_step(y)); }
  Tensor log_abs_det(const Tensor& x, const Tensor&) const { return -softplus(x) - softplus(-x); }
  Tensor sign() const { return Tensor(1.0); }
  static constexpr int event_dims = 0;
};
struct TanhTransform {  // (TanhNormal computes log_prob of its own samples without inverting tanh.)
  Tensor operator()(const Tensor& x) const { return tanh(x); }
  Tensor inverse(const Tensor& y) const;
  Tensor log_abs_det(const Tensor& x, const Tensor& y) const;
  Tensor sign() const { return Tensor(1.0); }
  static constexpr int event_dims = 0;
};
struct SoftplusTransform {
  Tensor operator()(const Tensor& x) const { return softplus(x); }
  Tensor inverse(const Tensor& y) const { return log(-expm1(-y)) + y; }
  Tensor log_abs_det(const Tensor& x, const Tensor&) const { return -softplus(-x); }
  Tensor sign() const { return Tensor(1.0); }
  static constexpr int event_dims = 0;
};
// Vectors [..., K - 1] to points of the simplex [..., K]: each entry takes a fraction of what is left of 1.
struct StickBreakingTransform {
  Tensor operator()(const Tensor& x) const;
  Tensor inverse(const Tensor& y) const;
  Tensor log_abs_det(const Tensor& x, const Tensor& y) const;
  static constexpr int event_dims = 1;
};
template <class T> struct Inverse {  // of a transform
  explicit Inverse(T t) : transform(std::move(t)) {}
  Tensor operator()(const Tensor& x) const { return transform.inverse(x); }
  Tensor inverse(const Tensor& y) const { return transform(y); }
  Tensor log_abs_det(const Tensor& x, const Tensor& y) const { return -transform.log_abs_det(y, x); }
  Tensor sign() const requires requires(const T& t) { t.sign(); }
  { return transform.sign(); }
  static constexpr int event_dims = T::event_dims;
  T transform;
};

// Samples of `base`, passed through the first transform, the second, ... The batch shape is the base's: parameters of
// transforms do not broadcast it, because the repeated elements would share the same noise.
template <class D, class... T> struct TransformedDistribution : Distribution<TransformedDistribution<D, T...>> {
  TransformedDistribution(D b, T... t) : base(std::move(b)), transforms(std::move(t)...) {}
  Tensor sample(const Dims& shape = {}) const {
    const NoGrad no_grad;
    return forward(base.sample(shape));
  }
  Tensor rsample(const Dims& shape = {}) const requires requires(const D& d) { d.rsample(); }
  { return forward(base.rsample(shape)); }
  Tensor log_prob(const Tensor& value) const {
    Tensor y = detail::wide(value), sum;
    backward_each([&](const auto& transform) {
      const Tensor x = transform.inverse(y);
      const Tensor each = detail::sum_last(transform.log_abs_det(x, y), event_dims() - transform.event_dims);
      sum = sum.defined() ? sum + each : each;
      y = x;
    });
    const Tensor score = detail::sum_last(base.log_prob(y), event_dims() - base_event_dims());
    return sum.defined() ? score - sum : score;
  }
  // Requires elementwise transforms with sign().
  Tensor cdf(const Tensor& value) const {
    Tensor y = detail::wide(value);
    backward_each([&](const auto& transform) { y = transform.inverse(y); });
    return upright(base.cdf(y));
  }
  Tensor icdf(const Tensor& probability) const { return forward(base.icdf(upright(detail::wide(probability)))); }
  int event_dims() const { return std::max({base_event_dims(), T::event_dims...}); }
  D base;
  std::tuple<T...> transforms;

 private:
  int base_event_dims() const { return mantissa::distributions::event_dims(base); }
  Tensor forward(Tensor x) const {
    std::apply([&](const T&... t) { ((x = kept_batch(x, t(x), T::event_dims)), ...); }, transforms);
    return x;
  }
  static Tensor kept_batch(const Tensor& x, Tensor y, int dims) {
    check(y.dim() == x.dim() && (dims > 0 || y.sizes() == x.sizes()), "TransformedDistribution: a transform makes ", y,
          " of ", x, "; give the base distribution parameters of the whole batch");
    return y;
  }
  template <class F> void backward_each(const F& f) const {
    [&]<std::size_t... i>(std::index_sequence<i...>) { (f(std::get<sizeof...(T) - 1 - i>(transforms)), ...); }
    (std::index_sequence_for<T...>{});
  }
  Tensor upright(const Tensor& p) const {  // 1 - p where the composition of the transforms is decreasing
    Tensor sign(1.0);
    std::apply([&](const T&... t) { ((sign = sign * t.sign().to(p.dtype())), ...); }, transforms);
    return sign * (p - 0.5) + 0.5;
  }
};
template <class D, class... T> int event_dims(const TransformedDistribution<D, T...>& d) { return d.event_dims(); }

// Points of the simplex [..., K]: StickBreakingTransform of a Normal(loc, scale) with [..., K - 1].
struct LogisticNormal : Reparameterized<LogisticNormal> {
  LogisticNormal(const Parameter& loc, const Parameter& scale) : base(loc, scale) {
    check(base.loc.dim() >= 1, "LogisticNormal: needs parameters [..., K - 1], got ", base.loc);
  }
  Tensor rsample(const Dims& shape = {}) const { return StickBreakingTransform()(base.rsample(shape)); }
  Tensor log_prob(const Tensor& value) const {
    return TransformedDistribution(base, StickBreakingTransform()).log_prob(value);
  }
  Normal base;
};
inline int event_dims(const LogisticNormal&) { return 1; }

}  // namespace mantissa::distributions
