// The micro-kernel of bf16 products with AMX (core/amx.h): 32 rows by 32 columns of sums in four tile registers,
// accumulating, for every 32 elements of k, the products of two tiles of a with two of b. A row of a tile is 64 bytes:
// 16 sums, or 16 units of gemm_pack.h, which are pairs along k. For b that is the panel layout that AVX512_BF16 uses
// too, padded to whole tiles; for a it is its rows in place.
// Inline assembly instead of intrinsics: those of g++ 12 do not tell the compiler that tileloadd reads memory.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18, and volume 2.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/cpu/gemm_pack.h"
#include "core/gemm_half.h"

#if defined(__AVX512F__) && defined(__x86_64__)
#define MANTISSA_HAS_AMX 1

namespace mantissa::cpu_backend::MANTISSA_ISA::gemm_amx {

using gemm_pack::Unit;
inline constexpr std::int64_t tile = 16;             // rows of a tile, and 4-byte units per row
inline constexpr std::int64_t block_rows = 2 * tile;
static_assert(half_panel == 2 * tile);

// Units of k per line: whole tiles, the last one zero-padded.
constexpr std::int64_t units_of(std::int64_t depth) {
  return (gemm_pack::units_of<true>(depth) + tile - 1) / tile * tile;
}

template <int t> void load(const void* rows, std::int64_t step) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(step), "i"(t) : "memory");
}
template <int t> void store(void* rows, std::int64_t step) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(step), "i"(t) : "memory");
}
template <int t> void zero() { asm volatile("tilezero %%tmm%c0" : : "i"(t)); }
template <int sums, int left, int right> void add_product() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(left), "i"(right));
}

// The tile configuration of a thread. Released in the destructor: context switches of a thread with live tiles cost
// more.
class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  ~Tiles() {
    if (rows_) asm volatile("tilerelease");
  }
  // Tiles 0 and 1 hold `rows` rows of a, 2 and 3 columns of b, 4 to 7 the sums of their products; 1, 6 and 7 are used
  // only for more than 16 rows. Clears all tiles.
  void configure(std::int64_t rows) {
    if (rows == rows_) return;
    rows_ = rows;
    const auto upper = static_cast<std::uint8_t>(std::min(rows, tile)), lower = static_cast<std::uint8_t>(rows - upper);
    Layout l;
    for (int t : {0, 4, 5}) l.rows[t] = upper;
    for (int t : {1, 6, 7}) l.rows[t] = lower;
    for (int t : {2, 3}) l.rows[t] = tile;
    for (int t = 0; t < 8; ++t) l.row_bytes[t] = l.rows[t] ? 64 : 0;
    asm volatile("ldtilecfg %0" : : "m"(l));
  }

 private:
  struct Layout {  // the memory layout that ldtilecfg reads
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
  static_assert(sizeof(Layout) == 64);
  std::int64_t rows_ = 0;
};

// sums [rows][half_panel] (+)= left @ packed b, over `units` units of k, in tiles configured for `rows` rows. `row` and
// `sum_row`: row strides of left and sums in elements. After every step of k meanwhile() is called, for work that needs
// no tiles: four products of tiles take 64 cycles.
template <bool lower, class F>
void multiply_tiles(std::int64_t units, const BFloat16* left, std::int64_t row, const Unit* b, float* sums,
                    std::int64_t sum_row, bool add, const F& meanwhile) {
  constexpr std::int64_t across = half_panel * sizeof(Unit);
  const std::int64_t down = row * static_cast<std::int64_t>(sizeof(BFloat16)),
                     sums_down = sum_row * static_cast<std::int64_t>(sizeof(float));
  float* const low = sums + tile * sum_row;
  if (add) {
    load<4>(sums, sums_down), load<5>(sums + tile, sums_down);
    if constexpr (lower) load<6>(low, sums_down), load<7>(low + tile, sums_down);
  } else {
    zero<4>(), zero<5>();
    if constexpr (lower) zero<6>(), zero<7>();
  }
  for (std::int64_t u = 0; u < units; u += tile, left += 2 * tile, b += tile * half_panel) {
    load<2>(b, across);
    load<0>(left, down);
    add_product<4, 0, 2>();
    load<3>(b + tile, across);
    add_product<5, 0, 3>();
    if constexpr (lower) {
      load<1>(left + tile * row, down);
      add_product<6, 1, 2>();
      add_product<7, 1, 3>();
    }
    meanwhile();
  }
  store<4>(sums, sums_down), store<5>(sums + tile, sums_down);
  if constexpr (lower) store<6>(low, sums_down), store<7>(low + tile, sums_down);
}
template <class F>
void multiply(std::int64_t rows, std::int64_t units, const BFloat16* left, std::int64_t row, const Unit* b, float* sums,
              std::int64_t sum_row, bool add, const F& meanwhile) {
  rows > tile ? multiply_tiles<true>(units, left, row, b, sums, sum_row, add, meanwhile)
              : multiply_tiles<false>(units, left, row, b, sums, sum_row, add, meanwhile);
}

// Packs columns of b, k contiguous or not, into one panel, zero-padded to whole tiles of k.
inline void pack_panel(Unit* to, const BFloat16* from, std::int64_t columns, std::int64_t column, std::int64_t depth,
                       std::int64_t step) {
  gemm_pack::pack<true, half_panel>(to, from, columns, column, depth, step);
  std::fill(to + gemm_pack::units_of<true>(depth) * half_panel, to + units_of(depth) * half_panel, Unit(0));
}

// Packs `rows` rows of a and `depth` of k into rows of units_of(depth) units. Row stride `row`, element stride `step`.
inline void pack_rows(Unit* to, const BFloat16* from, std::int64_t rows, std::int64_t row, std::int64_t depth,
                      std::int64_t step) {
  const std::int64_t units = units_of(depth);
  if (row == 1 && step != 1) {  // columns are contiguous: transposed in squares, two side by side
    for (std::int64_t u = 0; u < units; u += tile) {
      for (std::int64_t i = 0; i < rows; i += 2 * tile) {
        __m512i square[2][tile];
        for (std::int64_t j = 0; j < tile; ++j) {
          const std::int64_t k = 2 * (u + j);
          const BFloat16* here = from + i + k * step;
          if (k + 1 < depth && i + 2 * tile <= rows) {
            alignas(64) Unit both[2 * tile];
            gemm_pack::interleave_rows(both, here, step);
            square[0][j] = _mm512_load_si512(both), square[1][j] = _mm512_load_si512(both + tile);
          } else {
            for (std::int64_t s = 0; s < 2; ++s) {
              square[s][j] = k < depth ? gemm_pack::units_across<true>(here + s * tile, step, depth - k,
                                                                       rows - i - s * tile)
                                       : _mm512_setzero_si512();
            }
          }
        }
        for (std::int64_t s = 0; s < 2; ++s) {
          gemm_pack::transpose16(square[s]);
          for (std::int64_t j = 0; j < std::min(tile, rows - i - s * tile); ++j)
            _mm512_storeu_si512(to + (i + s * tile + j) * units + u, square[s][j]);
        }
      }
    }
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    auto* line = reinterpret_cast<BFloat16*>(to + i * units);
    if (step == 1) std::memcpy(static_cast<void*>(line), from + i * row, static_cast<std::size_t>(2 * depth));
    else for (std::int64_t k = 0; k < depth; ++k) line[k] = from[i * row + k * step];
    std::memset(static_cast<void*>(line + depth), 0, static_cast<std::size_t>(4 * units - 2 * depth));
  }
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::gemm_amx
#endif
