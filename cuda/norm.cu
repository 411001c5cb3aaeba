// Row normalization: layer norm, and RMS norm, which does not subtract the mean. A residual is added to x in registers,
// before x is normalized. The gradient: cuda/norm_backward.cuh.
#include "core/norm.h"
#include "cuda/norm.cuh"

namespace mantissa::cuda_backend {
namespace {

// Replaces x with x + delta, rounded as when stored. Everything is read before anything is written.
template <class C, int width, int held>
__device__ inline void add_to_row(Row<C, width, held, 1>& row, const RowOperand& delta, const RowOperand& sum) {
  const auto finish = [&](const Quads& j, C (&v)[width], const C (&d)[width]) {
#pragma unroll
    for (int k = 0; k < width; ++k) v[k] = rounded_to(sum.dtype, v[k] + d[k]);
    store_slot(sum, row.start + j, v);
  };
  if constexpr (held > 0) {
    C d[held][width];
    row.each_held([&](int s, const Quads& j, C(&)[1][width]) { load_slot(d[s], delta, row.start + j); });
    row.each_held([&](int s, const Quads& j, C(&v)[1][width]) { finish(j, v[0], d[s]); });
  } else {
    row.each([&](const Quads& j, C(&v)[1][width]) {
      C d[width];
      load_slot(d, delta, row.start + j);
      finish(j, v[0], d);
    });
    row.from[0] = sum;
  }
}

// Null `means`: no centring. adds: the input is x + delta.
template <class C, int width, int held, bool adds>
__global__ void __launch_bounds__(most_row_threads)
    norm_rows(RowOperand y, C* means, C* inv_stds, RowOperand sum, RowOperand x, RowOperand delta, RowOperand weight,
              RowOperand bias, std::int64_t rows, RowShape shape, C eps) {
  wait_for_previous_kernel();
  __shared__ C scratch[96];
  const std::int64_t at = this_row();
  if (at >= rows) return;
  Row<C, width, held, 1> row({x}, at, shape);
  if constexpr (adds) add_to_row(row, delta, sum);
  const RowStatistics<C> s = statistics_of(row, means != nullptr, eps, scratch);
  if (threadIdx.x == 0) {
    if (means) means[at] = s.mean;
    inv_stds[at] = s.inv_std;
  }
  row.each([&](const Quads& j, const C(&v)[1][width]) {
    C w[width], b[width], out[width];
    if (weight.data) load_slot(w, weight, j);
    if (bias.data) load_slot(b, bias, j);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      out[k] = (v[0][k] - s.mean) * s.inv_std;
      if (weight.data) out[k] *= w[k];
      if (bias.data) out[k] += b[k];
    }
    store_slot(y, row.start + j, out);
  });
}

}  // namespace

void row_norm(const RowNorm& f) {
  if (f.y.numel() == 0) return;
  check_row(f.row);
  const DenseInput x(f.x), delta(f.delta), weight(f.weight), bias(f.bias);
  const DenseOutput y(f.y), sum(f.sum);
  const std::int64_t rows = f.y.numel() / f.row;
  const Dtype compute = compute_dtype(f.delta ? f.sum.dtype : f.x.dtype);
  const RowPlan plan = plan_rows(f.row, {x.view, delta.view, sum.view, y.view, weight.view, bias.view}, compute);
  const char* name = f.delta ? f.mean ? "add_layer_norm" : "add_rms_norm" : f.mean ? "layer_norm" : "rms_norm";
  visit_rows(compute, plan, [&]<class C, int width, int held>() {
    const auto run = [&](auto* kernel) {
      launch(name, kernel, grid_of(plan, rows), operand(y.view), f.mean.as<C>(), f.inv_std.as<C>(), operand(sum.view),
             operand(x.view), operand(delta.view), operand(weight.view), operand(bias.view), rows,
             plan.shape(f.row), f.eps);
    };
    if (f.delta) run(&norm_rows<C, width, held, true>);
    else run(&norm_rows<C, width, held, false>);
  });
  sum.finish();
  y.finish();
}

}  // namespace mantissa::cuda_backend
