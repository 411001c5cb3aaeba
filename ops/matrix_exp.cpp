// Matrix exponential by scaling and squaring: the Taylor series up to the 15th power of a scaled matrix, squared
// repeatedly (Moler and Van Loan, "Nineteen dubious ways to compute the exponential of a matrix", 2003, methods 1 and
// 3).
#include <algorithm>

#include "core/ops_matrix.h"
#include "core/recording.h"
#include "ops/function.h"
#include "ops/onnx_trace.h"
#include "ops/registry.h"
#include "ops/triangular.h"

namespace mantissa {
namespace {

// Of x with a norm of at most 1/2, with 6 products (Paterson and Stockmeyer, 1973). The truncation error is below
// 3e-18.
Tensor series(const Tensor& x) {
  const Tensor unit = linalg::identity(x, x.size(-1)), square = matmul(x, x), cube = matmul(square, x),
               fourth = matmul(square, square);
  double c[16] = {1};
  for (int k = 1; k < 16; ++k) c[k] = c[k - 1] / k;
  Tensor y;
  for (int k = 12; k >= 0; k -= 4) {
    const Tensor part = c[k] * unit + c[k + 1] * x + c[k + 2] * square + c[k + 3] * cube;
    y = y.defined() ? matmul(y, fourth) + part : part;
  }
  return y;
}

struct MatrixExp {
  static constexpr auto name = "matrix_exp";
  static constexpr Dtype cast_inputs = f32;
  Tensor forward(Saved& saved, const Tensor& a) const {  // [B, n, n]
    linalg::check_precise(name, a);
    saved.save({a});
    if (a.numel() == 0) return a.clone();
    check_may_look(name, a);
    check_may_read(name, a, "the norm says how often to square");
    const Tensor size = amax(sum(abs(a), {1}), {1});  // [B]
    // NaN and infinite matrices are not scaled, and give NaN.
    const Tensor halvings = where(isfinite(size), clamp(ceil(log2(size)) + 1.0, 0, 2000), zeros_like(size));
    const Tensor times = unsqueeze(unsqueeze(halvings, 1), 2);
    Tensor y = series(a * exp2(-times));
    for (double k = 0, most = max(halvings).item<double>(); k < most; ++k) y = where(times > k, matmul(y, y), y);
    return y;
  }
  // The derivative of a matrix function is a block of the same function of a block matrix: Mathias, "A chain rule for
  // matrix functions and applications", 1996.
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const Tensor a = transpose(saved[0]);
    const std::int64_t n = a.size(1);
    const Tensor blocks = cat({cat({a, g}, 2), cat({zeros_like(a), a}, 2)}, 1);
    return {slice(slice(matrix_exp(blocks), 1, 0, n), 2, n)};
  }
};

void matrix_exp_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return matrix_exp(x[0]); };
  s.call({s.randn({3, 3})}, f);
  s.call({s.randn({2, 2, 4, 4}) * 0.1}, f);
  s.call({s.randn({2, 2}) * 3.0}, f);
  s.error_call({s.randn({2, 3})}, f, "matrix_exp: needs square matrices");
}
MANTISSA_COMPOSITE(matrix_exp, matrix_exp_samples, .halves = false)

}  // namespace

Tensor matrix_exp(const Tensor& a) {
  linalg::check_square("matrix_exp", a);
  return reshape(apply_function(MatrixExp{}, linalg::as_batch(a)), a.sizes());
}

}  // namespace mantissa
