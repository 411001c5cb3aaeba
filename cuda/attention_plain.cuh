// Attention arithmetic with ordinary multiplication, for f32 and f64: 256 threads as 16 x 16, each with every sixteenth
// row and column of a product. Rows in shared memory are padded by one element against bank conflicts.
#pragma once

#include "cuda/attention.cuh"

namespace mantissa::cuda_backend::flash {

template <class C, int width_, int each> struct Plain {  // each: rows, and columns of scores, per thread
  using Compute = C;
  using Stored = C;
  static constexpr int threads = 256, width = width_, rows = 16 * each, columns = 16 * each, stages = 1;
  static constexpr int slots = each, score_columns = each, result_columns = width / 16, lanes = 16;
  static constexpr int stride = width + 1, weight_stride = columns + 1, element = static_cast<int>(sizeof(C));
  static constexpr int tile_bytes(int count) { return (count * stride * element + 15) / 16 * 16; }
  static constexpr int spare_bytes = rows * weight_stride * element;

  template <int n> struct Product {
    C v[each][n] = {};
    __device__ C& at(int slot, int i) { return v[slot][i]; }
    __device__ C at(int slot, int i) const { return v[slot][i]; }
  };
  using Scores = Product<each>;
  using Result = Product<width / 16>;
  __device__ static int row_of(int slot) { return static_cast<int>(threadIdx.x / 16) + 16 * slot; }
  static constexpr bool has_pairs = false;
  __device__ static int column_of(int i) { return static_cast<int>(threadIdx.x % 16) + 16 * i; }

  __device__ static void fetch(char* to, const C* from, std::int64_t row_stride, std::int64_t first, std::int64_t end,
                               int used, int count) {
    C* tile = reinterpret_cast<C*>(to);
    for (int i = static_cast<int>(threadIdx.x); i < count * width; i += threads) {
      const int r = i / width, c = i % width;
      tile[r * stride + c] = first + r < end && c < used ? from[(first + r) * row_stride + c] : C(0);
    }
  }
  __device__ static void commit() {}
  __device__ static void wait() {}

  __device__ static void scores(Scores& s, const char* own, const char* other) {
    const C* a = reinterpret_cast<const C*>(own) + row_of(0) * stride;
    const C* b = reinterpret_cast<const C*>(other) + column_of(0) * stride;
    s = {};
#pragma unroll 4
    for (int k = 0; k < width; ++k) {
      C left[each], right[each];
#pragma unroll
      for (int i = 0; i < each; ++i) left[i] = a[16 * i * stride + k], right[i] = b[16 * i * stride + k];
#pragma unroll
      for (int i = 0; i < each; ++i) {
#pragma unroll
        for (int j = 0; j < each; ++j) s.v[i][j] += left[i] * right[j];
      }
    }
  }
  // Weights pass through shared memory. A row is written and read by the same sixteen lanes, so syncing the warp is
  // enough.
  template <bool of_gradients>
  __device__ static void multiply(Result& r, const Scores& s, const char* other, char* spare) {
    C* weights = reinterpret_cast<C*>(spare);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < each; ++i) {
#pragma unroll
      for (int j = 0; j < each; ++j) weights[row_of(i) * weight_stride + column_of(j)] = s.v[i][j];
    }
    __syncwarp();
    const C *a = weights + row_of(0) * weight_stride, *b = reinterpret_cast<const C*>(other) + column_of(0);
#pragma unroll 2
    for (int k = 0; k < columns; ++k) {
      C left[each];
#pragma unroll
      for (int i = 0; i < each; ++i) left[i] = a[16 * i * weight_stride + k];
#pragma unroll
      for (int j = 0; j < width / 16; ++j) {
        const C right = b[k * stride + 16 * j];
#pragma unroll
        for (int i = 0; i < each; ++i) r.v[i][j] += left[i] * right;
      }
    }
  }
};

// Tiles as large as shared memory allows for four operands: a Hopper GPU's, else half as many rows and columns.
template <class C, int width, int each = (width <= 128 ? 4 : 2) / (sizeof(C) == 8 ? 2 : 1)>
void launch_plain(const AttentionProblem& p, bool backward) {
  using A = Plain<C, width, each>;
  constexpr std::size_t needed = shared_bytes<A>(2);
  if constexpr (needed > 99 * 1024 && each > 1) {
    if (needed > most_shared()) return launch_plain<C, width, each / 2>(p, backward);
  }
  if (backward) launch_backward<A, true, false>(p);
  else launch_forward<A>(p);
}

}  // namespace mantissa::cuda_backend::flash
