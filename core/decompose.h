// Decompositions of batches of dense matrices on the CPU, in f32 and f64: what the operators of core/ops_matrix.h are
// made of there. (On CUDA they are compositions of other operators.) Written from their textbook descriptions, blocked,
// on products of our own: core/cpu/matrix*.cpp. All strides of a View may be anything.
#pragma once

#include <cstdint>

#include "core/kernel.h"

namespace mantissa {

enum class Triangle { lower, unit_lower, upper, unit_upper };

// visit(T) for the dtypes that these kernels compute in.
template <class F> void visit_precise(Dtype dtype, F&& f) {
  if (dtype == f64) f.template operator()<double>();
  else f.template operator()<float>();
}

// a [B, n, n] := L with a = L L^T, from its lower triangle; zeros above. wrong[b]: the first row whose pivot was not
// positive, where matrix b was given up, or -1.
MANTISSA_KERNEL(dense_cholesky, const View& a, std::int64_t* wrong)
// a [B, n, n] := U and, below its diagonal, L without its ones. pivots [B, n]: the row, from 0, that row k changed
// places with at step k. A pivot of 0 divides nothing.
MANTISSA_KERNEL(dense_lu, const View& a, std::int64_t* pivots)
// The rows of x [B, n, m] change places as those of an elimination did, or go back. Matrix b's pivots are at pivots +
// b * distance.
MANTISSA_KERNEL(dense_exchange, const View& x, const std::int64_t* pivots, std::int64_t distance, bool back)
// x [B, n, m] := t^-1 x, for a triangle of t [B, n, n].
MANTISSA_KERNEL(dense_solve, const View& t, const View& x, Triangle triangle)
// a [B, m, n] := R and, below its diagonal, the vectors of min(m, n) reflections 1 - tau v v^T without their leading
// ones. tau [B, min(m, n)].
MANTISSA_KERNEL(dense_qr, const View& a, const View& tau)
// q [B, m, columns] := the first columns of the product of the reflections below the diagonal of v [B, m, >= k], tau
// [B, k].
MANTISSA_KERNEL(dense_reflections, const View& q, const View& v, const View& tau)
// a [B, n, n], symmetric, of which the lower triangle is read and all is overwritten. values f64 [B, n], rising.
// vectors_t [B, n, n]: a row for each value; or an empty View for the values alone. Where a matrix has a NaN or
// an infinity all its results are NaN. good[b]: whether the iteration came to its end.
MANTISSA_KERNEL(dense_eigh, const View& a, const View& values, const View& vectors_t, bool* good)
// a f64 [B, n, n], of contiguous rows, overwritten. values f64 [B, n, 2], pairs of real and imaginary part, conjugates
// one after the other, that with the positive imaginary part first; vectors f64 [B, n, n, 2], a column for each, or an
// empty View; both dense. NaN and good[b] as above.
MANTISSA_KERNEL(dense_eig, const View& a, const View& values, const View& vectors, bool* good)
// a [B, m, n] with m >= n, overwritten. values f64 [B, n], falling. u_t [B, n, m] and v_t [B, n, n]: a row for each
// value; or empty Views.
MANTISSA_KERNEL(dense_svd, const View& a, const View& values, const View& u_t, const View& v_t, bool* good)

}  // namespace mantissa
