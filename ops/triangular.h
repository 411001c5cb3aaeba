// What solvers and decompositions share. On the CPU they are kernels (core/decompose.h), on other devices, and in a net
// that is exported to ONNX, they are made of operators. Defined in ops/linalg_solve.cpp.
#pragma once

#include "core/ops.h"

namespace mantissa::linalg {

void check_square(const char* name, const Tensor& a);   // [..., n, n]
void check_precise(const char* name, const Tensor& a);  // f32 or f64
Tensor as_batch(const Tensor& x);                       // [..., n, m] -> [B, n, m], contiguous
bool has_kernels(const Tensor& a);                      // whether those of core/decompose.h can be used
Tensor own_batch(const Tensor& x);                      // as as_batch, always in memory of its own
Tensor batch_view(const Tensor& x);  // as as_batch, with any strides and without a copy where it can be
// a's dimensions but the last two, then `last`.
Dims batch_and(const Tensor& a, std::initializer_list<std::int64_t> last);
Tensor identity(const Tensor& like, std::int64_t n);  // [n, n]

// Gaussian elimination with partial pivoting of a [B, n, n]. lu: the triangle U, and below it L without its diagonal of
// ones. pivots [B, n]: the row that row k changed places with at step k, counted from 1. Not differentiable.
struct Factors { Tensor lu, pivots; };
Factors factor(const char* name, const Tensor& a);

// t^-1 right for triangular t [..., n, n] and right [..., n, m] of one batch. Of t only the triangle is looked at. Not
// differentiable.
Tensor substitute(const Tensor& t, const Tensor& right, bool upper);

}  // namespace mantissa::linalg
