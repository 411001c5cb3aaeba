// Operators as those of core/ops.h, whose conventions hold here too: products, powers and norms of matrices beyond
// matmul.
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
Tensor matrix_power(const Tensor& x, std::int64_t n);  // x [..., m, m], n >= 0; by squaring
// Of the matrices in two dims. ord "fro": the root of the sum of squares. 1 and -1: the largest and smallest sum of a
// column's absolute values, HUGE_VAL and -HUGE_VAL: of a row's. "nuc", 2 and -2, which need singular values, are
// refused.
Tensor matrix_norm(const Tensor& x, std::string_view ord = "fro", const Dims& dims = {-2, -1}, bool keepdim = false);
Tensor matrix_norm(const Tensor& x, double ord, const Dims& dims = {-2, -1}, bool keepdim = false);
// Powers of the elements of x [..., m]: [..., m, n], n by default m. Exponents fall from n - 1 to 0, or rise from 0.
// torch.linalg.vander's rise. Integers give i64.
Tensor vander(const Tensor& x, std::optional<std::int64_t> n = {}, bool increasing = false);

}  // namespace mantissa
