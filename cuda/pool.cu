// Image pooling and its gradients. Forward uses one thread per output pixel, backward one per input pixel, which visits
// the windows that contain it in order: no atomics, bitwise reproducible. In channels-last images a thread handles
// eight neighbouring channels of its pixel. Mirrors core/cpu/pool.cpp and core/cpu/pool_channels.cpp.
#include "core/kernel.h"
#include "core/pool.h"
#include "cuda/rows.cuh"
#include "cuda/split.cuh"

namespace mantissa {
MANTISSA_KERNEL(fill, const View& y, double value)
MANTISSA_KERNEL(max_pool2d, const PoolShape& shape, const View& y, const View& index, const View& x)
MANTISSA_KERNEL(max_pool2d_backward, const View& dx, const View& g, const View& index)
MANTISSA_KERNEL(max_pool2d_taps, const PoolShape& shape, const View& y, const View& taps, const View& x)
MANTISSA_KERNEL(max_pool2d_taps_backward, const PoolShape& shape, const View& dx, const View& g, const View& taps)
MANTISSA_KERNEL(avg_pool2d, const PoolShape& shape, const View& y, const View& x)
MANTISSA_KERNEL(avg_pool2d_backward, const PoolShape& shape, const View& dx, const View& g)
}

namespace mantissa::cuda_backend {
namespace {

// Maps a thread index to its work: pixels in plane order, or for channels-last `width` channels of a pixel, with the
// channels varying fastest.
struct PixelWalk {
  bool last;                // channels-last images
  std::int64_t channels, width, count;  // count: number of threads
  Split slots, pixels, across;
  PixelWalk(const View& images, Layout layout, int w)
      : last(layout == Layout::channels_last), channels(images.sizes[1]), width(w), count(images.numel() / w),
        slots(channels / w, count), pixels(images.sizes[2] * images.sizes[3], count), across(images.sizes[3], count) {}

  struct Place {
    std::int64_t y, x;           // the pixel
    std::int64_t image, channel;  // channel: for channels-last images; otherwise `image` counts planes
    std::int64_t step;           // between neighbouring pixels, in elements
    // Offset of the first pixel, for these channels, in images of this many pixels.
    __device__ std::int64_t first(std::int64_t pixels) const { return image * pixels * step + channel; }
  };
  __device__ Place operator()(std::int64_t i) const {
    const Split::Parts slot = last ? slots(i) : Split::Parts{i, 0}, pixel = pixels(slot.quotient),
                       at = across(pixel.rest);
    return {at.quotient, at.rest, pixel.quotient, slot.rest * width, last ? channels : 1};
  }
};

template <class C> __device__ bool replaces(C value, C best) { return value > best || value != value; }

// Maxima and their positions: taps (pixel numbers within their windows), or indices (pixel numbers within their
// planes).
template <class C, int width>
__global__ void max_pool_kernel(PoolShape s, PixelWalk walk, RowOperand y, std::int64_t* indices, std::uint8_t* taps,
                                RowOperand x) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= walk.count) return;
  const PixelWalk::Place to = walk(i);
  const PoolShape::Window rows = s.window(0, to.y), columns = s.window(1, to.x);
  const std::int64_t from = to.first(s.in[0] * s.in[1]), top = to.y * s.stride[0] - s.padding[0],
                     left = to.x * s.stride[1] - s.padding[1];
  C best[width];
  int tap[width];
  for (std::int64_t iy = rows.begin; iy < rows.end; ++iy) {
    for (std::int64_t ix = columns.begin; ix < columns.end; ++ix) {
      C v[width];
      load_slot(v, x, from + (iy * s.in[1] + ix) * to.step);
      const bool first = iy == rows.begin && ix == columns.begin;
      const int here = static_cast<int>((iy - top) * s.kernel[1] + (ix - left));
#pragma unroll
      for (int k = 0; k < width; ++k) {
        if (first || replaces(v[k], best[k])) best[k] = v[k], tap[k] = here;
      }
    }
  }
  const std::int64_t at = to.first(s.out[0] * s.out[1]) + (to.y * s.out[1] + to.x) * to.step;
  store_slot(y, at, best);
  if (taps) {
    if constexpr (width == pack) {
      Pack<std::uint8_t> bytes;
#pragma unroll
      for (int k = 0; k < width; ++k) bytes.v[k] = static_cast<std::uint8_t>(tap[k]);
      *reinterpret_cast<Pack<std::uint8_t>*>(taps + at) = bytes;
    } else {
      taps[at] = static_cast<std::uint8_t>(tap[0]);
    }
  } else {
    const int across = static_cast<int>(s.kernel[1]);
#pragma unroll
    for (int k = 0; k < width; ++k) indices[at + k] = (top + tap[k] / across) * s.in[1] + left + tap[k] % across;
  }
}

template <class C, int width> __global__ void avg_pool_kernel(PoolShape s, PixelWalk walk, RowOperand y, RowOperand x) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= walk.count) return;
  const PixelWalk::Place to = walk(i);
  const PoolShape::Window rows = s.window(0, to.y), columns = s.window(1, to.x);
  const std::int64_t from = to.first(s.in[0] * s.in[1]);
  C sum[width] = {};
  for (std::int64_t iy = rows.begin; iy < rows.end; ++iy) {
    C row[width] = {};
    for (std::int64_t ix = columns.begin; ix < columns.end; ++ix) {
      C v[width];
      load_slot(v, x, from + (iy * s.in[1] + ix) * to.step);
#pragma unroll
      for (int k = 0; k < width; ++k) row[k] += v[k];
    }
#pragma unroll
    for (int k = 0; k < width; ++k) sum[k] += row[k];
  }
  const C extent = static_cast<C>(rows.extent * columns.extent);
#pragma unroll
  for (int k = 0; k < width; ++k) sum[k] = sum[k] / extent;
  store_slot(y, to.first(s.out[0] * s.out[1]) + (to.y * s.out[1] + to.x) * to.step, sum);
}

// Outputs [first, last) along dimension d whose windows may contain input i; adaptive windows may not.
struct Range { std::int64_t first, last; };
__device__ Range outputs_around(const PoolShape& s, int d, std::int64_t i) {
  if (s.adaptive) {  // window o starts at o * in / out and ends before (o + 1) * in / out + 1
    const std::int64_t first = i * s.out[d] / s.in[d], last = ((i + 1) * s.out[d] + s.in[d] - 1) / s.in[d];
    return {first, last < s.out[d] ? last : s.out[d]};
  }
  const std::int64_t padded = i + s.padding[d],
                     first = padded < s.kernel[d] ? 0 : (padded - s.kernel[d]) / s.stride[d] + 1,
                     last = padded / s.stride[d] + 1;
  return {first, last < s.out[d] ? last : s.out[d]};
}

template <class C, int width>
__global__ void avg_pool_backward_kernel(PoolShape s, PixelWalk walk, RowOperand dx, RowOperand g) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= walk.count) return;
  const PixelWalk::Place at = walk(i);
  const Range down = outputs_around(s, 0, at.y), across = outputs_around(s, 1, at.x);
  const std::int64_t from = at.first(s.out[0] * s.out[1]);
  C sum[width] = {};
  for (std::int64_t oy = down.first; oy < down.last; ++oy) {
    const PoolShape::Window rows = s.window(0, oy);
    if (at.y < rows.begin || at.y >= rows.end) continue;
    for (std::int64_t ox = across.first; ox < across.last; ++ox) {
      const PoolShape::Window columns = s.window(1, ox);
      if (at.x < columns.begin || at.x >= columns.end) continue;
      const C extent = static_cast<C>(rows.extent * columns.extent);
      C v[width];
      load_slot(v, g, from + (oy * s.out[1] + ox) * at.step);
#pragma unroll
      for (int k = 0; k < width; ++k) sum[k] += v[k] / extent;
    }
  }
  store_slot(dx, at.first(s.in[0] * s.in[1]) + (at.y * s.in[1] + at.x) * at.step, sum);
}

// A pixel's gradient is the sum over the windows whose maximum it was.
template <class C, int width>
__global__ void max_pool_taps_backward_kernel(PoolShape s, PixelWalk walk, RowOperand dx, RowOperand g,
                                              const std::uint8_t* taps) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= walk.count) return;
  const PixelWalk::Place at = walk(i);
  const Range down = outputs_around(s, 0, at.y), across = outputs_around(s, 1, at.x);
  const std::int64_t from = at.first(s.out[0] * s.out[1]);
  C sum[width] = {};
  for (std::int64_t oy = down.first; oy < down.last; ++oy) {
    const std::int64_t row = (at.y + s.padding[0] - oy * s.stride[0]) * s.kernel[1];
    for (std::int64_t ox = across.first; ox < across.last; ++ox) {
      const std::int64_t o = from + (oy * s.out[1] + ox) * at.step;
      const int here = static_cast<int>(row + at.x + s.padding[1] - ox * s.stride[1]);
      C v[width];
      load_slot(v, g, o);
      if constexpr (width == pack) {
        const Pack<std::uint8_t> tap = *reinterpret_cast<const Pack<std::uint8_t>*>(taps + o);
#pragma unroll
        for (int k = 0; k < width; ++k) sum[k] += tap.v[k] == here ? v[k] : C(0);
      } else {
        sum[0] += taps[o] == here ? v[0] : C(0);
      }
    }
  }
  store_slot(dx, at.first(s.in[0] * s.in[1]) + (at.y * s.in[1] + at.x) * at.step, sum);
}

// With indices the window shape is unknown. A warp processes a plane's outputs in order, 32 at a time, so that two
// additions to the same pixel are made by the same warp in order; equal indices are combined first.
template <class C>
__global__ void max_pool_backward_kernel(C* dx, RowOperand g, const std::int64_t* index, std::int64_t planes,
                                         std::int64_t out, std::int64_t in) {
  wait_for_previous_kernel();
  const std::int64_t plane = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (plane >= planes) return;  // applies to the whole warp
  C* sums = dx + plane * in;
  for (std::int64_t first = 0; first < out; first += 32) {
    const std::int64_t o = first + threadIdx.x;
    std::int64_t place = -1;
    C value = 0;
    if (o < out) {
      place = index[plane * out + o];
      value = load_element<C>(g.data, g.dtype, plane * out + o);
      if (place < 0 || place >= in) place = -1;
    }
    bool leads = place >= 0;  // the first lane with this index adds for all of them
    C total = 0;
    for (int lane = 0; lane < 32; ++lane) {
      const std::int64_t other = __shfl_sync(all_lanes, place, lane);
      const C theirs = __shfl_sync(all_lanes, value, lane);
      if (other != place) continue;
      if (lane < static_cast<int>(threadIdx.x)) leads = false;
      total += theirs;
    }
    if (leads) sums[place] += total;
    __syncwarp();
  }
}

// --- host ---
Layout layout_of_images(const View& a, const View& b) {
  return a.layout() == Layout::channels_last || b.layout() == Layout::channels_last ? Layout::channels_last
                                                                                    : Layout::contiguous;
}
// Calls f.operator()<C, width>(walk) for one thread per slot of `images`. taps: optional bytes that are moved in packs
// too.
template <class F>
void visit_pixels(const View& images, Layout layout, const View& taps, std::initializer_list<View> operands, F&& f) {
  const bool taps_fit = taps.dtype != u8 || reinterpret_cast<std::uintptr_t>(taps.data) % pack == 0;
  const bool packs = layout == Layout::channels_last && taps_fit &&
                     plan_rows(images.sizes[1], operands, compute_dtype(images.dtype)).packs;
  if (compute_dtype(images.dtype) == f64) f.template operator()<double, 1>(PixelWalk(images, layout, 1));
  else if (packs) f.template operator()<float, pack>(PixelWalk(images, layout, pack));
  else f.template operator()<float, 1>(PixelWalk(images, layout, 1));
}

// found: i64 indices or u8 taps.
void find_maxima(const PoolShape& s, const View& y, const View& found, const View& x) {
  if (y.numel() == 0) return;
  const Layout layout = layout_of_images(x, y);
  const DenseInput in(x, layout);
  const DenseOutput out(y, layout), places(found, layout);
  check(s.kernel[0] * s.kernel[1] < (std::int64_t{1} << 31), "internal error: a window is too large");
  visit_pixels(out.view, layout, places.view, {out.view, in.view}, [&]<class C, int width>(const PixelWalk& walk) {
    const bool taps = found.dtype == u8;
    launch("max_pool2d", &max_pool_kernel<C, width>, grid_for(walk.count), s, walk, operand(out.view),
           taps ? nullptr : places.view.as<std::int64_t>(), taps ? places.view.as<std::uint8_t>() : nullptr,
           operand(in.view));
  });
  out.finish();
  places.finish();
}

}  // namespace

void max_pool2d(const PoolShape& shape, const View& y, const View& index, const View& x) {
  find_maxima(shape, y, index, x);
}
void max_pool2d_taps(const PoolShape& shape, const View& y, const View& taps, const View& x) {
  find_maxima(shape, y, taps, x);
}

void max_pool2d_taps_backward(const PoolShape& s, const View& dx, const View& g, const View& taps) {
  if (dx.numel() == 0) return;
  const Layout layout = layout_of_images(dx, taps);
  const DenseInput grad(g, layout), places(taps, layout);
  const DenseOutput out(dx, layout);
  visit_pixels(out.view, layout, places.view, {out.view, grad.view}, [&]<class C, int width>(const PixelWalk& walk) {
    launch("max_pool2d_taps_backward", &max_pool_taps_backward_kernel<C, width>, grid_for(walk.count), s, walk,
           operand(out.view), operand(grad.view), places.view.as<const std::uint8_t>());
  });
  out.finish();
}

void max_pool2d_backward(const View& dx, const View& g, const View& index) {
  const std::int64_t planes = dx.sizes[0] * dx.sizes[1], in = dx.sizes[2] * dx.sizes[3],
                     pixels = g.sizes[2] * g.sizes[3];
  if (dx.numel() == 0) return;
  const DenseInput grad(g), places(index);
  visit_compute(dx.dtype, [&]<class C>() {
    const bool direct = dx.dtype == dtype_of<C> && dx.is_contiguous();
    Tensor wide;
    if (!direct) wide = Tensor::allocate(dx.sizes, dtype_of<C>, dx.device);
    const View sums = direct ? dx : wide.view();
    kernels::fill(dx.device, sums, 0.0);
    constexpr unsigned warps = 8;
    const Grid grid{dim3(static_cast<unsigned>((planes + warps - 1) / warps)), dim3(32, warps)};
    if (g.numel() > 0) {
      launch("max_pool2d_backward", &max_pool_backward_kernel<C>, grid, sums.as<C>(), operand(grad.view),
             places.view.as<const std::int64_t>(), planes, pixels, in);
    }
    if (!direct) copy(dx, sums);
  });
}

void avg_pool2d(const PoolShape& s, const View& y, const View& x) {
  if (y.numel() == 0) return;
  const Layout layout = layout_of_images(x, y);
  const DenseInput in(x, layout);
  const DenseOutput out(y, layout);
  visit_pixels(out.view, layout, View{}, {out.view, in.view}, [&]<class C, int width>(const PixelWalk& walk) {
    launch("avg_pool2d", &avg_pool_kernel<C, width>, grid_for(walk.count), s, walk, operand(out.view),
           operand(in.view));
  });
  out.finish();
}

void avg_pool2d_backward(const PoolShape& s, const View& dx, const View& g) {
  if (dx.numel() == 0) return;
  const Layout layout = layout_of_images(dx, g);
  const DenseInput grad(g, layout);
  const DenseOutput out(dx, layout);
  visit_pixels(out.view, layout, View{}, {out.view, grad.view}, [&]<class C, int width>(const PixelWalk& walk) {
    launch("avg_pool2d_backward", &avg_pool_backward_kernel<C, width>, grid_for(walk.count), s, walk, operand(out.view),
           operand(grad.view));
  });
  out.finish();
}

}  // namespace mantissa::cuda_backend
