// Linear algebra beyond matmul: products, powers and norms of matrices, systems of linear equations, decompositions.
// The conventions of core/ops.h hold here too.
#pragma once

#include <optional>
#include <string_view>

#include "core/ops.h"
#include "core/tensor.h"

namespace mantissa {

// beta * x + alpha * product, like addmm: x broadcasts to the product, and is ignored if beta = 0.
Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);  // mv(a, b)
Tensor addr(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);   // outer(a, b)
Tensor addbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1,
              double alpha = 1);  // sum(bmm(a, b), {0})
// The product of at least two matrices, in the order that needs the fewest multiplications; the first and the last may
// be vectors.
Tensor multi_dot(std::span<const Tensor> tensors);
inline Tensor multi_dot(std::initializer_list<Tensor> t) { return multi_dot(std::span(t.begin(), t.size())); }
Tensor matrix_power(const Tensor& x, std::int64_t n);  // x [..., m, m], by repeated squaring; n < 0: of inv(x)
// Norm of the matrices in two dims. ord "fro": Frobenius; 1 and -1: largest and smallest column sum of absolute values;
// HUGE_VAL and -HUGE_VAL: the same of rows; 2 and -2: largest and smallest singular value; "nuc": the sum of all
// singular values.
Tensor matrix_norm(const Tensor& x, std::string_view ord = "fro", const Dims& dims = {-2, -1}, bool keepdim = false);
Tensor matrix_norm(const Tensor& x, double ord, const Dims& dims = {-2, -1}, bool keepdim = false);
// Vandermonde matrix of x [..., m]: [..., m, n], n defaults to m. Exponents decrease from n - 1 to 0, or increase from
// 0 if `increasing` (as torch.linalg.vander's do). Integers give i64.
Tensor vander(const Tensor& x, std::optional<std::int64_t> n = {}, bool increasing = false);

// --- systems of equations, a [..., n, n] in f32 or f64, a batch of matrices if there are further dimensions ---
// Here and below: computed by kernels (core/decompose.h) that handle thousands of rows or thousands of small matrices,
// with the same bits for any number of threads. On a GPU nothing waits and everything can be captured, but for eig and
// eigvals, which are computed on the host. solve, inv and cholesky throw for a matrix that is singular (exactly: a
// pivot of 0) or not positive definite; on a GPU the error comes when the host next waits.
//
// solve: x with a x = b. b is [..., n, m], a vector [n], or a batch of vectors with a's batch size; batches broadcast.
Tensor solve(const Tensor& a, const Tensor& b);
// Like solve with b [..., n, m], using one triangle of a; the other one is not read.
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper);
Tensor inv(const Tensor& a);
Tensor det(const Tensor& a);  // 0 for a singular matrix, where backward throws
// det = sign * exp(logabsdet): 0 and -infinity for a singular matrix. sign has no gradient.
struct SlogdetResult { Tensor sign, logabsdet; };
SlogdetResult slogdet(const Tensor& a);
Tensor logdet(const Tensor& a);                        // NaN if the determinant is negative
// Treats a as a matrix, from its first `ind` dimensions to the rest; the inverse has them swapped.
Tensor tensorinv(const Tensor& a, int ind = 2);
// x with tensordot(a, x, x.dim()) = b: a's dimensions are those of b followed by those of x, after `dims` are moved to
// the end.
Tensor tensorsolve(const Tensor& a, const Tensor& b, const Dims& dims = {});
// a = P L U by Gaussian elimination with partial pivoting. lu [..., n, n] holds U, and below the diagonal L without its
// unit diagonal. pivots i64 [..., n]: the row, counted from 1, that row k was swapped with at step k (i32 in PyTorch).
// A singular a also has factors, but no finite gradient.
struct LuFactorResult { Tensor lu, pivots; };
LuFactorResult lu_factor(const Tensor& a);
struct LuResult { Tensor p, l, u; };  // a = matmul(p, matmul(l, u)), each [..., n, n]
LuResult lu(const Tensor& a);
Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b);  // solve(a, b) with b [..., n, m]
Tensor cholesky(const Tensor& a, bool upper = false);  // L lower triangular with L L^T = a; reads a's lower triangle
// Given the Cholesky factor L of a (upper: L^T): solve(a, b) with b [..., n, m], and inv(a).
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper = false);
Tensor cholesky_inverse(const Tensor& factor, bool upper = false);

// --- QR, of a [..., m, n] in f32 or f64; k = min(m, n) ---
// a = q r with orthonormal columns in q and r upper triangular, signs as in LAPACK. mode "reduced": q [..., m, k], r
// [..., k, n]. "complete": q [..., m, m], r [..., m, n], no gradient for m > n. "r": only the reduced r, q is
// undefined. Gradients need the first k columns of a to be linearly independent.
struct QrResult { Tensor q, r; };
QrResult qr(const Tensor& a, std::string_view mode = "reduced");
// The first n columns of the product of the Householder reflections 1 - tau_i v_i v_i^T: a [..., m, n] holds the v_i
// below its diagonal, their leading 1 is implicit; tau [..., at most n].
Tensor householder_product(const Tensor& a, const Tensor& tau);

// The sum of a^k / k! for a [..., n, n] in f32 or f64: about 6 products, plus one for each doubling of the 1-norm
// beyond 1/2. Waits for the device to read that norm.
Tensor matrix_exp(const Tensor& a);

// --- singular values of a [..., m, n] in f32 or f64, k = min(m, n) ---
// a = u diag(s) vh: u [..., m, k], s [..., k] descending, vh [..., k, n], as torch.linalg.svd with full_matrices=False.
// Signs of the vectors are arbitrary. Gradients of vectors need distinct singular values. A matrix containing NaN or
// infinity gives NaN.
struct SvdResult { Tensor u, s, vh; };
SvdResult svd(const Tensor& a);
Tensor svdvals(const Tensor& a);  // only s, whose gradient is always defined
// Singular values up to rtol times the largest count as 0; rtol defaults to the dtype's epsilon times max(m, n). If two
// norms prove that a has full rank, pinv on the CPU uses QR, which takes a fraction of the time.
Tensor pinv(const Tensor& a, std::optional<double> rtol = {});         // [..., n, m] (Moore-Penrose)
Tensor matrix_rank(const Tensor& a, std::optional<double> rtol = {});  // i64 [...]; no gradient
// matmul(pinv(a, rcond), b): the minimum-norm least-squares solution of a x = b. b: as in solve, with m rows.
Tensor lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond = {});
// The condition number: largest divided by smallest singular value, infinite for a singular matrix; -2: its reciprocal.
// Other norms, as in matrix_norm: norm(a) * norm(inv(a)), which throws for a singular matrix.
Tensor cond(const Tensor& a, double ord = 2);
Tensor cond(const Tensor& a, std::string_view ord);

// Symmetric matrices a [..., n, n], of which the lower triangle is read: a = vectors diag(values) vectors^T, values
// ascending. Signs, gradients and NaN as for svd.
struct EighResult { Tensor values, vectors; };  // [..., n], [..., n, n]
EighResult eigh(const Tensor& a);
Tensor eigvalsh(const Tensor& a);  // only the values

// Polar decomposition a = u h of a [..., m, n] with m >= n: u with orthonormal columns, the closest such matrix to a,
// and h [..., n, n] symmetric positive semidefinite. Gradients as for svd.
struct PolarResult {
  Tensor u, h;
};
PolarResult polar(const Tensor& a);

// Approximately the q largest singular values of a [..., m, n] and their vectors: a is near u diag(s) v^T with
// u [..., m, q], s [..., q], v [..., n, q]. Randomised: directions drawn from the generator of a's device are
// multiplied by a and its transpose `iterations` times; the faster the singular values decay, the better the result. q
// is clamped to min(m, n).
struct LowRankResult {
  Tensor u, s, v;
};
LowRankResult svd_lowrank(const Tensor& a, std::int64_t q = 6, int iterations = 2);
// Principal components (columns of v) of samples in rows: svd_lowrank of a minus its column means. q at most min(m, n);
// default: 6, or min(m, n) if that is less.
LowRankResult pca_lowrank(const Tensor& a, std::optional<std::int64_t> q = {}, bool center = true, int iterations = 2);

}  // namespace mantissa
