// Derivative of a gamma-distributed sample with respect to the shape parameter.
#pragma once

#include "core/tensor.h"

namespace mantissa {

// dx / d alpha of a sample x > 0 of Gamma(alpha, 1) at fixed probability: -(dP / d alpha) / (dP / dx) of the
// distribution function P(alpha, x). Used for implicit reparameterisation gradients (Figurnov, Mohamed and Mnih, 2018).
// Both of one floating dtype; they broadcast; alpha > 0. Computed in f64; not differentiable itself.
Tensor gamma_slope(const Tensor& alpha, const Tensor& x);

}  // namespace mantissa
