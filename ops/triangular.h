// Shared by the solvers and decompositions, which are kernels (core/decompose.h); what is exported to ONNX is composed
// of operators. Defined in ops/linalg_solve.cpp.
#pragma once

#include "core/ops.h"

namespace mantissa::linalg {

void check_square(const char* name, const Tensor& a);   // [..., n, n]
void check_precise(const char* name, const Tensor& a);  // f32 or f64
Tensor as_batch(const Tensor& x);                       // [..., n, m] -> [B, n, m], contiguous
bool has_kernels(const Tensor& a);                      // whether the kernels of core/decompose.h can be used
Tensor own_batch(const Tensor& x);                      // like as_batch, but always a copy
Tensor batch_view(const Tensor& x);  // like as_batch, but with any strides, and a view where possible
// a's batch dimensions (all but the last two) followed by `last`.
Dims batch_and(const Tensor& a, std::initializer_list<std::int64_t> last);
Tensor identity(const Tensor& like, std::int64_t n);  // [n, n]
// Throws, or on a GPU lets the next wait throw (ops/check_values.h), unless good [B] says that the steps of a
// decomposition of `a` converged for each matrix.
void check_converged(const char* name, const Tensor& a, const Tensor& good);

// Gaussian elimination with partial pivoting of a [B, n, n]. lu: the triangle U, and below it L without its unit
// diagonal. pivots [B, n]: the row swapped with row k in step k, counted from 1. Not differentiable.
struct Factors { Tensor lu, pivots; };
Factors factor(const char* name, const Tensor& a);

// t^-1 right for triangular t [..., n, n] and right [..., n, m] with the same batch dimensions. Reads only the `upper`
// or lower triangle of t. Not differentiable.
Tensor substitute(const Tensor& t, const Tensor& right, bool upper);

}  // namespace mantissa::linalg
