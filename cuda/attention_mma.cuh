// Attention arithmetic on Tensor Cores: mma.sync with f32 accumulation. A warp owns 16 * pieces rows, so a row is held
// by four neighbouring lanes, and the weights stay in registers to become an operand of the next product. For that they
// are converted back to 16 bits: rounded (as FlashAttention does) where autocast asks for speed, else (`exact`) as the
// sum of two 16-bit values, the rounded weight and the remainder, with one product each: the error is 2^-22 of a weight
// in f16 and 2^-17 in bf16, far below the rounding of the result. For the same reason `exact` does not compute delta
// from the rounded y. Tiles are loaded by cp.async; their 16-byte chunks are swizzled as in amp/kernels/gemm_mma.cuh,
// so that ldmatrix has no bank conflicts.
#pragma once

#include <type_traits>

#include "cuda/attention.cuh"
#include "cuda/ptx.cuh"

namespace mantissa::cuda_backend::flash {

template <class T, int width_, int pieces, int columns_, bool exact> struct TensorCores {
  using Compute = float;
  using Stored = T;
  static constexpr int warps = 4, threads = 32 * warps, stages = 2, chunk = 8;  // a chunk: 16 bytes
  static constexpr int width = width_, rows = 16 * pieces * warps, columns = columns_, row_chunks = width / chunk;
  static constexpr int slots = 2 * pieces, score_columns = columns / 4, result_columns = width / 4, lanes = 4;
  static constexpr int spare_bytes = 0;
  static constexpr int tile_bytes(int count) { return count * width * 2; }

  template <int n> struct Product {  // own rows x 8 * n columns
    ptx::Accumulator piece[pieces][n];
    __device__ float& at(int slot, int i) { return piece[slot / 2][i / 2].v[slot % 2 * 2 + i % 2]; }
    __device__ float at(int slot, int i) const { return piece[slot / 2][i / 2].v[slot % 2 * 2 + i % 2]; }
  };
  using Scores = Product<columns / 8>;
  using Result = Product<width / 8>;
  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }
  __device__ static int first_row() { return static_cast<int>(threadIdx.x / 32) * 16 * pieces; }
  __device__ static int row_of(int slot) { return first_row() + 8 * slot + lane() / 4; }
  static constexpr bool has_pairs = !exact;  // in pairs, exact ones would spill more registers
  __device__ static int column_of(int i) { return i / 2 * 8 + lane() % 4 * 2 + i % 2; }

  // Rows of 64 bytes: two share a 128-byte line, so the pair number is mixed into the swizzle.
  __device__ static int offset(int row, int c) {
    return (row * row_chunks + (row_chunks == 4 ? c ^ ((row >> 1) & 3) : c ^ (row & 7))) * 16;
  }

  // Loads rows [first, first + count) of a matrix with `end` rows; elements beyond it, and beyond `used` columns, are
  // zero.
  __device__ static void fetch(char* to, const T* from, std::int64_t stride, std::int64_t first, std::int64_t end,
                               int used, int count) {
    const bool whole = (stride % chunk) == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0;  // for all threads
    for (int i = static_cast<int>(threadIdx.x); i < count * row_chunks; i += threads) {
      const int r = i / row_chunks, c = i % row_chunks;
      const int left = first + r < end ? used - c * chunk : 0, valid = left < 0 ? 0 : left < chunk ? left : chunk;
      const T* source = valid > 0 ? from + (first + r) * stride + c * chunk : from;
      char* target = to + offset(r, c);
      if (whole) {
        ptx::copy_async_16(target, source, 2 * valid);
      } else {
        Pack<T> e;
#pragma unroll
        for (int j = 0; j < chunk; ++j) e.v[j].bits = j < valid ? source[j].bits : std::uint16_t{0};
        *reinterpret_cast<Pack<T>*>(target) = e;
      }
    }
  }
  __device__ static void commit() { ptx::copy_async_commit(); }
  __device__ static void wait() { ptx::copy_async_wait<0>(); }

  // s = own @ other^T over the head size.
  __device__ static void scores(Scores& s, const char* own, const char* other) {
    const int line = lane() % 8, lower = lane() / 8 % 2 * 8, right = lane() / 16;  // the row address of this lane
#pragma unroll
    for (int m = 0; m < pieces; ++m) {
#pragma unroll
      for (int j = 0; j < columns / 8; ++j) s.piece[m][j] = {};
    }
#pragma unroll(width <= 128 ? width / 16 : 4)
    for (int k = 0; k < width; k += 16) {
      ptx::FragmentA a[pieces];
#pragma unroll
      for (int m = 0; m < pieces; ++m) {
        ptx::load_matrices<false>(a[m].v, own + offset(first_row() + 16 * m + lower + line, k / chunk + right));
      }
#pragma unroll
      for (int j = 0; j < columns / 8; j += 2) {
        std::uint32_t r[4];
        ptx::load_matrices<false>(r, other + offset(8 * j + lower + line, k / chunk + right));
        const ptx::FragmentB left_half{{r[0], r[2]}}, right_half{{r[1], r[3]}};
#pragma unroll
        for (int m = 0; m < pieces; ++m) {
          ptx::mma<T>(s.piece[m][j], a[m], left_half);
          ptx::mma<T>(s.piece[m][j + 1], a[m], right_half);
        }
      }
    }
  }

  template <class U> __device__ static float wide(std::uint32_t bits) {
    U half;
    half.bits = static_cast<std::uint16_t>(bits);
    return static_cast<float>(half);
  }
  // Packs two floats as 16-bit values, leaving the remainders in `low` and `high`.
  template <class U> __device__ static std::uint32_t take_pair(float& low, float& high) {
    const U a(low), b(high);
    low -= static_cast<float>(a);
    high -= static_cast<float>(b);
    return a.bits | static_cast<std::uint32_t>(b.bits) << 16;
  }

  // r += s @ other. The accumulators of two neighbouring 16x8 pieces already have the layout of the left operand.
  // of_gradients: s may have any magnitude, beyond f16's exponent range; with `exact`, s and `other` are then split
  // into two bf16 each, which represent an f16 exactly.
  template <bool of_gradients>
  __device__ static void multiply(Result& result, const Scores& s, const char* other, char*) {
    constexpr bool in_bfloat16 = exact && of_gradients && std::is_same_v<T, Half>;
    using U = std::conditional_t<in_bfloat16, BFloat16, T>;
    constexpr int terms = exact ? 2 : 1, other_terms = in_bfloat16 ? 2 : 1;
    const int line = lane() % 8, lower = lane() / 8 % 2, below = lane() / 16 * 8;
#pragma unroll
    for (int k = 0; k < columns; k += 16) {
      ptx::FragmentA a[terms][pieces];
#pragma unroll
      for (int m = 0; m < pieces; ++m) {
        ptx::Accumulator x = s.piece[m][k / 8], z = s.piece[m][k / 8 + 1];
#pragma unroll
        for (int t = 0; t < terms; ++t) {
          a[t][m] = {{take_pair<U>(x.v[0], x.v[1]), take_pair<U>(x.v[2], x.v[3]), take_pair<U>(z.v[0], z.v[1]),
                      take_pair<U>(z.v[2], z.v[3])}};
        }
      }
#pragma unroll
      for (int j = 0; j < width / 8; j += 2) {
        std::uint32_t r[other_terms][4];
        ptx::load_matrices<true>(r[0], other + offset(k + below + line, j + lower));
        if constexpr (in_bfloat16) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float low = wide<T>(r[0][i]), high = wide<T>(r[0][i] >> 16);
            r[0][i] = take_pair<U>(low, high);
            r[1][i] = take_pair<U>(low, high);
          }
        }
#pragma unroll
        for (int o = 0; o < other_terms; ++o) {
          const ptx::FragmentB left_half{{r[o][0], r[o][2]}}, right_half{{r[o][1], r[o][3]}};
#pragma unroll
          for (int t = 0; t < terms; ++t) {
#pragma unroll
            for (int m = 0; m < pieces; ++m) {
              ptx::mma<U>(result.piece[m][j], a[t][m], left_half);
              ptx::mma<U>(result.piece[m][j + 1], a[t][m], right_half);
            }
          }
        }
      }
    }
  }
};

// The configuration for one head size: forward, with one result, has more rows per warp than backward with two. A block
// must fit into 99 KiB (sm_86, sm_89, sm_120).
template <class T, int width, bool exact> void launch_mma_forward(const AttentionProblem& p) {
  launch_forward<TensorCores<T, width, width <= 128 ? 2 : 1, width <= 64 ? 64 : 32, exact>>(p);
}
template <class T, int width, bool exact> void launch_mma_backward(const AttentionProblem& p) {
  constexpr int columns = width == 64 ? 64 : width <= 128 ? 32 : 16;
  using Backward = TensorCores<T, width, 1, columns, exact>;
  static_assert(shared_bytes<Backward>(2) <= 99 * 1024);
  launch_backward<Backward, width <= 128, exact>(p);
}
template <class T, int width, bool exact> void launch_mma(const AttentionProblem& p, bool backward) {
  if (backward) launch_mma_backward<T, width, exact>(p);
  else launch_mma_forward<T, width, exact>(p);
}

}  // namespace mantissa::cuda_backend::flash
