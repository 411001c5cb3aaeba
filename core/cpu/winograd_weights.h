// Weights [out, in, 3, 3] of any strides and floating dtype, through the transforms of F(4x4, 3x3) and back.
#pragma once

#include <algorithm>

#include "core/cpu/gemm_tile.h"
#include "core/cpu/winograd_transform.h"

namespace mantissa::cpu_backend::MANTISSA_ISA::winograd_transform {

// The weights as a matrix of 3 x 3 taps: a product sums over `depth` and has a vector over `lane`. The gradient of
// the input sums over output channels and sees the taps turned around.
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
  std::int64_t at(std::int64_t d, std::int64_t lane) const { return d * depth_stride + lane * lane_stride; }
};

inline constexpr std::int64_t depth_step = 16;  // as many are moved at once: whole lines of memory

// G g G^T of depths [begin, end) and the lanes of one panel of gemm_tile::max_columns, from `lane` on:
// to[p * position + (d - begin) * max_columns + (l - lane)]. Lanes that do not exist become zero.
inline void transform_panel(const Weights& w, std::int64_t begin, std::int64_t end, std::int64_t lane, float* to,
                            std::int64_t position) {
  alignas(64) float taps[depth_step * 9 * width];
  for (std::int64_t v = 0; v < gemm_tile::max_columns; v += width) {
    const std::int64_t lanes = std::clamp<std::int64_t>(w.lanes - lane - v, 0, width);
    for (std::int64_t d = begin; d < end; d += depth_step) {
      const std::int64_t step = std::min(depth_step, end - d);
      if (lanes < width) std::fill_n(taps, step * 9 * width, 0.0f);
      visit_floating(w.view.dtype, [&]<class T> {
        for (std::int64_t l = 0; l < lanes; ++l) {
          for (std::int64_t i = 0; i < step; ++i) {
            const T* from = static_cast<const T*>(w.view.data) + w.at(d + i, lane + v + l);
            float* at = taps + i * 9 * width + l;
            for (int y = 0; y < 3; ++y) {
              for (int x = 0; x < 3; ++x)
                at[(y * 3 + x) * width] = static_cast<float>(from[y * w.row + x * w.column]);
            }
          }
        }
      });
      for (std::int64_t i = 0; i < step; ++i) {
        float* row = to + (d - begin + i) * gemm_tile::max_columns + v;
        const float* from = taps + i * 9 * width;
        const int turn = w.turned ? 8 : 0;
        both_ways<3, 6>(
            WeightLine{}, [&](int y, int x) { return load(from + std::abs(turn - (y * 3 + x)) * width); },
            [&](int y, int x, const V& u) { store(row + (y * 6 + x) * position, u); });
      }
    }
  }
}

// G^T r G of depths [begin, end) and lanes [lane, lane + lanes), to the weights.
// r[p * position + (d - begin) * row + (l - lane)] with whole vectors of lanes.
inline void untransform(const Weights& w, std::int64_t begin, std::int64_t end, std::int64_t lane, std::int64_t lanes,
                        const float* r, std::int64_t position, std::int64_t row) {
  alignas(64) float taps[depth_step * 9 * width];
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
      visit_floating(w.view.dtype, [&]<class T> {
        for (std::int64_t l = 0; l < real; ++l) {
          for (std::int64_t i = 0; i < step; ++i) {
            T* to = static_cast<T*>(w.view.data) + w.at(d + i, lane + v + l);
            const float* at = taps + i * 9 * width + l;
            for (int y = 0; y < 3; ++y) {
              for (int x = 0; x < 3; ++x) to[y * w.row + x * w.column] = static_cast<T>(at[(y * 3 + x) * width]);
            }
          }
        }
      });
    }
  }
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::winograd_transform
