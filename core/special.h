// Special functions as torch.special has them, beside lgamma, digamma, polygamma and mvlgamma (core/ops_special.h), and
// erf, erfc, erfinv, logit, sinc and xlogy (core/ops.h). Elementwise; integers give f32. Computed in f64 but for entr,
// ndtr and xlog1py. Each has a gradient, which is made of the others; the conventions of core/ops.h hold.
#pragma once

#include "core/tensor.h"

namespace mantissa {

// --- modified Bessel functions of the first kind, of order 0 and 1; with e: times exp(-|x|), which never overflows ---
Tensor i0(const Tensor& x);
Tensor i0e(const Tensor& x);
Tensor i1(const Tensor& x);
Tensor i1e(const Tensor& x);
// --- Bessel functions of the first kind ---
Tensor bessel_j0(const Tensor& x);
Tensor bessel_j1(const Tensor& x);

// --- error functions, and the normal distribution's ---
Tensor erfcx(const Tensor& x);     // exp(x^2) erfc(x)
Tensor ndtr(const Tensor& x);      // the area under the normal density up to x
Tensor log_ndtr(const Tensor& x);  // its logarithm, exact where ndtr is 0
Tensor ndtri(const Tensor& p);     // where that area is p: -inf at 0, inf at 1, NaN outside

// --- logarithms with their limits at 0 ---
Tensor entr(const Tensor& x);                          // -x log(x); 0 at 0 (and its gradient there), -inf below
Tensor xlog1py(const Tensor& a, const Tensor& b);      // a * log(1 + b), 0 where a is 0

// --- gamma and zeta functions ---
// The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x), of a >= 0 and x >= 0: the share of
// Gamma(a)'s integral below x, and above it. NaN where both are 0. Gradients to both, where PyTorch has that of x.
Tensor igamma(const Tensor& a, const Tensor& x);
Tensor igammac(const Tensor& a, const Tensor& x);
// Hurwitz's zeta function, the sum over k >= 0 of (q + k)^-x: infinite for x = 1 and for q = 0, -1, -2, ..., NaN for
// x < 1, and for q < 0 unless x is an integer. Gradient to q, not to x.
Tensor zeta(const Tensor& x, const Tensor& q);

}  // namespace mantissa
