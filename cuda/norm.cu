// Layer normalisation with its gradients. Statistics take two passes (mean, then squared deviations), as on the CPU, both
// over registers. Gradients of weight and bias are sums over rows in two stages: blocks
// of rows, then over blocks, in a fixed order.
#include "core/kernel.h"
#include "cuda/rows.cuh"

namespace mantissa {
MANTISSA_KERNEL(layer_norm, const View& y, const View& mean, const View& inv_std, const View& x,
                const View& weight, const View& bias, std::int64_t row, double eps)
MANTISSA_KERNEL(layer_norm_backward, const View& dx, const View& dweight, const View& dbias, const View& g,
                const View& x, const View& weight, const View& mean, const View& inv_std)
}  // namespace mantissa

namespace mantissa::cuda_backend {
namespace {

// --- layer_norm ---
template <class C, int width, int held>
__global__ void __launch_bounds__(most_row_threads)
layer_norm_rows(RowOperand y, C* means, C* inv_stds, RowOperand x, RowOperand weight, RowOperand bias, std::int64_t rows, int n, C eps) {
  __shared__ C scratch[32];
  const std::int64_t at = this_row();
  if (at >= rows) return;
  Row<C, width, held, 1> row({x}, at, n);
  const C mean = row.template fold<Sum>(scratch, [](C v) { return v; }) / C(n);
  const C var = row.template fold<Sum>(scratch, [=](C v) { return (v - mean) * (v - mean); }) / C(n);
  const C inv_std = C(1) / std::sqrt(var + eps);
  if (threadIdx.x == 0) means[at] = mean, inv_stds[at] = inv_std;
  row.each([&](int j, const C (&v)[1][width]) {
    C w[width], b[width], out[width];
    if (weight.data) load_slot(w, weight, j);
    if (bias.data) load_slot(b, bias, j);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      out[k] = (v[0][k] - mean) * inv_std;
      if (weight.data) out[k] *= w[k];
      if (bias.data) out[k] += b[k];
    }
    store_slot(y, row.start + j, out);
  });
}

// With u = g * weight: dx = inv_std * (u - mean(u) - hat * mean(u * hat)), hat the normalised x.
template <class C, int width, int held>
__global__ void __launch_bounds__(most_row_threads)
layer_norm_backward_rows(RowOperand dx, RowOperand g, RowOperand x, RowOperand weight, const C* means, const C* inv_stds, std::int64_t rows, int n) {
  __shared__ C scratch[32];
  const std::int64_t at = this_row();
  if (at >= rows) return;
  Row<C, width, held, 2> row({g, x}, at, n);
  const C mean = means[at], inv_std = inv_stds[at];
  C sum_u = 0, sum_u_hat = 0;
  const auto weigh = [&](int j, C (&w)[width]) {
    if (weight.data) load_slot(w, weight, j);
    else for (int k = 0; k < width; ++k) w[k] = C(1);
  };
  row.each([&](int j, const C (&v)[2][width]) {
    C w[width];
    weigh(j, w);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const C u = v[0][k] * w[k];
      sum_u += u;
      sum_u_hat += u * ((v[1][k] - mean) * inv_std);
    }
  });
  const bool warp = blockDim.x == 32;
  const C mean_u = (warp ? fold_warp<Sum>(sum_u) : fold_block<Sum>(sum_u, scratch)) / C(n);
  const C mean_u_hat = (warp ? fold_warp<Sum>(sum_u_hat) : fold_block<Sum>(sum_u_hat, scratch)) / C(n);
  row.each([&](int j, const C (&v)[2][width]) {
    C w[width], out[width];
    weigh(j, w);
#pragma unroll
    for (int k = 0; k < width; ++k) out[k] = inv_std * (v[0][k] * w[k] - mean_u - (v[1][k] - mean) * inv_std * mean_u_hat);
    store_slot(dx, row.start + j, out);
  });
}

// Stage one of the sums over rows: a block of 32 columns and a stretch of rows; lanes run along columns, so reads are
// whole lines. partial[stretch][2][n]: sums of g * (x - mean) * inv_std and of g.
constexpr int column_warps = 8;
template <class C>
__global__ void __launch_bounds__(32 * column_warps)
layer_norm_columns(C* partial, RowOperand g, RowOperand x, const C* means, const C* inv_stds, std::int64_t rows, int n, std::int64_t stretch) {
  __shared__ C sums[2][column_warps][32];
  const int column = static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x);
  const std::int64_t first = std::int64_t{blockIdx.y} * stretch, last = first + stretch < rows ? first + stretch : rows;
  C dw = 0, db = 0;
  if (column < n) {
    for (std::int64_t r = first + threadIdx.y; r < last; r += column_warps) {
      const C grad = load_element<C>(g.data, g.dtype, r * n + column), value = load_element<C>(x.data, x.dtype, r * n + column);
      dw += grad * ((value - means[r]) * inv_stds[r]);
      db += grad;
    }
  }
  sums[0][threadIdx.y][threadIdx.x] = dw;
  sums[1][threadIdx.y][threadIdx.x] = db;
  __syncthreads();
  if (threadIdx.y >= 2 || column >= n) return;
  C total = 0;
  for (int w = 0; w < column_warps; ++w) total += sums[threadIdx.y][w][threadIdx.x];
  partial[(std::int64_t{blockIdx.y} * 2 + threadIdx.y) * n + column] = total;
}
template <class C> __global__ void sum_stretches(RowOperand dweight, RowOperand dbias, const C* partial, int n, int stretches) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= 2 * n) return;
  C total = 0;
  for (int s = 0; s < stretches; ++s) total += partial[std::int64_t{s} * 2 * n + i];
  const RowOperand& to = i < n ? dweight : dbias;
  store_element(to.data, to.dtype, i % n, total);
}

}  // namespace

void layer_norm(const View& y, const View& mean, const View& inv_std, const View& x, const View& weight, const View& bias, std::int64_t row,
                double eps) {
  if (y.numel() == 0) return;
  const DenseInput in(x), w(weight), b(bias);
  const DenseOutput out(y);
  const std::int64_t rows = y.numel() / row;
  const RowPlan plan = plan_rows(row, {in.view, out.view, w.view, b.view}, compute_dtype(x.dtype));
  visit_rows(compute_dtype(x.dtype), plan, [&]<class C, int width, int held>() {
    launch("layer_norm", layer_norm_rows<C, width, held>, grid_of(plan, rows), operand(out.view), mean.as<C>(), inv_std.as<C>(), operand(in.view),
           operand(w.view), operand(b.view), rows, row, eps);
  });
  out.finish();
}

void layer_norm_backward(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x, const View& weight, const View& mean,
                         const View& inv_std) {
  const std::int64_t n = dweight.numel(), rows = n > 0 ? x.numel() / n : 0;
  if (n == 0) return;
  const DenseInput in(x), grad(g), w(weight), means(mean), inv_stds(inv_std);
  const DenseOutput out(dx), dw(dweight), db(dbias);
  const RowPlan plan = plan_rows(n, {out.view, grad.view, in.view, w.view}, compute_dtype(x.dtype));
  visit_rows(compute_dtype(x.dtype), plan, [&]<class C, int width, int held>() {
    launch("layer_norm_backward", layer_norm_backward_rows<C, width, held>, grid_of(plan, rows), operand(out.view), operand(grad.view),
           operand(in.view), operand(w.view), means.view.as<C>(), inv_stds.view.as<C>(), rows, n);
  });
  // Enough blocks to fill a GPU, each with at least 32 rows; a number that depends on the shape alone.
  const std::int64_t across = (n + 31) / 32;
  const std::int64_t wanted = std::max<std::int64_t>(1, 512 / across), possible = std::max<std::int64_t>(1, rows / 32);
  const std::int64_t stretches = std::min({wanted, possible, std::int64_t{1024}}), stretch = std::max<std::int64_t>(1, (rows + stretches - 1) / stretches);
  visit_compute(x.dtype, [&]<class C>() {
    const Tensor partial = Tensor::allocate({stretches, 2, n}, dtype_of<C>, x.device);
    C* sums = static_cast<C*>(partial.view().data);
    const Grid grid{dim3(static_cast<unsigned>(across), static_cast<unsigned>(stretches)), dim3(32, column_warps)};
    launch("layer_norm_columns", layer_norm_columns<C>, grid, sums, operand(grad.view), operand(in.view), means.view.as<C>(), inv_stds.view.as<C>(),
           rows, n, stretch);
    launch("sum_stretches", sum_stretches<C>, grid_for(2 * n), operand(dw.view), operand(db.view), sums, n, stretches);
  });
  dw.finish();
  db.finish();
  out.finish();
}

}  // namespace mantissa::cuda_backend
