// Batch norm where each channel of a sample is a contiguous plane, x as [samples, channels, inner]. Statistics take two
// passes over a stretch (mean, then squared deviations); the second one reads from the cache.
#include "cuda/batch_norm.cuh"

#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(batch_norm, const BatchNormForward& f)
MANTISSA_KERNEL(batch_norm_backward, const BatchNormGradient& f)
}  // namespace mantissa

namespace mantissa::cuda_backend {
namespace {

struct Planes {
  std::int64_t samples = 0, inner = 1, channels = 0;
  explicit Planes(const View& x) : samples(x.sizes[0]), channels(x.sizes[1]) {
    for (int d = 2; d < x.dim(); ++d) inner *= x.sizes[d];
  }
  __host__ __device__ std::int64_t count() const { return samples * inner; }
};

// With few channels, one block per channel would not fill a GPU.
Stretches stretches_of(const Planes& p) {
  const std::int64_t wanted = std::max<std::int64_t>(1, 512 / p.channels),
                     possible = std::max<std::int64_t>(1, p.count() / 2048);
  const std::int64_t asked = std::min(wanted, possible);
  Stretches s;
  s.total = p.count();
  s.length = std::max<std::int64_t>(pack, ((p.count() + asked - 1) / asked + pack - 1) / pack * pack);
  s.count = std::max<std::int64_t>(1, (p.count() + s.length - 1) / s.length);
  return s;
}

// Distributes the block's stretch of its channel over its threads: f(i), i the memory index of `width` neighbours.
template <int width, class F> __device__ inline void walk_stretch(const Planes& p, const Stretches& stretches, F&& f) {
  const std::int64_t begin = blockIdx.y * stretches.length, end = begin + stretches.elements(blockIdx.y);
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
template <class C> __device__ inline void store_partial(C* partial, const Planes& p, C first, C second) {
  if (threadIdx.x != 0) return;
  partial[std::int64_t{2 * blockIdx.y} * p.channels + blockIdx.x] = first;
  partial[std::int64_t{2 * blockIdx.y + 1} * p.channels + blockIdx.x] = second;
}

template <class C, int width>
__global__ void batch_norm_stretches(Planes p, Stretches stretches, C* partial, RowOperand x, FirstElements firsts) {
  wait_for_previous_kernel();
  __shared__ C scratch[32];
  const C first = firsts.at<C>(blockIdx.x);
  C v[width], sum = 0, squares = 0;
  walk_stretch<width>(p, stretches, [&](std::int64_t i) {
    load_slot(v, x, i);
#pragma unroll
    for (int k = 0; k < width; ++k) sum += v[k] - first;
  });
  const C mean = fold_block<Sum>(sum, scratch) / C(stretches.elements(blockIdx.y));
  walk_stretch<width>(p, stretches, [&](std::int64_t i) {
    load_slot(v, x, i);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const C away = v[k] - first - mean;
      squares += away * away;
    }
  });
  store_partial(partial, p, mean, fold_block<Sum>(squares, scratch));
}

// Iterates over the whole tensor; a pack never spans two channels, because packs are used only if inner is a multiple
// of 8.
template <class C, int width>
__global__ void batch_norm_apply(Planes p, RowOperand y, RowOperand x, RowOperand z, RowOperand weight, RowOperand bias,
                                 const C* means, const C* inv_stds, bool relu) {
  wait_for_previous_kernel();
  const std::int64_t total = p.count() * p.channels, step = std::int64_t{gridDim.x} * blockDim.x * width;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * width; i < total; i += step) {
    const Normalise<C> normalise(i / p.inner % p.channels, means, inv_stds, weight, bias);
    C v[width], added[width] = {};
    load_slot(v, x, i);
    if (z.data) load_slot(added, z, i);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      v[k] = normalise(v[k]);
      if (z.data) v[k] += added[k];
      if (relu) v[k] = rectified(v[k]);
    }
    store_slot(y, i, v);
  }
}

// The gradient after the ReLU mask, taken from y or, without y, from the normalized x.
template <class C, int width>
__device__ inline void mask(C (&u)[width], const C (&x)[width], const RowOperand& y, std::int64_t i,
                            const Normalise<C>& normalise) {
  C result[width];
  if (y.data) load_slot(result, y, i);
#pragma unroll
  for (int k = 0; k < width; ++k) u[k] = let_through(u[k], y.data ? result[k] : normalise(x[k]));
}

template <class C, int width>
__global__ void batch_norm_stretch_sums(Planes p, Stretches stretches, C* partial, RowOperand g, RowOperand x,
                                        RowOperand y, RowOperand dz, RowOperand weight, RowOperand bias, const C* means,
                                        const C* inv_stds, bool relu) {
  wait_for_previous_kernel();
  __shared__ C scratch[32];
  const Normalise<C> normalise(blockIdx.x, means, inv_stds, weight, bias);
  C u[width], v[width], db = 0, dw = 0;
  walk_stretch<width>(p, stretches, [&](std::int64_t i) {
    load_slot(u, g, i);
    load_slot(v, x, i);
    if (relu) mask(u, v, y, i, normalise);
    if (dz.data) store_slot(dz, i, u);
#pragma unroll
    for (int k = 0; k < width; ++k) db += u[k], dw += u[k] * (v[k] - normalise.mean);
  });
  db = fold_block<Sum>(db, scratch);
  dw = fold_block<Sum>(dw, scratch);
  store_partial(partial, p, db, dw);
}

template <class C, int width>
__global__ void batch_norm_backward_apply(Planes p, RowOperand dx, RowOperand g, RowOperand x, RowOperand weight,
                                          RowOperand bias, const C* means, const C* inv_stds, const C* sums,
                                          bool training, bool relu) {
  wait_for_previous_kernel();
  const std::int64_t total = p.count() * p.channels, step = std::int64_t{gridDim.x} * blockDim.x * width;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * width; i < total; i += step) {
    const std::int64_t c = i / p.inner % p.channels;
    const NormGradient<C> gradient(c, p.channels, p.count(), means, inv_stds, weight, sums, training);
    C u[width], v[width];
    load_slot(u, g, i);
    load_slot(v, x, i);
    if (relu) mask(u, v, RowOperand{}, i, Normalise<C>(c, means, inv_stds, weight, bias));
#pragma unroll
    for (int k = 0; k < width; ++k) u[k] = gradient(u[k], v[k]);
    store_slot(dx, i, u);
  }
}

// --- on the host ---
Grid grid_of_stretches(const Planes& p, const Stretches& s) {
  check(p.channels <= 0x7fffffff, "internal error: ", p.channels, " channels do not fit into one launch");
  return {dim3(static_cast<unsigned>(p.channels), static_cast<unsigned>(s.count)), dim3(p.count() > 2048 ? 512 : 128)};
}
Grid grid_of_slots(std::int64_t n, int width) {
  Grid g = grid_for((n + width - 1) / width);
  g.blocks.x = static_cast<unsigned>(std::min<std::int64_t>(g.blocks.x, 4096));
  return g;
}
// Calls f.operator()<C, width>(), with packs if the planes of all operands allow them.
template <class F> void visit_planes(const Planes& p, Dtype dtype, std::initializer_list<View> operands, F&& f) {
  if (compute_dtype(dtype) == f64) f.template operator()<double, 1>();
  else if (plan_rows(p.inner, operands, f32).packs) f.template operator()<float, pack>();
  else f.template operator()<float, 1>();
}

}  // namespace

void batch_norm(const BatchNormForward& f) {
  const Planes p(f.x);
  if (p.channels == 0) return;
  if (channels_are_innermost(f.x)) return batch_norm_channels(f);
  const DenseInput in(f.x), w(f.weight), b(f.bias), residual(f.z);
  const DenseOutput out(f.y);
  visit_planes(p, f.x.dtype, {in.view, out.view, residual.view}, [&]<class C, int width>() {
    const Stretches stretches = stretches_of(p);
    const FirstElements firsts{operand(in.view), p.inner, p.count()};
    const Tensor partial = Tensor::allocate({f.training ? stretches.count : 0, 2, p.channels}, dtype_of<C>, f.x.device);
    C* sums = static_cast<C*>(partial.raw_data());
    if (f.training) {
      launch("batch_norm_stretches", batch_norm_stretches<C, width>, grid_of_stretches(p, stretches), p, stretches,
             sums, operand(in.view), firsts);
    }
    launch("batch_norm_statistics", batch_norm_statistics<C>, grid_of_joins(p.channels), p.channels, stretches,
           f.mean.as<C>(), f.inv_std.as<C>(), sums, firsts, RunningStatistic(f.running_mean),
           RunningStatistic(f.running_var), f.batches.as<std::int64_t>(), f.training, f.momentum, f.eps);
    launch("batch_norm", batch_norm_apply<C, width>, grid_of_slots(f.y.numel(), width), p, operand(out.view),
           operand(in.view), operand(residual.view), operand(w.view), operand(b.view), f.mean.as<C>(),
           f.inv_std.as<C>(), f.relu);
  });
  out.finish();
}

void batch_norm_backward(const BatchNormGradient& f) {
  const Planes p(f.x);
  if (p.channels == 0) return;
  if (channels_are_innermost(f.x)) return batch_norm_channels_backward(f);
  const DenseInput in(f.x), grad(f.g), result(f.y), w(f.weight), b(f.bias), means(f.mean), inv_stds(f.inv_std);
  const DenseOutput out(f.dx), dz(f.dz), dw(f.dweight), db(f.dbias);
  visit_planes(p, f.x.dtype, {in.view, grad.view, result.view, out.view, dz.view}, [&]<class C, int width>() {
    const Stretches stretches = stretches_of(p);
    const Tensor sums = Tensor::allocate({stretches.count, 2, p.channels}, dtype_of<C>, f.x.device);
    C *s = static_cast<C*>(sums.raw_data()), *m = means.view.as<C>(), *i = inv_stds.view.as<C>();
    launch("batch_norm_stretch_sums", batch_norm_stretch_sums<C, width>, grid_of_stretches(p, stretches), p, stretches,
           s, operand(grad.view), operand(in.view), operand(result.view), operand(dz.view), operand(w.view),
           operand(b.view), m, i, f.relu);
    launch("batch_norm_sums", batch_norm_sums<C>, grid_of_joins(p.channels), p.channels, stretches, s, operand(dw.view),
           operand(db.view), i);
    const bool masked = static_cast<bool>(dz.view);
    launch("batch_norm_backward", batch_norm_backward_apply<C, width>, grid_of_slots(f.dx.numel(), width), p,
           operand(out.view), operand(masked ? dz.view : grad.view), operand(in.view), operand(w.view), operand(b.view),
           m, i, s, f.training, f.relu && !masked);
  });
  dw.finish();
  db.finish();
  dz.finish();
  out.finish();
}

}  // namespace mantissa::cuda_backend
