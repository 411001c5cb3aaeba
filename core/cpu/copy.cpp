// Moving elements: copy with conversion, fill, and the in-place updates used to accumulate gradients.
#include <algorithm>

#include "core/cpu/row_walk.h"
#include "core/cpu/runs.h"
#include "core/cpu/simd.h"
#include "core/cpu/turn.h"
#include "core/cpu/vectors.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/visit_word.h"

namespace mantissa {
MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)
MANTISSA_KERNEL(add_in_place, const View& y, const View& x, double alpha)
MANTISSA_KERNEL(mul_in_place, const View& y, const View& x)
}  // namespace mantissa

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

constexpr std::int64_t tile = 512;

// A block of rows of y and of x, broadcast to it: offsets of the first, strides of elements and rows, number of
// elements and rows.
struct Rows {
  std::int64_t to, at, y_stride, x_stride, count, y_step, x_step, rows;
};
// Calls block(Rows) for pieces of y, in parallel.
template <class F> void for_blocks(const View& y, const View& x, F&& block) {
  const Dims from = broadcast_strides(x.sizes, x.strides, y.sizes);
  const Dims* strides[] = {&y.strides, &from};
  const Loop loop = collapse_in_memory_order(y.sizes, strides, 2);
  const std::int64_t total = y.numel();
  if (total == 0) return;
  const int inner = loop.sizes.rank() - 1;
  const std::int64_t ys = loop.strides[0][inner], xs = loop.strides[1][inner];
  parallel_for(total, grain_size, [&](std::int64_t begin, std::int64_t end) {
    for_row_blocks(
        loop, 2, begin, end, [&](const RowWalk& walk, std::int64_t column, std::int64_t count, std::int64_t rows) {
          const auto step = [&](int k) { return rows > 1 ? loop.strides[k][inner - 1] : 0; };
          block(
              Rows{walk.offset(0) + column * ys, walk.offset(1) + column * xs, ys, xs, count, step(0), step(1), rows});
        });
  });
}
// Calls row(y offset, x offset, y stride, x stride, count) for each row.
template <class F> void for_rows(const View& y, const View& x, F&& row) {
  for_blocks(y, x, [&](const Rows& b) {
    for (std::int64_t r = 0; r < b.rows; ++r)
      row(b.to + r * b.y_step, b.at + r * b.x_step, b.y_stride, b.x_stride, b.count);
  });
}

// A copy that transposes: y is contiguous along one dimension, x along another.
struct Turned {
  Loop loop;
  int inner, other;  // dimensions of the loop along which y and x are contiguous
  // their sizes; column stride in x, row stride in y
  std::int64_t columns, rows, x_step, y_step;
  std::int64_t matrices = 1;  // of rows x columns

  // False if the operands are not laid out so.
  bool init(const View& y, const View& x) {
    if (!(x.sizes == y.sizes) || y.numel() == 0) return false;
    const Dims* strides[] = {&y.strides, &x.strides};
    loop = collapse_in_memory_order(y.sizes, strides, 2);
    inner = loop.sizes.rank() - 1;
    other = -1;
    for (int d = 0; d < inner; ++d)
      if (loop.strides[1][d] == 1) other = d;
    if (other < 0 || loop.strides[0][inner] != 1 || loop.strides[1][inner] <= 1) return false;
    columns = loop.sizes[inner], rows = loop.sizes[other], x_step = loop.strides[1][inner],
    y_step = loop.strides[0][other];
    for (int d = 0; d < inner; ++d)
      if (d != other) matrices *= loop.sizes[d];
    return true;
  }
  // Calls block(to, at, n, m) for n <= run columns and m <= lines rows, with their offsets in y and x.
  template <class F> void blocks(std::int64_t run, std::int64_t lines, F&& block) const {
    const std::int64_t runs = (columns + run - 1) / run, bands = (rows + lines - 1) / lines;
    const std::int64_t grain = std::max<std::int64_t>(1, grain_size / (run * lines));
    parallel_for(matrices * bands * runs, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const std::int64_t column = b % runs * run, row = b / runs % bands * lines;
        std::int64_t rest = b / (runs * bands), to = column + row * y_step, at = column * x_step + row;
        for (int d = inner - 1; d >= 0; --d) {
          if (d == other) continue;
          to += rest % loop.sizes[d] * loop.strides[0][d];
          at += rest % loop.sizes[d] * loop.strides[1][d];
          rest /= loop.sizes[d];
        }
        block(to, at, std::min(run, columns - column), std::min(lines, rows - row));
      }
    });
  }
};

// Transposes by blocks through a buffer, so that both sides are accessed in contiguous runs; rows a power of two apart
// would otherwise map to few cache sets. False if that does not pay off.
template <class Word> bool turn_through_buffer(const Turned& t, const View& y, const View& x) {
  // in words: a run of y, a cache line of x
  constexpr std::int64_t longest = 64, line = 64 / static_cast<std::int64_t>(sizeof(Word));
  constexpr std::int64_t space = line * (longest + longest / 2);  // lines * pitch at most, as a run has 2 words or more
  const std::int64_t few = 16;
  // writing to many pages in turn was slower
  if (t.rows >= few && t.y_step * static_cast<std::int64_t>(sizeof(Word)) > 1024) return false;
  const std::int64_t run = std::min(t.columns, longest), lines = line * (longest / run), pitch = run + 1;
  t.blocks(run, lines, [&](std::int64_t to, std::int64_t at, std::int64_t n, std::int64_t m) {
    Word buffer[space];
    for (std::int64_t i = 0; i < n; ++i) {
      const Word* from = x.as<const Word>() + at + i * t.x_step;
      for (std::int64_t j = 0; j < m; ++j) buffer[j * pitch + i] = from[j];
    }
    for (std::int64_t j = 0; j < m; ++j) std::copy_n(buffer + j * pitch, n, y.as<Word>() + to + j * t.y_step);
  });
  return true;
}

#if defined(__AVX2__)
// Transposes squares in registers: each cache line is read and written once, as a whole, so the distance of rows does
// not matter. Blocks of four by four squares keep adjacent lines together.
template <class Word> void turn_in_registers(const Turned& t, const View& y, const View& x) {
  constexpr std::int64_t run = transpose::run<Word>, width = transpose::width;
  t.blocks(4 * run, 4 * width, [&](std::int64_t to, std::int64_t at, std::int64_t n, std::int64_t m) {
    for (std::int64_t i = 0; i < n; i += run) {
      for (std::int64_t j = 0; j < m; j += width) {
        Word* out = y.as<Word>() + to + i + j * t.y_step;
        const Word* in = x.as<const Word>() + at + i * t.x_step + j;
        if (i + run <= n && j + width <= m) {
          transpose::turn_block(in, t.x_step, out, t.y_step);
          continue;
        }
        for (std::int64_t a = 0; a < std::min(width, m - j); ++a) {
          for (std::int64_t b = 0; b < std::min(run, n - i); ++b) out[a * t.y_step + b] = in[b * t.x_step + a];
        }
      }
    }
  });
}
#endif

// Two to four planes to interleaved pixels and back, as for colour images: loops with compile-time counts, so that the
// compiler vectorises them. False for anything else.
template <int n, class Word> void copy_pixels(const Turned& t, const View& y, const View& x) {
  constexpr std::int64_t pixels = 4096;  // per block
  const bool to_pixels = t.columns == n && t.y_step == n;
  const std::int64_t plane = to_pixels ? t.x_step : t.y_step;
  const auto block = [&](std::int64_t to, std::int64_t at, std::int64_t columns, std::int64_t rows) {
    Word* __restrict out = y.as<Word>() + to;
    const Word* __restrict in = x.as<const Word>() + at;
    if (to_pixels) {
      for (std::int64_t p = 0; p < rows; ++p)
        for (int i = 0; i < n; ++i) out[p * n + i] = in[i * plane + p];
    } else {
      for (std::int64_t p = 0; p < columns; ++p)
        for (int i = 0; i < n; ++i) out[i * plane + p] = in[p * n + i];
    }
  };
  t.blocks(to_pixels ? n : pixels, to_pixels ? pixels : n, block);
}
template <class Word> bool copy_few_planes(const Turned& t, const View& y, const View& x) {
  const bool to_pixels = t.y_step == t.columns && t.columns <= 4, from_pixels = t.x_step == t.rows && t.rows <= 4;
  if (!to_pixels && !from_pixels) return false;
  switch (to_pixels ? t.columns : t.rows) {
    case 2:
      return copy_pixels<2, Word>(t, y, x), true;
    case 3:
      return copy_pixels<3, Word>(t, y, x), true;
    case 4:
      return copy_pixels<4, Word>(t, y, x), true;
    default:
      return false;
  }
}

template <class Word> bool copy_turned(const View& y, const View& x) {
  Turned t;
  if (!t.init(y, x)) return false;
  if (copy_few_planes<Word>(t, y, x)) return true;
#if defined(__AVX2__)
  if constexpr (sizeof(Word) == 4 || sizeof(Word) == 2) {
    if (t.rows >= transpose::width && t.columns >= transpose::run<Word>) return turn_in_registers<Word>(t, y, x), true;
  }
#endif
  return turn_through_buffer<Word>(t, y, x);
}

// Elements of one dtype are moved as words of their size.
template <class Word> void copy_words(const View& y, const View& x) {
  if (copy_turned<Word>(y, x)) return;
  for_blocks(y, x, [&](const Rows& b) {
    Word* out = y.as<Word>() + b.to;
    const Word* in = x.as<const Word>() + b.at;
    const std::int64_t ys = b.y_stride, xs = b.x_stride, n = b.count;
    const auto short_rows = [&](auto length) {  // length known at compile time
      for (std::int64_t r = 0; r < b.rows; ++r, out += b.y_step, in += b.x_step)
        for (std::int64_t i = 0; i < length; ++i) out[i * ys] = in[i * xs];
    };
    if (b.rows > 1 && n == 2) return short_rows(std::integral_constant<std::int64_t, 2>{});
    if (b.rows > 1 && n == 3) return short_rows(std::integral_constant<std::int64_t, 3>{});
    if (b.rows > 1 && n == 4) return short_rows(std::integral_constant<std::int64_t, 4>{});
    if (ys == 1 && xs == 1) return copy_rows(out, b.y_step, in, b.x_step, n, b.rows);
    for (std::int64_t r = 0; r < b.rows; ++r, out += b.y_step, in += b.x_step) {
      if (ys == 1 && xs == 0) fill_run(out, *in, n);
      else if (ys == 1 && xs == -1) std::reverse_copy(in - n + 1, in + 1, out);
      else
        for (std::int64_t i = 0; i < n; ++i) out[i * ys] = in[i * xs];
    }
  });
}

// f(out, in, n) for rows of types Y and X whose elements lie side by side; the other blocks are left to `rest`. Rows
// may be short, such as a part of the channels of a channels-last image.
template <class Y, class X, class F, class G>
void for_dense_rows(const View& y, const View& x, const F& f, const G& rest) {
  const bool typed = y.dtype == dtype_of<Y> && x.dtype == dtype_of<X>;
  for_blocks(y, x, [&](const Rows& b) {
    if (!typed || b.y_stride != 1 || b.x_stride != 1) return rest(b);
    Y* out = y.as<Y>() + b.to;
    const X* in = x.as<const X>() + b.at;
    for (std::int64_t r = 0; r < b.rows; ++r) f(out + r * b.y_step, in + r * b.x_step, b.count);
  });
}
// f.operator()<Y, X>() with the types of y and x, both of f32, f16 or bf16.
template <class F> void visit_up_to_f32(const View& y, const View& x, const F& f) {
  const auto with = [&]<class Y> {
    if (x.dtype == f32) f.template operator()<Y, float>();
    else if (x.dtype == f16) f.template operator()<Y, Half>();
    else f.template operator()<Y, BFloat16>();
  };
  if (y.dtype == f32) with.template operator()<float>();
  else if (y.dtype == f16) with.template operator()<Half>();
  else with.template operator()<BFloat16>();
}

// y = x via compute type C.
template <class C> void convert_rows(const View& y, const View& x, const Rows& b) {
  for (std::int64_t r = 0; r < b.rows; ++r) {
    const std::int64_t to = b.to + r * b.y_step, at = b.at + r * b.x_step;
    if (x.dtype == dtype_of<C> && b.x_stride == 1) {
      store_run(y.data, y.dtype, to, b.y_stride, x.as<const C>() + at, b.count);
    } else if (y.dtype == dtype_of<C> && b.y_stride == 1) {
      load_run(y.as<C>() + to, x.data, x.dtype, at, b.x_stride, b.count);
    } else {
      C buffer[tile];
      for (std::int64_t i = 0; i < b.count; i += tile) {
        const std::int64_t n = std::min(tile, b.count - i);
        load_run(buffer, x.data, x.dtype, at + i * b.x_stride, b.x_stride, n);
        store_run(y.data, y.dtype, to + i * b.y_stride, b.y_stride, buffer, n);
      }
    }
  }
}
template <class C> void copy_converting(const View& y, const View& x) {
  for_blocks(y, x, [&](const Rows& b) { convert_rows<C>(y, x, b); });
}

// Between f32, f16 and bf16.
void copy_rounding(const View& y, const View& x) {
  visit_up_to_f32(y, x, [&]<class Y, class X> {
    const auto in_registers = [](Y* out, const X* in, std::int64_t n) {
      for_vectors<float>(n, [&](const auto& lanes, std::int64_t j) { lanes.store(out + j, lanes.load(in + j)); });
    };
    for_dense_rows<Y, X>(y, x, in_registers, [&](const Rows& b) { convert_rows<float>(y, x, b); });
  });
}

// Integers of up to 32 bits to other numbers, converted directly.
template <class From> void copy_widening(const View& y, const View& x) {
  visit(y.dtype, [&]<class To> {
    for_rows(y, x, [&](std::int64_t to, std::int64_t at, std::int64_t ys, std::int64_t xs, std::int64_t n) {
      To* out = y.as<To>() + to;
      const From* in = x.as<const From>() + at;
      const auto widened = [](From v) {
        if constexpr (std::is_integral_v<To> || sizeof(To) == 8) return static_cast<To>(v);
        else return To(static_cast<float>(v));
      };
      if (ys == 1 && xs == 1) for (std::int64_t i = 0; i < n; ++i) out[i] = widened(in[i]);
      else for (std::int64_t i = 0; i < n; ++i) out[i * ys] = widened(in[i * xs]);
    });
  });
}

// y = f(y, x) in compute type C.
template <class C, class Y, class X, class F> void update(const View& y, const View& x, const F& f) {
  constexpr bool vectors = std::is_floating_point_v<C>;
  const auto with_elements = [&](Y* out, const X* in, std::int64_t n) {
    if constexpr (vectors)
      for_vectors<C>(n, [&](const auto& lanes, std::int64_t j) {
        lanes.store(out + j, f(lanes.load(out + j), lanes.load(in + j)));
      });
    else for (std::int64_t i = 0; i < n; ++i) out[i] = f(out[i], in[i]);
  };
  const auto with_number = [&](Y* out, C number, std::int64_t n) {
    if constexpr (vectors)
      for_vectors<C>(n, [&](const auto& lanes, std::int64_t j) {
        lanes.store(out + j, f(lanes.load(out + j), Vec<C>(number)));
      });
    else for (std::int64_t i = 0; i < n; ++i) out[i] = f(out[i], static_cast<Y>(number));
  };
  for_dense_rows<Y, X>(y, x, with_elements, [&](const Rows& b) {
    if (y.dtype == dtype_of<Y> && b.y_stride == 1 && b.x_stride == 0) {
      for (std::int64_t r = 0; r < b.rows; ++r) {
        C number;
        load_run(&number, x.data, x.dtype, b.at + r * b.x_step, 0, 1);
        with_number(y.as<Y>() + b.to + r * b.y_step, number, b.count);
      }
      return;
    }
    C u[tile], v[tile];
    for (std::int64_t r = 0; r < b.rows; ++r)
      for (std::int64_t i = 0; i < b.count; i += tile) {
        const std::int64_t n = std::min(tile, b.count - i);
        const std::int64_t to = b.to + r * b.y_step + i * b.y_stride, at = b.at + r * b.x_step + i * b.x_stride;
        load_run(u, y.data, y.dtype, to, b.y_stride, n);
        load_run(v, x.data, x.dtype, at, b.x_stride, n);
        for (std::int64_t j = 0; j < n; ++j) u[j] = f(u[j], v[j]);
        store_run(y.data, y.dtype, to, b.y_stride, u, n);
      }
  });
}
template <class F> void update_in_compute_type(const View& y, const View& x, const F& f) {
  const Dtype compute = compute_dtype(y.dtype);
  if (compute == f64) update<double, double, double>(y, x, f);
  else if (compute == i64) update<std::int64_t, std::int64_t, std::int64_t>(y, x, f);
  else visit_up_to_f32(y, x, [&]<class Y, class X> { update<float, Y, X>(y, x, f); });
}

// For numbers of compute types and vectors of them.
struct AddScaled {
  double alpha;
  template <class C> C operator()(const C& a, const C& b) const {
    if constexpr (std::is_arithmetic_v<C>) return static_cast<C>(a + static_cast<C>(alpha) * b);
    else return a + C(static_cast<typename C::value_type>(alpha)) * b;
  }
};
struct Multiply {
  template <class C> C operator()(const C& a, const C& b) const { return static_cast<C>(a * b); }
};

}  // namespace

void copy(const View& y, const View& x) {
  if (x.dtype == y.dtype) {
    return visit_word(x.dtype, [&]<class Word> { copy_words<Word>(y, x); });
  }
  Turned turned;
  if (y.is_contiguous() && y.numel() >= grain_size && turned.init(y, x)) {  // in x's dtype, by whole cache lines
    const Tensor rows = Tensor::allocate(y.sizes, x.dtype);
    copy(rows.view(), x);
    return copy(y, rows.view());
  }
  if (y.dtype != boolean && y.dtype != u8) {
    if (x.dtype == i32) return copy_widening<std::int32_t>(y, x);
    if (x.dtype == u8 || x.dtype == boolean) return copy_widening<std::uint8_t>(y, x);  // false and true are 0 and 1
  }
  const Dtype a = compute_dtype(x.dtype), b = compute_dtype(y.dtype);
  if (a == i64 && b == i64) copy_converting<std::int64_t>(y, x);
  else if (a == f32 && b == f32) copy_rounding(y, x);
  else copy_converting<double>(y, x);  // via f64: exact from f32, and from integers below 2^53
}

void fill(const View& y, double value) {
  alignas(8) unsigned char element[8];  // converted once, then copied as words
  store_run(element, y.dtype, 0, 1, &value, 1);
  copy(y, View{element, {}, {}, y.dtype, y.device});
}

void add_in_place(const View& y, const View& x, double alpha) {
  update_in_compute_type(y, x, AddScaled{alpha});
}
void mul_in_place(const View& y, const View& x) {
  update_in_compute_type(y, x, Multiply{});
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
