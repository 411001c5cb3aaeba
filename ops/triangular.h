// Shared by the solvers and decompositions, which are kernels on the host (core/decompose.h). Matrices on another
// device are copied there and the results back, except small ones of functions that need not wait for the device:
// these, and what is exported to ONNX, are composed of operators. Defined in ops/linalg_solve.cpp.
#pragma once

#include "core/ops.h"

namespace mantissa::linalg {

void check_square(const char* name, const Tensor& a);   // [..., n, n]
void check_precise(const char* name, const Tensor& a);  // f32 or f64
Tensor as_batch(const Tensor& x);                       // [..., n, m] -> [B, n, m], contiguous
bool has_kernels(const Tensor& a);                      // whether the kernels of core/decompose.h can be used
// a on the host; a itself if only operators may be applied to it.
Tensor on_host(const Tensor& a);
// The same, but a small matrix stays where it is: `rows` says how often the composed function repeats its operators. A
// large one is an error while a step is recorded (jit/capture.h).
Tensor on_host_if_large(const char* name, const Tensor& a, std::int64_t rows);
Tensor own_batch(const Tensor& x);                      // like as_batch, but always a copy, and on the host
Tensor batch_view(const Tensor& x);  // like as_batch, but with any strides, and a view where possible
// a's batch dimensions (all but the last two) followed by `last`.
Dims batch_and(const Tensor& a, std::initializer_list<std::int64_t> last);
Tensor identity(const Tensor& like, std::int64_t n);  // [n, n]

// Gaussian elimination with partial pivoting of a [B, n, n]. lu: the triangle U, and below it L without its unit
// diagonal. pivots [B, n]: the row swapped with row k in step k, counted from 1. Not differentiable.
struct Factors { Tensor lu, pivots; };
Factors factor(const char* name, const Tensor& a);

// t^-1 right for triangular t [..., n, n] and right [..., n, m] with the same batch dimensions. Reads only the `upper`
// or lower triangle of t. Not differentiable.
Tensor substitute(const Tensor& t, const Tensor& right, bool upper);

}  // namespace mantissa::linalg
