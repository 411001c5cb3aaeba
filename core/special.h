// Special functions as in torch.special, except for lgamma, digamma, polygamma and mvlgamma (core/ops_special.h), and
// erf, erfc, erfinv, logit, sinc and xlogy (core/ops.h). Elementwise; integers give f32. Computed in f64 except entr,
// ndtr and xlog1py. Each is differentiable, with a gradient composed of the others; the conventions of core/ops.h hold.
#pragma once

#include "core/tensor.h"

namespace mantissa {

// --- modified Bessel functions of the first kind, of order 0 and 1; suffix e: scaled by exp(-|x|), never overflows ---
Tensor i0(const Tensor& x);
Tensor i0e(const Tensor& x);
Tensor i1(const Tensor& x);
Tensor i1e(const Tensor& x);
// --- Bessel functions of the first kind ---
Tensor bessel_j0(const Tensor& x);
Tensor bessel_j1(const Tensor& x);

// --- error functions and the normal distribution ---
Tensor erfcx(const Tensor& x);     // exp(x^2) erfc(x)
Tensor ndtr(const Tensor& x);      // cumulative distribution function of the standard normal
Tensor log_ndtr(const Tensor& x);  // log(ndtr(x)), accurate where ndtr underflows to 0
Tensor ndtri(const Tensor& p);     // the inverse of ndtr: -inf at 0, inf at 1, NaN outside

// --- logarithms with their limits at 0 ---
Tensor entr(const Tensor& x);                          // -x log(x); 0 at 0 (and its gradient there), -inf below
Tensor xlog1py(const Tensor& a, const Tensor& b);      // a * log(1 + b), 0 where a is 0

// --- gamma and zeta functions ---
// The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x), a >= 0 and x >= 0: the fraction of
// Gamma(a)'s integral below x, and above it. NaN if both are 0. Gradients for both arguments (PyTorch: x only).
Tensor igamma(const Tensor& a, const Tensor& x);
Tensor igammac(const Tensor& a, const Tensor& x);
// Hurwitz zeta function, the sum over k >= 0 of (q + k)^-x: infinite for x = 1 and for q = 0, -1, -2, ..., NaN for x <
// 1, and for q < 0 unless x is an integer. Gradient for q, not for x.
Tensor zeta(const Tensor& x, const Tensor& q);

}  // namespace mantissa
