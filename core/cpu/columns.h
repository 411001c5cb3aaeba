// Reductions along a dimension, vectorised across adjacent columns, in blocks that fit the cache. If the dimension
// itself is the dense one and short, the rows are transposed first. f16 and bf16 are converted to f32 per block, and
// results are rounded once.
#pragma once

#include <tuple>

#include "core/cpu/transpose.h"
#include "core/cpu/wide_rows.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// xsimd's exp, inlined into the loop around it. By default the compiler calls it, passing vectors through memory.
template <class V> [[gnu::always_inline, gnu::flatten]] inline V exp_inside(const V& v) { return exp(v); }

inline constexpr std::int64_t most_columns = 512;
// Columns per block: its n elements each should stay in the L1 cache.
inline std::int64_t columns_together(std::int64_t n) {
  return std::clamp<std::int64_t>(8192 / n / 64 * 64, 64, most_columns);
}

// `columns` adjacent columns of [n, inner]; their n elements are `step` apart.
template <class C> struct Columns {
  std::int64_t n, step, columns;
  // f(i * step) for i in [0, n).
  template <class F> void each(F&& f) const {
    for (std::int64_t i = 0; i < n; ++i) f(i * step);
  }
  // to[j] = the fold over i of value(offset, line), where value writes `columns` numbers to line. Sums are added up in
  // groups of 64, so that the error grows with sqrt(n).
  template <class Fold, class Value> void fold(C* to, Value&& value) const {
    constexpr std::int64_t group = 64;
    std::fill_n(to, columns, Fold::template identity<C>());
    for (std::int64_t first = 0; first < n; first += group) {
      C part[most_columns], line[most_columns];
      std::fill_n(part, columns, Fold::template identity<C>());
      for (std::int64_t i = first; i < std::min(n, first + group); ++i) {
        value(i * step, line);
        map_run(columns, part, Fold{}, static_cast<const C*>(part), static_cast<const C*>(line));
      }
      map_run(columns, to, Fold{}, static_cast<const C*>(to), static_cast<const C*>(part));
    }
  }
};

// columns[i * step + j] = rows[j * n + i] for j < count, or the reverse.
template <bool back, class C>
void turn_rows(std::int64_t n, std::int64_t count, C* rows, C* columns, std::int64_t step) {
  std::int64_t j = 0;
#if defined(__AVX2__)
  if constexpr (std::is_same_v<C, float>) {
    using transpose::width;
    for (; j + width <= count; j += width) {
      for (std::int64_t i = 0; i < n; i += width) {
        const std::int64_t m = std::min(width, n - i);
        C *row = rows + j * n + i, *column = columns + i * step + j;
        transpose::Lanes v[width];
        for (std::int64_t k = 0; k < width; ++k) {
          if (back) v[k] = k < m ? load(column + k * step) : Vec<C>(C(0));
          else v[k] = m == width ? load(row + k * n) : load_part(row + k * n, m);
        }
        transpose::turn_square(v);
        for (std::int64_t k = 0; k < (back ? width : m); ++k) {
          if (!back) store(column + k * step, Vec<C>(v[k]));
          else if (m == width) store(row + k * n, Vec<C>(v[k]));
          else store_part(row + k * n, Vec<C>(v[k]), m);
        }
      }
    }
  }
#endif
  for (; j < count; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (back) rows[j * n + i] = columns[i * step + j];
      else columns[i * step + j] = rows[j * n + i];
    }
  }
}

// Calls block(columns, number of the first column, y, x...) for all blocks of columns along `dim`, with pointers to
// their first elements. y may be absent, for results of another shape.
template <class C, class Block, class... In>
void for_columns(Block&& block, int dim, const View& y, const View& shaped, const In&... others) {
  if (shaped.numel() == 0) return;
  std::int64_t inner = 1;
  for (int d = dim + 1; d < shaped.dim(); ++d) inner *= shaped.sizes[d];
  const std::int64_t n = shaped.dim() > 0 ? shaped.sizes[dim] : 1, outer = shaped.numel() / (n * inner);
  const bool rows = inner == 1;
  const std::int64_t side = rows ? outer : inner, together = std::min(columns_together(n), side);
  const std::int64_t blocks = (side + together - 1) / together, room = n * together;
  // Operands of type C are used in place; f16 and bf16 go through a buffer, line by line unless a block is the whole
  // tensor.
  const auto is_wide = [](const View& v) { return !v || v.dtype == dtype_of<C>; };
  const bool direct = !rows && is_wide(y) && is_wide(shaped) && (is_wide(others) && ...);
  const bool line_by_line = !rows && !direct && blocks > 1;
  const std::int64_t step = direct || (!rows && blocks == 1) ? inner : together;
  const WideResultRows<C> out(y);
  const auto run = [&](const auto&... in) {
    const auto run_blocks = [&](std::int64_t first, std::int64_t last) {
      const std::int64_t buffers = direct ? 0 : 2 + static_cast<std::int64_t>(sizeof...(in));
      const Tensor memory = Tensor::allocate({buffers, room}, dtype_of<C>);
      C *const result = static_cast<C*>(memory.raw_data()), *const row_memory = direct ? nullptr : result + room;
      for (std::int64_t b = first; b < last; ++b) {
        const std::int64_t column = b % blocks * together, number = b / blocks * inner + column;
        const std::int64_t offset = rows ? column * n : b / blocks * n * inner + column;
        const Columns<C> c{n, step, std::min(together, side - column)};
        C* next = row_memory;
        const auto from = [&](const WideRows<C>& source) -> const C* {
          if (direct) return source.at(offset, 0, nullptr);
          next += room;
          if (rows) {
            C* const lines = const_cast<C*>(source.at(offset, n * c.columns, row_memory));
            turn_rows<false>(n, c.columns, lines, next, step);
            return next;
          }
          if (!line_by_line) return source.at(offset, n * inner, next);
          for (std::int64_t i = 0; i < n; ++i) {
            C* to = next + i * step;
            const C* line = source.at(offset + i * inner, c.columns, to);
            if (line != to) std::copy_n(line, c.columns, to);
          }
          return next;
        };
        C* const to = !y                     ? nullptr
                      : direct               ? out.at(offset, nullptr)
                      : line_by_line || rows ? result
                                             : out.at(offset, result);
        // In braces, so that the buffers are filled in order.
        std::apply([&](const auto*... x) { block(c, number, to, x...); }, std::tuple{from(in)...});
        if (direct || !y) continue;
        if (rows) {
          C* const lines = out.at(offset, row_memory);
          turn_rows<true>(n, c.columns, lines, result, step);
          out.put(offset, n * c.columns, lines);
        } else if (!line_by_line) {
          out.put(offset, n * inner, to);
        } else {
          for (std::int64_t i = 0; i < n; ++i) {
            const C* line = result + i * step;
            if (C* memory_line = out.at(offset + i * inner, nullptr)) std::copy_n(line, c.columns, memory_line);
            else out.put(offset + i * inner, c.columns, line);
          }
        }
      }
    };
    parallel_for(rows ? blocks : outer * blocks, std::max<std::int64_t>(1, grain_size / room), run_blocks);
  };
  run(WideRows<C>(shaped), WideRows<C>(others)...);
  out.finish();
}

// The dimensions for which for_columns is faster.
inline bool can_fold_columns(const View& x, int dim) {
  constexpr std::int64_t short_row = 64;
  for (int d = dim + 1; d < x.dim(); ++d)
    if (x.sizes[d] != 1) return true;
  return x.dim() > 0 && x.sizes[dim] <= short_row && x.numel() / std::max<std::int64_t>(1, x.sizes[dim]) >= 16;
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
