// Separable linear maps of planes (core/resample.h). Each row of a result is computed at once: the required rows of x
// are summed into a line that stays in cache, then the line's elements into the result. For channels-last images the
// elements of a line are whole pixels; for other images several lines are transposed, so that a pixel is one element of
// each. Maps that only select elements, such as padding, are copies.
#include "core/resample.h"

#include <algorithm>

#include "core/cpu/reduce_source.h"
#include "core/cpu/runs.h"
#include "core/parallel.h"
#include "core/scratch.h"
#include "core/visit_word.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// to[j] = the sum over k of weight[k] * x[at[k] * pitch + j]. `most`: the number of taps, or 0 for any number.
template <int most, class C, class From, class To>
void sum_lines(std::int64_t n, const From* x, const std::int64_t* at, const C* weight, std::int64_t taps,
               std::int64_t pitch, To* to) {
  const std::int64_t count = most > 0 ? most : taps;
  for_vectors<C>(n, [&](const auto& lanes, std::int64_t j) {
    Vec<C> v = Vec<C>(weight[0]) * lanes.load(x + at[0] * pitch + j);
    for (std::int64_t k = 1; k < count; ++k) v = xsimd::fma(Vec<C>(weight[k]), lanes.load(x + at[k] * pitch + j), v);
    lanes.store(to + j, v);
  });
}
template <class C, class From, class To>
void sum_lines(std::int64_t n, const From* x, const std::int64_t* at, const C* weight, std::int64_t taps,
               std::int64_t pitch, To* to) {
  if (taps == 0) std::fill_n(to, n, To(0));
  else if (taps == 1) sum_lines<1>(n, x, at, weight, taps, pitch, to);
  else if (taps == 2) sum_lines<2>(n, x, at, weight, taps, pitch, to);
  else sum_lines<0>(n, x, at, weight, taps, pitch, to);
}

// Columns that are copied together: runs of results whose sources are adjacent, if long enough to be worth a copy call;
// the others are copied one by one.
struct Runs {
  struct Run {
    std::int64_t first, count;
  };
  std::vector<Run> runs;
  std::vector<std::int64_t> singles;

  Runs(const Taps& t, std::int64_t pixel) {
    constexpr std::int64_t enough = 8;
    const std::int64_t* at = t.at.data();
    for (std::int64_t first = 0, end; first < t.out(); first = end) {
      for (end = first + 1; end < t.out() && at[end] == at[end - 1] + 1;) ++end;
      if ((end - first) * pixel >= enough) runs.push_back({first, end - first});
      else
        for (std::int64_t i = first; i < end; ++i) singles.push_back(i);
    }
  }
};

// A tensor as `planes` of rows of pixels: each channel is a plane, or all channels of a pixel are adjacent.
struct Planes {
  std::int64_t planes, pixel, height, width;
  Planes(const View& v, bool last)
      : planes(last ? v.sizes[0] : v.sizes[0] * v.sizes[1]), pixel(last ? v.sizes[1] : 1), height(v.sizes[2]),
        width(v.sizes[3]) {}
  std::int64_t line() const { return width * pixel; }
};
// f(first, last) for parts of the rows of all planes.
template <class F> void for_rows(const Planes& to, const F& f) {
  parallel_for(to.planes * to.height, std::max<std::int64_t>(1, grain_size / to.line()), f);
}

template <class Word>
void choose(Word* y, const Word* x, const Planes& to, const Planes& from, const Taps& rows, const Taps& columns) {
  const Runs plan(columns, to.pixel);
  const std::int64_t *row_at = rows.at.data(), *at = columns.at.data(), pixel = to.pixel;
  for_rows(to, [&](std::int64_t first, std::int64_t last) {
    std::int64_t plane = first / to.height, i = first % to.height - 1;
    for (std::int64_t u = first; u < last; ++u) {
      if (++i == to.height) i = 0, ++plane;
      const Word* line = x + (plane * from.height + (rows.out() > 0 ? row_at[i] : i)) * from.line();
      Word* result = y + u * to.line();
      if (columns.out() == 0) {
        copy_run(result, line, to.line());
        continue;
      }
      for (const auto& r : plan.runs)
        copy_run(result + r.first * pixel, line + at[r.first] * pixel, r.count * pixel);
      if (pixel == 1) {
        for (const std::int64_t j : plan.singles) result[j] = line[at[j]];
      } else {
        for (const std::int64_t j : plan.singles) {
          for (std::int64_t c = 0; c < pixel; ++c) result[j * pixel + c] = line[at[j] * pixel + c];
        }
      }
    }
  });
}

// Sums the rows of x into a line, for any row of y.
template <class T> struct RowSums {
  using C = Compute<T>;
  const T* x;
  Planes to, from;
  const Taps& rows;
  std::vector<C> weights;

  RowSums(const T* x, const Planes& to, const Planes& from, const Taps& rows)
      : x(x), to(to), from(from), rows(rows), weights(rows.weight.begin(), rows.weight.end()) {}
  // Row u of x, if the result's row is a copy of it.
  const T* row(std::int64_t u) const { return x + u * from.line(); }
  template <class To> void sum(std::int64_t u, To* line) const {
    const std::int64_t plane = u / to.height, i = u % to.height, k = rows.start[static_cast<std::size_t>(i)];
    sum_lines(from.line(), x + plane * from.height * from.line(), rows.at.data() + k, weights.data() + k,
              rows.start[static_cast<std::size_t>(i + 1)] - k, from.line(), line);
  }
};

// Pixels with enough channels for vectors over them.
template <class T> void sum_pixels(T* y, const RowSums<T>& down, const Taps& columns) {
  using C = Compute<T>;
  const Planes &to = down.to, &from = down.from;
  const std::vector<C> weights(columns.weight.begin(), columns.weight.end());
  const std::int64_t *at = columns.at.data(), *start = columns.start.data();
  const auto across = [&](const auto* line, T* result) {
    for (std::int64_t j = 0; j < to.width; ++j) {
      sum_lines(to.pixel, line, at + start[j], weights.data() + start[j], start[j + 1] - start[j], to.pixel,
                result + j * to.pixel);
    }
  };
  for_rows(to, [&](std::int64_t first, std::int64_t last) {
    ScratchVector<C> line(static_cast<std::size_t>(from.line()));
    for (std::int64_t u = first; u < last; ++u) {
      T* result = y + u * to.line();
      if (columns.out() == 0) {
        down.sum(u, result);
      } else if (down.rows.out() == 0) {
        across(down.row(u), result);
      } else {
        down.sum(u, line.data());
        across(line.data(), result);
      }
    }
  });
}

// Narrow pixels: as many rows as a vector has elements are transposed, so that a vector holds one element of each.
template <class T> void sum_turned(T* y, const RowSums<T>& down, const Taps& columns) {
  using C = Compute<T>;
  constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
  const Planes &to = down.to, &from = down.from;
  const std::vector<C> weights(columns.weight.begin(), columns.weight.end());
  const std::int64_t *at = columns.at.data(), *start = columns.start.data();
  const std::int64_t in = from.line(), out = to.line(), rows = to.planes * to.height, run = to.pixel * width;
  parallel_for((rows + width - 1) / width, std::max<std::int64_t>(1, grain_size / (out * width)),
               [&](std::int64_t first, std::int64_t last) {
                 ScratchVector<C> memory(static_cast<std::size_t>(2 * width * (in + out)));
                 C *lines = memory.data(), *turned = lines + width * in, *sums = turned + width * in,
                   *wide = sums + width * out;
                 for (std::int64_t b = first; b < last; ++b) {
                   const std::int64_t u = b * width, count = std::min(width, rows - u);
                   if (down.rows.out() == 0) {
                     turn(down.row(u), in, turned, width, in, count);
                   } else {
                     for (std::int64_t i = 0; i < count; ++i) down.sum(u + i, lines + i * in);
                     turn(lines, in, turned, width, in, count);
                   }
                   for (std::int64_t j = 0; j < to.width; ++j) {
                     sum_lines(run, turned, at + start[j], weights.data() + start[j], start[j + 1] - start[j], run,
                               sums + j * run);
                   }
                   T* result = y + u * out;
                   if constexpr (std::is_same_v<T, C>) {
                     turn(sums, width, result, out, count, out);
                   } else {
                     turn(sums, width, wide, out, count, out);
                     for_vectors<C>(count * out,
                                    [&](const auto& of, std::int64_t j) { of.store(result + j, of.load(wide + j)); });
                   }
                 }
               });
}

}  // namespace

void resample(const View& y, const View& x, const LineMaps& maps) {
  if (y.numel() == 0) return;
  const Taps none;
  const Taps &rows = maps[1].taps ? *maps[1].taps : none, &columns = maps[2].taps ? *maps[2].taps : none;
  const bool last = !y.is_contiguous();
  Tensor dense;
  const void* data = x.data;
  if (!(last ? is_channels_last(x.sizes, x.strides) : x.is_contiguous())) {
    dense = Tensor::allocate(x.sizes, x.dtype, cpu, last ? Layout::channels_last : Layout::contiguous);
    copy(dense.view(), x);
    data = dense.raw_data();
  }
  const Planes to(y, last), from(x, last);
  if (rows.only_chooses() && columns.only_chooses()) {
    return visit_word(y.dtype, [&]<class Word> {
      choose(y.as<Word>(), static_cast<const Word*>(data), to, from, rows, columns);
    });
  }
  visit_floating(y.dtype, [&]<class T> {
    const RowSums<T> down(static_cast<const T*>(data), to, from, rows);
    const bool narrow = to.pixel < static_cast<std::int64_t>(Vec<Compute<T>>::size) / 2;
    if (narrow && columns.out() > 0) sum_turned(y.as<T>(), down, columns);
    else sum_pixels(y.as<T>(), down, columns);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
