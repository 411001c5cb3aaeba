// Pooling of volumes [N, C, D, H, W], and of images with dilation, contiguous or channels-last. One thread per result
// element; of a gradient, it visits the windows that cover its input in order. Mirrors core/cpu/pool_volume.cpp.
#include "core/kernel.h"
#include "core/pool.h"
#include "cuda/rows.cuh"

namespace mantissa {
MANTISSA_KERNEL(max_pool3d, const VolumePoolShape& shape, const View& y, const View& index, const View& x)
MANTISSA_KERNEL(max_pool3d_backward, const VolumePoolShape& shape, const View& dx, const View& g, const View& index)
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
// f(output, its windows) for the outputs whose window has input `at`, in order.
template <class F> __device__ inline void for_outputs(const VolumePoolShape& s, std::int64_t at, F&& f) {
  const std::int64_t i[3] = {at / (s.in[1] * s.in[2]), at / s.in[2] % s.in[1], at % s.in[2]};
  const auto z = s.covering(0, i[0]), y = s.covering(1, i[1]), x = s.covering(2, i[2]);
  for (std::int64_t oz = z.begin; oz < z.end; ++oz) {
    const Window wz = s.window(0, oz);
    if (!holds(wz, i[0])) continue;
    for (std::int64_t oy = y.begin; oy < y.end; ++oy) {
      const Window wy = s.window(1, oy);
      if (!holds(wy, i[1])) continue;
      for (std::int64_t ox = x.begin; ox < x.end; ++ox) {
        const Window wx = s.window(2, ox);
        if (holds(wx, i[2])) f((oz * s.out[1] + oy) * s.out[2] + ox, Windows{wz, wy, wx});
      }
    }
  }
}

// The volumes of a tensor that is dense in one of the two layouts.
struct Volumes {
  std::int64_t channels, last;  // last: whether they are channels-last; as wide as the rest, so that nothing is padding

  struct Place {
    std::int64_t pixel, first, step;
    __device__ std::int64_t operator()(std::int64_t other_pixel) const { return first + other_pixel * step; }
  };
  // Of element i of a tensor with `own` pixels: its pixel, and where a pixel of the same channel lies in a tensor with
  // `other` pixels.
  __device__ Place place(std::int64_t i, std::int64_t own, std::int64_t other) const {
    if (!last) return {i % own, i / own * other, 1};
    const std::int64_t row = i / channels;
    return {row % own, row / own * other * channels + i % channels, channels};
  }
};

template <class C>
__global__ void max_volumes(VolumePoolShape s, Volumes v, RowOperand y, std::int64_t* index, RowOperand x,
                            std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto input = v.place(i, s.out_pixels(), s.in_pixels());
  C best = -static_cast<C>(__builtin_huge_val());  // for a window that covers no input, between dilated taps
  std::int64_t found = -1;
  for_inputs(s, windows_of(s, input.pixel), [&](std::int64_t at) {
    const C e = load_element<C>(x.data, x.dtype, input(at));
    if (found < 0 || e > best || !(e == e)) best = e, found = at;
  });
  store_element(y.data, y.dtype, i, best);
  index[i] = found < 0 ? 0 : found;
}
template <class C>
__global__ void gather_maxima(VolumePoolShape s, Volumes v, RowOperand dx, RowOperand g, const std::int64_t* index,
                              std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto output = v.place(i, s.in_pixels(), s.out_pixels());
  C sum = 0;
  for_outputs(s, output.pixel, [&](std::int64_t o, const Windows&) {
    if (index[output(o)] == output.pixel) sum += load_element<C>(g.data, g.dtype, output(o));
  });
  store_element(dx.data, dx.dtype, i, sum);
}
template <class C>
__global__ void average_volumes(VolumePoolShape s, Volumes v, RowOperand y, RowOperand x, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto input = v.place(i, s.out_pixels(), s.in_pixels());
  const Windows w = windows_of(s, input.pixel);
  C sum = 0;
  for_inputs(s, w, [&](std::int64_t at) { sum += load_element<C>(x.data, x.dtype, input(at)); });
  store_element(y.data, y.dtype, i, static_cast<C>(sum / divisor_of<C>(s, w)));
}
template <class C>
__global__ void spread_volumes(VolumePoolShape s, Volumes v, RowOperand dx, RowOperand g, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto output = v.place(i, s.in_pixels(), s.out_pixels());
  C sum = 0;
  for_outputs(s, output.pixel, [&](std::int64_t o, const Windows& w) {
    sum += load_element<C>(g.data, g.dtype, output(o)) / divisor_of<C>(s, w);
  });
  store_element(dx.data, dx.dtype, i, sum);
}

// Channels-last if one of two tensors is.
Layout layout_of_volumes(const View& a, const View& b) {
  return a.layout() == Layout::channels_last ? a.layout() : b.layout();
}
Volumes volumes_of(const View& v, Layout layout) { return {v.sizes[1], layout == Layout::channels_last}; }

}  // namespace

void max_pool3d(const VolumePoolShape& s, const View& y, const View& index, const View& x) {
  const Layout layout = layout_of_volumes(x, y);
  const DenseInput from(x, layout);
  const DenseOutput to(y, layout), places(index, layout);
  visit_compute(x.dtype, [&]<class C>() {
    launch("max_pool3d", &max_volumes<C>, grid_for(y.numel()), s, volumes_of(y, layout), operand(to.view),
           places.view.as<std::int64_t>(), operand(from.view), y.numel());
  });
  to.finish();
  places.finish();
}
void max_pool3d_backward(const VolumePoolShape& s, const View& dx, const View& g, const View& index) {
  const Layout layout = layout_of_volumes(dx, g);
  const DenseInput from(g, layout), places(index, layout);
  const DenseOutput to(dx, layout);
  visit_compute(dx.dtype, [&]<class C>() {
    launch("max_pool3d_backward", &gather_maxima<C>, grid_for(dx.numel()), s, volumes_of(dx, layout),
           operand(to.view), operand(from.view), places.view.as<const std::int64_t>(), dx.numel());
  });
  to.finish();
}
void avg_pool3d(const VolumePoolShape& s, const View& y, const View& x) {
  const Layout layout = layout_of_volumes(x, y);
  const DenseInput from(x, layout);
  const DenseOutput to(y, layout);
  visit_compute(x.dtype, [&]<class C>() {
    launch("avg_pool3d", &average_volumes<C>, grid_for(y.numel()), s, volumes_of(y, layout), operand(to.view),
           operand(from.view), y.numel());
  });
  to.finish();
}
void avg_pool3d_backward(const VolumePoolShape& s, const View& dx, const View& g) {
  const Layout layout = layout_of_volumes(dx, g);
  const DenseInput from(g, layout);
  const DenseOutput to(dx, layout);
  visit_compute(dx.dtype, [&]<class C>() {
    launch("avg_pool3d_backward", &spread_volumes<C>, grid_for(dx.numel()), s, volumes_of(dx, layout),
           operand(to.view), operand(from.view), dx.numel());
  });
  to.finish();
}

}  // namespace mantissa::cuda_backend
