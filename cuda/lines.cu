// Kernels that process lines of a tensor sequentially, one thread per line: cumulative logsumexp and cumulative
// extremes. Mirrors the kernels of the same names in core/cpu.
#include "core/kernel.h"
#include "cuda/rows.cuh"

namespace mantissa {
MANTISSA_KERNEL(logcumsumexp, const View& y, const View& x, int dim)
MANTISSA_KERNEL(cumulative_extreme, const View& values, const View& indices, const View& x, int dim, bool largest)
}  // namespace mantissa

namespace mantissa::cuda_backend {
namespace {

__global__ void logcumsumexp_lines(RowOperand y, RowOperand x, std::int64_t lines, std::int64_t n) {
  const std::int64_t line = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (line >= lines) return;
  double v = -__builtin_huge_val();
  for (std::int64_t i = line * n; i < (line + 1) * n; ++i) {
    const double a = load_element<double>(x.data, x.dtype, i), high = v > a ? v : a, low = v > a ? a : v;
    if (!(a == a)) v = a;
    else if (!(v == v)) v = v;
    else if (high - high != 0) v = high;  // infinite
    else v = high + std::log1p(std::exp(low - high));
    store_element(y.data, y.dtype, i, v);
  }
}

// A later value replaces the extreme if it is equal, more extreme or NaN; NaN stays.
template <class C>
__global__ void extreme_lines(RowOperand values, RowOperand indices, RowOperand x, std::int64_t lines, std::int64_t n,
                              bool largest) {
  const std::int64_t line = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (line >= lines) return;
  C best = 0;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const C v = load_element<C>(x.data, x.dtype, line * n + i);
    if (i == 0 || !(v == v) || (best == best && (largest ? v >= best : v <= best))) best = v, at = i;
    store_element(values.data, values.dtype, line * n + i, best);
    store_element(indices.data, indices.dtype, line * n + i, at);
  }
}

std::int64_t length_along(const View& v, int dim) { return v.dim() > 0 ? v.sizes[dim] : 1; }

}  // namespace

void logcumsumexp(const View& y, const View& x, int dim) {
  if (y.numel() == 0) return;
  const DenseInput from(moved_to_last(x, dim));
  const DenseOutput to(moved_to_last(y, dim));
  const std::int64_t n = length_along(x, dim), lines = y.numel() / n;
  launch("logcumsumexp", &logcumsumexp_lines, grid_for(lines), operand(to.view), operand(from.view), lines, n);
  to.finish();
}
void cumulative_extreme(const View& values, const View& indices, const View& x, int dim, bool largest) {
  if (x.numel() == 0) return;
  const DenseInput from(moved_to_last(x, dim));
  const DenseOutput value(moved_to_last(values, dim)), index(moved_to_last(indices, dim));
  const std::int64_t n = length_along(x, dim), lines = x.numel() / n;
  visit_compute_any(x.dtype, [&]<class C>() {
    launch("cumulative_extreme", &extreme_lines<C>, grid_for(lines), operand(value.view), operand(index.view),
           operand(from.view), lines, n, largest);
  });
  value.finish();
  index.finish();
}

}  // namespace mantissa::cuda_backend
