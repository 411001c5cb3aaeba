// What the distributions of nn/distributions.h have in common.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "core/tensor.h"

namespace mantissa::distributions {

// A parameter: a floating tensor, or a number, which takes the dtype and device of the tensors beside it.
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

// Of one: Bernoulli({.probs = p}) or Bernoulli({.logits = z}).
struct ProbsOrLogits {
  Tensor probs = {}, logits = {};
};

// What follows from a distribution's other methods. D has variance() or entropy() where these are called.
template <class D> struct Distribution {
  Tensor stddev() const { return sqrt(static_cast<const D&>(*this).variance()); }
  Tensor perplexity() const { return exp(static_cast<const D&>(*this).entropy()); }
};
// The same for those whose draws have a gradient.
template <class D> struct Reparameterized : Distribution<D> {
  Tensor sample(const Dims& shape = {}) const {
    const NoGrad no_grad;
    return static_cast<const D&>(*this).rsample(shape);
  }
};

namespace detail {

Tensor wide(const Tensor& x);                                   // halves as f32
Tensor as_value(const Tensor& value, const Tensor& parameter);  // the same; integers in the parameter's dtype
// Views of one shape and dtype; `name` is the distribution's, for errors.
std::vector<Tensor> together(const char* name, std::initializer_list<Parameter> parameters);
void check_range(const char* name, const char* what, const Tensor& inside);  // on the CPU
void check_positive(const char* name, const char* parameter, const Tensor& x);

struct Odds {
  Tensor probs, logits;
};
Odds odds_of(const char* name, const ProbsOrLogits& o);  // of two outcomes: logits are those of probs and finite
void check_one(const char* name, const ProbsOrLogits& o);
double smallest_step(const Tensor& x);  // between 1 and the next number

Dims extended(const Dims& shape, const Dims& batch);  // [shape..., batch...]
TensorOptions like(const Tensor& x);
// Random numbers [shape..., parameter...]: standard normal, and uniform in (0, 1), of which a logarithm is finite.
Tensor noise(const Tensor& parameter, const Dims& shape);
Tensor open_uniform(const Tensor& parameter, const Dims& shape);
Tensor standard_gamma(const Tensor& alpha);  // a draw for each element; with a gradient
Tensor log_beta(const Tensor& a, const Tensor& b);
Tensor nan_like(const Tensor& x);
Tensor sum_last(const Tensor& x, int dims);  // over the last `dims` dimensions

}  // namespace detail
}  // namespace mantissa::distributions
