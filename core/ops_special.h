// Operators as those of core/ops.h, whose conventions hold here too, that few programs need: special functions, fractional
// pooling.
#pragma once

#include <array>

#include "core/ops.h"
#include "core/tensor.h"

namespace mantissa {

// Integers give f32. The gradient of each is the next: lgamma, digamma, polygamma(1), polygamma(2), ...
Tensor lgamma(const Tensor& x);                     // log |gamma(x)|; of an integer n > 0: log (n - 1)!
Tensor digamma(const Tensor& x);                    // the derivative of lgamma
Tensor polygamma(std::int64_t n, const Tensor& x);  // the n-th derivative of digamma, n >= 0

// Fractional max pooling (Graham, 2014; PyTorch's rule for the windows): windows of one size begin at random places whose
// distances average (in - kernel) / (output - 1), rounded down. x [N, C, H, W] or [C, H, W] (volumes: D first), output and
// kernel [H, W] with output + kernel - 1 no larger than the image. samples: random numbers from 0 to 1 for each image and
// channel, [N, C, 2] (volumes [N, C, 3]), N = 1 where x has none; absent: drawn from the generator of x's device.
Tensor fractional_max_pool2d(const Tensor& x, std::array<int, 2> kernel, std::array<int, 2> output, const Tensor& samples = {});
Tensor fractional_max_pool3d(const Tensor& x, std::array<int, 3> kernel, std::array<int, 3> output, const Tensor& samples = {});
// With the index of every maximum in its flattened image or volume, i64.
ValuesIndices fractional_max_pool2d_with_indices(const Tensor& x, std::array<int, 2> kernel, std::array<int, 2> output, const Tensor& samples = {});
ValuesIndices fractional_max_pool3d_with_indices(const Tensor& x, std::array<int, 3> kernel, std::array<int, 3> output, const Tensor& samples = {});

}  // namespace mantissa
