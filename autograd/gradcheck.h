// Numerical gradient check: compares what backward computes with central differences (f(x + eps) - f(x - eps)) / 2 eps,
// in f64. For users' own operators as well as ours.
//
//   gradcheck([](const std::vector<Tensor>& x) { return my_op(x[0], x[1]); }, {a, b});
//
// Inputs that require a gradient are checked and must be f64; others are passed on. Every result that requires a
// gradient is differentiated. fn must be deterministic (seed random numbers) and differentiable near the inputs: avoid
// kinks. Inputs are modified by eps and restored. Throws an Error that names input, element, analytic and numeric
// value; returns if everything agrees. Defaults and semantics follow torch.autograd.gradcheck. Also checked: the
// gradient's dtype and shape, and that backward gives the same bits twice.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/tensor_function.h"
#include "core/tensor.h"

namespace mantissa {

struct GradcheckOptions {
  double eps = 1e-6;
  double atol = 1e-5;  // passes if |analytic - numeric| <= atol + rtol * |numeric|
  double rtol = 1e-3;
  // Up to this many checked elements, and as many result elements, the whole Jacobian is compared; above it,
  // derivatives along random directions of inputs and results.
  std::int64_t full_jacobian = 200;
  int directions = 8;
  std::uint64_t seed = 1;  // for the directions
};

void gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs, GradcheckOptions = {});
// The same for the gradient of fn (its product with a random vector) as a function of the inputs and of that vector:
// second derivatives.
void gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs, GradcheckOptions = {});

}  // namespace mantissa
