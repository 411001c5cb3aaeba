// The common base of the distributions of nn/distributions.h.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "core/tensor.h"

namespace mantissa::distributions {

// A distribution parameter: a floating tensor, or a number, which takes the dtype and device of the other parameters.
class Parameter {
 public:
  Parameter(const Tensor& value);
  template <class T>
  requires std::is_arithmetic_v<T> Parameter(T number)
      : value_(scalar(static_cast<double>(number))), is_number_(true) {}
  const Tensor& value() const { return value_; }
  bool is_number() const { return is_number_; }

 private:
  Tensor value_;
  bool is_number_ = false;
};

// Exactly one is set: Bernoulli({.probs = p}) or Bernoulli({.logits = z}).
struct ProbsOrLogits {
  Tensor probs = {}, logits = {};
};

// Methods derived from a distribution's other methods. D must have variance() or entropy() where these are called.
template <class D> struct Distribution {
  Tensor stddev() const { return sqrt(static_cast<const D&>(*this).variance()); }
  Tensor perplexity() const { return exp(static_cast<const D&>(*this).entropy()); }
};
// The same for distributions with reparameterized samples (rsample).
template <class D> struct Reparameterized : Distribution<D> {
  Tensor sample(const Dims& shape = {}) const {
    const NoGrad no_grad;
    return static_cast<const D&>(*this).rsample(shape);
  }
};

namespace detail {

Tensor wide(const Tensor& x);                                   // f16 and bf16 converted to f32
Tensor as_value(const Tensor& value, const Tensor& parameter);  // as wide(); integers in the parameter's dtype
// Broadcast to one shape and dtype, as views; `name` is the distribution's, for errors.
std::vector<Tensor> together(const char* name, std::initializer_list<Parameter> parameters);
void check_range(const char* name, const char* what, const Tensor& inside);  // on a GPU: ops/check_values.h
void check_positive(const char* name, const char* parameter, const Tensor& x);

struct Odds {
  Tensor probs, logits;
};
Odds odds_of(const char* name, const ProbsOrLogits& o);  // of two outcomes; logits are derived from probs and finite
void check_one(const char* name, const ProbsOrLogits& o);
double smallest_step(const Tensor& x);  // machine epsilon: 1 to the next representable number

Dims extended(const Dims& shape, const Dims& batch);  // [shape..., batch...]
TensorOptions like(const Tensor& x);
// Random numbers [shape..., parameter...]: standard normal, and uniform in the open interval (0, 1), so log is finite.
Tensor noise(const Tensor& parameter, const Dims& shape);
Tensor open_uniform(const Tensor& parameter, const Dims& shape);
Tensor standard_gamma(const Tensor& alpha);  // one sample per element, above 0; differentiable
Tensor in_open_unit(const Tensor& x, Dtype dtype);  // the nearest number of that dtype in (0, 1)
Tensor log_beta(const Tensor& a, const Tensor& b);
Tensor nan_like(const Tensor& x);
Tensor sum_last(const Tensor& x, int dims);  // over the last `dims` dimensions

}  // namespace detail
}  // namespace mantissa::distributions
