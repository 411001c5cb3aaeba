// Decompositions of batches of dense matrices in f32 and f64, used by the operators of core/ops_matrix.h. Textbook
// algorithms, blocked, based on our own products: core/cpu/matrix*.cpp and cuda/matrix*.cu. Views may have any strides
// unless said otherwise. What went wrong is written to a tensor, so that nothing waits for a GPU.
#pragma once

#include <cstdint>

#include "core/kernel.h"

namespace mantissa {

enum class Triangle { lower, unit_lower, upper, unit_upper };

// visit(T) over the dtypes that these kernels support.
template <class F> void visit_precise(Dtype dtype, F&& f) {
  if (dtype == f64) f.template operator()<double>();
  else f.template operator()<float>();
}

// a [B, n, n] := L with a = L L^T, from its lower triangle; zeros above. wrong i64 [B], dense: the first row with a
// pivot that was not positive, from which on there is no factorisation of that matrix, or -1.
MANTISSA_KERNEL(dense_cholesky, const View& a, const View& wrong)
// a [B, n, n] := U and, below its diagonal, L without its unit diagonal. pivots i64 [B, n], dense: the row, counted
// from 0, that row k was swapped with at step k. For a pivot of 0 the division is skipped.
MANTISSA_KERNEL(dense_lu, const View& a, const View& pivots)
// Applies the row swaps of an elimination to x [B, n, m] of a dtype of 4 or 8 bytes, or undoes them (`back`). pivots
// i64 [B, n], of any strides; those that are not rows of x are skipped.
MANTISSA_KERNEL(dense_exchange, const View& x, const View& pivots, bool back)
// x [B, n, m] := t^-1 x, for a triangle of t [B, n, n].
MANTISSA_KERNEL(dense_solve, const View& t, const View& x, Triangle triangle)
// a [B, m, n] := R and, below its diagonal, the vectors of min(m, n) Householder reflections 1 - tau v v^T without
// their leading ones. tau [B, min(m, n)], dense.
MANTISSA_KERNEL(dense_qr, const View& a, const View& tau)
// q [B, m, columns] := the first columns of the product of the reflections stored below the diagonal of v [B, m, >= k],
// tau [B, k].
MANTISSA_KERNEL(dense_reflections, const View& q, const View& v, const View& tau)
// a [B, n, n], symmetric; the lower triangle is read and all of a is overwritten. values f64 [B, n], ascending.
// vectors_t [B, n, n]: one eigenvector per row; or an empty View for values only. A matrix containing NaN or infinity
// gives NaN. good bool [B], dense: whether the iteration converged.
MANTISSA_KERNEL(dense_eigh, const View& a, const View& values, const View& vectors_t, const View& good)
// a f64 [B, n, n] with contiguous rows, overwritten. values f64 [B, n, 2], pairs of real and imaginary part, conjugates
// adjacent, the one with positive imaginary part first; vectors f64 [B, n, n, 2], one per column, or an empty View;
// both dense. NaN and good as above. On the CPU only.
MANTISSA_KERNEL_CPU(dense_eig, const View& a, const View& values, const View& vectors, const View& good)
namespace kernels {
template <class... A> void dense_eig(const A&... a) { MANTISSA_KERNEL_CALL_CPU(dense_eig) }
}  // namespace kernels
// a [B, m, n] with m >= n, overwritten. values f64 [B, n], descending. u_t [B, n, m] and v_t [B, n, n]: one singular
// vector per row; or empty Views.
MANTISSA_KERNEL(dense_svd, const View& a, const View& values, const View& u_t, const View& v_t, const View& good)

}  // namespace mantissa
