// Moving elements: copy with conversion, fill, and the in-place updates gradients accumulate with.
#include <algorithm>

#include "core/cpu/simd.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)
MANTISSA_KERNEL(add_in_place, const View& y, const View& x, double alpha)
MANTISSA_KERNEL(mul_in_place, const View& y, const View& x)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

constexpr std::int64_t tile = 512;

// Calls row(y offset, x offset, y stride, x stride, count) for pieces of rows of y, with x broadcast
// to it, split over threads.
template <class F> void for_rows(const View& y, const View& x, F&& row) {
  const Dims from = broadcast_strides(x.sizes, x.strides, y.sizes);
  const Dims* strides[] = {&y.strides, &from};
  const Loop loop = collapse_in_memory_order(y.sizes, strides, 2);
  const std::int64_t total = y.numel();
  if (total == 0) return;
  const int inner = loop.sizes.rank() - 1;
  const std::int64_t length = loop.sizes[inner];
  parallel_for(total, grain_size, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      std::int64_t rest = begin / length;
      const std::int64_t column = begin % length;
      std::int64_t to = column * loop.strides[0][inner], at = column * loop.strides[1][inner];
      for (int d = inner - 1; d >= 0; --d) {
        to += rest % loop.sizes[d] * loop.strides[0][d];
        at += rest % loop.sizes[d] * loop.strides[1][d];
        rest /= loop.sizes[d];
      }
      const std::int64_t count = std::min(end - begin, length - column);
      row(to, at, loop.strides[0][inner], loop.strides[1][inner], count);
      begin += count;
    }
  });
}

// Elements of one dtype move as plain words of their size.
template <class Word> void copy_words(const View& y, const View& x) {
  for_rows(y, x, [&](std::int64_t to, std::int64_t at, std::int64_t ys, std::int64_t xs, std::int64_t n) {
    Word* out = y.as<Word>() + to;
    const Word* in = x.as<const Word>() + at;
    if (ys == 1 && xs == 1) std::copy_n(in, n, out);
    else for (std::int64_t i = 0; i < n; ++i) out[i * ys] = in[i * xs];
  });
}

// y = x through compute type C.
template <class C> void copy_converting(const View& y, const View& x) {
  for_rows(y, x, [&](std::int64_t to, std::int64_t at, std::int64_t ys, std::int64_t xs, std::int64_t n) {
    C buffer[tile];
    for (std::int64_t i = 0; i < n; i += tile) {
      const std::int64_t m = std::min(tile, n - i);
      load_run(buffer, x.data, x.dtype, at + i * xs, xs, m);
      store_run(y.data, y.dtype, to + i * ys, ys, buffer, m);
    }
  });
}

// y = f(y, x) in compute type C.
template <class C, class F> void update(const View& y, const View& x, F&& f) {
  for_rows(y, x, [&](std::int64_t to, std::int64_t at, std::int64_t ys, std::int64_t xs, std::int64_t n) {
    C a[tile], b[tile];
    for (std::int64_t i = 0; i < n; i += tile) {
      const std::int64_t m = std::min(tile, n - i);
      load_run(a, y.data, y.dtype, to + i * ys, ys, m);
      load_run(b, x.data, x.dtype, at + i * xs, xs, m);
      for (std::int64_t j = 0; j < m; ++j) a[j] = f(a[j], b[j]);
      store_run(y.data, y.dtype, to + i * ys, ys, a, m);
    }
  });
}

template <class F> void update_in_compute_type(const View& y, const View& x, F&& f) {
  switch (compute_dtype(y.dtype)) {
    case Dtype::f64: return update<double>(y, x, f);
    case Dtype::f32: return update<float>(y, x, f);
    default: return update<std::int64_t>(y, x, f);
  }
}

}  // namespace

void copy(const View& y, const View& x) {
  if (x.dtype == y.dtype) {
    switch (size_of(x.dtype)) {
      case 8: return copy_words<std::uint64_t>(y, x);
      case 4: return copy_words<std::uint32_t>(y, x);
      case 2: return copy_words<std::uint16_t>(y, x);
      default: return copy_words<std::uint8_t>(y, x);
    }
  }
  const Dtype a = compute_dtype(x.dtype), b = compute_dtype(y.dtype);
  if (a == i64 && b == i64) copy_converting<std::int64_t>(y, x);
  else if (a == f32 && b == f32) copy_converting<float>(y, x);
  else copy_converting<double>(y, x);  // through f64: exact from f32, and from integers below 2^53
}

void fill(const View& y, double value) {
  alignas(8) unsigned char element[8];  // converted once, then copied as words
  store_run(element, y.dtype, 0, 1, &value, 1);
  copy(y, View{element, {}, {}, y.dtype, y.device});
}

void add_in_place(const View& y, const View& x, double alpha) {
  update_in_compute_type(y, x, [alpha]<class C>(C a, C b) { return static_cast<C>(a + static_cast<C>(alpha) * b); });
}
void mul_in_place(const View& y, const View& x) {
  update_in_compute_type(y, x, []<class C>(C a, C b) { return static_cast<C>(a * b); });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
