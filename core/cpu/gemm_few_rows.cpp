// Products of few rows with a weight stored along k: dot products, several rows of a by several of b at a time, so that
// loads do not outnumber multiplications. With one row they run at memory bandwidth.
#include "core/gemm_few_rows.h"

#include <algorithm>

#include "core/cpu/vectors.h"
#include "core/scratch.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

using V = Vec<float>;
// Sums take 24 of 32 registers, or 9 of 16.
#if defined(__AVX512F__)
constexpr int tile_rows = 4, tile_columns = 6;
#else
constexpr int tile_rows = 3, tile_columns = 3;
#endif
// Several tiles of rows use the same part of b one after the other, while it is in the L1 cache.
constexpr std::int64_t part_of_k = 256;
// Larger weights (in bytes) do not fit a core's own cache: those of the next tile are prefetched.
constexpr std::int64_t own_cache = 512 << 10;

float add_lanes(const V& v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps(v);
#elif defined(__AVX2__)
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
#else
  return fold_lanes<Sum, float>(v);
#endif
}

struct Part {
  std::int64_t row, column, first, last;  // of k: [first, last)
  bool ahead;
};

// sums[i * Columns + j] += the products of row + i and column + j; the first part initialises them.
template <int Rows, int Columns, class T> void multiply_tile(const FewRows& p, const Part& t, V* sums) {
  const float* a = p.a + t.row * p.a_row + t.first;
  const T* b = static_cast<const T*>(p.b) + t.column * p.b_row + t.first;
  const std::int64_t a_row = p.a_row, b_row = p.b_row;
  V sum[Rows][Columns];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < Columns; ++j) sum[i][j] = t.first > 0 ? sums[i * Columns + j] : V(0.0f);
  }
  const auto multiply = [&](const auto& lanes, std::int64_t at) {
    V right[Columns];
#pragma GCC unroll 8
    for (int j = 0; j < Columns; ++j) right[j] = lanes.load(b + j * b_row + at);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const V left = lanes.load(a + i * a_row + at);
#pragma GCC unroll 8
      for (int j = 0; j < Columns; ++j) sum[i][j] = xsimd::fma(left, right[j], sum[i][j]);
    }
  };
  if (t.ahead) {
    const T* next = b + Columns * b_row;
    for_vectors<float>(t.last - t.first, [&](const auto& lanes, std::int64_t at) {
#pragma GCC unroll 8
      for (int j = 0; j < Columns; ++j) __builtin_prefetch(next + j * b_row + at, 0, 2);
      multiply(lanes, at);
    });
  } else {
    for_vectors<float>(t.last - t.first, multiply);
  }
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < Columns; ++j) sums[i * Columns + j] = sum[i][j];
  }
}

template <int Columns, class T, class R> void multiply_columns(const FewRows& p, std::int64_t column, bool far) {
  V sums[most_few_rows * Columns];
  const std::int64_t step = p.m > tile_rows ? part_of_k : p.k;
  for (std::int64_t k = 0; k < p.k; k += step) {
    for (std::int64_t row = 0; row < p.m; row += tile_rows) {
      const Part t{row, column, k, std::min(p.k, k + step), far && row == 0};
      V* to = sums + row * Columns;
      switch (std::min<std::int64_t>(tile_rows, p.m - row)) {
        case 1: multiply_tile<1, Columns, T>(p, t, to); break;
        case 2: multiply_tile<2, Columns, T>(p, t, to); break;
        case 3: multiply_tile<3, Columns, T>(p, t, to); break;
        default: multiply_tile<tile_rows, Columns, T>(p, t, to); break;
      }
    }
  }
  const T* bias = static_cast<const T*>(p.bias);
  for (std::int64_t i = 0; i < p.m; ++i) {
    R* c = static_cast<R*>(p.c) + i * p.c_row + column;
    for (std::int64_t j = 0; j < Columns; ++j) {
      const float start = bias ? static_cast<float>(bias[column + j]) : 0.0f;
      c[j] = static_cast<R>(add_lanes(sums[i * Columns + j]) + start);
    }
  }
}

// Sums shorter than a vector, where the horizontal sum would dominate: one row of a, element by element.
template <class T> constexpr std::int64_t short_sum = sizeof(T) == sizeof(float) ? 12 : 8;
template <class T, class R> void multiply_short(const FewRows& p, std::int64_t first, std::int64_t last) {
  constexpr std::int64_t together = 8;
  const T* bias = static_cast<const T*>(p.bias);
  const auto some = [&](std::int64_t column, std::int64_t count) {
    const T* b = static_cast<const T*>(p.b) + column * p.b_row;
    float sums[together] = {};
    for (std::int64_t k = 0; k < p.k; ++k) {
#pragma GCC unroll 8
      for (std::int64_t j = 0; j < count; ++j) sums[j] += p.a[k] * static_cast<float>(b[j * p.b_row + k]);
    }
    for (std::int64_t j = 0; j < count; ++j)
      static_cast<R*>(p.c)[column + j] = static_cast<R>(sums[j] + (bias ? static_cast<float>(bias[column + j]) : 0.0f));
  };
  for (; first + together <= last; first += together) some(first, together);
  if (first < last) some(first, last - first);
}

}  // namespace

void gemm_few_rows(const FewRows& p, std::int64_t first, std::int64_t last) {
  visit_floating(p.dtype, [&]<class T> {
    if constexpr (sizeof(T) <= sizeof(float)) {
      const bool far = p.n * p.k * static_cast<std::int64_t>(sizeof(T)) > own_cache;
      const auto all = [&]<class R>(R) {
        if (p.m == 1 && p.k <= short_sum<T>) return multiply_short<T, R>(p, first, last);
        std::int64_t column = first;
        for (; column + tile_columns <= last; column += tile_columns)
          multiply_columns<tile_columns, T, R>(p, column, far);
        for (; column < last; ++column) multiply_columns<1, T, R>(p, column, far);
      };
      p.wide ? all(0.0f) : all(T{});
    }
  });
}

// Rows of b are accumulated in order, eight at a time, so that memory is read in contiguous runs.
void gemm_few_rows_across(const FewRows& p, std::int64_t first, std::int64_t last) {
  constexpr int together = 8;
  const std::int64_t n = last - first;
  ScratchVector<float> sums(static_cast<std::size_t>(n));
  const auto all = [&]<class T> {
    const T* b = static_cast<const T*>(p.b) + first;
    std::int64_t k = 0;
    for (; k + together <= p.k; k += together) {
      for_vectors<float>(n, [&](const auto& lanes, std::int64_t j) {
        V v = V(p.a[k]) * lanes.load(b + k * p.b_row + j);
#pragma GCC unroll 8
        for (int i = 1; i < together; ++i)
          v = xsimd::fma(V(p.a[k + i]), lanes.load(b + (k + i) * p.b_row + j), v);
        lanes.store(sums.data() + j, lanes.load(sums.data() + j) + v);
      });
    }
    for (; k < p.k; ++k) {
      for_vectors<float>(n, [&](const auto& lanes, std::int64_t j) {
        const V v = xsimd::fma(V(p.a[k]), lanes.load(b + k * p.b_row + j), lanes.load(sums.data() + j));
        lanes.store(sums.data() + j, v);
      });
    }
    const T* bias = static_cast<const T*>(p.bias);
    const auto finish = [&](auto* c) {
      for_vectors<float>(n, [&](const auto& lanes, std::int64_t j) {
        const V v = lanes.load(sums.data() + j);
        lanes.store(c + j, bias ? v + lanes.load(bias + first + j) : v);
      });
    };
    if (p.wide) finish(static_cast<float*>(p.c) + first);
    else finish(static_cast<T*>(p.c) + first);
  };
  if (p.dtype == f32) all.template operator()<float>();
  else if (p.dtype == f16) all.template operator()<Half>();
  else all.template operator()<BFloat16>();
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
