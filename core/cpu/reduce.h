// The reduction all reductions are made of: y[o] = fold over the reduced elements of source, for
// any strides. The order of folding depends on shapes only, never on strides or on threads, so a view and its copy, and
// any number of threads, give the same bits.
//
// Two cases. When the innermost dimension is reduced, every result folds runs of elements (tiles of
// 512 in vector registers). When it is kept, rows are folded into each other column by column. Where memory lies the
// other way (channels-last images, transposed matrices), the same order is kept for many results side by side.
#pragma once

#include <memory>

#include "core/cpu/rows.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// x's dimensions, sorted into kept and reduced, with x's strides. Results are numbered row-major.
struct ReducePlan {
  Dims kept, kept_strides, reduced, reduced_strides;
  bool inner_reduced = false;
  std::int64_t outputs = 1, count = 1;

  // `y` has x's rank, size 1 where x is reduced.
  ReducePlan(const Dims& y, const View& x) : outputs(numel_of(y)) {
    Dims mark = contiguous_strides(y);  // 0 marks what is reduced
    for (int d = 0; d < x.dim(); ++d) {
      if (y[d] != x.sizes[d]) mark[d] = 0, count *= x.sizes[d];
    }
    if (outputs == 0 || count == 0) return;
    const Dims* strides[] = {&x.strides, &mark};
    const Loop loop = collapse(x.sizes, strides, 2);
    for (int d = 0; d < loop.sizes.rank(); ++d) {
      inner_reduced = loop.strides[1][d] == 0;
      (inner_reduced ? reduced : kept).push_back(loop.sizes[d]);
      (inner_reduced ? reduced_strides : kept_strides).push_back(loop.strides[0][d]);
    }
  }
};

// Steps through some dimensions in row-major order, a piece of the innermost one at a time.
class Walker {
 public:
  Walker(const Dims& sizes, const Dims& strides, std::int64_t start) : sizes_(sizes), strides_(strides) {
    for (int d = sizes.rank() - 1; d >= 0; --d) {
      index_[d] = start % sizes[d];
      start /= sizes[d];
      offset_ += index_[d] * strides[d];
    }
  }
  std::int64_t offset() const { return offset_; }
  std::int64_t inner_stride() const { return strides_.empty() ? 1 : strides_.back(); }
  std::int64_t left_in_row() const { return sizes_.empty() ? 1 : sizes_.back() - index_[sizes_.rank() - 1]; }
  void advance(std::int64_t n) {  // n <= left_in_row()
    if (sizes_.empty()) return;
    int d = sizes_.rank() - 1;
    index_[d] += n;
    offset_ += n * strides_[d];
    for (; d > 0 && index_[d] == sizes_[d]; --d) {
      offset_ += strides_[d - 1] - sizes_[d] * strides_[d];
      index_[d] = 0;
      ++index_[d - 1];
    }
  }

 private:
  const Dims& sizes_;
  const Dims& strides_;
  std::int64_t index_[Dims::max_rank] = {};
  std::int64_t offset_ = 0;
};

// --- sources: where the folded elements come from. `centre` belongs to the results: centre[i * step].
template <class C> struct Elements {
  View x;
  const C* direct(std::int64_t offset, std::int64_t stride) const {
    return stride == 1 && x.dtype == dtype_of<C> ? x.as<const C>() + offset : nullptr;
  }
  void load(C* to, std::int64_t offset, std::int64_t stride, std::int64_t n, const C*, int) const {
    load_run(to, x.data, x.dtype, offset, stride, n);
  }
};
template <class C> struct SquaredDeviations {  // from a mean per result
  View x;
  const C* direct(std::int64_t, std::int64_t) const { return nullptr; }
  void load(C* to, std::int64_t offset, std::int64_t stride, std::int64_t n, const C* centre, int step) const {
    const C* from = to;
    if (stride == 1 && x.dtype == dtype_of<C>) from = x.as<const C>() + offset;
    else load_run(to, x.data, x.dtype, offset, stride, n);
    if (step == 0) {
      const C c = *centre;
      for (std::int64_t i = 0; i < n; ++i) to[i] = (from[i] - c) * (from[i] - c);
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i] = (from[i] - centre[i]) * (from[i] - centre[i]);
    }
  }
};
template <class C> struct DeviationProducts {  // g * (x - mean); g lies in memory as x does
  const C* x;
  const C* g;
  const C* direct(std::int64_t, std::int64_t) const { return nullptr; }
  void load(C* to, std::int64_t offset, std::int64_t stride, std::int64_t n, const C* centre, int step) const {
    const C* a = x + offset;
    const C* b = g + offset;
    if (step == 0 && stride == 1) {
      const C c = *centre;
      for (std::int64_t i = 0; i < n; ++i) to[i] = b[i] * (a[i] - c);
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i] = b[i * stride] * (a[i * stride] - centre[i * step]);
    }
  }
};

// --- the innermost dimension is reduced ---
template <class Fold, class C, class Source>
C reduce_segment(const ReducePlan& p, const Source& source, std::int64_t base, std::int64_t begin, std::int64_t end, const C* centre) {
  Walker at(p.reduced, p.reduced_strides, begin);
  Cascade<C, Fold> cascade;
  C buffer[fold_tile];
  while (begin < end) {
    const std::int64_t n = std::min(fold_tile, end - begin);
    const C* tile = at.left_in_row() >= n ? source.direct(base + at.offset(), at.inner_stride()) : nullptr;
    if (tile) {
      at.advance(n);
    } else {
      for (std::int64_t filled = 0; filled < n;) {
        const std::int64_t m = std::min(n - filled, at.left_in_row());
        source.load(buffer + filled, base + at.offset(), at.inner_stride(), m, centre, 0);
        at.advance(m);
        filled += m;
      }
      tile = buffer;
    }
    const C v = fold_one_tile<Fold>(n, itself, tile);
    if (p.count <= fold_tile) return v;
    cascade.add(v);
    begin += n;
  }
  return cascade.total();
}

constexpr std::int64_t most_across = 64;

// f(number of columns), which the compiler knows in the common cases.
template <class F> void with_columns(std::int64_t columns, const F& f) {
  if (columns == 64) f(std::integral_constant<std::int64_t, 64>());
  else if (columns == 16) f(std::integral_constant<std::int64_t, 16>());
  else f(columns);
}
// As fold_one_tile of core/cpu/rows.h, for `columns` results at once. What is a lane there is a row of accumulators here, so
// that the order of folding is the same. rows(n) gives the next n rows: {pointer, step}.
template <class Fold, class C, class Rows> void fold_tile_across(std::int64_t n, std::int64_t columns, const Rows& rows, C* __restrict out) {
  constexpr auto lanes = static_cast<std::int64_t>(Vec<C>::size);
  const Fold fold;
  C acc[4 * lanes][most_across];
  with_columns(columns, [&](auto width) {
    for (auto& a : acc) std::fill_n(a, width, Fold::template identity<C>());
    const auto add = [&](std::int64_t first, std::int64_t count) {
      const auto [from, step] = rows(count);
      for (std::int64_t k = 0; k < count; ++k) {
        C* __restrict a = acc[first + k];
        const C* __restrict x = from + k * step;
        for (std::int64_t j = 0; j < width; ++j) a[j] = fold(a[j], x[j]);
      }
    };
    std::int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) add(0, 4 * lanes);
    for (; i + lanes <= n; i += lanes) add(0, lanes);
    if (i < n) add(lanes, n - i);
    for (std::int64_t k = 0; k < lanes; ++k) {
      const C *b = acc[lanes + k], *c = acc[2 * lanes + k], *d = acc[3 * lanes + k];
      for (std::int64_t j = 0; j < width; ++j) acc[k][j] = fold(fold(acc[k][j], b[j]), fold(c[j], d[j]));
    }
    for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
      for (std::int64_t k = 0; k < half; ++k) {
        const C* b = acc[half + k];
        for (std::int64_t j = 0; j < width; ++j) acc[k][j] = fold(acc[k][j], b[j]);
      }
    }
    std::copy_n(acc[0], width, out);
  });
}
// reduce_segment for `columns` results that are neighbours in memory; out[j * step].
template <class Fold, class C, class Source>
void reduce_segment_across(const ReducePlan& p, const Source& source, std::int64_t base, std::int64_t columns, std::int64_t begin,
                           std::int64_t end, const C* centre, C* out, std::int64_t step) {
  struct Rows { const C* from; std::int64_t step; };
  Walker at(p.reduced, p.reduced_strides, begin);
  Cascade<C, Fold> cascade[most_across];
  C buffer[4 * Vec<C>::size * most_across], tile[most_across];
  const auto rows = [&](std::int64_t count) -> Rows {
    const std::int64_t apart = at.inner_stride();
    const C* direct = at.left_in_row() >= count ? source.direct(base + at.offset(), 1) : nullptr;
    if (direct) {
      at.advance(count);
      return {direct, apart};
    }
    for (std::int64_t k = 0; k < count;) {
      const std::int64_t m = std::min(count - k, at.left_in_row()), from = base + at.offset();
      if (apart == columns && !centre) source.load(buffer + k * columns, from, 1, m * columns, centre, 1);  // dense: at once
      else for (std::int64_t r = 0; r < m; ++r) source.load(buffer + (k + r) * columns, from + r * apart, 1, columns, centre, 1);
      at.advance(m);
      k += m;
    }
    return {buffer, columns};
  };
  for (; begin < end; begin += fold_tile) {
    fold_tile_across<Fold>(std::min(fold_tile, end - begin), columns, rows, tile);
    for (std::int64_t j = 0; j < columns; ++j) cascade[j].add(tile[j]);
  }
  for (std::int64_t j = 0; j < columns; ++j) out[j * step] = cascade[j].total();
}

template <class Fold, class C, class Source>
void reduce_inner(const ReducePlan& p, const Source& source, C* out, const C* centre) {
  constexpr std::int64_t segment = grain_size;
  const std::int64_t segments = (p.count + segment - 1) / segment, items = p.outputs * segments;
  std::unique_ptr<C[]> partial(segments > 1 ? new C[static_cast<std::size_t>(items)] : nullptr);
  C* results = segments > 1 ? partial.get() : out;
  const bool across = !p.kept.empty() && p.kept_strides.back() == 1 && p.reduced_strides.back() != 1;
  const std::int64_t columns = across ? p.kept.back() : 1, tiles = (columns + most_across - 1) / most_across;
  const std::int64_t pieces = p.outputs / columns * tiles * segments, side = std::min(columns, most_across);
  parallel_for(pieces, std::max<std::int64_t>(1, segment / p.count / side), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t begin = i % segments * segment, end = std::min(p.count, begin + segment);
      const std::int64_t column = i / segments % tiles * most_across, o = i / segments / tiles * columns + column;
      const Walker at(p.kept, p.kept_strides, o);
      C* to = results + o * segments + i % segments;
      const C* middle = centre ? centre + o : nullptr;
      if (across) reduce_segment_across<Fold>(p, source, at.offset(), std::min(columns - column, most_across), begin, end, middle, to, segments);
      else *to = reduce_segment<Fold>(p, source, at.offset(), begin, end, middle);
    }
  });
  if (segments == 1) return;
  for (std::int64_t o = 0; o < p.outputs; ++o) {
    Cascade<C, Fold> cascade;
    for (std::int64_t s = 0; s < segments; ++s) cascade.add(results[o * segments + s]);
    out[o] = cascade.total();
  }
}

// --- the innermost dimension is kept ---
// Folds rows [begin, end) of n columns into acc: four rows at a time, groups of 64 rows apart.
template <class Fold, class C, class Source>
void reduce_columns(const ReducePlan& p, const Source& source, std::int64_t base, std::int64_t stride, std::int64_t n,
                    std::int64_t begin, std::int64_t end, C* __restrict acc, const C* centre) {
  const Fold fold;
  Walker at(p.reduced, p.reduced_strides, begin);
  C buffers[4][fold_tile], group[fold_tile];
  auto row = [&](int k) -> const C* {
    const std::int64_t offset = base + at.offset();
    at.advance(1);
    if (const C* direct = source.direct(offset, stride)) return direct;
    source.load(buffers[k], offset, stride, n, centre, 1);
    return buffers[k];
  };
  bool first_group = true;
  while (begin < end) {
    const std::int64_t rows = std::min<std::int64_t>(64, end - begin);
    C* __restrict sum = first_group ? acc : group;
    const C* first = row(0);
    for (std::int64_t j = 0; j < n; ++j) sum[j] = first[j];
    std::int64_t r = 1;
    for (; r + 4 <= rows; r += 4) {
      const C *a = row(0), *b = row(1), *c = row(2), *d = row(3);
      for (std::int64_t j = 0; j < n; ++j) sum[j] = fold(sum[j], fold(fold(a[j], b[j]), fold(c[j], d[j])));
    }
    for (; r < rows; ++r) {
      const C* a = row(0);
      for (std::int64_t j = 0; j < n; ++j) sum[j] = fold(sum[j], a[j]);
    }
    if (!first_group) {
      for (std::int64_t j = 0; j < n; ++j) acc[j] = fold(acc[j], group[j]);
    }
    first_group = false;
    begin += rows;
  }
}

template <class Fold, class C, class Source>
void reduce_outer(const ReducePlan& p, const Source& source, C* out, const C* centre) {
  const std::int64_t columns = p.kept.back(), stride = p.kept_strides.back();
  const std::int64_t tiles = (columns + fold_tile - 1) / fold_tile, outer = p.outputs / columns;
  // Rows of one segment: from shapes alone.
  const std::int64_t segment = std::max<std::int64_t>(64, grain_size / std::min(p.outputs, fold_tile));
  const std::int64_t segments = (p.count + segment - 1) / segment;
  std::unique_ptr<C[]> partial(segments > 1 ? new C[static_cast<std::size_t>(segments * p.outputs)] : nullptr);
  C* results = segments > 1 ? partial.get() : out;
  const std::int64_t work = std::min(columns, fold_tile) * std::min(p.count, segment);
  parallel_for(segments * outer * tiles, std::max<std::int64_t>(1, grain_size / work), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t tile = i % tiles, o = i / tiles % outer, s = i / (tiles * outer);
      const std::int64_t j = tile * fold_tile, result = o * columns + j;
      const Walker at(p.kept, p.kept_strides, result);
      reduce_columns<Fold>(p, source, at.offset(), stride, std::min(fold_tile, columns - j), s * segment,
                           std::min(p.count, (s + 1) * segment), results + s * p.outputs + result, centre ? centre + result : nullptr);
    }
  });
  if (segments == 1) return;
  for (std::int64_t step = 1; step < segments; step *= 2) {
    for (std::int64_t s = 0; s + step < segments; s += 2 * step) {
      C* __restrict a = results + s * p.outputs;
      const C* b = results + (s + step) * p.outputs;
      for (std::int64_t j = 0; j < p.outputs; ++j) a[j] = Fold{}(a[j], b[j]);
    }
  }
  std::copy_n(results, p.outputs, out);
}

template <class Fold, class C, class Source>
void reduce(const ReducePlan& p, const Source& source, C* out, const C* centre = nullptr) {
  if (p.outputs == 0) return;
  if (p.count == 0) std::fill_n(out, p.outputs, Fold::template identity<C>());
  else if (p.inner_reduced) reduce_inner<Fold>(p, source, out, centre);
  else reduce_outer<Fold>(p, source, out, centre);
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
