// Pooling of volumes [N, C, D, H, W], and of images with dilation. One thread per result element; the gradient of an
// average visits all windows of its input's line in order. Mirrors core/cpu/pool_volume.cpp; the gradient of the
// maximum is max_pool2d_backward.
#include "core/kernel.h"
#include "core/pool.h"
#include "cuda/rows.cuh"

namespace mantissa {
MANTISSA_KERNEL(max_pool3d, const VolumePoolShape& shape, const View& y, const View& index, const View& x)
MANTISSA_KERNEL(avg_pool3d, const VolumePoolShape& shape, const View& y, const View& x)
MANTISSA_KERNEL(avg_pool3d_backward, const VolumePoolShape& shape, const View& dx, const View& g)
}  // namespace mantissa

namespace mantissa::cuda_backend {
namespace {

using Window = VolumePoolShape::Window;

struct Windows { Window z, y, x; };
__device__ inline Windows windows_of(const VolumePoolShape& s, std::int64_t o) {
  return {s.window(0, o / (s.out[1] * s.out[2])), s.window(1, o / s.out[2] % s.out[1]), s.window(2, o % s.out[2])};
}
template <class F> __device__ inline void for_inputs(const VolumePoolShape& s, const Windows& w, F&& f) {
  for (std::int64_t iz = w.z.begin; iz < w.z.end; iz += w.z.step) {
    for (std::int64_t iy = w.y.begin; iy < w.y.end; iy += w.y.step) {
      for (std::int64_t ix = w.x.begin; ix < w.x.end; ix += w.x.step) f((iz * s.in[1] + iy) * s.in[2] + ix);
    }
  }
}
template <class C> __device__ inline C divisor_of(const VolumePoolShape& s, const Windows& w) {
  return static_cast<C>(s.divisor > 0 ? s.divisor : w.z.extent * w.y.extent * w.x.extent);
}
__device__ inline bool holds(const Window& w, std::int64_t i) {
  return i >= w.begin && i < w.end && (i - w.begin) % w.step == 0;
}

template <class C>
__global__ void max_volumes(VolumePoolShape s, RowOperand y, std::int64_t* index, RowOperand x, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t volume = i / s.out_pixels() * s.in_pixels();
  C best = -static_cast<C>(__builtin_huge_val());  // for a window that covers no input, between dilated taps
  std::int64_t place = -1;
  for_inputs(s, windows_of(s, i % s.out_pixels()), [&](std::int64_t at) {
    const C v = load_element<C>(x.data, x.dtype, volume + at);
    if (place < 0 || v > best || !(v == v)) best = v, place = at;
  });
  store_element(y.data, y.dtype, i, best);
  index[i] = place < 0 ? 0 : place;
}
template <class C> __global__ void average_volumes(VolumePoolShape s, RowOperand y, RowOperand x, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t volume = i / s.out_pixels() * s.in_pixels();
  const Windows w = windows_of(s, i % s.out_pixels());
  C sum = 0;
  for_inputs(s, w, [&](std::int64_t at) { sum += load_element<C>(x.data, x.dtype, volume + at); });
  store_element(y.data, y.dtype, i, static_cast<C>(sum / divisor_of<C>(s, w)));
}
template <class C> __global__ void spread_volumes(VolumePoolShape s, RowOperand dx, RowOperand g, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t volume = i / s.in_pixels() * s.out_pixels(), at = i % s.in_pixels();
  const std::int64_t iz = at / (s.in[1] * s.in[2]), iy = at / s.in[2] % s.in[1], ix = at % s.in[2];
  C sum = 0;
  for (std::int64_t oz = 0; oz < s.out[0]; ++oz) {
    const Window wz = s.window(0, oz);
    if (!holds(wz, iz)) continue;
    for (std::int64_t oy = 0; oy < s.out[1]; ++oy) {
      const Window wy = s.window(1, oy);
      if (!holds(wy, iy)) continue;
      for (std::int64_t ox = 0; ox < s.out[2]; ++ox) {
        const Window wx = s.window(2, ox);
        if (!holds(wx, ix)) continue;
        sum += load_element<C>(g.data, g.dtype, volume + (oz * s.out[1] + oy) * s.out[2] + ox) /
               divisor_of<C>(s, {wz, wy, wx});
      }
    }
  }
  store_element(dx.data, dx.dtype, i, sum);
}

}  // namespace

void max_pool3d(const VolumePoolShape& s, const View& y, const View& index, const View& x) {
  const DenseInput from(x);
  const DenseOutput to(y);
  visit_compute(x.dtype, [&]<class C>() {
    launch("max_pool3d", &max_volumes<C>, grid_for(y.numel()), s, operand(to.view), index.as<std::int64_t>(),
           operand(from.view), y.numel());
  });
  to.finish();
}
void avg_pool3d(const VolumePoolShape& s, const View& y, const View& x) {
  const DenseInput from(x);
  const DenseOutput to(y);
  visit_compute(x.dtype, [&]<class C>() {
    launch("avg_pool3d", &average_volumes<C>, grid_for(y.numel()), s, operand(to.view), operand(from.view), y.numel());
  });
  to.finish();
}
void avg_pool3d_backward(const VolumePoolShape& s, const View& dx, const View& g) {
  const DenseInput from(g);
  const DenseOutput to(dx);
  visit_compute(dx.dtype, [&]<class C>() {
    launch("avg_pool3d_backward", &spread_volumes<C>, grid_for(dx.numel()), s, operand(to.view), operand(from.view),
           dx.numel());
  });
  to.finish();
}

}  // namespace mantissa::cuda_backend
