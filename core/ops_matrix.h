// Operators as those of core/ops.h, whose conventions hold here too: products, powers and norms of matrices beyond
// matmul, and systems of linear equations.
#pragma once

#include <optional>
#include <string_view>

#include "core/ops.h"
#include "core/tensor.h"

namespace mantissa {

// beta * x + alpha * a product, as addmm has it: x broadcasts to the product, and is not looked at with beta = 0.
Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);  // mv(a, b)
Tensor addr(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);   // outer(a, b)
Tensor addbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1,
              double alpha = 1);  // sum(bmm(a, b), {0})
// The product of at least two matrices in the order of the fewest multiplications; the first and the last may be
// vectors.
Tensor multi_dot(std::span<const Tensor> tensors);
inline Tensor multi_dot(std::initializer_list<Tensor> t) { return multi_dot(std::span(t.begin(), t.size())); }
Tensor matrix_power(const Tensor& x, std::int64_t n);  // x [..., m, m], by squaring; n < 0: of inv(x)
// Of the matrices in two dims. ord "fro": the root of the sum of squares. 1 and -1: the largest and smallest sum of a
// column's absolute values, HUGE_VAL and -HUGE_VAL: of a row's. 2 and -2: the largest and smallest singular value,
// "nuc": the sum of all.
Tensor matrix_norm(const Tensor& x, std::string_view ord = "fro", const Dims& dims = {-2, -1}, bool keepdim = false);
Tensor matrix_norm(const Tensor& x, double ord, const Dims& dims = {-2, -1}, bool keepdim = false);
// Powers of the elements of x [..., m]: [..., m, n], n by default m. Exponents fall from n - 1 to 0, or rise from 0.
// torch.linalg.vander's rise. Integers give i64.
Tensor vander(const Tensor& x, std::optional<std::int64_t> n = {}, bool increasing = false);

// --- systems of equations, a [..., n, n] in f32 or f64, a batch of matrices where there are further dimensions ---
// On the CPU by kernels (core/decompose.h), for thousands of rows or thousands of small matrices, and with the same
// bits for any number of threads. On a GPU made of a few operators for each row or column: meant for dozens of them.
// That holds for all that follows. solve, inv and cholesky throw for a matrix that is singular (exactly: a pivot of 0)
// or not positive definite: they wait for the device. solve: x with a x = b. b is [..., n, m], a vector [n], or a batch
// of vectors as large as a's; batches broadcast.
Tensor solve(const Tensor& a, const Tensor& b);
// As solve with b [..., n, m], of one triangle of a; the other one is not read.
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper);
Tensor inv(const Tensor& a);
Tensor det(const Tensor& a);  // 0 for a singular matrix, where backward throws
// det = sign * exp(logabsdet): 0 and -infinity for a singular matrix. sign has no gradient.
struct SlogdetResult { Tensor sign, logabsdet; };
SlogdetResult slogdet(const Tensor& a);
Tensor logdet(const Tensor& a);                        // NaN for a negative determinant
// Of tensors as matrices, from a's first `ind` dimensions to the rest; the inverse goes back.
Tensor tensorinv(const Tensor& a, int ind = 2);
// x with tensordot(a, x, x.dim()) = b: a has b's dimensions and then x's, after `dims` were moved to the end.
Tensor tensorsolve(const Tensor& a, const Tensor& b, const Dims& dims = {});
// a = P L U with row exchanges, found by Gaussian elimination. lu [..., n, n] has U, and below its diagonal L without
// its diagonal of ones. pivots i64 [..., n]: the row, from 1, that row k changed places with at step k (PyTorch's are
// i32). A singular a has factors, too, but no gradient (it is not finite).
struct LuFactorResult { Tensor lu, pivots; };
LuFactorResult lu_factor(const Tensor& a);
struct LuResult { Tensor p, l, u; };  // a = matmul(p, matmul(l, u)), each [..., n, n]
LuResult lu(const Tensor& a);
Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b);  // solve(a, b) with b [..., n, m]
Tensor cholesky(const Tensor& a, bool upper = false);  // the triangular L with L L^T = a, from a's lower triangle
// Of a with the given factor L (upper: L^T): solve(a, b) with b [..., n, m], and inv(a).
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper = false);
Tensor cholesky_inverse(const Tensor& factor, bool upper = false);

// --- QR, of a [..., m, n] in f32 or f64; k = min(m, n) ---
// a = q r with orthonormal columns in q and r an upper triangle, signs as LAPACK's. mode "reduced": q [..., m, k],
// r [..., k, n]. "complete": q [..., m, m], r [..., m, n], without a gradient for m > n. "r": the reduced r alone, q is
// undefined. Gradients need a's first k columns to be independent.
struct QrResult { Tensor q, r; };
QrResult qr(const Tensor& a, std::string_view mode = "reduced");
// The first n columns of the product of reflections 1 - tau_i v_i v_i^T: a [..., m, n] has the v_i below the diagonal,
// where each has a 1; tau [..., at most n].
Tensor householder_product(const Tensor& a, const Tensor& tau);

// The sum of a^k / k! for a [..., n, n] in f32 or f64: some 6 products, and one for each time that the 1-norm doubles
// beyond 1/2. It waits for the device to know that norm.
Tensor matrix_exp(const Tensor& a);

// --- singular values of a [..., m, n] in f32 or f64, k = min(m, n) ---
// a = u diag(s) vh: u [..., m, k], s [..., k] falling, vh [..., k, n], as torch.linalg.svd with full_matrices=False.
// Signs of the vectors are free; on a GPU those of singular values that are 0 up to rounding need not be orthogonal.
// Gradients of vectors need distinct singular values. A matrix with a NaN or an infinity has results that are NaN.
struct SvdResult { Tensor u, s, vh; };
SvdResult svd(const Tensor& a);
Tensor svdvals(const Tensor& a);  // s alone, whose gradient is always defined
// Singular values up to rtol times the largest count as 0; rtol by default the dtype's epsilon times max(m, n).
// Where two norms prove that a has full rank, pinv is found by QR on the CPU, in a fraction of the time.
Tensor pinv(const Tensor& a, std::optional<double> rtol = {});         // [..., n, m] (Moore-Penrose)
Tensor matrix_rank(const Tensor& a, std::optional<double> rtol = {});  // i64 [...]; no gradient
// matmul(pinv(a, rcond), b): of the x for which a x is closest to b the smallest. b: as in solve, with m rows.
Tensor lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond = {});
// The condition number: the largest singular value divided by the smallest, infinite for a singular matrix; -2: the
// reciprocal. Other norms, as of matrix_norm: that of a times that of inv(a), which throws for a singular matrix.
Tensor cond(const Tensor& a, double ord = 2);
Tensor cond(const Tensor& a, std::string_view ord);

// Of symmetric matrices a [..., n, n], of which the lower triangle is read: a = vectors diag(values) vectors^T, values
// rising. Signs, gradients and NaN as for svd.
struct EighResult { Tensor values, vectors; };  // [..., n], [..., n, n]
EighResult eigh(const Tensor& a);
Tensor eigvalsh(const Tensor& a);  // the values alone

// a = u h of a [..., m, n] with m >= n: u with orthonormal columns, the closest to a, and h [..., n, n] symmetric and
// not negative. Gradients as for svd.
struct PolarResult {
  Tensor u, h;
};
PolarResult polar(const Tensor& a);

// About the q largest singular values of a [..., m, n] and their vectors: a is near u diag(s) v^T with u [..., m, q], s
// [..., q], v [..., n, q]. By random directions, drawn from the generator of a's device, which pass through a and its
// transpose `iterations` times; the faster the values fall, the better. q beyond min(m, n) counts as that.
struct LowRankResult {
  Tensor u, s, v;
};
LowRankResult svd_lowrank(const Tensor& a, std::int64_t q = 6, int iterations = 2);
// The principal components of samples in rows, the columns of v: svd_lowrank of a less its columns' means. q at most
// min(m, n), by default 6 or that.
LowRankResult pca_lowrank(const Tensor& a, std::optional<std::int64_t> q = {}, bool center = true, int iterations = 2);

}  // namespace mantissa
