// How elementwise kernels read their operands: tile by tile, as contiguous elements of the compute type.
#pragma once

#include <algorithm>

#include "core/cpu/simd.h"
#include "core/layout.h"
#include "core/tensor.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

inline constexpr std::int64_t tile = 512;  // elements; operands of one tile stay in the L1 cache

// Gathers elements [begin, begin + n) of a loop, in which an operand of words has `sizes` and `strides`, to contiguous
// memory. For short rows: the cost of a row is proportional to its length. Writes up to a vector beyond to + n.
template <class Word>
void gather_words(Word* to, const Word* base, const Dims& sizes, const Dims& strides, std::int64_t begin,
                  std::int64_t n) {
  constexpr auto width = static_cast<std::int64_t>(Vec<Word>::size);
  const int inner = sizes.rank() - 1;
  const std::int64_t length = sizes[inner], step = strides[inner], middle = inner > 0 ? sizes[inner - 1] : 1,
                     row_step = inner > 0 ? strides[inner - 1] : 0;
  const auto some = [&](const Word* from, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) *to++ = from[i * step];
  };
  const auto rows_of = [&](const Word* from, std::int64_t rows, auto count) {
    for (std::int64_t r = 0; r < rows; ++r, from += row_step, to += count)
      for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * step];
  };
  for (Word* const end = to + n; to < end;) {
    const std::int64_t at = begin + n - (end - to), column = at % length;
    std::int64_t rest = at / length, offset = column * step;
    const std::int64_t row = rest % middle, rows = std::min(middle - row, (end - to) / length);
    for (int d = inner - 1; d >= 0; --d) {
      offset += rest % sizes[d] * strides[d];
      rest /= sizes[d];
    }
    const Word* from = base + offset;
    if (column != 0 || rows == 0) {
      some(from, std::min<std::int64_t>(length - column, end - to));
    } else if (step == 0) {  // whole vectors; the next row overwrites the excess
      for (std::int64_t r = 0; r < rows; ++r, from += row_step, to += length)
        for (std::int64_t i = 0; i < length; i += width) store(to + i, Vec<Word>(*from));
    } else if (row_step == 0 && length <= width) {  // one row, repeated
      Word same[width] = {};
      for (std::int64_t i = 0; i < length; ++i) same[i] = from[i * step];
      for (std::int64_t r = 0; r < rows; ++r, to += length) store(to, load(same));
    } else {
      switch (length) {
        case 2: rows_of(from, rows, std::integral_constant<std::int64_t, 2>{}); break;
        case 3: rows_of(from, rows, std::integral_constant<std::int64_t, 3>{}); break;
        case 4: rows_of(from, rows, std::integral_constant<std::int64_t, 4>{}); break;
        default: rows_of(from, rows, length);
      }
    }
  }
}

// How operand elements [begin, begin + n) of the collapsed loop are brought into a contiguous tile.
template <class C> struct Operand {
  const View* view = nullptr;
  Loop loop;              // this operand's dimensions, in the loop's order
  bool direct = false;    // contiguous and of the compute type: not copied
  bool constant = false;  // one element for the whole loop
  static constexpr std::int64_t beyond = 64 / static_cast<std::int64_t>(sizeof(C));  // gather_words may write this far
  C buffer[tile + beyond];

  Operand() {}  // leaves the buffer uninitialised

  // For a loop over `sizes`, in which the operand has `strides`. The view must outlive it.
  void init(const View& v, const Dims& sizes, const Dims& strides) {
    view = &v;
    const Dims* list[] = {&strides};
    loop = collapse(sizes, list, 1);
    const std::int64_t step = loop.strides[0].back();
    constant = loop.sizes.rank() == 1 && step == 0;
    direct = !constant && v.dtype == dtype_of<C> && loop.sizes.rank() == 1 && step == 1;
    if (constant) load_run(buffer, v.data, v.dtype, 0, 0, std::min(tile, numel_of(sizes)));
  }

  // Calls run(to, offset, stride, count) for each piece of [begin, begin + n) inside one inner row.
  template <class F>
  static void pieces(const Dims& sizes, const Dims& strides, std::int64_t begin, std::int64_t n, F&& run) {
    const int inner = sizes.rank() - 1;
    const std::int64_t row = sizes[inner];
    for (std::int64_t done = 0; done < n;) {
      std::int64_t rest = (begin + done) / row;
      const std::int64_t column = (begin + done) % row;
      std::int64_t offset = column * strides[inner];
      for (int d = inner - 1; d >= 0; --d) {
        offset += rest % sizes[d] * strides[d];
        rest /= sizes[d];
      }
      const std::int64_t count = std::min(n - done, row - column);
      run(done, offset, strides[inner], count);
      done += count;
    }
  }
  const void* load(std::int64_t begin, std::int64_t n) {
    constexpr std::int64_t short_row = 128;
    if (direct) return static_cast<const C*>(view->data) + begin;
    if (constant) return buffer;
    if (loop.sizes.back() < short_row) {
      gather(begin, n);
      return buffer;
    }
    pieces(loop.sizes, loop.strides[0], begin, n,
           [&](std::int64_t at, std::int64_t offset, std::int64_t stride, std::int64_t count) {
             load_run(buffer + at, view->data, view->dtype, offset, stride, count);
           });
    return buffer;
  }
  void gather(std::int64_t begin, std::int64_t n) {
    const auto words = [&]<class Word>(Word* to) {
      gather_words(to, view->as<const Word>(), loop.sizes, loop.strides[0], begin, n);
    };
    alignas(64) unsigned char stored[8 * tile + 64];
    void* const to = view->dtype == dtype_of<C> ? static_cast<void*>(buffer) : stored;
    switch (size_of(view->dtype)) {
      case 8: words(static_cast<std::uint64_t*>(to)); break;
      case 4: words(static_cast<std::uint32_t*>(to)); break;
      case 2: words(static_cast<std::uint16_t*>(to)); break;
      default: words(static_cast<std::uint8_t*>(to));
    }
    if (to == stored) load_run(buffer, stored, view->dtype, 0, 1, n);
  }
  static void store(const View& y, const Dims& sizes, const Dims& strides, std::int64_t begin, std::int64_t n,
                    const C* from) {
    pieces(sizes, strides, begin, n,
           [&](std::int64_t at, std::int64_t offset, std::int64_t stride, std::int64_t count) {
             store_run(y.data, y.dtype, offset, stride, from + at, count);
           });
  }
};

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
