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
// Made of a few operators for each row, on any device: meant for dozens of rows, not thousands. solve, inv and cholesky
// throw for a matrix that is singular (exactly: a pivot of 0) or not positive definite: they wait for the device.
// solve: x with a x = b. b is [..., n, m], a vector [n], or a batch of vectors as large as a's; batches broadcast.
Tensor solve(const Tensor& a, const Tensor& b);
// As solve with b [..., n, m], of one triangle of a; the other one is not read.
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper);
Tensor inv(const Tensor& a);
Tensor det(const Tensor& a);  // 0 for a singular matrix, where backward throws
// det = sign * exp(logabsdet): 0 and -infinity for a singular matrix. sign has no gradient.
struct SlogdetResult { Tensor sign, logabsdet; };
SlogdetResult slogdet(const Tensor& a);
Tensor logdet(const Tensor& a);                        // NaN for a negative determinant
Tensor cholesky(const Tensor& a, bool upper = false);  // the triangular L with L L^T = a, from a's lower triangle

// --- singular values of a [..., m, n] in f32 or f64, k = min(m, n); made of operators too, for dozens of columns ---
// a = u diag(s) vh: u [..., m, k], s [..., k] falling, vh [..., k, n], as torch.linalg.svd with full_matrices=False.
// Signs of the vectors are free; those of singular values that are 0 up to rounding need not be orthogonal. Gradients
// of vectors need distinct singular values.
struct SvdResult { Tensor u, s, vh; };
SvdResult svd(const Tensor& a);
Tensor svdvals(const Tensor& a);  // s alone, whose gradient is always defined
// Singular values up to rtol times the largest count as 0; rtol by default the dtype's epsilon times max(m, n).
Tensor pinv(const Tensor& a, std::optional<double> rtol = {});         // [..., n, m] (Moore-Penrose)
Tensor matrix_rank(const Tensor& a, std::optional<double> rtol = {});  // i64 [...]; no gradient

// Of symmetric matrices a [..., n, n], of which the lower triangle is read: a = vectors diag(values) vectors^T, values
// rising. Signs and gradients as for svd.
struct EighResult { Tensor values, vectors; };  // [..., n], [..., n, n]
EighResult eigh(const Tensor& a);
Tensor eigvalsh(const Tensor& a);  // the values alone

}  // namespace mantissa
