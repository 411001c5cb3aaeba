// The micro-kernel of bf16 products with vdpbf16ps, two products per lane: twice the throughput of f32. A tile of sums
// is held in registers; operands are units of two adjacent elements along k (core/cpu/gemm_pack.h). vdpbf16ps treats
// subnormals as zeros (Intel's and AMD's manuals), as all kernels do by default (core/parallel.h).
#pragma once

#include <array>
#include <utility>

#include "core/cpu/gemm_pack.h"
#include "core/cpu/gemm_tile.h"
#include "core/gemm_half.h"

namespace mantissa::cpu_backend::MANTISSA_ISA::gemm_pairs {

using gemm_pack::Unit;

#if defined(__AVX512F__)
inline bool has_bf16() {
  static const bool has = __builtin_cpu_supports("avx512bf16");
  return has;
}
#else
inline bool has_bf16() { return false; }
#endif

// Destination of a finished tile: rows of c with stride c_row, the first `columns` of half_panel.
struct Finish {
  void* c;
  bool wide;  // c is f32, not rounded
  std::int64_t c_row, columns;
  const float* bias;  // half_panel numbers
  bool add = false;   // adds to c, which must be wide
};

#if defined(__AVX512F__)
// Row i of a tile: half_panel sums, plus bias and the old value if requested, rounded once unless wide.
__attribute__((target("avx512bf16"))) inline void finish_row(const Finish& f, std::int64_t i, __m512 first,
                                                             __m512 second) {
  const __mmask32 real = gemm_pack::first_of_32(f.columns);
  const __m512 low = _mm512_add_ps(first, _mm512_loadu_ps(f.bias));
  const __m512 high = _mm512_add_ps(second, _mm512_loadu_ps(f.bias + 16));
  if (f.wide) {
    float* c = static_cast<float*>(f.c) + i * f.c_row;
    const auto left = static_cast<__mmask16>(real), right = static_cast<__mmask16>(real >> 16);
    const auto there = static_cast<__mmask16>(f.add ? 0xffff : 0);  // old value: zeros unless `add`
    _mm512_mask_storeu_ps(c, left, _mm512_add_ps(low, _mm512_maskz_loadu_ps(left & there, c)));
    _mm512_mask_storeu_ps(c + 16, right, _mm512_add_ps(high, _mm512_maskz_loadu_ps(right & there, c + 16)));
  } else {
    const auto both = _mm512_cvtne2ps_pbh(high, low);
    _mm512_mask_storeu_epi16(static_cast<BFloat16*>(f.c) + i * f.c_row, real, (__m512i)both);
  }
}

// sums [rows][half_panel] (+)= a @ packed b; with `finish` the result goes to c instead. Rows of a are `row` elements
// apart, its units `step`; units of b are half_panel apart. With one vector, only the first 16 columns are computed.
template <int rows, int vectors>
__attribute__((target("avx512bf16"))) void multiply_registers(std::int64_t units, const std::uint16_t* left,
                                                              std::int64_t row, std::int64_t step, const Unit* b,
                                                              float* sums, bool add, const Finish* finish) {
  __m512 sum[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j)
      sum[i][j] = add ? _mm512_loadu_ps(sums + i * half_panel + 16 * j) : _mm512_setzero_ps();
  }
  constexpr int groups = (rows + 2) / 3;  // one pointer for three rows: there are not enough general registers for all
  const std::uint16_t* a[groups];
  for (int g = 0; g < groups; ++g) a[g] = left + 3 * g * row;
  for (std::int64_t u = units; u > 0; --u) {
    __m512bh right[vectors];
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) right[j] = (__m512bh)_mm512_loadu_si512(b + 16 * j);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      int pair;
      __builtin_memcpy(&pair, a[i / 3] + i % 3 * row, sizeof pair);
      // because clang 16 fails on set1_epi32
      const auto both = (__m512bh)_mm512_broadcastd_epi32(_mm_cvtsi32_si128(pair));
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], both, right[j]);
    }
    b += half_panel;
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) a[g] += step;
  }
  if (finish) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) finish_row(*finish, i, sum[i][0], vectors > 1 ? sum[i][vectors - 1] : __m512());
    return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) _mm512_storeu_ps(sums + i * half_panel + 16 * j, sum[i][j]);
  }
}

using Multiply = decltype(&multiply_registers<1, 1>);
template <int vectors, std::size_t... I> constexpr auto with_rows(std::index_sequence<I...>) {
  return std::array<Multiply, sizeof...(I)>{&multiply_registers<static_cast<int>(I) + 1, vectors>...};
}
inline constexpr std::array multiply_table{with_rows<1>(std::make_index_sequence<gemm_tile::max_rows>{}),
                                           with_rows<2>(std::make_index_sequence<gemm_tile::max_rows>{})};
#endif

// One tile: 1 <= rows <= gemm_tile::max_rows; only the first `columns` of its sums are guaranteed. Requires has_bf16().
inline void multiply([[maybe_unused]] std::int64_t rows, [[maybe_unused]] std::int64_t columns,
                     [[maybe_unused]] std::int64_t units,
                     [[maybe_unused]] const std::uint16_t* a, [[maybe_unused]] std::int64_t row,
                     [[maybe_unused]] std::int64_t step, [[maybe_unused]] const Unit* b, [[maybe_unused]] float* sums,
                     [[maybe_unused]] bool add, [[maybe_unused]] const Finish* finish = nullptr) {
#if defined(__AVX512F__)
  multiply_table[columns > 16][static_cast<std::size_t>(rows - 1)](units, a, row, step, b, sums, add, finish);
#endif
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::gemm_pairs
