// Pooling and its gradients. Forward kernels take one thread per output pixel; backward kernels one per input
// pixel, which visits the windows that saw it in order: no atomics, the same bits every time. Mirrors core/cpu/pool.cpp.
#include "core/kernel.h"
#include "core/pool.h"
#include "cuda/reduction.cuh"

namespace mantissa {
MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)
MANTISSA_KERNEL(max_pool2d, const PoolShape& shape, const View& y, const View& index, const View& x)
MANTISSA_KERNEL(max_pool2d_backward, const View& dx, const View& g, const View& index)
MANTISSA_KERNEL(avg_pool2d, const PoolShape& shape, const View& y, const View& x)
MANTISSA_KERNEL(avg_pool2d_backward, const PoolShape& shape, const View& dx, const View& g)
}

namespace mantissa::cuda_backend {
namespace {

// [N, C, H, W] of any strides; pixel (h, w) of plane p.
struct Planes {
  void* data;
  Dtype dtype;
  std::int64_t channels, strides[4];
  int height, width;
  explicit Planes(const View& v)
      : data(v.data), dtype(v.dtype), channels(v.sizes[1]), strides{v.strides[0], v.strides[1], v.strides[2], v.strides[3]},
        height(static_cast<int>(v.sizes[2])), width(static_cast<int>(v.sizes[3])) {}
  __device__ std::int64_t at(std::int64_t plane, std::int64_t h, std::int64_t w) const {
    return plane / channels * strides[0] + plane % channels * strides[1] + h * strides[2] + w * strides[3];
  }
};

template <class C> __device__ bool replaces(C value, C best) { return value > best || value != value; }

template <class C> __global__ void max_pool_kernel(PoolShape s, Planes y, std::int64_t* index, Planes x, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t pixels = s.out[0] * s.out[1], plane = i / pixels, oy = i % pixels / s.out[1], ox = i % s.out[1];
  const PoolShape::Window rows = s.window(0, oy), columns = s.window(1, ox);
  std::int64_t place = rows.begin * s.in[1] + columns.begin;
  C best = load_element<C>(x.data, x.dtype, x.at(plane, rows.begin, columns.begin));
  for (std::int64_t iy = rows.begin; iy < rows.end; ++iy) {
    for (std::int64_t ix = columns.begin; ix < columns.end; ++ix) {
      const C v = load_element<C>(x.data, x.dtype, x.at(plane, iy, ix));
      if (replaces(v, best)) best = v, place = iy * s.in[1] + ix;
    }
  }
  store_element(y.data, y.dtype, y.at(plane, oy, ox), best);
  index[i] = place;
}

template <class C> __global__ void avg_pool_kernel(PoolShape s, Planes y, Planes x, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t pixels = s.out[0] * s.out[1], plane = i / pixels, oy = i % pixels / s.out[1], ox = i % s.out[1];
  const PoolShape::Window rows = s.window(0, oy), columns = s.window(1, ox);
  C sum = 0;
  for (std::int64_t iy = rows.begin; iy < rows.end; ++iy) {
    C row = 0;
    for (std::int64_t ix = columns.begin; ix < columns.end; ++ix) row += load_element<C>(x.data, x.dtype, x.at(plane, iy, ix));
    sum += row;
  }
  store_element(y.data, y.dtype, y.at(plane, oy, ox), static_cast<C>(sum / static_cast<C>(rows.extent * columns.extent)));
}

// Outputs [first, last) along dimension d are all whose window may hold input i; some of them may not.
struct Range { std::int64_t first, last; };
__device__ Range outputs_around(const PoolShape& s, int d, std::int64_t i) {
  if (s.adaptive) {  // window o begins at o * in / out and ends before (o + 1) * in / out + 1
    const std::int64_t first = i * s.out[d] / s.in[d], last = ((i + 1) * s.out[d] + s.in[d] - 1) / s.in[d];
    return {first, last < s.out[d] ? last : s.out[d]};
  }
  const std::int64_t padded = i + s.padding[d], first = padded < s.kernel[d] ? 0 : (padded - s.kernel[d]) / s.stride[d] + 1, last = padded / s.stride[d] + 1;
  return {first, last < s.out[d] ? last : s.out[d]};
}

template <class C> __global__ void avg_pool_backward_kernel(PoolShape s, Planes dx, Planes g, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t pixels = s.in[0] * s.in[1], plane = i / pixels, iy = i % pixels / s.in[1], ix = i % s.in[1];
  const Range down = outputs_around(s, 0, iy), across = outputs_around(s, 1, ix);
  C sum = 0;
  for (std::int64_t oy = down.first; oy < down.last; ++oy) {
    const PoolShape::Window rows = s.window(0, oy);
    if (iy < rows.begin || iy >= rows.end) continue;
    for (std::int64_t ox = across.first; ox < across.last; ++ox) {
      const PoolShape::Window columns = s.window(1, ox);
      if (ix < columns.begin || ix >= columns.end) continue;
      sum += load_element<C>(g.data, g.dtype, g.at(plane, oy, ox)) / static_cast<C>(rows.extent * columns.extent);
    }
  }
  store_element(dx.data, dx.dtype, dx.at(plane, iy, ix), sum);
}

// The shape of the windows is not known here. A warp takes a plane's row of outputs after the other, so that two
// additions to one pixel are made by the same warp, in order: 32 outputs at a time, equal places joined first.
template <class C> __global__ void max_pool_backward_kernel(C* dx, Planes g, Planes index, std::int64_t planes, std::int64_t in) {
  const std::int64_t plane = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (plane >= planes) return;  // the whole warp
  const std::int64_t out = std::int64_t{g.height} * g.width;
  C* sums = dx + plane * in;
  for (std::int64_t first = 0; first < out; first += 32) {
    const std::int64_t o = first + threadIdx.x;
    std::int64_t place = -1;
    C value = 0;
    if (o < out) {
      place = load_element<std::int64_t>(index.data, index.dtype, index.at(plane, o / g.width, o % g.width));
      value = load_element<C>(g.data, g.dtype, g.at(plane, o / g.width, o % g.width));
      if (place < 0 || place >= in) place = -1;
    }
    bool leads = place >= 0;  // the first lane that names this place adds for all of them
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

}  // namespace

void max_pool2d(const PoolShape& shape, const View& y, const View& index, const View& x) {
  const std::int64_t n = y.numel();
  if (n == 0) return;
  visit_compute(x.dtype, [&]<class C> { launch("max_pool2d", &max_pool_kernel<C>, grid_for(n), shape, Planes(y), index.as<std::int64_t>(), Planes(x), n); });
}

void max_pool2d_backward(const View& dx, const View& g, const View& index) {
  const std::int64_t planes = dx.sizes[0] * dx.sizes[1], in = dx.sizes[2] * dx.sizes[3];
  if (dx.numel() == 0) return;
  visit_compute(dx.dtype, [&]<class C> {
    const bool direct = dx.dtype == dtype_of<C> && dx.is_contiguous();
    Tensor wide;
    if (!direct) wide = Tensor::allocate(dx.sizes, dtype_of<C>, dx.device);
    const View sums = direct ? dx : wide.view();
    kernels::fill(dx.device, sums, 0.0);
    constexpr unsigned warps = 8;
    const Grid grid{dim3(static_cast<unsigned>((planes + warps - 1) / warps)), dim3(32, warps)};
    if (g.numel() > 0) launch("max_pool2d_backward", &max_pool_backward_kernel<C>, grid, sums.as<C>(), Planes(g), Planes(index), planes, in);
    if (!direct) kernels::copy(dx.device, dx, sums);
  });
}

void avg_pool2d(const PoolShape& shape, const View& y, const View& x) {
  const std::int64_t n = y.numel();
  if (n == 0) return;
  visit_compute(x.dtype, [&]<class C> { launch("avg_pool2d", &avg_pool_kernel<C>, grid_for(n), shape, Planes(y), Planes(x), n); });
}

void avg_pool2d_backward(const PoolShape& shape, const View& dx, const View& g) {
  const std::int64_t n = dx.numel();
  if (n == 0) return;
  visit_compute(dx.dtype, [&]<class C> { launch("avg_pool2d_backward", &avg_pool_backward_kernel<C>, grid_for(n), shape, Planes(dx), Planes(g), n); });
}

}  // namespace mantissa::cuda_backend
