// Layer and batch normalisation with their gradients. Statistics take two passes (mean, then squared deviations), as on
// the CPU; for layer norm both are over registers. Gradients of weight and bias are sums over rows in two stages: blocks
// of rows, then over blocks, in a fixed order.
#include "core/kernel.h"
#include "cuda/rows.cuh"

namespace mantissa {
MANTISSA_KERNEL(layer_norm, const View& y, const View& mean, const View& inv_std, const View& x,
                const View& weight, const View& bias, std::int64_t row, double eps)
MANTISSA_KERNEL(layer_norm_backward, const View& dx, const View& dweight, const View& dbias, const View& g,
                const View& x, const View& weight, const View& mean, const View& inv_std)
MANTISSA_KERNEL(batch_norm, const View& y, const View& mean, const View& inv_std, const View& x,
                const View& weight, const View& bias, const View& running_mean, const View& running_var,
                bool training, double momentum, double eps)
MANTISSA_KERNEL(batch_norm_backward, const View& dx, const View& dweight, const View& dbias, const View& g,
                const View& x, const View& weight, const View& mean, const View& inv_std, bool training)
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

// --- batch_norm: x as [samples, channels, inner] ---
struct Planes {
  std::int64_t samples = 0, inner = 1;
  int channels = 0;
  explicit Planes(const View& x) : samples(x.sizes[0]), channels(static_cast<int>(x.sizes[1])) {
    for (int d = 2; d < x.dim(); ++d) inner *= x.sizes[d];
  }
  __host__ __device__ std::int64_t count() const { return samples * inner; }
};

// Few channels would not fill a GPU with one block each: a channel's elements are cut into stretches, by shape alone, and what
// blocks find in them is put together in order.
struct Stretches {
  std::int64_t count = 1, length = 0;
  explicit Stretches(const Planes& p) {
    const std::int64_t wanted = std::max<std::int64_t>(1, 512 / p.channels), possible = std::max<std::int64_t>(1, p.count() / 2048);
    const std::int64_t asked = std::min(wanted, possible);
    length = std::max<std::int64_t>(pack, ((p.count() + asked - 1) / asked + pack - 1) / pack * pack);
    count = std::max<std::int64_t>(1, (p.count() + length - 1) / length);
  }
  __device__ std::int64_t elements(const Planes& p, std::int64_t s) const { return p.count() - s * length < length ? p.count() - s * length : length; }
};

// The block's stretch of its channel, dealt out to its threads: f(i), i the place of `width` neighbours in the tensor.
template <int width, class F> __device__ inline void walk_stretch(const Planes& p, const Stretches& stretches, F&& f) {
  const std::int64_t begin = blockIdx.y * stretches.length, end = begin + stretches.elements(p, blockIdx.y);
  if (begin >= end) return;
  const std::int64_t step = std::int64_t{blockDim.x} * width, samples = step / p.inner, rest = step % p.inner;
  std::int64_t i = begin + threadIdx.x * width, sample = i / p.inner, at = i % p.inner;
  for (; i < end; i += step) {
    f((sample * p.channels + blockIdx.x) * p.inner + at);
    sample += samples;
    at += rest;
    if (at >= p.inner) at -= p.inner, ++sample;
  }
}

// partial: of each stretch, the means of all channels and then the sums of (x - mean)^2.
template <class C, int width> __global__ void batch_norm_stretches(Planes p, Stretches stretches, C* partial, RowOperand x) {
  __shared__ C scratch[32];
  C v[width], sum = 0, squares = 0;
  walk_stretch<width>(p, stretches, [&](std::int64_t i) {
    load_slot(v, x, i);
#pragma unroll
    for (int k = 0; k < width; ++k) sum += v[k];
  });
  const C mean = fold_block<Sum>(sum, scratch) / C(stretches.elements(p, blockIdx.y));
  walk_stretch<width>(p, stretches, [&](std::int64_t i) {
    load_slot(v, x, i);
#pragma unroll
    for (int k = 0; k < width; ++k) squares += (v[k] - mean) * (v[k] - mean);
  });
  squares = fold_block<Sum>(squares, scratch);
  if (threadIdx.x != 0) return;
  partial[std::int64_t{2 * blockIdx.y} * p.channels + blockIdx.x] = mean;
  partial[std::int64_t{2 * blockIdx.y + 1} * p.channels + blockIdx.x] = squares;
}

// The batch's mean and 1 / sqrt(biased variance + eps); running ones move towards mean and unbiased variance. Without
// training the running statistics are used. A thread for each channel. Joining by Chan, Golub and LeVeque, 1979.
template <class C>
__global__ void batch_norm_statistics(Planes p, Stretches stretches, C* means, C* inv_stds, const C* partial, RowOperand running_mean, RowOperand running_var,
                                      std::int64_t mean_stride, std::int64_t var_stride, bool training, double momentum, C eps) {
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= p.channels) return;
  C mean = 0, var;
  if (training) {
    C squares = 0;
    for (std::int64_t s = 0; s < stretches.count; ++s) mean += C(stretches.elements(p, s)) * partial[2 * s * p.channels + c];
    mean = stretches.count == 1 ? partial[c] : mean / C(p.count());
    for (std::int64_t s = 0; s < stretches.count; ++s) {
      const C away = partial[2 * s * p.channels + c] - mean;
      squares += partial[(2 * s + 1) * p.channels + c] + C(stretches.elements(p, s)) * away * away;
    }
    var = squares / C(p.count());
    if (p.count() > 1) {
      const auto move = [&](const RowOperand& running, std::int64_t stride, C to) {
        if (!running.data) return;
        const C old = load_element<C>(running.data, running.dtype, c * stride);
        store_element(running.data, running.dtype, c * stride, C(1 - momentum) * old + C(momentum) * to);
      };
      move(running_mean, mean_stride, mean);
      move(running_var, var_stride, squares / C(p.count() - 1));
    }
  } else {
    mean = load_element<C>(running_mean.data, running_mean.dtype, c * mean_stride);
    var = load_element<C>(running_var.data, running_var.dtype, c * var_stride);
  }
  means[c] = mean, inv_stds[c] = C(1) / std::sqrt(var + eps);
}

// Slots of the whole tensor; a pack never crosses a channel, because packs are used only where inner is a multiple of 8.
template <class C, int width>
__global__ void batch_norm_apply(Planes p, RowOperand y, RowOperand x, RowOperand weight, RowOperand bias, const C* means, const C* inv_stds) {
  const std::int64_t total = p.count() * p.channels, step = std::int64_t{gridDim.x} * blockDim.x * width;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * width; i < total; i += step) {
    const int c = static_cast<int>(i / p.inner % p.channels);
    const C scale = weight.data ? inv_stds[c] * load_element<C>(weight.data, weight.dtype, c) : inv_stds[c];
    const C shift = bias.data ? load_element<C>(bias.data, bias.dtype, c) : C(0), mean = means[c];
    C v[width];
    load_slot(v, x, i);
#pragma unroll
    for (int k = 0; k < width; ++k) v[k] = (v[k] - mean) * scale + shift;
    store_slot(y, i, v);
  }
}

// partial: of each stretch, the sums of g of all channels and then those of g * (x - mean).
template <class C, int width>
__global__ void batch_norm_stretch_sums(Planes p, Stretches stretches, C* partial, RowOperand g, RowOperand x, const C* means) {
  __shared__ C scratch[32];
  const C mean = means[blockIdx.x];
  C grad[width], v[width], db = 0, dw = 0;
  walk_stretch<width>(p, stretches, [&](std::int64_t i) {
    load_slot(grad, g, i);
    load_slot(v, x, i);
#pragma unroll
    for (int k = 0; k < width; ++k) db += grad[k], dw += grad[k] * (v[k] - mean);
  });
  db = fold_block<Sum>(db, scratch);
  dw = fold_block<Sum>(dw, scratch);
  if (threadIdx.x != 0) return;
  partial[std::int64_t{2 * blockIdx.y} * p.channels + blockIdx.x] = db;
  partial[std::int64_t{2 * blockIdx.y + 1} * p.channels + blockIdx.x] = dw;
}

// A thread for each channel; the sums stay where those of the first stretch were.
template <class C>
__global__ void batch_norm_sums(Planes p, Stretches stretches, C* partial, RowOperand dweight, RowOperand dbias, const C* inv_stds) {
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= p.channels) return;
  C db = 0, dw = 0;
  for (std::int64_t s = 0; s < stretches.count; ++s) {
    db += partial[2 * s * p.channels + c];
    dw += partial[(2 * s + 1) * p.channels + c];
  }
  partial[c] = db;
  partial[p.channels + c] = dw;
  store_element(dbias.data, dbias.dtype, c, db);
  store_element(dweight.data, dweight.dtype, c, dw * inv_stds[c]);
}

// Training: dx = weight * inv_std * (g - mean(g) - (x - mean) * inv_std^2 * mean(g * (x - mean))).
// Otherwise the statistics are constants: dx = weight * inv_std * g.
template <class C, int width>
__global__ void batch_norm_backward_apply(Planes p, RowOperand dx, RowOperand g, RowOperand x, RowOperand weight, const C* means, const C* inv_stds,
                                          const C* sums, bool training) {
  const std::int64_t total = p.count() * p.channels, step = std::int64_t{gridDim.x} * blockDim.x * width;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * width; i < total; i += step) {
    const int c = static_cast<int>(i / p.inner % p.channels);
    const C s = inv_stds[c], scale = weight.data ? s * load_element<C>(weight.data, weight.dtype, c) : s, n = C(p.count());
    const C mean_g = training ? sums[c] / n : C(0), slope = training ? s * s * (sums[p.channels + c] / n) : C(0), mean = means[c];
    C grad[width], v[width];
    load_slot(grad, g, i);
    load_slot(v, x, i);
#pragma unroll
    for (int k = 0; k < width; ++k) grad[k] = scale * (grad[k] - mean_g - (v[k] - mean) * slope);
    store_slot(dx, i, grad);
  }
}

// Packs for all operands of batch norm: planes in f32 arithmetic whose size is a multiple of a pack.
bool can_use_planes(const Planes& p, std::initializer_list<View> operands) {
  const RowPlan plan = plan_rows(p.inner, operands, compute_dtype(operands.begin()->dtype));
  return plan.packs;
}
Grid grid_of_stretches(const Planes& p, const Stretches& s) {
  check(p.channels <= 0x7fffffff, "internal error: ", p.channels, " channels do not fit into one launch");
  return {dim3(static_cast<unsigned>(p.channels), static_cast<unsigned>(s.count)), dim3(p.count() > 2048 ? 512 : 128)};
}
Grid grid_of_slots(std::int64_t n, int width) {
  Grid g = grid_for((n + width - 1) / width);
  g.blocks.x = static_cast<unsigned>(std::min<std::int64_t>(g.blocks.x, 4096));
  return g;
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

void batch_norm(const View& y, const View& mean, const View& inv_std, const View& x, const View& weight, const View& bias, const View& running_mean,
                const View& running_var, bool training, double momentum, double eps) {
  const Planes p(x);
  if (p.channels == 0) return;
  const DenseInput in(x), w(weight), b(bias);
  const DenseOutput out(y);
  visit_compute(x.dtype, [&]<class C>() {
    const Stretches stretches(p);
    const Tensor partial = Tensor::allocate({training ? stretches.count : 0, 2, p.channels}, dtype_of<C>, x.device);
    C* sums = static_cast<C*>(partial.view().data);
    const auto find_sums = [&]<int width>() {
      launch("batch_norm_stretches", batch_norm_stretches<C, width>, grid_of_stretches(p, stretches), p, stretches, sums, operand(in.view));
    };
    if (training) std::is_same_v<C, float> && can_use_planes(p, {in.view}) ? find_sums.template operator()<pack>() : find_sums.template operator()<1>();
    launch("batch_norm_statistics", batch_norm_statistics<C>, grid_for(p.channels), p, stretches, mean.as<C>(), inv_std.as<C>(), sums,
           operand(running_mean), operand(running_var), running_mean ? running_mean.strides[0] : 0, running_var ? running_var.strides[0] : 0, training,
           momentum, eps);
    const auto apply = [&]<int width>() {
      launch("batch_norm", batch_norm_apply<C, width>, grid_of_slots(y.numel(), width), p, operand(out.view), operand(in.view), operand(w.view),
             operand(b.view), mean.as<C>(), inv_std.as<C>());
    };
    if (std::is_same_v<C, float> && can_use_planes(p, {in.view, out.view})) apply.template operator()<pack>();
    else apply.template operator()<1>();
  });
  out.finish();
}

void batch_norm_backward(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x, const View& weight, const View& mean,
                         const View& inv_std, bool training) {
  const Planes p(x);
  if (p.channels == 0) return;
  const DenseInput in(x), grad(g), w(weight), means(mean), inv_stds(inv_std);
  const DenseOutput out(dx), dw(dweight), db(dbias);
  visit_compute(x.dtype, [&]<class C>() {
    const Stretches stretches(p);
    const Tensor sums = Tensor::allocate({stretches.count, 2, p.channels}, dtype_of<C>, x.device);
    C* s = static_cast<C*>(sums.view().data);
    const auto find_sums = [&]<int width>() {
      launch("batch_norm_stretch_sums", batch_norm_stretch_sums<C, width>, grid_of_stretches(p, stretches), p, stretches, s, operand(grad.view),
             operand(in.view), means.view.as<C>());
    };
    std::is_same_v<C, float> && can_use_planes(p, {in.view, grad.view}) ? find_sums.template operator()<pack>() : find_sums.template operator()<1>();
    launch("batch_norm_sums", batch_norm_sums<C>, grid_for(p.channels), p, stretches, s, operand(dw.view), operand(db.view), inv_stds.view.as<C>());
    const auto apply = [&]<int width>() {
      launch("batch_norm_backward", batch_norm_backward_apply<C, width>, grid_of_slots(dx.numel(), width), p, operand(out.view), operand(grad.view),
             operand(in.view), operand(w.view), means.view.as<C>(), inv_stds.view.as<C>(), s, training);
    };
    if (std::is_same_v<C, float> && can_use_planes(p, {in.view, out.view, grad.view})) apply.template operator()<pack>();
    else apply.template operator()<1>();
  });
  dw.finish();
  db.finish();
  out.finish();
}

}  // namespace mantissa::cuda_backend
