// Pooling of volumes [N, C, D, H, W], and of images with dilation. One thread per element of the result; of a gradient,
// it visits the windows that cover its input in order. In channels-last volumes a thread handles eight neighbouring
// channels. Mirrors core/cpu/pool_volume.cpp.
#include "core/kernel.h"
#include "core/pool.h"
#include "cuda/rows.cuh"
#include "cuda/split.cuh"

namespace mantissa {
MANTISSA_KERNEL(max_pool3d, const VolumePoolShape& shape, const View& y, const View& index, const View& x)
MANTISSA_KERNEL(max_pool3d_backward, const VolumePoolShape& shape, const View& dx, const View& g, const View& index)
MANTISSA_KERNEL(avg_pool3d, const VolumePoolShape& shape, const View& y, const View& x)
MANTISSA_KERNEL(avg_pool3d_backward, const VolumePoolShape& shape, const View& dx, const View& g)
}  // namespace mantissa

namespace mantissa::cuda_backend {
namespace {

using Window = VolumePoolShape::Window;

// Maps a thread index to its work: voxels in memory order, or for channels-last `width` channels of a voxel, with the
// channels varying fastest.
struct VoxelWalk {
  bool last;                            // channels-last volumes
  std::int64_t channels, width, count;  // count: number of threads
  Split slots, voxels, planes, across;
  VoxelWalk(const View& v, Layout layout, int w)
      : last(layout == Layout::channels_last), channels(v.sizes[1]), width(w), count(v.numel() / w),
        slots(channels / w, count), voxels(v.sizes[2] * v.sizes[3] * v.sizes[4], count),
        planes(v.sizes[3] * v.sizes[4], count), across(v.sizes[4], count) {}

  struct Place {
    std::int64_t z, y, x;          // the voxel
    std::int64_t volume, channel;  // channel: for channels-last volumes; otherwise `volume` counts channels, too
    std::int64_t step;             // between neighbouring voxels, in elements
    // Offset of the first voxel, for these channels, in volumes of this many voxels.
    __device__ std::int64_t first(std::int64_t size) const { return volume * size * step + channel; }
  };
  __device__ Place operator()(std::int64_t i) const {
    const Split::Parts slot = last ? slots(i) : Split::Parts{i, 0}, voxel = voxels(slot.quotient),
                       plane = planes(voxel.rest), at = across(plane.rest);
    return {plane.quotient, at.quotient, at.rest, voxel.quotient, slot.rest * width, last ? channels : 1};
  }
};

struct Windows { Window z, y, x; };
// f(input) for the inputs of the windows.
template <class F> __device__ inline void for_inputs(const VolumePoolShape& s, const Windows& w, F&& f) {
  for (std::int64_t iz = w.z.begin; iz < w.z.end; iz += w.z.step) {
    for (std::int64_t iy = w.y.begin; iy < w.y.end; iy += w.y.step) {
      for (std::int64_t ix = w.x.begin; ix < w.x.end; ix += w.x.step) f((iz * s.in[1] + iy) * s.in[2] + ix);
    }
  }
}
__device__ inline bool holds(const Window& w, std::int64_t i) {
  return i >= w.begin && i < w.end && (i - w.begin) % w.step == 0;
}
// f(output, its windows) for the outputs whose windows have the input at `at`, in order.
template <class F> __device__ inline void for_outputs(const VolumePoolShape& s, const VoxelWalk::Place& at, F&& f) {
  const auto z = s.covering(0, at.z), y = s.covering(1, at.y), x = s.covering(2, at.x);
  for (std::int64_t oz = z.begin; oz < z.end; ++oz) {
    const Window wz = s.window(0, oz);
    if (!holds(wz, at.z)) continue;
    for (std::int64_t oy = y.begin; oy < y.end; ++oy) {
      const Window wy = s.window(1, oy);
      if (!holds(wy, at.y)) continue;
      for (std::int64_t ox = x.begin; ox < x.end; ++ox) {
        const Window wx = s.window(2, ox);
        if (holds(wx, at.x)) f((oz * s.out[1] + oy) * s.out[2] + ox, Windows{wz, wy, wx});
      }
    }
  }
}
__device__ inline Windows windows_of(const VolumePoolShape& s, const VoxelWalk::Place& at) {
  return {s.window(0, at.z), s.window(1, at.y), s.window(2, at.x)};
}
template <class C> __device__ inline C divisor_of(const VolumePoolShape& s, const Windows& w) {
  return static_cast<C>(s.divisor > 0 ? s.divisor : w.z.extent * w.y.extent * w.x.extent);
}

template <class C, int width>
__global__ void max_volumes(VolumePoolShape s, VoxelWalk walk, RowOperand y, std::int64_t* index, RowOperand x) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= walk.count) return;
  const VoxelWalk::Place to = walk(i);
  const std::int64_t from = to.first(s.in_pixels());
  C best[width];
  std::int64_t found[width];
#pragma unroll
  for (int k = 0; k < width; ++k) best[k] = -static_cast<C>(__builtin_huge_val()), found[k] = -1;
  for_inputs(s, windows_of(s, to), [&](std::int64_t at) {
    C v[width];
    load_slot(v, x, from + at * to.step);
#pragma unroll
    for (int k = 0; k < width; ++k)
      if (found[k] < 0 || v[k] > best[k] || v[k] != v[k]) best[k] = v[k], found[k] = at;
  });
  const std::int64_t at = i * width;
  store_slot(y, at, best);
#pragma unroll
  for (int k = 0; k < width; ++k) index[at + k] = found[k] < 0 ? 0 : found[k];  // < 0: between dilated taps
}
template <class C, int width>
__global__ void gather_maxima(VolumePoolShape s, VoxelWalk walk, RowOperand dx, RowOperand g,
                              const std::int64_t* index) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= walk.count) return;
  const VoxelWalk::Place to = walk(i);
  const std::int64_t from = to.first(s.out_pixels()), voxel = (to.z * s.in[1] + to.y) * s.in[2] + to.x;
  C sum[width] = {};
  for_outputs(s, to, [&](std::int64_t o, const Windows&) {
    const std::int64_t at = from + o * to.step;
    C v[width];
    load_slot(v, g, at);
#pragma unroll
    for (int k = 0; k < width; ++k) sum[k] += index[at + k] == voxel ? v[k] : C(0);
  });
  store_slot(dx, i * width, sum);
}
template <class C, int width>
__global__ void average_volumes(VolumePoolShape s, VoxelWalk walk, RowOperand y, RowOperand x) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= walk.count) return;
  const VoxelWalk::Place to = walk(i);
  const std::int64_t from = to.first(s.in_pixels());
  const Windows w = windows_of(s, to);
  C sum[width] = {};
  for_inputs(s, w, [&](std::int64_t at) {
    C v[width];
    load_slot(v, x, from + at * to.step);
#pragma unroll
    for (int k = 0; k < width; ++k) sum[k] += v[k];
  });
#pragma unroll
  for (int k = 0; k < width; ++k) sum[k] /= divisor_of<C>(s, w);
  store_slot(y, i * width, sum);
}
template <class C, int width>
__global__ void spread_volumes(VolumePoolShape s, VoxelWalk walk, RowOperand dx, RowOperand g) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= walk.count) return;
  const VoxelWalk::Place to = walk(i);
  const std::int64_t from = to.first(s.out_pixels());
  C sum[width] = {};
  for_outputs(s, to, [&](std::int64_t o, const Windows& w) {
    C v[width];
    load_slot(v, g, from + o * to.step);
    const C divisor = divisor_of<C>(s, w);
#pragma unroll
    for (int k = 0; k < width; ++k) sum[k] += v[k] / divisor;
  });
  store_slot(dx, i * width, sum);
}

// --- host ---
// Channels-last if one of two tensors is.
Layout layout_of_volumes(const View& a, const View& b) {
  return a.layout() == Layout::channels_last ? a.layout() : b.layout();
}
// Calls f.operator()<C, width>(walk) for one thread per slot of `result`.
template <class F> void visit_voxels(const View& result, Layout layout, const View& other, F&& f) {
  if (result.numel() == 0) return;
  const Dtype compute = compute_dtype(result.dtype);
  const bool packs =
      layout == Layout::channels_last && plan_rows(result.sizes[1], {result, other}, compute).packs;
  if (compute == f64) f.template operator()<double, 1>(VoxelWalk(result, layout, 1));
  else if (packs) f.template operator()<float, pack>(VoxelWalk(result, layout, pack));
  else f.template operator()<float, 1>(VoxelWalk(result, layout, 1));
}

}  // namespace

void max_pool3d(const VolumePoolShape& s, const View& y, const View& index, const View& x) {
  const Layout layout = layout_of_volumes(x, y);
  const DenseInput from(x, layout);
  const DenseOutput to(y, layout), places(index, layout);
  visit_voxels(to.view, layout, from.view, [&]<class C, int width>(const VoxelWalk& walk) {
    launch("max_pool3d", &max_volumes<C, width>, grid_for(walk.count), s, walk, operand(to.view),
           places.view.as<std::int64_t>(), operand(from.view));
  });
  to.finish();
  places.finish();
}
void max_pool3d_backward(const VolumePoolShape& s, const View& dx, const View& g, const View& index) {
  const Layout layout = layout_of_volumes(dx, g);
  const DenseInput from(g, layout), places(index, layout);
  const DenseOutput to(dx, layout);
  visit_voxels(to.view, layout, from.view, [&]<class C, int width>(const VoxelWalk& walk) {
    launch("max_pool3d_backward", &gather_maxima<C, width>, grid_for(walk.count), s, walk, operand(to.view),
           operand(from.view), places.view.as<const std::int64_t>());
  });
  to.finish();
}
void avg_pool3d(const VolumePoolShape& s, const View& y, const View& x) {
  const Layout layout = layout_of_volumes(x, y);
  const DenseInput from(x, layout);
  const DenseOutput to(y, layout);
  visit_voxels(to.view, layout, from.view, [&]<class C, int width>(const VoxelWalk& walk) {
    launch("avg_pool3d", &average_volumes<C, width>, grid_for(walk.count), s, walk, operand(to.view),
           operand(from.view));
  });
  to.finish();
}
void avg_pool3d_backward(const VolumePoolShape& s, const View& dx, const View& g) {
  const Layout layout = layout_of_volumes(dx, g);
  const DenseInput from(g, layout);
  const DenseOutput to(dx, layout);
  visit_voxels(to.view, layout, from.view, [&]<class C, int width>(const VoxelWalk& walk) {
    launch("avg_pool3d_backward", &spread_volumes<C, width>, grid_for(walk.count), s, walk, operand(to.view),
           operand(from.view));
  });
  to.finish();
}

}  // namespace mantissa::cuda_backend
