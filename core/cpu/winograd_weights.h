// Transforms of weights [out, in, 3, 3] of any strides and floating dtype for F(4x4, 3x3), and back.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "core/cpu/gemm_tile.h"
#include "core/cpu/transpose.h"
#include "core/cpu/winograd_transform.h"

namespace mantissa::cpu_backend::MANTISSA_ISA::winograd_transform {

// The weights as a matrix of 3 x 3 taps: a product sums over `depth` and is vectorised over `lane`. The input gradient
// sums over output channels and uses the taps rotated by 180 degrees.
struct Weights {
  View view;
  std::int64_t depth, lanes, depth_stride, lane_stride, row, column;
  bool turned;
  Weights(const View& w, bool transposed)
      : view(w),
        depth(w.size(transposed ? 0 : 1)),
        lanes(w.size(transposed ? 1 : 0)),
        depth_stride(w.strides[transposed ? 0 : 1]),
        lane_stride(w.strides[transposed ? 1 : 0]),
        row(w.strides[2]),
        column(w.strides[3]),
        turned(transposed) {}
  bool has_runs() const { return row == 3 && column == 1; }  // the nine taps are contiguous
};

inline constexpr std::int64_t depth_step = 16;  // processed at once: whole cache lines
inline constexpr std::int64_t most_taps = depth_step * 9;

// Eight adjacent elements per lane: to[t * width + l] = from[l * row + t], and back. Two 16-bit elements are transposed
// as one word.
#if defined(__AVX2__)
using Words = xsimd::batch<std::uint32_t, V::arch_type>;
inline __attribute__((always_inline)) void load_eight(const BFloat16* from, std::int64_t row, float* to) {
  transpose::Lanes pair[4];
  transpose::load_columns(from, row, pair);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const auto words = xsimd::bitwise_cast<Words>(V(pair[j]));
    store(to + 2 * j * width, xsimd::bitwise_cast<V>(words << 16));
    store(to + (2 * j + 1) * width, xsimd::bitwise_cast<V>(words & Words(0xffff0000)));
  }
}
inline Words rounded_to_bfloat16(const float* from) {  // in the upper half, as float_to_bfloat16 in core/half.h
  const V v = load(from);
  const auto bits = xsimd::bitwise_cast<Words>(v);
  const Words rounded = bits + ((bits >> 16) & Words(1)) + Words(0x7fff);
  return xsimd::bitwise_cast<Words>(xsimd::select(
      xsimd::isnan(v), xsimd::bitwise_cast<V>(bits | Words(0x400000)), xsimd::bitwise_cast<V>(rounded)));
}
inline void store_eight(const float* from, BFloat16* to, std::int64_t row) {
  transpose::Lanes pair[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const Words first = rounded_to_bfloat16(from + 2 * j * width) >> 16;
    const Words second = rounded_to_bfloat16(from + (2 * j + 1) * width) & Words(0xffff0000);
    pair[j] = xsimd::bitwise_cast<V>(first | second);
  }
  transpose::store_columns(pair, to, row);
}
#else
inline void load_eight(const BFloat16* from, std::int64_t row, float* to) {
  for (std::int64_t i = 0; i < 8 * width; ++i) to[i] = static_cast<float>(from[i % width * row + i / width]);
}
inline void store_eight(const float* from, BFloat16* to, std::int64_t row) {
  for (std::int64_t i = 0; i < 8 * width; ++i) to[i % width * row + i / width] = static_cast<BFloat16>(from[i]);
}
#endif
// The same for n >= 8 adjacent elements: the last eight may overlap those before.
inline void load_eights(const BFloat16* from, std::int64_t row, std::int64_t n, float* to) {
  for (std::int64_t t = 0; t < n; t += 8) {
    const std::int64_t at = std::min(t, n - 8);
    load_eight(from + at, row, to + at * width);
  }
}
inline void store_eights(const float* from, BFloat16* to, std::int64_t row, std::int64_t n) {
  for (std::int64_t t = 0; t < n; t += 8) {
    const std::int64_t at = std::min(t, n - 8);
    store_eight(from + at * width, to + at, row);
  }
}

// taps[(i * 9 + tap) * width + l] = the tap of depth d + i and lane + l; zero for lanes that do not exist.
template <class T>
void load_taps(const Weights& w, std::int64_t d, std::int64_t step, std::int64_t lane, std::int64_t lanes,
               float* taps) {
  const T* from = static_cast<const T*>(w.view.data) + d * w.depth_stride + lane * w.lane_stride;
  if (!w.has_runs() || lanes < width) {
    std::fill_n(taps, step * 9 * width, 0.0f);
    for (std::int64_t l = 0; l < lanes; ++l) {
      for (std::int64_t i = 0; i < step; ++i) {
        const T* at = from + l * w.lane_stride + i * w.depth_stride;
        for (int t = 0; t < 9; ++t)
          taps[(i * 9 + t) * width + l] = static_cast<float>(at[t / 3 * w.row + t % 3 * w.column]);
      }
    }
    return;
  }
  // Runs of contiguous taps: over all depths at once if these are contiguous.
  const std::int64_t joined = w.depth_stride == 9 ? step : 1, run = joined * 9;
  alignas(64) float wide[width * most_taps];
  for (std::int64_t i = 0; i < step; i += joined) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      load_eights(from + i * w.depth_stride, w.lane_stride, run, taps + i * 9 * width);
      continue;
    }
    const float* rows = wide;
    std::int64_t row = run;
    if constexpr (sizeof(T) == sizeof(float)) {
      rows = from + i * w.depth_stride;
      row = w.lane_stride;
    } else {
      for (std::int64_t l = 0; l < width; ++l) {
        convert_run(wide + l * run, from + i * w.depth_stride + l * w.lane_stride, 1, run);
      }
    }
    float* to = taps + i * 9 * width;
    std::int64_t t = 0;
    for (; t + 4 <= run; t += 4) transpose::four_columns(rows + t, row, to + t * width, width);
    for (; t < run; ++t) {
      for (std::int64_t l = 0; l < width; ++l) to[t * width + l] = rows[l * row + t];
    }
  }
}

// The reverse, for weights that are not rotated; writes existing lanes only.
template <class T>
void store_taps(const Weights& w, std::int64_t d, std::int64_t step, std::int64_t lane, std::int64_t lanes,
                const float* taps) {
  T* to = static_cast<T*>(w.view.data) + d * w.depth_stride + lane * w.lane_stride;
  if (!w.has_runs() || lanes < width || w.depth_stride != 9) {
    for (std::int64_t l = 0; l < lanes; ++l) {
      for (std::int64_t i = 0; i < step; ++i) {
        T* at = to + l * w.lane_stride + i * w.depth_stride;
        for (int t = 0; t < 9; ++t)
          at[t / 3 * w.row + t % 3 * w.column] = static_cast<T>(taps[(i * 9 + t) * width + l]);
      }
    }
    return;
  }
  const std::int64_t run = step * 9;
  if constexpr (std::is_same_v<T, BFloat16>) return store_eights(taps, to, w.lane_stride, run);
  alignas(64) float wide[width * most_taps];
  float* rows = wide;
  std::int64_t row = run;
  if constexpr (sizeof(T) == sizeof(float)) {
    rows = to;
    row = w.lane_stride;
  }
  std::int64_t t = 0;
  for (; t + 4 <= run; t += 4) transpose::four_rows(taps + t * width, width, rows + t, row);
  for (; t < run; ++t) {
    for (std::int64_t l = 0; l < width; ++l) rows[l * row + t] = taps[t * width + l];
  }
  if constexpr (sizeof(T) != sizeof(float)) {
    for (std::int64_t l = 0; l < width; ++l) convert_run(to + l * w.lane_stride, wide + l * run, 1, run);
  }
}

// Calls f<T> for the supported weight dtypes.
template <class F>
void with_dtype(const Weights& w, F&& f) {
  switch (w.view.dtype) {
    case f16:
      return f.template operator()<Half>();
    case bf16:
      return f.template operator()<BFloat16>();
    default:
      return f.template operator()<float>();
  }
}

// G g G^T of depths [begin, end) and the lanes of one panel of gemm_tile::max_columns, starting at `lane`: to[p *
// position + (d - begin) * max_columns + (l - lane)]. Zero for lanes that do not exist.
inline void transform_panel(const Weights& w, std::int64_t begin, std::int64_t end, std::int64_t lane, float* to,
                            std::int64_t position) {
  alignas(64) float taps[most_taps * width];
  const int turn = w.turned ? 8 : 0;
  for (std::int64_t v = 0; v < gemm_tile::max_columns; v += width) {
    const std::int64_t lanes = std::clamp<std::int64_t>(w.lanes - lane - v, 0, width);
    for (std::int64_t d = begin; d < end; d += depth_step) {
      const std::int64_t step = std::min(depth_step, end - d);
      with_dtype(w, [&]<class T> { load_taps<T>(w, d, step, lane + v, lanes, taps); });
      for (std::int64_t i = 0; i < step; ++i) {
        float* row = to + (d - begin + i) * gemm_tile::max_columns + v;
        const float* from = taps + i * 9 * width;
        both_ways<3, 6>(
            WeightLine{}, [&](int y, int x) { return load(from + std::abs(turn - (y * 3 + x)) * width); },
            [&](int y, int x, const V& u) { store(row + (y * 6 + x) * position, u); });
      }
    }
  }
}

// G^T r G of depths [begin, end) and lanes [lane, lane + lanes), to the weights. r[p * position + (d - begin) * row +
// (l - lane)] with whole vectors of lanes.
inline void untransform(const Weights& w, std::int64_t begin, std::int64_t end, std::int64_t lane, std::int64_t lanes,
                        const float* r, std::int64_t position, std::int64_t row) {
  alignas(64) float taps[most_taps * width];
  for (std::int64_t v = 0; v < lanes; v += width) {
    const std::int64_t real = std::min(width, lanes - v);
    for (std::int64_t d = begin; d < end; d += depth_step) {
      const std::int64_t step = std::min(depth_step, end - d);
      for (std::int64_t i = 0; i < step; ++i) {
        const float* from = r + (d - begin + i) * row + v;
        float* at = taps + i * 9 * width;
        both_ways<6, 3>(
            WeightGradientLine{}, [&](int y, int x) { return load(from + (y * 6 + x) * position); },
            [&](int y, int x, const V& g) { store(at + (y * 3 + x) * width, g); });
      }
      with_dtype(w, [&]<class T> { store_taps<T>(w, d, step, lane + v, real, taps); });
    }
  }
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::winograd_transform
