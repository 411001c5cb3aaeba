// Products of f16 and bf16 with sums in f32, rounded once or kept. With AMX or vdpbf16ps, bf16 is multiplied directly:
// vdpbf16ps does two products per lane, at twice the throughput of f32. Everything else is widened while it is packed
// and uses the micro-kernel of f32 products. All sum every element over k in order, however the work is cut.
#include <vector>

#include "core/amx.h"
#include "core/cpu/gemm_amx.h"
#include "core/cpu/gemm_pairs.h"
#include "core/gemm_half.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

using gemm_pack::Unit;
using gemm_pack::units_of;
constexpr std::int64_t tile_rows = gemm_tile::max_rows;
// Units of k per pass: a panel of b (128 bytes per unit) and the part of a that is read stay in the nearer caches.
template <bool pairs> constexpr std::int64_t most_units_of = pairs ? 512 : 256;

using gemm_pairs::Finish, gemm_pairs::has_bf16;
bool in_pairs(Dtype t) { return t == bf16 && has_bf16(); }
#if defined(MANTISSA_HAS_AMX)
bool in_tiles(Dtype t) { return t == bf16 && uses_amx(); }
#endif
// Number of units of k in a panel of b.
std::int64_t packed_depth(const HalfProduct& p) {
#if defined(MANTISSA_HAS_AMX)
  if (in_tiles(p.dtype)) return gemm_amx::units_of(p.k);
#endif
  return in_pairs(p.dtype) ? units_of<true>(p.k) : units_of<false>(p.k);
}

// Rows of the left operand of a tile, in elements of four bytes (widened) or two (pairs).
template <bool pairs> struct Left {
  const std::conditional_t<pairs, std::uint16_t, float>* data;
  std::int64_t row, unit;  // row stride, unit stride
};
// sums [rows][half_panel] (+)= left @ packed b; with `finish` the result is rounded into c instead.
template <class R, bool pairs>
void multiply_tile(std::int64_t rows, std::int64_t columns, std::int64_t units, const Left<pairs>& left, const Unit* b,
                   float* sums, bool add, const Finish* finish) {
  if constexpr (pairs) {
    gemm_pairs::multiply(rows, columns, units, left.data, left.row, left.unit, b, sums, add, finish);
  } else {
    const float* right = reinterpret_cast<const float*>(b);
    for (std::int64_t j = 0; j < columns; j += gemm_tile::max_columns) {
      const gemm_tile::Operands o{left.data, left.row, left.unit, right + j, half_panel, sums + j, half_panel, units};
      gemm_tile::multiply(rows, gemm_tile::max_columns, o, add);
    }
    if (!finish) return;
    for (std::int64_t r = 0; r < rows; ++r) {
      float row[half_panel];
      for (std::int64_t j = 0; j < half_panel; ++j) row[j] = sums[r * half_panel + j] + finish->bias[j];
      if constexpr (std::is_same_v<R, float>) {
        const float* there = static_cast<const float*>(finish->c) + r * finish->c_row;
        for (std::int64_t j = 0; finish->add && j < finish->columns; ++j) row[j] += there[j];
      }
      convert_run(static_cast<R*>(finish->c) + r * finish->c_row, row, 1, finish->columns);
    }
  }
}

// Calls f.operator()<T, pairs>().
template <class F> void visit_halves(Dtype t, F&& f) {
  if (t == f16) return f.template operator()<Half, false>();
#if defined(__AVX512F__)
  if (has_bf16()) return f.template operator()<BFloat16, true>();
#endif
  f.template operator()<BFloat16, false>();
}

// Growing per-thread memory, aligned to cache lines: no row of a tile straddles two.
float* scratch(std::vector<float>& v, std::int64_t n) {
  constexpr std::size_t line = 64;
  const std::size_t all = static_cast<std::size_t>(n) + line / sizeof(float);
  if (v.size() < all) v.resize(all);
  return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(v.data()) + line - 1) / line * line);
}

// c[j * c_row + i] = sums[i][j] + bias[i], or with `add` incremented by that
template <class R>
void store_transposed(R* c, std::int64_t c_row, const float* sums, const float* bias, std::int64_t rows,
                      std::int64_t columns, bool add) {
  for (std::int64_t j = 0; j < columns; ++j) {
    float line[half_panel];
    for (std::int64_t i = 0; i < rows; ++i) line[i] = sums[i * half_panel + j] + bias[i];
    if constexpr (std::is_same_v<R, float>) {
      for (std::int64_t i = 0; add && i < rows; ++i) line[i] += c[j * c_row + i];
    }
    convert_run(c + j * c_row, line, 1, rows);
  }
}

// Rows [i, i + rows) of a and `depth` elements of k from `first`: in place if that can be read, else copied to `to`.
template <class T, bool pairs>
Left<pairs> prepare_left(const HalfProduct& p, std::int64_t i, std::int64_t rows, std::int64_t first,
                         std::int64_t depth, Unit* to) {
  const T* from = static_cast<const T*>(p.a) + i * p.a_row + first * p.a_col;
  if constexpr (pairs) {
    // The last pair of an odd line would contain a foreign element. Row strides that are a multiple of half a page map
    // to the same few sets of the L1 cache.
    if (p.a_col == 1) {
      const auto* lines = reinterpret_cast<const std::uint16_t*>(from);
      if (depth % 2 == 0 && (p.a_row % 1024 != 0 || rows == 1)) return {lines, p.a_row, 2};
      auto* copy = reinterpret_cast<std::uint16_t*>(to);
      const std::int64_t row = 2 * (units_of<true>(depth) + 16);
      for (std::int64_t r = 0; r < rows; ++r) {
        copy[r * row + depth] = 0;
        std::copy_n(lines + r * p.a_row, depth, copy + r * row);
      }
      return {copy, row, 2};
    }
    gemm_pack::pack<true, tile_rows>(to, from, rows, p.a_row, depth, p.a_col);
    return {reinterpret_cast<const std::uint16_t*>(to), 2, 2 * tile_rows};
  } else {
    float* wide = reinterpret_cast<float*>(to);
    if (p.a_col == 1) {
      const std::int64_t row = depth + 16;
      for (std::int64_t r = 0; r < rows; ++r) convert_run(wide + r * row, from + r * p.a_row, 1, depth);
      return {wide, row, 1};
    }
    gemm_pack::pack<false, tile_rows>(to, from, rows, p.a_row, depth, p.a_col);
    return {wide, 1, tile_rows};
  }
}

#if defined(MANTISSA_HAS_AMX)
// A block of sums on its way to c: written while the tiles of the next block are multiplied, because converting and
// storing take as long as the products of k = 128, in other parts of the processor.
class Unwritten {
 public:
  explicit Unwritten(const HalfProduct& p) : product_(p) {}
  Unwritten(const Unwritten&) = delete;
  // Sums [rows][half_panel] for rows from i and columns from j of c, which are kept until all are written.
  void take(std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t columns, const float* sums) {
    const HalfProduct& p = product_;
    const std::int64_t line = p.c_transposed ? j : i, lines = p.c_transposed ? columns : rows;  // of c, dense
    const std::int64_t at = p.c_transposed ? i : j, length = p.c_transposed ? rows : columns;
    if (p.bias) convert_run(start_, static_cast<const BFloat16*>(p.bias) + at, 1, length);
    char* c = static_cast<char*>(p.c) + (line * p.c_row + at) * (p.wide ? 4 : 2);
    finish_ = {c, p.wide, p.c_row, length, start_, p.add};
    sums_ = sums, line_ = 0, lines_ = lines;
  }
  void write(std::int64_t most) {
    if (line_ == lines_) return;
    const std::int64_t first = line_;
    line_ = std::min(lines_, line_ + most);
    product_.c_transposed ? write_columns(finish_, sums_, first, line_) : write_rows(finish_, sums_, first, line_);
  }
  // Lines to write in each of `steps` pieces of work.
  std::int64_t share(std::int64_t steps) const {
    const std::int64_t unit = product_.c_transposed ? 16 : 1;
    return (half_panel + unit * steps - 1) / (unit * steps) * unit;
  }
  void write_rest() { write(lines_); }

 private:
  // finish_row is inlined only into functions for its processor. Copies, because stores to c might change what is in
  // memory.
  __attribute__((target("avx512bf16"))) static void write_rows(const Finish& f, const float* sums, std::int64_t begin,
                                                               std::int64_t end) {
    const Finish finish = f;
    for (std::int64_t r = begin; r < end; ++r) {
      const float* line = sums + r * half_panel;
      gemm_pairs::finish_row(finish, r, _mm512_loadu_ps(line), _mm512_loadu_ps(line + 16));
    }
  }
  __attribute__((target("avx512bf16"))) static void write_columns(const Finish& f, const float* sums,
                                                                  std::int64_t begin, std::int64_t end) {
    const Finish finish = f;
    for (; begin < end; begin += 16) {
      __m512i upper[16], lower[16];
      for (int r = 0; r < 16; ++r) {
        upper[r] = _mm512_loadu_si512(sums + r * half_panel + begin);
        lower[r] = _mm512_loadu_si512(sums + (16 + r) * half_panel + begin);
      }
      gemm_pack::transpose16(upper);
      gemm_pack::transpose16(lower);
      for (std::int64_t j = 0; j < std::min<std::int64_t>(16, end - begin); ++j)
        gemm_pairs::finish_row(finish, begin + j, _mm512_castsi512_ps(upper[j]), _mm512_castsi512_ps(lower[j]));
    }
  }
  const HalfProduct& product_;
  float start_[half_panel] = {};
  Finish finish_{};
  const float* sums_ = nullptr;
  std::int64_t line_ = 0, lines_ = 0;  // the next to be written, and how many there are
};
#endif

// R: the type of c.
template <class T, class R, bool pairs>
void multiply_part(const HalfProduct& p, std::int64_t row, std::int64_t rows, std::int64_t column,
                   std::int64_t columns) {
  thread_local std::vector<float> a_memory, sum_memory;
  constexpr std::int64_t per_unit = pairs ? 2 : 1, tile_sums = tile_rows * half_panel,
                         most_units = most_units_of<pairs>;
  const std::int64_t units = units_of<pairs>(p.k), panels = (columns + half_panel - 1) / half_panel;
  const gemm_tile::RowTiles cut(rows);
  const bool whole = units <= most_units;  // else the sums of all tiles are kept for the next part of k
  Unit* a_panel = reinterpret_cast<Unit*>(scratch(a_memory, (std::min(units, most_units) + 16) * tile_rows));
  float* all_sums = scratch(sum_memory, (whole ? 1 : cut.tiles * panels) * tile_sums);
  const T* bias = static_cast<const T*>(p.bias);
  R* c = static_cast<R*>(p.c);
  for (std::int64_t u = 0; u < std::max<std::int64_t>(units, 1); u += most_units) {
    const std::int64_t some = std::min(most_units, units - u), first = u * per_unit;
    for (std::int64_t t = 0; t < cut.tiles; ++t) {
      const std::int64_t i = row + cut.begin(t), real = cut.size(t);
      const auto left = prepare_left<T, pairs>(p, i, real, first, std::min(p.k - first, some * per_unit), a_panel);
      for (std::int64_t q = 0; q < panels; ++q) {
        const std::int64_t j = column + q * half_panel, wide = std::min(half_panel, column + columns - j);
        const Unit* b_panel = p.packed + (j / half_panel * units + u) * half_panel;
        float* sums = all_sums + (whole ? 0 : (t * panels + q) * tile_sums);
        float start[half_panel] = {};
        if (bias && p.c_transposed) convert_run(start, bias + i, 1, real);
        else if (bias) convert_run(start, bias + j, 1, wide);
        const bool last = u + some == units;
        const Finish finish{c + i * p.c_row + j, p.wide, p.c_row, wide, start, p.add};
        multiply_tile<R, pairs>(real, wide, some, left, b_panel, sums, u > 0,
                                last && !p.c_transposed ? &finish : nullptr);
        if (last && p.c_transposed) store_transposed(c + j * p.c_row + i, p.c_row, sums, start, real, wide, p.add);
      }
    }
  }
}

#if defined(MANTISSA_HAS_AMX)
// The same with AMX, in longer parts of k: keeping sums costs more than reading panels from the L2 cache.
void multiply_part_in_tiles(const HalfProduct& p, std::int64_t row, std::int64_t rows, std::int64_t column,
                            std::int64_t columns) {
  thread_local std::vector<float> a_memory, sum_memory;
  constexpr std::int64_t block = gemm_amx::block_rows, block_sums = block * half_panel, most_units = 1024;
  const std::int64_t units = gemm_amx::units_of(p.k), panels = (columns + half_panel - 1) / half_panel,
                     blocks = (rows + block - 1) / block;
  const bool whole = units <= most_units;  // else the sums of all blocks are kept for the next part of k
  // Blocks of a that are packed together, and multiplied by one panel of b after the other: those that stay in half of
  // the L1 cache, or else many, so that a panel does while they are read.
  const std::int64_t fit = units > 0 ? (24 << 10) / (block * units * 4) : 0,
                     group = fit > 0 ? std::min<std::int64_t>(fit, 8) : 8;
  // Row strides that are a multiple of half a page map to the same few sets of the L1 cache, which costs less than a
  // copy if there are few panels.
  const bool few = panels <= 16 || rows == 1;
  const bool as_it_lies = p.a_col == 1 && p.k % (2 * gemm_amx::tile) == 0 && (p.a_row % 1024 != 0 || few);
  Unit* a_panel = reinterpret_cast<Unit*>(
      scratch(a_memory, as_it_lies ? 0 : std::min(blocks, group) * block * std::min(units, most_units)));
  float* all_sums = scratch(sum_memory, (whole ? 2 : blocks * panels) * block_sums);
  float *sums = all_sums, *others = all_sums + block_sums;  // those of a block, and of the one before it
  Unwritten unwritten(p);
  gemm_amx::Tiles tiles;
  for (std::int64_t u = 0; u < std::max<std::int64_t>(units, 1); u += most_units) {
    const std::int64_t some = std::min(most_units, units - u), depth = std::min(2 * some, p.k - 2 * u);
    const std::int64_t share = unwritten.share(std::max<std::int64_t>(1, some / gemm_amx::tile));
    for (std::int64_t first = 0; first < blocks; first += group) {
      const std::int64_t last = std::min(first + group, blocks), i = row + first * block;
      const auto* left = static_cast<const BFloat16*>(p.a) + i * p.a_row + 2 * u * p.a_col;
      std::int64_t left_row = p.a_row;
      if (!as_it_lies) {
        gemm_amx::pack_rows(a_panel, left, std::min(last * block, rows) - first * block, p.a_row, depth, p.a_col);
        left = reinterpret_cast<const BFloat16*>(a_panel), left_row = 2 * some;
      }
      for (std::int64_t q = 0; q < panels; ++q) {
        const std::int64_t j = column + q * half_panel, wide = std::min(half_panel, column + columns - j);
        const Unit* b_panel = p.packed + (j / half_panel * units + u) * half_panel;
        for (std::int64_t t = first; t < last; ++t) {
          const std::int64_t real = std::min(block, rows - t * block);
          if (whole) std::swap(sums, others);
          else sums = all_sums + (t * panels + q) * block_sums;
          tiles.configure(real);
          gemm_amx::multiply(real, some, left + (t - first) * block * left_row, left_row, b_panel, sums,
                             half_panel, u > 0, [&] { unwritten.write(share); });
          unwritten.write_rest();
          if (u + some == units) unwritten.take(row + t * block, real, j, wide, sums);
        }
      }
    }
  }
  unwritten.write_rest();
}
#endif

}  // namespace

void gemm_half_units(const HalfProduct& p, std::int64_t* units) { *units = packed_depth(p) * half_panel; }

void gemm_half_pack(const HalfProduct& p, std::int64_t first, std::int64_t last) {
  visit_halves(p.dtype, [&]<class T, bool pairs> {
    const std::int64_t units = packed_depth(p), real = units_of<pairs>(p.k);
    constexpr std::int64_t per_unit = pairs ? 2 : 1, most = 64 / per_unit;  // some rows of b at once: few pages
    const std::int64_t some = p.b_col == 1 ? most : std::max<std::int64_t>(real, 1);
    for (std::int64_t u = 0; u < real; u += some) {
      const std::int64_t k = u * per_unit;
      for (std::int64_t q = first; q < last; ++q) {
        const std::int64_t j = q * half_panel;
        gemm_pack::pack<pairs, half_panel>(p.packed + j * units + u * half_panel,
                                           static_cast<const T*>(p.b) + j * p.b_col + k * p.b_row,
                                           std::min(half_panel, p.n - j), p.b_col,
                                           std::min(p.k - k, some * per_unit), p.b_row);
      }
    }
    for (std::int64_t q = first; q < last; ++q) {
      Unit* panel = p.packed + q * half_panel * units;
      std::fill(panel + real * half_panel, panel + units * half_panel, 0u);
    }
  });
}

void gemm_half(const HalfProduct& p, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
#if defined(MANTISSA_HAS_AMX)
  if (in_tiles(p.dtype)) return multiply_part_in_tiles(p, row, rows, column, columns);
#endif
  visit_halves(p.dtype, [&]<class T, bool pairs> {
    p.wide ? multiply_part<T, float, pairs>(p, row, rows, column, columns)
           : multiply_part<T, T, pairs>(p, row, rows, column, columns);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
