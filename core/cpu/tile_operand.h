// How elementwise kernels reach their operands: tile by tile, as contiguous elements of the type they compute in.
#pragma once

#include <algorithm>

#include "core/cpu/simd.h"
#include "core/layout.h"
#include "core/tensor.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

inline constexpr std::int64_t tile = 512;  // elements; operands of one tile stay in the first-level cache

// How operand elements [begin, begin + n) of the collapsed loop reach a contiguous tile.
template <class C> struct Operand {
  const View* view = nullptr;
  const Dims* sizes = nullptr;    // of the collapsed loop
  const Dims* strides = nullptr;  // this operand's
  bool direct = false;            // contiguous and of compute type: no copy at all
  bool constant = false;          // one element for all
  C buffer[tile];

  Operand() {}  // leaves the buffer as it is

  // Of a loop over `sizes`, in which the operand has `strides`. All three must outlive it.
  void init(const View& v, const Dims& loop_sizes, const Dims& loop_strides) {
    view = &v;
    sizes = &loop_sizes;
    strides = &loop_strides;
    constant = true;
    for (int d = 0; d < sizes->rank(); ++d) constant = constant && (*strides)[d] == 0;
    direct = !constant && v.dtype == dtype_of<C> && sizes->rank() == 1 && (*strides)[0] == 1;
    if (constant) load_run(buffer, v.data, v.dtype, 0, 0, std::min(tile, numel_of(*sizes)));
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
    if (direct) return static_cast<const C*>(view->data) + begin;
    if (!constant) {
      pieces(*sizes, *strides, begin, n,
             [&](std::int64_t at, std::int64_t offset, std::int64_t stride, std::int64_t count) {
               load_run(buffer + at, view->data, view->dtype, offset, stride, count);
             });
    }
    return buffer;
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
