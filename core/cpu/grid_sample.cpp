// Sampling planes and volumes at points (core/grid_sample.h). For a block of points the positions and weights of their
// neighbours are computed once; then one channel after the other is gathered, so that the loops over points are indexed
// loads and products. Work is cut by samples and blocks of points, and for the gradient of x, which adds to planes, by
// samples and groups of channels: each plane gets its points in order.
#include "core/grid_sample.h"

#include <algorithm>
#include <cmath>

#include "core/cpu/rows.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// plane[at[i]] for the lanes of a vector, 0 where at is negative. (The compiler would make separate scalar loads of a
// loop.)
#if defined(__AVX512F__)
inline Vec<float> gather(const float* plane, const std::int32_t* at) {
  const __m512i index = _mm512_loadu_si512(at);
  const __mmask16 there = _mm512_cmpge_epi32_mask(index, _mm512_setzero_si512());
  return Vec<float>(_mm512_mask_i32gather_ps(_mm512_setzero_ps(), there, index, plane, sizeof(float)));
}
inline Vec<double> gather(const double* plane, const std::int32_t* at) {
  const __m256i index = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  const __mmask8 there = _mm256_cmpge_epi32_mask(index, _mm256_setzero_si256());
  return Vec<double>(_mm512_mask_i32gather_pd(_mm512_setzero_pd(), there, index, plane, sizeof(double)));
}
#else
template <class T> Vec<T> gather(const T* plane, const std::int32_t* at) {
  T lanes[Vec<T>::size];
  for (std::size_t i = 0; i < Vec<T>::size; ++i) {
    const T v = plane[at[i] < 0 ? 0 : at[i]];
    lanes[i] = at[i] < 0 ? T(0) : v;
  }
  return load(lanes);
}
#endif

// Neighbours of a block of points.
template <class T, int n, int taps> struct Neighbours {
  static constexpr int count = neighbour_count<n, taps>;
  static constexpr std::int64_t block = count > 8 ? 64 : 256;  // points
  static constexpr auto width = static_cast<std::int64_t>(Vec<T>::size);
  std::int32_t at[count][block];  // its index in a plane, or -1 if outside: reads as 0
  T weight[count][block];
  T along[n][taps][block];   // weights along a dimension
  T change[n][taps][block];  // their derivatives with respect to the position in elements
  T slope[n][block];         // derivative of the position with respect to the grid value

  void find(const GridSpace<n>& s, const T* grid, std::int64_t points) {
    std::int32_t element[n][taps][block];  // along a dimension, or -1 if outside
    for (int d = 0; d < n; ++d) find_along(s, d, grid, points, element[d]);
    for (int k = 0; k < count; ++k) {
      for (std::int64_t i = 0; i < points; ++i) {
        T w = 1;
        std::int32_t index = 0, outside = 0;
#pragma GCC unroll 8
        for (int d = n - 1; d >= 0; --d) {
          const std::int32_t here = element[d][tap_of<taps>(k, d)][i];
          outside |= here;  // negative if any is
          index = index * static_cast<std::int32_t>(s.size[d]) + here;
          w *= along[d][tap_of<taps>(k, d)][i];
        }
        at[k][i] = outside < 0 ? -1 : index;
        weight[k][i] = outside < 0 ? T(0) : w;
      }
      for (std::int64_t i = points; i < block && i % width != 0; ++i) at[k][i] = -1, weight[k][i] = T(0);
    }
  }
  // Neighbour k of the points from i on, in a plane.
  Vec<T> read(const T* plane, int k, std::int64_t i) const { return gather(plane, at[k] + i); }

 private:
  void find_along(const GridSpace<n>& s, int d, const T* grid, std::int64_t points,
                  std::int32_t (&element)[taps][block]) {
    using Padding = GridReading::Padding;
    const auto size = static_cast<T>(s.size[d]), last = size - 1;
    const T stretch = s.how.align_corners ? last / 2 : size / 2, shift = s.how.align_corners ? T(0) : T(0.5);
    const T low = s.how.align_corners ? T(0) : T(-0.5), span = s.how.align_corners ? last : size;
    T position[block];
    for (std::int64_t i = 0; i < points; ++i) {
      position[i] = (grid[i * n + d] + 1) * stretch - shift;
      slope[d][i] = stretch;
    }
    if (taps < 4 && s.how.padding == Padding::reflection) {
      for (std::int64_t i = 0; i < points; ++i) reflect_position(position[i], slope[d][i], low, span);
    }
    if (taps < 4 && s.how.padding != Padding::zeros) {
      for (std::int64_t i = 0; i < points; ++i) {
        const T p = position[i];
        slope[d][i] = p > 0 && p < last ? slope[d][i] : T(0);
        position[i] = p <= 0 ? T(0) : p >= last ? last : p;
      }
    }
    // Further outside it is the same, but reflected positions repeat.
    const T least = taps == 4 ? T(-0x1p24) : T(-2), most = taps == 4 ? T(0x1p24) : size;
    for (std::int64_t i = 0; i < points; ++i) {
      const T p = taps == 1 ? std::rint(position[i]) : position[i];
      T held = p >= least ? p : least;  // also for NaN
      held = held <= most ? held : most;
      const auto whole = static_cast<std::int32_t>(held);  // std::floor would be a function call per point
      const std::int32_t below = whole - static_cast<std::int32_t>(held < static_cast<T>(whole));
      const T part = held - static_cast<T>(below);
      if constexpr (taps == 4) {
        T w[4], moved[4];
        cubic_weights(part, w, moved);
        for (int t = 0; t < 4; ++t) along[d][t][i] = w[t], change[d][t][i] = moved[t];
      } else {
        along[d][0][i] = 1 - part;
        if constexpr (taps == 2) along[d][1][i] = part, change[d][0][i] = T(-1), change[d][1][i] = T(1);
      }
      for (int t = 0; t < taps; ++t) element[t][i] = below + t - (taps == 4 ? 1 : 0);
    }
    const auto end = static_cast<std::int32_t>(s.size[d]);
    for (int t = 0; t < taps; ++t) {
      if (taps == 4 && s.how.padding != Padding::zeros) {
        for (std::int64_t i = 0; i < points; ++i) {
          auto p = static_cast<T>(element[t][i]), turn = T(0);
          if (s.how.padding == Padding::reflection) reflect_position(p, turn, low, span);
          element[t][i] = static_cast<std::int32_t>(p <= 0 ? T(0) : p >= last ? last : std::rint(p));
        }
      }
      for (std::int64_t i = 0; i < points; ++i) {
        const std::int32_t e = element[t][i];
        element[t][i] = (e >= 0) & (e < end) ? e : -1;
      }
    }
  }
};

// f(sample, first point, points) for every block of every sample.
template <class Here, int n, class F> void for_blocks(const GridSpace<n>& s, const F& f) {
  constexpr std::int64_t block = Here::block;
  const std::int64_t blocks = (s.points + block - 1) / block, work = block * (s.channels + 8) * Here::count / 2;
  parallel_for(s.batch * blocks, std::max<std::int64_t>(1, grain_size / work), [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t u = from; u < to; ++u) {
      const std::int64_t first = u % blocks * block;
      f(u / blocks, first, std::min(block, s.points - first));
    }
  });
}

template <class T, int n, int taps> void forward(T* y, const T* x, const T* grid, const GridSpace<n>& s) {
  using Here = Neighbours<T, n, taps>;
  for_blocks<Here>(s, [&](std::int64_t sample, std::int64_t first, std::int64_t points) {
    Here here;
    here.find(s, grid + (sample * s.points + first) * n, points);
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const T* plane = x + (sample * s.channels + c) * s.plane;
      T sums[Here::block];
      for (std::int64_t i = 0; i < points; i += Here::width) {
        Vec<T> sum = load(here.weight[0] + i) * here.read(plane, 0, i);
#pragma GCC unroll 16
        for (int k = 1; k < Here::count; ++k) sum = xsimd::fma(load(here.weight[k] + i), here.read(plane, k, i), sum);
        store(sums + i, sum);
      }
      std::copy_n(sums, points, y + (sample * s.channels + c) * s.points + first);
    }
  });
}

template <class T, int n, int taps> void input_gradient(T* dx, const T* g, const T* grid, const GridSpace<n>& s) {
  using Here = Neighbours<T, n, taps>;
  constexpr std::int64_t group = 4;  // channels that share the neighbours of a block
  const std::int64_t groups = (s.channels + group - 1) / group;
  parallel_for(s.batch * groups, 1, [&](std::int64_t from, std::int64_t to) {
    Here here;
    for (std::int64_t u = from; u < to; ++u) {
      const std::int64_t sample = u / groups, begin = u % groups * group, end = std::min(begin + group, s.channels);
      T* planes = dx + sample * s.channels * s.plane;
      std::fill(planes + begin * s.plane, planes + end * s.plane, T(0));
      for (std::int64_t first = 0; first < s.points; first += Here::block) {
        const std::int64_t points = std::min(Here::block, s.points - first);
        here.find(s, grid + (sample * s.points + first) * n, points);
        for (std::int64_t c = begin; c < end; ++c) {
          T* plane = planes + c * s.plane;
          const T* gradient = g + (sample * s.channels + c) * s.points + first;
          for (std::int64_t i = 0; i < points; ++i) {
            for (int k = 0; k < Here::count; ++k)
              if (here.at[k][i] >= 0) plane[here.at[k][i]] += here.weight[k][i] * gradient[i];
          }
        }
      }
    }
  });
}

template <class T, int n, int taps>
void grid_gradient(T* dgrid, const T* g, const T* x, const T* grid, const GridSpace<n>& s) {
  using Here = Neighbours<T, n, taps>;
  for_blocks<Here>(s, [&](std::int64_t sample, std::int64_t first, std::int64_t points) {
    Here here;
    T sums[n][Here::block] = {}, change[n][Here::count][Here::block];
    const T* numbers = grid + (sample * s.points + first) * n;
    here.find(s, numbers, points);
    for (int d = 0; d < n; ++d) {  // derivative of a weight along d
      for (int k = 0; k < Here::count; ++k) {
        for (std::int64_t i = 0; i < points; ++i) {
          T w = here.change[d][tap_of<taps>(k, d)][i];
#pragma GCC unroll 8
          for (int e = 0; e < n; ++e)
            if (e != d) w *= here.along[e][tap_of<taps>(k, e)][i];
          change[d][k][i] = w;
        }
      }
    }
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const T* plane = x + (sample * s.channels + c) * s.plane;
      const T* gradient = g + (sample * s.channels + c) * s.points + first;
      for (std::int64_t i = 0; i < points; i += Here::width) {
        Vec<T> moved[n];
        for (auto& v : moved) v = Vec<T>(T(0));
#pragma GCC unroll 16
        for (int k = 0; k < Here::count; ++k) {
          const Vec<T> v = here.read(plane, k, i);
#pragma GCC unroll 8
          for (int d = 0; d < n; ++d) moved[d] = xsimd::fma(load(change[d][k] + i), v, moved[d]);
        }
        const std::int64_t left = points - i;
        const Vec<T> arrived = left < Here::width ? load_part(gradient + i, left) : load(gradient + i);
#pragma GCC unroll 8
        for (int d = 0; d < n; ++d) store(sums[d] + i, xsimd::fma(arrived, moved[d], load(sums[d] + i)));
      }
    }
    T* result = dgrid + (sample * s.points + first) * n;
    for (std::int64_t i = 0; i < points; ++i)
      for (int d = 0; d < n; ++d) result[i * n + d] = sums[d][i] * here.slope[d][i];
  });
}

}  // namespace

void read_grid(const View& y, const View& x, const View& grid, const GridReading& how) {
  visit_grid_space(x, how, [&]<class T, int n, int taps> {
    forward<T, n, taps>(y.as<T>(), x.as<T>(), grid.as<T>(), GridSpace<n>(x, grid, how));
  });
}
void read_grid_input_gradient(const View& dx, const View& g, const View& grid, const GridReading& how) {
  visit_grid_space(dx, how, [&]<class T, int n, int taps> {
    input_gradient<T, n, taps>(dx.as<T>(), g.as<T>(), grid.as<T>(), GridSpace<n>(dx, grid, how));
  });
}
void read_grid_grid_gradient(const View& dgrid, const View& g, const View& x, const View& grid,
                             const GridReading& how) {
  visit_grid_space(x, how, [&]<class T, int n, int taps> {
    if constexpr (taps > 1)
      grid_gradient<T, n, taps>(dgrid.as<T>(), g.as<T>(), x.as<T>(), grid.as<T>(), GridSpace<n>(x, grid, how));
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
