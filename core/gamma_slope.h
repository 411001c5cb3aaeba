// How a draw of the gamma distribution follows its shape.
#pragma once

#include "core/tensor.h"

namespace mantissa {

// dx / d alpha of a draw x > 0 of Gamma(alpha, 1) at its own probability: -(dP / d alpha) / (dP / dx) of the
// distribution function P(alpha, x). What implicit reparameterisation (Figurnov, Mohamed and Mnih, 2018) multiplies
// gradients with. Both of one floating dtype; they broadcast; alpha > 0. Computed in f64; no gradient of its own.
Tensor gamma_slope(const Tensor& alpha, const Tensor& x);

}  // namespace mantissa
