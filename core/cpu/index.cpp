// Indexing kernels. Work is split over lines along the indexed dimension, and each line belongs to one block, so
// additions to one element always happen in the same order.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "core/cpu/add_rows.h"
#include "core/cpu/row_walk.h"
#include "core/cpu/simd.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/visit_word.h"

namespace mantissa {
MANTISSA_KERNEL(check_indices, const View& index, std::int64_t size)
// The CPU kernels check their indices first; on a GPU the kernels do so themselves, and the error is thrown later.
MANTISSA_KERNEL(gather, const View& y, const View& x, int dim, const View& index)
MANTISSA_KERNEL(scatter_add, const View& y, int dim, const View& index, const View& source)
MANTISSA_KERNEL(scatter, const View& y, int dim, const View& index, const View& source)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {

void copy(const View& y, const View& x);  // core/cpu/copy.cpp

namespace {

// Offsets of three tensors at the start of a line: all dimensions of `sizes` but `dim`.
struct Offsets { std::int64_t a = 0, b = 0, c = 0; };
Offsets line_start(std::int64_t line, const Dims& sizes, int dim, const Dims& a, const Dims& b, const Dims& c) {
  Offsets o;
  for (int d = sizes.rank() - 1; d >= 0; --d) {
    if (d == dim) continue;
    const std::int64_t i = line % sizes[d];
    line /= sizes[d];
    o.a += i * a[d];
    o.b += i * b[d];
    o.c += i * c[d];
  }
  return o;
}

// Calls body(a, b, c) with the three offsets at the start of each line of `sizes` along `dim`. Indexed elements cost
// more than those of a contiguous run.
template <class F> void for_lines(const Dims& sizes, int dim, const Dims& a, const Dims& b, const Dims& c, F&& body) {
  const std::int64_t length = sizes[dim], lines = numel_of(sizes) / (length > 0 ? length : 1);
  if (length == 0 || lines == 0) return;
  parallel_for(lines, std::max<std::int64_t>(1, grain_size / (4 * length)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      const Offsets o = line_start(line, sizes, dim, a, b, c);
      body(o.a, o.b, o.c);
    }
  });
}
template <class Word> void gather_lines(const View& y, const View& x, int dim, const View& index) {
  const std::int64_t n = y.sizes[dim], ys = y.strides[dim], xs = x.strides[dim], is = index.strides[dim];
  for_lines(y.sizes, dim, y.strides, x.strides, index.strides, [&](std::int64_t yo, std::int64_t xo, std::int64_t io) {
    const std::int64_t* at = index.as<const std::int64_t>() + io;
    const Word* from = x.as<const Word>() + xo;
    Word* to = y.as<Word>() + yo;
    // local copies: byte-sized stores might alias the captured ones
    const std::int64_t count = n, y_step = ys, x_step = xs, step = is;
    for (std::int64_t i = 0; i < count; ++i) to[i * y_step] = from[at[i * step] * x_step];
  });
}

// Whether all positions along the other dimensions share one index, as in index_select.
bool selects(const Dims& sizes, int dim, const View& index) {
  for (int d = 0; d < sizes.rank(); ++d) if (d != dim && sizes[d] != 1 && index.strides[d] != 0) return false;
  return true;
}

// Copies contiguous runs of x, for a selection along a dimension other than the innermost of y.
template <class Word> bool gather_runs(const View& y, const View& x, int dim, const View& index) {
  if (y.numel() == 0 || !selects(y.sizes, dim, index)) return false;
  View to = y, from = x;
  for (View* v : {&to, &from}) v->sizes.erase(dim), v->strides.erase(dim);
  const Dims* strides[] = {&to.strides, &from.strides};
  const Loop loop = collapse_in_memory_order(to.sizes, strides, 2);
  const std::int64_t n = y.sizes[dim], ys = y.strides[dim], xs = x.strides[dim], run = loop.sizes.back();
  if (loop.strides[0].back() != 1 || loop.strides[1].back() != 1 || run < 8) return false;
  parallel_for(y.numel() / run, std::max<std::int64_t>(1, grain_size / run), [&](std::int64_t begin, std::int64_t end) {
    RowWalk walk(loop, 2, begin / n);
    for (std::int64_t i = begin % n; begin < end; ++begin) {
      const std::int64_t at = index.as<const std::int64_t>()[i * index.strides[dim]];
      std::copy_n(x.as<const Word>() + walk.offset(1) + at * xs, run, y.as<Word>() + walk.offset(0) + i * ys);
      if (++i == n) i = 0, walk.next();
    }
  });
  return true;
}

// Whether whole rows of a matrix are selected, one index for each: embeddings.
bool whole_rows(const View& rows, int dim, const View& index, const View& matrix) {
  return dim == 0 && rows.dim() == 2 && index.strides[1] == 0 && rows.strides[1] == 1 && matrix.strides[1] == 1;
}

// Lines of few elements, such as each row's logit of its label: element by element of y.
template <class Word> void gather_elements(const View& y, const View& x, int dim, const View& index) {
  Dims from = x.strides;
  from[dim] = 0;
  const Dims* strides[] = {&y.strides, &from, &index.strides};
  const Loop loop = collapse(y.sizes, strides, 3);
  const std::int64_t ys = loop.strides[0].back(), xs = loop.strides[1].back(), is = loop.strides[2].back();
  parallel_for(y.numel(), grain_size / 4, [&](std::int64_t begin, std::int64_t end) {
    for_row_pieces(loop, 3, begin, end, [&](const RowWalk& walk, std::int64_t column, std::int64_t n) {
      Word* to = y.as<Word>() + walk.offset(0) + column * ys;
      const Word* line = x.as<const Word>() + walk.offset(1) + column * xs;
      const std::int64_t* at = index.as<const std::int64_t>() + walk.offset(2) + column * is;
      const std::int64_t count = n, y_step = ys, x_step = xs, step = is, along = x.strides[dim];
      for (std::int64_t i = 0; i < count; ++i) to[i * y_step] = line[i * x_step + at[i * step] * along];
    });
  });
}

template <class Word> void gather_words(const View& y, const View& x, int dim, const View& index) {
  constexpr std::int64_t few = 8;
  if (gather_runs<Word>(y, x, dim, index)) return;
  if (y.sizes[dim] < few) gather_elements<Word>(y, x, dim, index);
  else gather_lines<Word>(y, x, dim, index);
}

void gather_rows(const View& y, const View& x, const View& index) {
  const auto size = static_cast<std::int64_t>(size_of(x.dtype)), bytes = y.sizes[1] * size;
  const std::int64_t grain = std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, y.sizes[1]));
  parallel_for(y.sizes[0], grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = index.as<const std::int64_t>()[i * index.strides[0]];
      std::memcpy(y.as<char>() + i * y.strides[0] * size, x.as<const char>() + row * x.strides[0] * size,
                  static_cast<std::size_t>(bytes));
    }
  });
}

template <class T> void scatter_add_rows(const View& y, const View& index, const View& source) {
  const std::int64_t n = index.sizes[0], step = index.strides[0], columns = source.sizes[1];  // y may have more
  if (columns == 0) return;  // then the index has no checked element
  add_rows<T>(
      y, columns, n, [=, at = index.as<const std::int64_t>()](std::int64_t i) { return at[i * step]; },
      [&](std::int64_t first, const auto& add) {
        const T* from = source.as<const T>() + first;
        for (std::int64_t i = 0; i < n; ++i, from += source.strides[0]) add(i, from);
      });
}

// Contiguous runs, for a selection along a dimension other than the innermost of y:
// f(y's elements, the source's, count). A range of a run belongs to one thread, so that duplicate indices are written
// in order.
template <class To, class From, class F>
bool for_runs_onto(const View& y, int dim, const View& index, const View& source, F&& f) {
  if (source.numel() == 0 || !selects(source.sizes, dim, index)) return false;
  View to = y, from = source;
  to.sizes = source.sizes;
  for (View* v : {&to, &from}) v->sizes.erase(dim), v->strides.erase(dim);
  const Dims* strides[] = {&to.strides, &from.strides};
  const Loop loop = collapse_in_memory_order(to.sizes, strides, 2);
  const std::int64_t n = source.sizes[dim], ys = y.strides[dim], ss = source.strides[dim], run = loop.sizes.back();
  if (loop.strides[0].back() != 1 || loop.strides[1].back() != 1 || run < 8) return false;
  const std::int64_t stretch = std::min<std::int64_t>(run, 1024), stretches = (run + stretch - 1) / stretch;
  const std::int64_t units = numel_of(loop.sizes) / run * stretches;
  parallel_for(units, std::max<std::int64_t>(1, grain_size / (n * stretch)), [&](std::int64_t begin, std::int64_t end) {
    RowWalk walk(loop, 2, begin / stretches);
    for (std::int64_t part = begin % stretches; begin < end; ++begin) {
      const std::int64_t first = part * stretch, count = std::min(stretch, run - first);
      for (std::int64_t i = 0; i < n; ++i) {
        f(y.as<To>() + walk.offset(0) + first + index.as<const std::int64_t>()[i * index.strides[dim]] * ys,
          source.as<const From>() + walk.offset(1) + first + i * ss, count);
      }
      if (++part == stretches) part = 0, walk.next();
    }
  });
  return true;
}
template <class T> bool scatter_add_runs(const View& y, int dim, const View& index, const View& source) {
  return for_runs_onto<T, T>(y, dim, index, source, [](T* sum, const T* add, std::int64_t count) {
    for (std::int64_t j = 0; j < count; ++j) sum[j] = static_cast<T>(sum[j] + add[j]);
  });
}
// The same for f16 and bf16, summed in f32 and rounded once: all of y is widened, so not if few of it are indexed.
template <class T> bool scatter_add_wide_runs(const View& y, int dim, const View& index, const View& source) {
  if (4 * index.sizes[dim] < y.sizes[dim] || source.numel() == 0 || !selects(source.sizes, dim, index)) return false;
  const Tensor wide = Tensor::allocate(y.sizes, f32);
  copy(wide.view(), y);
  const auto add_run = [](float* sum, const T* add, std::int64_t count) {
    for (std::int64_t j = 0; j < count; ++j) sum[j] += static_cast<float>(add[j]);
  };
  if (!for_runs_onto<float, T>(wide.view(), dim, index, source, add_run)) return false;
  copy(y, wide.view());
  return true;
}

template <class Word> void scatter_words(const View& y, int dim, const View& index, const View& source) {
  const auto copy_run = [](Word* to, const Word* from, std::int64_t count) { std::copy_n(from, count, to); };
  if (for_runs_onto<Word, Word>(y, dim, index, source, copy_run)) return;
  const std::int64_t n = index.sizes[dim], ys = y.strides[dim], ss = source.strides[dim], is = index.strides[dim];
  for_lines(index.sizes, dim, y.strides, source.strides, index.strides,
            [&](std::int64_t yo, std::int64_t so, std::int64_t io) {
              const std::int64_t* at = index.as<const std::int64_t>() + io;
              const Word* from = source.as<const Word>() + so;
              Word* to = y.as<Word>() + yo;
              for (std::int64_t i = 0; i < n; ++i) to[at[i * is] * ys] = from[i * ss];
            });
}

}  // namespace

void check_indices(const View& index, std::int64_t size) {
  if (index.numel() == 0) return;
  Dims sizes = index.sizes;
  for (int d = 0; d < sizes.rank(); ++d) if (index.strides[d] == 0) sizes[d] = 1;  // broadcast: check once
  const Dims* strides[] = {&index.strides};
  const Loop loop = collapse(sizes, strides, 1);
  const std::int64_t* p = index.as<const std::int64_t>();
  const std::int64_t step = loop.strides[0].back();
  const auto is_outside = [size](std::int64_t v) {
    return static_cast<std::uint64_t>(v) >= static_cast<std::uint64_t>(size);
  };
  std::atomic<bool> outside = false;
  parallel_for(numel_of(sizes), grain_size, [&](std::int64_t begin, std::int64_t end) {
    for_row_pieces(loop, 1, begin, end, [&](const RowWalk& walk, std::int64_t column, std::int64_t count) {
      const std::int64_t* from = p + walk.offset(0) + column * step;
      std::int64_t some = 0;
      if (step == 1) for (std::int64_t i = 0; i < count; ++i) some |= is_outside(from[i]);
      else for (std::int64_t i = 0; i < count; ++i) some |= is_outside(from[i * step]);
      if (some) outside = true;
    });
  });
  if (!outside) return;
  for_row_pieces(loop, 1, 0, numel_of(sizes), [&](const RowWalk& walk, std::int64_t column, std::int64_t count) {
    for (std::int64_t i = column; i < column + count; ++i) {
      const std::int64_t v = p[walk.offset(0) + i * step];
      check(!is_outside(v), "index ", v, " is out of range for a dimension of size ", size);
    }
  });
}

void gather(const View& y, const View& x, int dim, const View& index) {
  check_indices(index, x.sizes[dim]);
  if (whole_rows(y, dim, index, x)) return gather_rows(y, x, index);
  visit_word(x.dtype, [&]<class Word> { gather_words<Word>(y, x, dim, index); });
}

void scatter(const View& y, int dim, const View& index, const View& whole_source) {
  View source = whole_source;
  source.sizes = index.sizes;  // an index may be smaller than the source
  check_indices(index, y.sizes[dim]);
  visit_word(y.dtype, [&]<class Word> { scatter_words<Word>(y, dim, index, source); });
}

void scatter_add(const View& y, int dim, const View& index, const View& whole_source) {
  View source = whole_source;
  source.sizes = index.sizes;  // an index may be smaller than the source
  check_indices(index, y.sizes[dim]);
  const bool rows = whole_rows(source, dim, index, y);
  visit(y.dtype, [&]<class T> {
    using C = Compute<T>;
    if (rows) return scatter_add_rows<T>(y, index, source);
    if constexpr (sizeof(T) != 2) { if (scatter_add_runs<T>(y, dim, index, source)) return; }
    else if (scatter_add_wide_runs<T>(y, dim, index, source)) return;
    const std::int64_t n = index.sizes[dim], ys = y.strides[dim], ss = source.strides[dim], is = index.strides[dim];
    const std::int64_t length = y.sizes[dim];
    for_lines(index.sizes, dim, y.strides, source.strides, index.strides,
              [&](std::int64_t yo, std::int64_t so, std::int64_t io) {
                const std::int64_t* at = index.as<const std::int64_t>() + io;
                const T* from = source.as<const T>() + so;
                T* to = y.as<T>() + yo;
                if (n == 1) {
                  to[at[0] * ys] = static_cast<T>(static_cast<C>(to[at[0] * ys]) + static_cast<C>(from[0]));
                } else if constexpr (sizeof(T) == 2) {  // f16, bf16: summed in f32 and rounded once
                  const std::unique_ptr<C[]> sum(new C[static_cast<std::size_t>(length)]);
                  for (std::int64_t i = 0; i < n; ++i) sum[at[i * is]] = static_cast<C>(to[at[i * is] * ys]);
                  for (std::int64_t i = 0; i < n; ++i) sum[at[i * is]] += static_cast<C>(from[i * ss]);
                  for (std::int64_t i = 0; i < n; ++i) to[at[i * is] * ys] = convert<T>(sum[at[i * is]]);
                } else {
                  for (std::int64_t i = 0; i < n; ++i)
                    to[at[i * is] * ys] = static_cast<T>(to[at[i * is] * ys] + from[i * ss]);
                }
              });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
