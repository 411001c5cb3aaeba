// The gradient of layer norm and RMS norm, which reads g and x once. A block processes a stretch of rows, in which a
// thread always handles the same columns: it accumulates the sums over rows for the gradients of weight and bias in
// registers. A second kernel adds up the stretches, in a fixed order. Rows too long for that are read twice, and again
// by a third kernel for those sums.
//
// A gradient that arrived by another path is added to dx in registers; a copy of dx in a second dtype is stored from
// registers too.
//
// For cuda/layer_norm_backward.cu and rms_norm_backward.cu, which are separate files because the kernels take long to
// compile.
#pragma once

#include "core/norm.h"
#include "cuda/norm.cuh"

namespace mantissa::cuda_backend {
namespace {

// With u = g * weight: dx = inv_std * (u - mean(u) - hat * mean(u * hat)), hat the normalized x. Without centring the
// mean(u) term is omitted, and there is no bias. Statistics of a tensor's rows:
template <bool centred, class C> struct Statistics {
  const C *means, *inv_stds;
  __device__ C mean(std::int64_t r) const {
    if constexpr (centred) return means[r];
    else return C(0);
  }
};
template <class C, int width>
__device__ inline void load_weight(C (&w)[width], const RowOperand& weight, const Quads& j) {
  if (weight.data) return load_slot(w, weight, j);
#pragma unroll
  for (int k = 0; k < width; ++k) w[k] = C(1);
}

constexpr int few_slots = 2, many_slots = 4;  // per thread, each with g, x and its columns' sums in registers
template <int held> constexpr unsigned most_summing_threads = held == few_slots ? 512 : 384;

// Gradients that reached x's node by other paths are added to dx, which is rounded first, as if it had been stored
// before the addition. The addition is never contracted into an FMA.
template <class C, int width>
__device__ inline void add_rounded(C (&dx)[width], const C (&arrived)[width], Dtype dtype) {
#pragma unroll
  for (int k = 0; k < width; ++k) dx[k] = add_apart(rounded_to(dtype, dx[k]), arrived[k]);
}

// Stores to dx and, if present, to `rounded`, with the same code, because stores of any dtype are long.
template <class C, int width>
__device__ inline void store_both(const RowOperand& dx, const RowOperand& rounded, const Quads& at,
                                  const C (&from)[width]) {
#pragma unroll 1
  for (int k = 0; k < 2; ++k) {
    const RowOperand to{k == 0 ? dx.data : rounded.data, k == 0 ? dx.dtype : rounded.dtype};
    if (to.data) store_slot(to, at, from);
  }
}

// partial[block][columns][n]: sums over the block's rows of g * hat and, with a bias, of g.
template <bool centred, class C, int width, int held>
__global__ void __launch_bounds__(most_summing_threads<held>)
    norm_backward_stretches(RowOperand dx, RowOperand rounded, RowOperand g, RowOperand x, RowOperand weight,
                            RowOperand arrived, Statistics<centred, C> statistics, C* partial, std::int64_t rows,
                            RowShape shape, std::int64_t stretch) {
  wait_for_previous_kernel();
  const int n = shape.n;
  constexpr int columns = centred ? 2 : 1, slots = 32 * few_slots * width;
  __shared__ C scratch[64], joined[columns * slots];
  C sums[columns][held][width] = {};
  const std::int64_t first = std::int64_t{blockIdx.x} * stretch, last = first + stretch < rows ? first + stretch : rows;
  for (std::int64_t at = first + threadIdx.y; at < last; at += blockDim.y) {
    Row<C, width, held, 2> row({g, x}, at, shape);
    constexpr bool early = held == few_slots;  // if registers allow, all reads of a row are issued together
    C more[early ? held : 1][width];
    if (early && arrived.data)
      row.each_held(
          [&](int s, const Quads& j, C(&)[2][width]) { load_slot(more[early ? s : 0], arrived, row.start + j); });
    const C mean = statistics.mean(at), inv_std = statistics.inv_stds[at];
    C of_u[columns] = {};  // sums of u * hat and of u
    row.each_held([&](int s, const Quads& j, C(&v)[2][width]) {
      C w[width];
      load_weight(w, weight, j);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const C grad = v[0][k], hat = (v[1][k] - mean) * inv_std, u = grad * w[k];
        sums[0][s][k] += grad * hat;
        if constexpr (centred) sums[1][s][k] += grad;
        of_u[0] += u * hat;
        if constexpr (centred) of_u[1] += u;
        v[0][k] = u, v[1][k] = hat;
      }
    });
    sum_over_row(of_u, scratch);
    const C mean_u_hat = of_u[0] / C(n), mean_u = centred ? of_u[columns - 1] / C(n) : C(0);
    row.each_held([&](int s, const Quads& j, const C(&v)[2][width]) {
      C out[width];
#pragma unroll
      for (int k = 0; k < width; ++k) out[k] = inv_std * (v[0][k] - mean_u - v[1][k] * mean_u_hat);
      if (arrived.data) {
        if (!early) load_slot(more[0], arrived, row.start + j);
        add_rounded(out, more[early ? s : 0], dx.dtype);
      }
      store_both(dx, rounded, row.start + j, out);
    });
  }
  // Warps with separate rows add up one after the other, in a fixed order.
  const RowOperand to{partial + std::int64_t{blockIdx.x} * columns * n, dtype_of<C>};
  for (unsigned turn = 0; turn < blockDim.y; ++turn) {
    if (turn == threadIdx.y) {
#pragma unroll
      for (int i = 0; i < columns; ++i) {
#pragma unroll
        for (int s = 0; s < held; ++s) {
          const int j = (s * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * width;
          if (j >= n) continue;
          const Quads at = shape.template slot<width>(j);
          C* sum = joined + i * slots;
          if (turn > 0) {
#pragma unroll
            for (int k = 0; k < width; ++k) sums[i][s][k] += sum[at[k]];
          }
          if (turn + 1 == blockDim.y) {
            store_slot(to, std::int64_t{i} * n + at, sums[i][s]);
          } else {
#pragma unroll
            for (int k = 0; k < width; ++k) sum[at[k]] = sums[i][s][k];
          }
        }
      }
    }
    if (blockDim.y > 1) __syncthreads();
  }
}

// Rows of any length.
template <bool centred, class C, int width>
__global__ void __launch_bounds__(most_row_threads, 3)
    norm_backward_rows(RowOperand dx, RowOperand rounded, RowOperand g, RowOperand x, RowOperand weight,
                       RowOperand arrived, Statistics<centred, C> statistics, std::int64_t rows,
                       RowShape shape) {
  wait_for_previous_kernel();
  __shared__ C scratch[64];
  const int n = shape.n;
  const std::int64_t at = this_row();
  if (at >= rows) return;
  Row<C, width, 0, 2> row({g, x}, at, shape);
  const C mean = statistics.mean(at), inv_std = statistics.inv_stds[at];
  C of_u[2] = {};
  row.each([&](const Quads& j, const C(&v)[2][width]) {
    C w[width];
    load_weight(w, weight, j);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const C u = v[0][k] * w[k];
      of_u[0] += u * ((v[1][k] - mean) * inv_std);
      of_u[1] += u;
    }
  });
  sum_over_row(of_u, scratch);
  const C mean_u_hat = of_u[0] / C(n), mean_u = centred ? of_u[1] / C(n) : C(0);
  row.each([&](const Quads& j, const C(&v)[2][width]) {
    C w[width], out[width];
    load_weight(w, weight, j);
#pragma unroll
    for (int k = 0; k < width; ++k)
      out[k] = inv_std * (v[0][k] * w[k] - mean_u - (v[1][k] - mean) * inv_std * mean_u_hat);
    if (arrived.data) {
      load_slot(w, arrived, row.start + j);
      add_rounded(out, w, dx.dtype);
    }
    store_both(dx, rounded, row.start + j, out);
  });
}

// partial as above, for blocks of 32 columns and a stretch of rows; lanes run along columns, so reads are coalesced.
constexpr int column_warps = 8;
template <bool centred, class C>
__global__ void __launch_bounds__(32 * column_warps)
    norm_backward_columns(C* partial, RowOperand g, RowOperand x, Statistics<centred, C> statistics, std::int64_t rows,
                          int n, std::int64_t stretch) {
  wait_for_previous_kernel();
  constexpr int columns = centred ? 2 : 1;
  __shared__ C sums[2][column_warps][32];
  const int column = static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x);
  const std::int64_t first = std::int64_t{blockIdx.y} * stretch, last = first + stretch < rows ? first + stretch : rows;
  C dw = 0, db = 0;
  if (column < n) {
    for (std::int64_t r = first + threadIdx.y; r < last; r += column_warps) {
      const C grad = load_element<C>(g.data, g.dtype, r * n + column),
              value = load_element<C>(x.data, x.dtype, r * n + column);
      dw += grad * ((value - statistics.mean(r)) * statistics.inv_stds[r]);
      db += grad;
    }
  }
  sums[0][threadIdx.y][threadIdx.x] = dw;
  sums[1][threadIdx.y][threadIdx.x] = db;
  __syncthreads();
  if (threadIdx.y >= columns || column >= n) return;
  C total = 0;
  for (int w = 0; w < column_warps; ++w) total += sums[threadIdx.y][w][threadIdx.x];
  partial[(std::int64_t{blockIdx.y} * columns + threadIdx.y) * n + column] = total;
}

// Distribution of the gradient's rows. As many blocks as one wave on 132 multiprocessors, with at least eight rows per
// thread: these numbers depend on the shape only.
struct StretchPlan {
  RowPlan rows;
  int held = few_slots;
  std::int64_t length = 1, count = 1;  // rows of a stretch; number of stretches

  StretchPlan(std::int64_t n, std::int64_t all, std::initializer_list<View> operands, Dtype compute)
      : rows(plan_rows(n, operands, compute)) {
    const std::int64_t slots = rows.packs ? n / pack : n;
    rows.threads = dim3(32, 8);
    if (slots > 32 * few_slots) {
      held = slots <= few_slots * most_summing_threads<few_slots> ? few_slots : many_slots;
      const std::int64_t threads = (slots + 32 * held - 1) / (32 * held) * 32;
      rows.fits = held == few_slots || threads <= most_summing_threads<many_slots>;
      rows.threads = dim3(static_cast<unsigned>(rows.fits ? threads : most_row_threads));
    }
    const std::int64_t wanted = 132 * 512 / (std::int64_t{rows.threads.x} * rows.threads.y),
                       least = 8 * std::int64_t{rows.threads.y};
    cut(all, std::min(wanted, all / least));
  }
  void cut(std::int64_t all, std::int64_t pieces) {
    length =
        std::max<std::int64_t>(1, (all + std::max<std::int64_t>(1, pieces) - 1) / std::max<std::int64_t>(1, pieces));
    count = (all + length - 1) / length;
  }
};

template <bool centred> void norm_backward(const RowNormGradient& f) {
  const std::int64_t n = f.dweight.numel(), rows = n > 0 ? f.x.numel() / n : 0, columns = (centred ? 2 : 1) * n;
  if (n == 0) return;
  check_row(n);
  const char* name = centred ? "layer_norm_backward" : "rms_norm_backward";
  const DenseInput x(f.x), g(f.g), weight(f.weight), means(f.mean), inv_stds(f.inv_std), arrived(f.arrived);
  const DenseOutput dx(f.dx), rounded(f.rounded), dweight(f.dweight), dbias(f.dbias);
  StretchPlan plan(n, rows, {dx.view, rounded.view, g.view, x.view, weight.view, arrived.view},
                   compute_dtype(f.x.dtype));
  const std::int64_t across = (n + 31) / 32;
  if (!plan.rows.fits)
    plan.cut(rows, std::min<std::int64_t>({std::max<std::int64_t>(1, 512 / across), rows / 32, 1024}));
  visit_compute(f.x.dtype, [&]<class C>() {
    const Statistics<centred, C> statistics{means.view.as<C>(), inv_stds.view.as<C>()};
    const Tensor scratch = Tensor::allocate({plan.count, columns}, dtype_of<C>, f.x.device);
    C* partial = static_cast<C*>(scratch.raw_data());
    const auto visit_width = [&](auto&& visit) {
      if constexpr (std::is_same_v<C, float>) {
        if (plan.rows.packs) return visit.template operator()<pack>();
      }
      visit.template operator()<1>();
    };
    if (plan.rows.fits) {
      const Grid grid{dim3(static_cast<unsigned>(plan.count)), plan.rows.threads};
      const auto run = [&]<int width, int held>() {
        launch(name, norm_backward_stretches<centred, C, width, held>, grid, operand(dx.view), operand(rounded.view),
               operand(g.view), operand(x.view), operand(weight.view), operand(arrived.view), statistics, partial, rows,
               plan.rows.shape(n), plan.length);
      };
      visit_width([&]<int width>() {
        if (plan.held == few_slots) run.template operator()<width, few_slots>();
        else run.template operator()<width, many_slots>();
      });
    } else {  // dx may overwrite g, so the columns are computed first
      const Grid grid{dim3(static_cast<unsigned>(plan.count > 0 ? across : 0), static_cast<unsigned>(plan.count)),
                      dim3(32, column_warps)};
      launch("norm_backward_columns", norm_backward_columns<centred, C>, grid, partial, operand(g.view),
             operand(x.view), statistics, rows, n, plan.length);
      visit_width([&]<int width>() {
        launch(name, norm_backward_rows<centred, C, width>, grid_of(plan.rows, rows), operand(dx.view),
               operand(rounded.view), operand(g.view), operand(x.view), operand(weight.view), operand(arrived.view),
               statistics, rows, plan.rows.shape(n));
      });
    }
    launch_sums(dweight.view, dbias.view, partial, n, columns, plan.count);
  });
  dweight.finish();
  dbias.finish();
  dx.finish();
  rounded.finish();
}

}  // namespace
}  // namespace mantissa::cuda_backend
