// What solvers made of operators share: ops/linalg_solve.cpp and ops/cholesky.cpp.
#pragma once

#include "core/ops.h"

namespace mantissa::linalg {

void check_square(const char* name, const Tensor& a);   // [..., n, n]
void check_precise(const char* name, const Tensor& a);  // f32 or f64
Tensor as_batch(const Tensor& x);                       // [..., n, m] -> [B, n, m], contiguous

// t^-1 right for triangular t [..., n, n] and right [..., n, m] of one batch, row by row. Of t only the triangle is
// looked at. Not differentiable.
Tensor substitute(const Tensor& t, const Tensor& right, bool upper);

}  // namespace mantissa::linalg
