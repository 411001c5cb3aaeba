// Batch norm where a pixel's channels are contiguous: x as rows of channels. A thread handles eight channels (one if
// their number is not a multiple of eight) and iterates over rows, so that its per-channel state stays in registers and
// a block's reads are coalesced. Every pass reads its operands once; statistics use Welford's method (1962) on
// differences from the first row, because its running mean is rounded in every step.
#include "cuda/batch_norm.cuh"

namespace mantissa::cuda_backend {
namespace {

constexpr int block_threads = 256;

struct Channels {
  std::int64_t rows, channels;
};
template <int width> __device__ inline std::int64_t this_channel() {
  return (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * width;
}
// This thread's rows: every blockDim.y-th of the block's stretch.
template <class F> __device__ inline void walk_rows(const Stretches& stretches, F&& f) {
  const std::int64_t begin = blockIdx.y * stretches.length, end = begin + stretches.elements(blockIdx.y);
  for (std::int64_t r = begin + threadIdx.y; r < end; r += blockDim.y) f(r);
}

template <class C, int width> struct Scratch { C v[width][block_threads]; };

// Mean and sum of squared deviations over `count` rows, for each channel of a thread.
template <class C, int width> struct Moments {
  std::int64_t count = 0;
  C mean[width] = {}, squares[width] = {};

  __device__ void add(const C (&x)[width]) {
    const C share = C(1) / C(++count);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const C away = x[k] - mean[k];
      mean[k] += away * share;
      squares[k] += away * (x[k] - mean[k]);
    }
  }
  // Merges the moments of the block's rows by tree reduction; the threads with threadIdx.y = 0 get the result.
  __device__ void join(Scratch<C, width>& means, Scratch<C, width>& deviations, std::int64_t (&counts)[block_threads]) {
    const int me = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
    for (int k = 0; k < width; ++k) means.v[k][me] = mean[k], deviations.v[k][me] = squares[k];
    counts[me] = count;
    for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.y >= half) continue;
      const int other = me + static_cast<int>(half * blockDim.x);
      const std::int64_t theirs = counts[other], all = count + theirs;
      if (theirs == 0) continue;
      const C share = C(theirs) / C(all);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const C away = means.v[k][other] - mean[k];
        mean[k] += away * share;
        squares[k] += deviations.v[k][other] + away * away * C(count) * share;
        means.v[k][me] = mean[k];
        deviations.v[k][me] = squares[k];
      }
      counts[me] = count = all;
    }
  }
};

template <class C, int width>
__device__ inline void store_partial(C* partial, std::int64_t channels, std::int64_t c, const C (&first)[width],
                                     const C (&second)[width]) {
  C* to = partial + std::int64_t{2 * blockIdx.y} * channels + c;
#pragma unroll
  for (int k = 0; k < width; ++k) to[k] = first[k], to[channels + k] = second[k];
}

template <class C, int width>
__global__ void __launch_bounds__(block_threads)
batch_norm_rows(Channels t, Stretches stretches, C* partial, RowOperand x) {
  wait_for_previous_kernel();
  __shared__ Scratch<C, width> means, deviations;
  __shared__ std::int64_t counts[block_threads];
  const std::int64_t c = this_channel<width>();
  Moments<C, width> moments;
  if (c < t.channels && t.rows > 0) {
    C first[width];
    load_slot(first, x, c);
    walk_rows(stretches, [&](std::int64_t r) {
      C v[width];
      load_slot(v, x, r * t.channels + c);
#pragma unroll
      for (int k = 0; k < width; ++k) v[k] -= first[k];
      moments.add(v);
    });
  }
  moments.join(means, deviations, counts);
  if (threadIdx.y == 0 && c < t.channels) store_partial(partial, t.channels, c, moments.mean, moments.squares);
}

template <class C, int width>
__global__ void __launch_bounds__(block_threads)
    batch_norm_apply_rows(Channels t, RowOperand y, RowOperand x, RowOperand z, RowOperand weight, RowOperand bias,
                          const C* means, const C* inv_stds, bool relu) {
  wait_for_previous_kernel();
  const std::int64_t c = this_channel<width>();
  if (c >= t.channels) return;
  Normalise<C> normalise[width];
#pragma unroll
  for (int k = 0; k < width; ++k) normalise[k] = Normalise<C>(c + k, means, inv_stds, weight, bias);
  for (std::int64_t r = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; r < t.rows;
       r += std::int64_t{gridDim.y} * blockDim.y) {
    C v[width], added[width] = {};
    load_slot(v, x, r * t.channels + c);
    if (z.data) load_slot(added, z, r * t.channels + c);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      v[k] = normalise[k](v[k]);
      if (z.data) v[k] += added[k];
      if (relu) v[k] = rectified(v[k]);
    }
    store_slot(y, r * t.channels + c, v);
  }
}

// Sums of the gradient after the ReLU mask, and of its products with x - mean.
template <class C, int width>
__global__ void __launch_bounds__(block_threads)
    batch_norm_row_sums(Channels t, Stretches stretches, C* partial, RowOperand g, RowOperand x, RowOperand y,
                        RowOperand dz, RowOperand weight, RowOperand bias, const C* means, const C* inv_stds,
                        bool relu) {
  wait_for_previous_kernel();
  __shared__ Scratch<C, width> first, second;
  const std::int64_t c = this_channel<width>();
  C db[width] = {}, dw[width] = {};
  if (c < t.channels) {
    Normalise<C> normalise[width];
#pragma unroll
    for (int k = 0; k < width; ++k) normalise[k] = Normalise<C>(c + k, means, inv_stds, weight, bias);
    walk_rows(stretches, [&](std::int64_t r) {
      C u[width], v[width], result[width];
      const std::int64_t at = r * t.channels + c;
      load_slot(u, g, at);
      load_slot(v, x, at);
      if (y.data) load_slot(result, y, at);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        if (relu) u[k] = let_through(u[k], y.data ? result[k] : normalise[k](v[k]));
        db[k] += u[k];
        dw[k] += u[k] * (v[k] - normalise[k].mean);
      }
      if (dz.data) store_slot(dz, at, u);
    });
  }
  const int me = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
  for (int k = 0; k < width; ++k) first.v[k][me] = db[k], second.v[k][me] = dw[k];
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y >= half) continue;
    const int other = me + static_cast<int>(half * blockDim.x);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      first.v[k][me] = db[k] += first.v[k][other];
      second.v[k][me] = dw[k] += second.v[k][other];
    }
  }
  if (threadIdx.y == 0 && c < t.channels) store_partial(partial, t.channels, c, db, dw);
}

template <class C, int width>
__global__ void __launch_bounds__(block_threads)
    batch_norm_backward_rows(Channels t, RowOperand dx, RowOperand g, RowOperand x, RowOperand weight, RowOperand bias,
                             const C* means, const C* inv_stds, const C* sums, bool training, bool relu) {
  wait_for_previous_kernel();
  const std::int64_t c = this_channel<width>();
  if (c >= t.channels) return;
  NormGradient<C> gradient[width];
  C shift[width];
#pragma unroll
  for (int k = 0; k < width; ++k) {
    gradient[k] = NormGradient<C>(c + k, t.channels, t.rows, means, inv_stds, weight, sums, training);
    shift[k] = bias.data ? load_element<C>(bias.data, bias.dtype, c + k) : C(0);
  }
  for (std::int64_t r = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; r < t.rows;
       r += std::int64_t{gridDim.y} * blockDim.y) {
    C u[width], v[width];
    load_slot(u, g, r * t.channels + c);
    load_slot(v, x, r * t.channels + c);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      if (relu) u[k] = let_through(u[k], (v[k] - gradient[k].mean) * gradient[k].scale + shift[k]);
      u[k] = gradient[k](u[k], v[k]);
    }
    store_slot(dx, r * t.channels + c, u);
  }
}

// --- host ---
// Distribution of rows: blocks span up to 32 slots of channels, and a stretch of rows.
struct Shape {
  Channels t;
  std::int64_t across;  // blocks
  dim3 threads;
  Shape(const View& x, int width) : t{x.numel() / x.sizes[1], x.sizes[1]} {
    const std::int64_t slots = t.channels / width;
    unsigned columns = 1;
    while (columns < 32 && columns < slots) columns *= 2;
    across = (slots + columns - 1) / columns;
    threads = dim3(columns, block_threads / columns);
    check(across <= 0x7fffffff, "internal error: ", t.channels, " channels do not fit into one launch");
  }
  // A number of stretches that fills a GPU and depends on the shape only, with at least 8 rows per thread.
  Stretches stretches() const {
    const std::int64_t wanted = std::max<std::int64_t>(1, 512 / across),
                       possible = std::max<std::int64_t>(1, t.rows / (8 * threads.y));
    const std::int64_t asked = std::min(wanted, possible);
    Stretches s;
    s.total = t.rows;
    s.length = std::max<std::int64_t>(1, (t.rows + asked - 1) / asked);
    s.count = std::max<std::int64_t>(1, (t.rows + s.length - 1) / s.length);
    return s;
  }
  Grid over(const Stretches& s) const {
    return {dim3(static_cast<unsigned>(across), static_cast<unsigned>(s.count)), threads};
  }
  Grid over_rows() const {
    const std::int64_t all = (t.rows + threads.y - 1) / threads.y, most = std::max<std::int64_t>(1, 4096 / across);
    return {dim3(t.rows > 0 ? static_cast<unsigned>(across) : 0, static_cast<unsigned>(std::min(all, most))), threads};
  }
};
// Calls f.operator()<C, width>(), with packs if all operands allow them.
template <class F> void visit_rows_of(const View& x, std::initializer_list<View> operands, F&& f) {
  if (compute_dtype(x.dtype) == f64) f.template operator()<double, 1>();
  else if (plan_rows(x.sizes[1], operands, f32).packs) f.template operator()<float, pack>();
  else f.template operator()<float, 1>();
}

}  // namespace

void batch_norm_channels(const BatchNormForward& f) {
  const Layout layout = f.x.layout();
  const DenseInput in(f.x, layout), residual(f.z, layout), w(f.weight), b(f.bias);
  const DenseOutput out(f.y, layout);
  visit_rows_of(f.x, {in.view, out.view, residual.view}, [&]<class C, int width>() {
    const Shape shape(f.x, width);
    const Stretches stretches = shape.stretches();
    const Tensor partial =
        Tensor::allocate({f.training ? stretches.count : 0, 2, shape.t.channels}, dtype_of<C>, f.x.device);
    C* sums = static_cast<C*>(partial.raw_data());
    if (f.training)
      launch("batch_norm_rows", batch_norm_rows<C, width>, shape.over(stretches), shape.t, stretches, sums,
             operand(in.view));
    launch("batch_norm_statistics", batch_norm_statistics<C>, grid_of_joins(shape.t.channels), shape.t.channels,
           stretches, f.mean.as<C>(), f.inv_std.as<C>(), sums, FirstElements{operand(in.view), 1, shape.t.rows},
           RunningStatistic(f.running_mean), RunningStatistic(f.running_var), f.batches.as<std::int64_t>(), f.training,
           f.momentum, f.eps);
    launch("batch_norm", batch_norm_apply_rows<C, width>, shape.over_rows(), shape.t, operand(out.view),
           operand(in.view), operand(residual.view), operand(w.view), operand(b.view), f.mean.as<C>(),
           f.inv_std.as<C>(), f.relu);
  });
  out.finish();
}

void batch_norm_channels_backward(const BatchNormGradient& f) {
  const Layout layout = f.x.layout();
  const DenseInput in(f.x, layout), grad(f.g, layout), result(f.y, layout), w(f.weight), b(f.bias), means(f.mean),
      inv_stds(f.inv_std);
  const DenseOutput out(f.dx, layout), dz(f.dz, layout), dw(f.dweight), db(f.dbias);
  visit_rows_of(f.x, {in.view, grad.view, result.view, out.view, dz.view}, [&]<class C, int width>() {
    const Shape shape(f.x, width);
    const Stretches stretches = shape.stretches();
    const Tensor sums = Tensor::allocate({stretches.count, 2, shape.t.channels}, dtype_of<C>, f.x.device);
    C *s = static_cast<C*>(sums.raw_data()), *m = means.view.as<C>(), *i = inv_stds.view.as<C>();
    launch("batch_norm_row_sums", batch_norm_row_sums<C, width>, shape.over(stretches), shape.t, stretches, s,
           operand(grad.view), operand(in.view), operand(result.view), operand(dz.view), operand(w.view),
           operand(b.view), m, i, f.relu);
    launch("batch_norm_sums", batch_norm_sums<C>, grid_of_joins(shape.t.channels), shape.t.channels, stretches, s,
           operand(dw.view), operand(db.view), i);
    const bool masked = static_cast<bool>(dz.view);
    launch("batch_norm_backward", batch_norm_backward_rows<C, width>, shape.over_rows(), shape.t, operand(out.view),
           operand(masked ? dz.view : grad.view), operand(in.view), operand(w.view), operand(b.view), m, i, s,
           f.training, f.relu && !masked);
  });
  dw.finish();
  db.finish();
  dz.finish();
  out.finish();
}

}  // namespace mantissa::cuda_backend
