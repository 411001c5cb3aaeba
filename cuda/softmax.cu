// Softmax along one dimension, its logarithm, and their gradients: each element is read and written once; rows too long
// for registers are read twice.
#include "core/kernel.h"
#include "cuda/rows.cuh"

namespace mantissa {
MANTISSA_KERNEL(softmax, const View& y, const View& x, int dim)
MANTISSA_KERNEL(log_softmax, const View& y, const View& x, int dim)
MANTISSA_KERNEL(softmax_backward, const View& dx, const View& g, const View& y, int dim)
MANTISSA_KERNEL(log_softmax_backward, const View& dx, const View& g, const View& y, int dim)
}  // namespace mantissa

namespace mantissa::cuda_backend {
namespace {

// Writes f(value) for every element.
template <class R, class F> __device__ inline void write_row(R& row, const RowOperand& to, F&& f) {
  row.each([&](const Quads& j, auto& v) {
    using C = std::decay_t<decltype(v[0][0])>;
    C out[R::width];
#pragma unroll
    for (int k = 0; k < R::width; ++k) {
      if constexpr (requires { f(v[0][k], v[1][k]); }) out[k] = f(v[0][k], v[1][k]);
      else out[k] = f(v[0][k]);
    }
    store_slot(to, row.start + j, out);
  });
}

template <class C, int width, int held, bool log>
__global__ void __launch_bounds__(most_row_threads)
    softmax_rows(RowOperand y, RowOperand x, std::int64_t rows, RowShape shape) {
  wait_for_previous_kernel();
  __shared__ C scratch[32];
  const std::int64_t at = this_row();
  if (at >= rows) return;
  Row<C, width, held, 1> row({x}, at, shape);
  if constexpr (log) {
    const auto [largest, sum] = row.exponentials(scratch);
    const C log_sum = std::log(sum);
    write_row(row, y, [largest = largest, log_sum](C v) { return (v - largest) - log_sum; });
  } else if constexpr (held > 0) {  // each exponential is computed once
    const C scale = C(1) / row.exponentiate(scratch);
    write_row(row, y, [scale](C e) { return e * scale; });
  } else {
    const auto [largest, sum] = row.exponentials(scratch);
    const C scale = C(1) / sum;
    write_row(row, y, [largest = largest, scale](C v) { return std::exp(v - largest) * scale; });
  }
}

template <class C, int width, int held, bool log>
__global__ void __launch_bounds__(most_row_threads)
    softmax_backward_rows(RowOperand dx, RowOperand g, RowOperand y, std::int64_t rows, RowShape shape) {
  wait_for_previous_kernel();
  __shared__ C scratch[32];
  const std::int64_t at = this_row();
  if (at >= rows) return;
  Row<C, width, held, 2> row({g, y}, at, shape);
  if constexpr (log) {
    const C total = row.template fold<Sum>(scratch, [](C a, C) { return a; });
    write_row(row, dx, [=](C a, C b) { return a - std::exp(b) * total; });
  } else {
    const C dot = row.template fold<Sum>(scratch, [](C a, C b) { return a * b; });
    write_row(row, dx, [=](C a, C b) { return b * (a - dot); });
  }
}

template <bool log> void forward(const View& y, const View& x, int dim) {
  if (y.numel() == 0) return;
  const DenseInput in(moved_to_last(x, dim));
  const DenseOutput out(moved_to_last(y, dim));
  const std::int64_t n = x.dim() > 0 ? x.sizes[dim] : 1, rows = x.numel() / n;
  const RowPlan plan = plan_rows(n, {in.view, out.view}, compute_dtype(x.dtype));
  visit_rows(compute_dtype(x.dtype), plan, [&]<class C, int width, int held>() {
    launch("softmax", softmax_rows<C, width, held, log>, grid_of(plan, rows), operand(out.view), operand(in.view), rows,
           plan.shape(n));
  });
  out.finish();
}
template <bool log> void backward(const View& dx, const View& g, const View& y, int dim) {
  if (dx.numel() == 0) return;
  const DenseInput grad(moved_to_last(g, dim)), in(moved_to_last(y, dim));
  const DenseOutput out(moved_to_last(dx, dim));
  const std::int64_t n = y.dim() > 0 ? y.sizes[dim] : 1, rows = y.numel() / n;
  const RowPlan plan = plan_rows(n, {grad.view, in.view, out.view}, compute_dtype(dx.dtype));
  visit_rows(compute_dtype(dx.dtype), plan, [&]<class C, int width, int held>() {
    launch("softmax_backward", softmax_backward_rows<C, width, held, log>, grid_of(plan, rows), operand(out.view),
           operand(grad.view), operand(in.view), rows, plan.shape(n));
  });
  out.finish();
}

}  // namespace

void softmax(const View& y, const View& x, int dim) { forward<false>(y, x, dim); }
void log_softmax(const View& y, const View& x, int dim) { forward<true>(y, x, dim); }
void softmax_backward(const View& dx, const View& g, const View& y, int dim) { backward<false>(dx, g, y, dim); }
void log_softmax_backward(const View& dx, const View& g, const View& y, int dim) { backward<true>(dx, g, y, dim); }

}  // namespace mantissa::cuda_backend
