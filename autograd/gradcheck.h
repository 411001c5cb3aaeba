// Does a function's gradient agree with what the function does? Compares what backward computes with
// central differences (f(x + eps) - f(x - eps)) / 2 eps, in f64. For users' own operators as for ours.
//
//   gradcheck([](const std::vector<Tensor>& x) { return my_op(x[0], x[1]); }, {a, b});
//
// Inputs that require a gradient are checked and must be f64; others are passed on. Every result that
// requires a gradient is differentiated. fn must compute the same each time (seed what is random) and
// be differentiable near the inputs: keep away from kinks. Inputs are moved by eps and put back.
// Throws an Error that names input, element, analytic and numeric value; returns when all is well.
// Defaults and meaning follow torch.autograd.gradcheck. Also checked: the gradient's dtype and shape,
// and that backward gives the same bits twice.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/tensor_function.h"
#include "core/tensor.h"

namespace mantissa {

struct GradcheckOptions {
  double eps = 1e-6;
  double atol = 1e-5;  // a pair agrees when |analytic - numeric| <= atol + rtol * |numeric|
  double rtol = 1e-3;
  // Up to this many checked elements, and as many result elements, the whole Jacobian is compared;
  // beyond it, along random directions of inputs and results.
  std::int64_t full_jacobian = 200;
  int directions = 8;
  std::uint64_t seed = 1;  // of the directions
};

void gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs, GradcheckOptions = {});
// The same for the gradient of fn (the product with a random vector) as a function of the inputs and
// of that vector: second derivatives.
void gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs, GradcheckOptions = {});

}  // namespace mantissa
