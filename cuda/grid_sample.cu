// Sampling images and volumes at points (core/grid_sample.h). A thread handles one point: the places and weights of its
// neighbours are found once, for every channel. The gradient of x is summed by pixels, not added to them by points, so
// that it is the same in every run: contributions are sorted by pixel, and those to one pixel are added in the order of
// the points, as on the CPU (core/cpu/grid_sample.cpp).
#include "core/grid_sample.h"

#include "cuda/launch.cuh"

namespace mantissa {
MANTISSA_KERNEL(argsort, const View& index, const View& x, int dim, bool descending)
MANTISSA_KERNEL(gather, const View& y, const View& x, int dim, const View& index)
}  // namespace mantissa

namespace mantissa::cuda_backend {
namespace {

// The elements that a point reads along one dimension: -1 where outside. `change`: the derivatives of the weights with
// respect to the grid's number.
template <class T, int taps> struct Along {
  std::int64_t at[taps];
  T weight[taps], change[taps];

  __device__ void find(std::int64_t elements, const GridReading& how, T number) {
    using Padding = GridReading::Padding;
    const auto size = static_cast<T>(elements), last = size - 1;
    const T low = how.align_corners ? T(0) : T(-0.5), span = how.align_corners ? last : size;
    T slope = how.align_corners ? last / 2 : size / 2, p = (number + 1) * slope + low;
    if (taps < 4 && how.padding == Padding::reflection) reflect_position(p, slope, low, span);
    if (taps < 4 && how.padding != Padding::zeros) {
      if (!(p > 0 && p < last)) slope = 0;
      p = p <= 0 ? T(0) : p >= last ? last : p;
    }
    if (taps == 1) p = rint(p);
    // further outside it is the same, but reflected positions repeat
    const T least = taps == 4 ? T(-0x1p24) : T(-2), most = taps == 4 ? T(0x1p24) : size;
    p = p >= least ? p : least;  // also for NaN
    p = p <= most ? p : most;
    const T whole = floor(p), part = p - whole;
    if constexpr (taps == 4) cubic_weights(part, weight, change);
    else if constexpr (taps == 2) weight[0] = 1 - part, weight[1] = part, change[0] = -1, change[1] = 1;
    else weight[0] = 1, change[0] = 0;
#pragma unroll
    for (int t = 0; t < taps; ++t) {
      change[t] *= slope;
      T element = whole + static_cast<T>(taps == 4 ? t - 1 : t);
      if (taps == 4 && how.padding != Padding::zeros) {
        T turn = 0;
        if (how.padding == Padding::reflection) reflect_position(element, turn, low, span);
        element = element <= 0 ? T(0) : element >= last ? last : rint(element);
      }
      at[t] = element >= 0 && element <= last ? static_cast<std::int64_t>(element) : -1;
    }
  }
};

// The neighbours of a point.
template <class T, int n, int taps> struct Neighbours {
  static constexpr int count = neighbour_count<n, taps>;
  Along<T, taps> along[n];
  std::int64_t at[count];  // in a plane, or -1 if outside: reads as 0
  T weight[count];

  __device__ Neighbours(const GridSpace<n>& s, const T* grid) {
#pragma unroll
    for (int d = 0; d < n; ++d) along[d].find(s.size[d], s.how, grid[d]);
#pragma unroll
    for (int k = 0; k < count; ++k) {
      T w = 1;
      std::int64_t element = 0;
      bool inside = true;
#pragma unroll
      for (int d = n - 1; d >= 0; --d) {
        const int t = tap_of<taps>(k, d);
        inside = inside && along[d].at[t] >= 0;
        element = element * s.size[d] + along[d].at[t];
        w *= along[d].weight[t];
      }
      at[k] = inside ? element : -1;
      weight[k] = inside ? w : T(0);
    }
  }
  __device__ T read(const T* plane, int k) const { return at[k] < 0 ? T(0) : plane[at[k]]; }
};

// A thread for each point, whose samples and channels are dealt to blockIdx.y and blockIdx.z.
Grid grid_of_points(std::int64_t points, std::int64_t batch, std::int64_t channels) {
  Grid g = grid_for(points);
  g.blocks.y = static_cast<unsigned>(std::min<std::int64_t>(batch, 65535));
  g.blocks.z = static_cast<unsigned>(std::min<std::int64_t>((channels + 15) / 16, 64));
  if (batch == 0 || channels == 0) g.blocks.x = 0;
  return g;
}

template <class T, int n, int taps> __global__ void read_points(T* y, const T* x, const T* grid, GridSpace<n> s) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= s.points) return;
  for (std::int64_t sample = blockIdx.y; sample < s.batch; sample += gridDim.y) {
    const Neighbours<T, n, taps> here(s, grid + (sample * s.points + i) * n);
    for (std::int64_t c = blockIdx.z; c < s.channels; c += gridDim.z) {
      const T* plane = x + (sample * s.channels + c) * s.plane;
      T sum = here.weight[0] * here.read(plane, 0);
#pragma unroll
      for (int k = 1; k < here.count; ++k) sum += here.weight[k] * here.read(plane, k);
      y[(sample * s.channels + c) * s.points + i] = sum;
    }
  }
}

template <class T, int n, int taps>
__global__ void differentiate_points(T* dgrid, const T* g, const T* x, const T* grid, GridSpace<n> s) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= s.points) return;
  for (std::int64_t sample = blockIdx.y; sample < s.batch; sample += gridDim.y) {
    using Here = Neighbours<T, n, taps>;
    const Here here(s, grid + (sample * s.points + i) * n);
    T change[n][Here::count], sums[n] = {};  // change: the derivative of a weight by the grid's number for d
#pragma unroll
    for (int d = 0; d < n; ++d) {
#pragma unroll
      for (int k = 0; k < Here::count; ++k) {
        change[d][k] = here.along[d].change[tap_of<taps>(k, d)];
#pragma unroll
        for (int e = 0; e < n; ++e)
          if (e != d) change[d][k] *= here.along[e].weight[tap_of<taps>(k, e)];
      }
    }
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const T* plane = x + (sample * s.channels + c) * s.plane;
      T moved[n] = {};
#pragma unroll
      for (int k = 0; k < Here::count; ++k) {
        const T v = here.read(plane, k);
#pragma unroll
        for (int d = 0; d < n; ++d) moved[d] += change[d][k] * v;
      }
      const T arrived = g[(sample * s.channels + c) * s.points + i];
#pragma unroll
      for (int d = 0; d < n; ++d) sums[d] += arrived * moved[d];
    }
#pragma unroll
    for (int d = 0; d < n; ++d) dgrid[(sample * s.points + i) * n + d] = sums[d];
  }
}

// --- the gradient of x ---
// Contribution k of point i is number i * count + k of its sample: its pixel, which is `plane` if outside, and weight.
template <class T, int n, int taps>
__global__ void list_contributions(std::int64_t* pixel, T* weight, const T* grid, GridSpace<n> s) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= s.points) return;
  for (std::int64_t sample = blockIdx.y; sample < s.batch; sample += gridDim.y) {
    const Neighbours<T, n, taps> here(s, grid + (sample * s.points + i) * n);
#pragma unroll
    for (int k = 0; k < here.count; ++k) {
      const std::int64_t to = (sample * s.points + i) * here.count + k;
      pixel[to] = here.at[k] < 0 ? s.plane : here.at[k];
      weight[to] = here.weight[k];
    }
  }
}
// start[p]: the first of the `count` sorted contributions of a sample to pixel p or a later one, for p up to `plane`.
__global__ void find_starts(std::int64_t* start, const std::int64_t* pixel, std::int64_t count, std::int64_t plane,
                            std::int64_t batch) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i > count) return;
  for (std::int64_t sample = blockIdx.y; sample < batch; sample += gridDim.y) {
    const std::int64_t* sorted = pixel + sample * count;
    const std::int64_t before = i == 0 ? -1 : sorted[i - 1], here = i == count ? plane : sorted[i];
    for (std::int64_t p = before + 1; p <= here; ++p) start[sample * (plane + 1) + p] = i;
  }
}
template <class T>
__global__ void sum_contributions(T* dx, const T* g, const std::int64_t* start, const std::int64_t* order,
                                  const T* weight, std::int64_t plane, std::int64_t points, int count,
                                  std::int64_t batch, std::int64_t channels) {
  wait_for_previous_kernel();
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= plane) return;
  for (std::int64_t sample = blockIdx.y; sample < batch; sample += gridDim.y) {
    const std::int64_t *of = start + sample * (plane + 1) + p, all = sample * points * count;
    for (std::int64_t c = blockIdx.z; c < channels; c += gridDim.z) {
      const T* gradient = g + (sample * channels + c) * points;
      T sum = 0;
      for (std::int64_t j = of[0]; j < of[1]; ++j) {
        const std::int64_t contribution = order[all + j];
        sum += weight[all + contribution] * gradient[contribution / count];
      }
      dx[(sample * channels + c) * plane + p] = sum;
    }
  }
}

}  // namespace

void read_grid(const View& y, const View& x, const View& grid, const GridReading& how) {
  visit_grid_space(x, how, [&]<class T, int n, int taps>() {
    const GridSpace<n> s(x, grid, how);
    launch("grid_sample", &read_points<T, n, taps>, grid_of_points(s.points, s.batch, s.channels), y.as<T>(),
           x.as<const T>(), grid.as<const T>(), s);
  });
}
void read_grid_grid_gradient(const View& dgrid, const View& g, const View& x, const View& grid,
                             const GridReading& how) {
  visit_grid_space(x, how, [&]<class T, int n, int taps>() {
    if constexpr (taps > 1) {
      const GridSpace<n> s(x, grid, how);
      launch("grid_sample_grid_gradient", &differentiate_points<T, n, taps>, grid_of_points(s.points, s.batch, 1),
             dgrid.as<T>(), g.as<const T>(), x.as<const T>(), grid.as<const T>(), s);
    }
  });
}
void read_grid_input_gradient(const View& dx, const View& g, const View& grid, const GridReading& how) {
  visit_grid_space(dx, how, [&]<class T, int n, int taps>() {
    const GridSpace<n> s(dx, grid, how);
    constexpr int count = Neighbours<T, n, taps>::count;
    const std::int64_t all = s.points * count;
    const Dims sizes{s.batch, all};
    const auto numbers = [&](const Dims& of, Dtype t) { return Tensor::allocate(of, t, dx.device); };
    const Tensor pixel = numbers(sizes, i64), weight = numbers(sizes, dx.dtype), order = numbers(sizes, i64),
                 sorted = numbers(sizes, i64), start = numbers({s.batch, s.plane + 1}, i64);
    launch("grid_sample_input_gradient", &list_contributions<T, n, taps>, grid_of_points(s.points, s.batch, 1),
           pixel.data<std::int64_t>(), weight.data<T>(), grid.as<const T>(), s);
    argsort(order.view(), pixel.view(), 1, false);
    gather(sorted.view(), pixel.view(), 1, order.view());
    launch("grid_sample_input_gradient", &find_starts, grid_of_points(all + 1, s.batch, 1), start.data<std::int64_t>(),
           sorted.data<std::int64_t>(), all, s.plane, s.batch);
    launch("grid_sample_input_gradient", &sum_contributions<T>, grid_of_points(s.plane, s.batch, s.channels),
           dx.as<T>(), g.as<const T>(), start.data<std::int64_t>(), order.data<std::int64_t>(), weight.data<T>(),
           s.plane, s.points, count, s.batch, s.channels);
  });
}

}  // namespace mantissa::cuda_backend
