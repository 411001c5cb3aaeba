// Random tensors, variates, and dropout. Random number i is a function of (seed, offset + i / 4) only, the same as on
// the CPU, so both devices give the same numbers up to the last bits of log, sin and cos. No mask is stored.
#include "core/distribution.h"
#include "core/kernel.h"
#include "core/variates.h"
#include "cuda/random.cuh"
#include "cuda/reduction.cuh"

namespace mantissa {
MANTISSA_CUDA_KERNEL(random_fill, const View& y, Distribution distribution, double low, double range,
                     std::uint64_t seed, std::uint64_t offset)
MANTISSA_KERNEL(draw_variates, const View& y, const View& a, const View& b, Variate which, std::uint64_t seed,
                std::uint64_t offset)
MANTISSA_KERNEL(dropout, const View& y, const View& x, double p, std::uint64_t seed, std::uint64_t offset)
}

namespace mantissa::cuda_backend {
namespace {

// One thread per counter, which gives four elements.
template <class T>
__global__ void random_kernel(T* y, std::int64_t n, Distribution distribution, double low, double range,
                              RandomPosition at) {
  wait_for_previous_kernel();
  const std::int64_t group = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (group * 4 >= n) return;
  double v[4];
  draw_four(distribution, words_at(at, group), low, range, v);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (group * 4 + i < n) y[group * 4 + i] = static_cast<T>(v[i]);
  }
}

__global__ void draw_variates_kernel(double* y, const double* a, const double* b, std::int64_t n, Variate which,
                                     RandomPosition at) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const RngState start = start_of(at);
  const std::uint64_t counter = start.offset + static_cast<std::uint64_t>(i);
  y[i] = variates::draw(which, a[i], b[i], {start.seed, counter, words_at(at, i)});
}

// Eight elements, from the counters of two quads. x is read in logical order; `dense` if it is contiguous, `packs` if
// both tensors can be moved eight elements at a time. y is contiguous, or (`alike`) has x's strides.
template <class C>
__global__ void dropout_kernel(void* y, Dtype y_dtype, const void* x, Dtype x_dtype, Offsets walk, bool dense,
                               bool packs, bool alike, std::int64_t n, float p, C scale, RandomPosition at) {
  wait_for_previous_kernel();
  const std::int64_t begin = std::int64_t{blockIdx.x} * blockDim.x * pack, most = std::int64_t{blockDim.x} * pack;
  const Share share = share_of(begin, static_cast<unsigned>(n - begin < most ? n - begin : most),
                               x_dtype == f32 || y_dtype == f32);
  if (share.count == 0) return;
  const bool whole = packs && share.count == pack;
  C v[pack] = {};
  if (whole) {
    load_pack(v, x, x_dtype, share.at);
  } else {
#pragma unroll
    for (int i = 0; i < pack; ++i) {
      if (i < share.count) v[i] = load_element<C>(x, x_dtype, dense ? share.at[i] : walk(share.at[i]));
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Philox::Words w = words_at(at, share.at[half * 4] / 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) v[half * 4 + i] = uniform_from_bits(w.v[i]) >= p ? v[half * 4 + i] * scale : C(0);
  }
  if (whole) return store_pack(y, y_dtype, share.at, v);
#pragma unroll
  for (int i = 0; i < pack; ++i) {
    if (i < share.count) store_element(y, y_dtype, alike ? walk(share.at[i]) : share.at[i], v[i]);
  }
}

// Channels-last images whose number of pixels is a multiple of four: eight channels of four neighbouring pixels, so
// that memory is moved in packs and every counter gives four elements.
template <class C>
__global__ void dropout_channels_kernel(void* y, Dtype y_dtype, const void* x, Dtype x_dtype, std::int64_t quads,
                                        std::int64_t pixels, std::int64_t channels, float p, C scale,
                                        RandomPosition at) {
  wait_for_previous_kernel();
  const std::int64_t packs = channels / pack, i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= quads * packs) return;
  const std::int64_t quad = i / packs, channel = i % packs * pack;      // quads of pixels of all images
  const std::int64_t image = quad / (pixels / 4), pixel = quad % (pixels / 4) * 4;
  C v[4][pack];
#pragma unroll
  for (int q = 0; q < 4; ++q) load_pack(v[q], x, x_dtype, (quad * 4 + q) * channels + channel);
#pragma unroll
  for (int c = 0; c < pack; ++c) {
    const Philox::Words w = words_at(at, ((image * channels + channel + c) * pixels + pixel) / 4);
#pragma unroll
    for (int q = 0; q < 4; ++q) v[q][c] = uniform_from_bits(w.v[q]) >= p ? v[q][c] * scale : C(0);
  }
#pragma unroll
  for (int q = 0; q < 4; ++q) store_pack(y, y_dtype, (quad * 4 + q) * channels + channel, v[q]);
}

}  // namespace

void random_fill(const View& y, Distribution distribution, double low, double range, std::uint64_t seed,
                 std::uint64_t offset) {
  const std::int64_t n = y.numel();
  const RandomPosition at = random_position(seed, offset);
  const auto run = [&]<class T>() {
    launch("random_fill", &random_kernel<T>, grid_for((n + 3) / 4), y.as<T>(), n, distribution, low, range, at);
  };
  if (y.dtype == f64) run.template operator()<double>();
  else if (y.dtype == i64) run.template operator()<std::int64_t>();
  else run.template operator()<float>();
}

void draw_variates(const View& y, const View& a, const View& b, Variate which, std::uint64_t seed,
                   std::uint64_t offset) {
  const std::int64_t n = y.numel();
  launch("draw_variates", &draw_variates_kernel, grid_for(n), y.as<double>(), a.as<const double>(),
         b.as<const double>(), n, which, random_position(seed, offset));
}

void dropout(const View& y, const View& x, double p, std::uint64_t seed, std::uint64_t offset) {
  const std::int64_t n = y.numel();
  const Dims* strides[] = {&x.strides};
  const Loop loop = collapse(x.sizes, strides, 1);
  const Offsets walk(loop.sizes, loop.strides[0]);
  visit_compute(x.dtype, [&]<class C>() {
    const C scale = p < 1 ? static_cast<C>(1 / (1 - p)) : C(0);
    const bool alike = !y.is_contiguous();
    const auto movable = [](const View& v) {
      return has_packs(dtype_of<C>, v.dtype) && reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0;
    };
    const auto fits = [&](const View& v) { return v.is_contiguous() && movable(v); };
    if (alike && movable(x) && movable(y) && x.size(1) % pack == 0 && x.size(2) * x.size(3) % 4 == 0) {
      launch("dropout", &dropout_channels_kernel<C>, grid_for(n, 4 * pack), y.data, y.dtype, x.data, x.dtype,
             n / x.size(1) / 4, x.size(2) * x.size(3), x.size(1), static_cast<float>(p), scale,
             random_position(seed, offset));
      return;
    }
    launch("dropout", &dropout_kernel<C>, grid_for(n, pack), y.data, y.dtype, x.data, x.dtype, walk, x.is_contiguous(),
           fits(x) && fits(y), alike, n, static_cast<float>(p), scale, random_position(seed, offset));
  });
}

}  // namespace mantissa::cuda_backend
