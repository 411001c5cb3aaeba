// The reduction all reductions are made of: y[o] = fold over the reduced elements of source, for
// any strides. The order of folding depends on shapes only, never on strides or on threads, so a view and its copy, and
// any number of threads, give the same bits.
//
// Two orders. When the innermost dimension is reduced, every result folds runs of elements (tiles of
// 512 in vector registers). When it is kept, rows are folded into each other column by column. Either order is followed for one
// result with vectors along it, or for many results side by side with a lane for each: whichever memory lies for. What
// lies across both is turned in blocks first.
#pragma once

#include <memory>

#include "core/cpu/transpose.h"
#include "core/cpu/vectors.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// x's dimensions, sorted into kept and reduced, with x's strides. Results are numbered row-major.
struct ReducePlan {
  Dims kept, kept_strides, reduced, reduced_strides;
  bool inner_reduced = false;
  std::int64_t outputs = 1, count = 1;
  // The kept dimension whose results are taken side by side (the one that is dense in memory, else the innermost): its size, its
  // stride in memory and among the results. `around`: the other kept dimensions.
  std::int64_t columns = 1, column_stride = 0, column_step = 1;
  Dims around, around_strides, around_steps;

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
    int column = kept.rank() - 1;
    for (int d = 0; d < kept.rank(); ++d) if (kept_strides[column] != 1 && kept_strides[d] == 1) column = d;
    const Dims steps = contiguous_strides(kept);
    for (int d = 0; d < kept.rank(); ++d) {
      if (d == column) columns = kept[d], column_stride = kept_strides[d], column_step = steps[d];
      else around.push_back(kept[d]), around_strides.push_back(kept_strides[d]), around_steps.push_back(steps[d]);
    }
  }

  bool reduces_runs() const { return reduced_strides.empty() || reduced_strides.back() == 1; }
  // Memory is dense along the reduced dimension around the innermost one, which is not too long: many rows of it are one segment.
  bool turned() const {
    const int d = reduced.rank() - 2;
    return d >= 0 && !reduces_runs() && column_stride != 1 && reduced_strides[d] == 1 && reduced[d] >= 16 && reduced.back() >= 8 && reduced.back() <= 4096;
  }
};

// Where x begins for results o * columns, ..., and the number of the first of them.
struct Columns {
  std::int64_t offset = 0, result = 0;
  Columns(const ReducePlan& p, std::int64_t o) {
    for (int d = p.around.rank() - 1; d >= 0; o /= p.around[d--]) {
      offset += o % p.around[d] * p.around_strides[d];
      result += o % p.around[d] * p.around_steps[d];
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

// --- blocks: elements of several results, a row for each step of the reduction and a column for each result ---
inline constexpr std::int64_t block_side = 64;
struct BlockPlace {
  std::int64_t offset;               // of element (0, 0)
  std::int64_t row, rows;            // stride and number, likewise:
  std::int64_t column, columns;
};
// to[r * pitch + j] = from[j * from_pitch + r] for r < rows, j < columns.
template <class T, class C>
void turn(const T* from, std::int64_t from_pitch, C* to, std::int64_t pitch, std::int64_t rows, std::int64_t columns) {
  std::int64_t j = 0;
#if defined(__AVX2__)
  if constexpr (std::is_same_v<C, float> && std::is_same_v<Compute<T>, float>) {
    constexpr std::int64_t width = transpose::width;
    for (; j + width <= columns; j += width) {
      const T* column = from + j * from_pitch;
      std::int64_t r = 0;
      for (; r + width <= rows; r += width) {
        transpose::Lanes v[width];
        for (std::int64_t i = 0; i < width; ++i) v[i] = load_wide(column + i * from_pitch + r);
        transpose::turn_square(v);
        for (std::int64_t i = 0; i < width; ++i) store(to + (r + i) * pitch + j, Vec<float>(v[i]));
      }
      if constexpr (std::is_same_v<T, float>) {
        for (; r + 4 <= rows; r += 4) transpose::four_columns(column + r, from_pitch, to + r * pitch + j, pitch);
      }
      for (; r < rows; ++r) {
        for (std::int64_t i = 0; i < width; ++i) to[r * pitch + j + i] = static_cast<C>(column[i * from_pitch + r]);
      }
    }
  }
#endif
  for (; j < columns; ++j) {
    for (std::int64_t r = 0; r < rows; ++r) to[r * pitch + j] = static_cast<C>(static_cast<Compute<T>>(from[j * from_pitch + r]));
  }
}
// At most block_side rows and columns, of any strides.
template <class C> void load_block(C* to, std::int64_t pitch, const View& x, const BlockPlace& b) {
  if (b.row != 1 || b.column == 1) {
    for (std::int64_t r = 0; r < b.rows; ++r) load_run(to + r * pitch, x.data, x.dtype, b.offset + r * b.row, b.column, b.columns);
  } else if (b.column == b.rows && x.dtype != dtype_of<C>) {  // a dense piece of memory: converted at once
    C runs[block_side * block_side];
    load_run(runs, x.data, x.dtype, b.offset, 1, b.rows * b.columns);
    turn(runs, b.rows, to, pitch, b.rows, b.columns);
  } else {
    visit(x.dtype, [&]<class T> { turn(x.as<const T>() + b.offset, b.column, to, pitch, b.rows, b.columns); });
  }
}

// --- sources: where the folded elements come from. `centre` belongs to the results: centre[i * step]. ---
template <class C> struct Elements {
  View x;
  const C* direct(std::int64_t offset, std::int64_t stride) const {
    return stride == 1 && x.dtype == dtype_of<C> ? x.as<const C>() + offset : nullptr;
  }
  void load(C* to, std::int64_t offset, std::int64_t stride, std::int64_t n, const C*, int) const {
    load_run(to, x.data, x.dtype, offset, stride, n);
  }
  void load(C* to, std::int64_t pitch, const BlockPlace& b, const C*) const { load_block(to, pitch, x, b); }
  // f(pointer to memory) where vectors can be loaded from there; false for integers, which go through blocks.
  template <class F> bool with_memory(const F& f) const {
    if constexpr (std::is_floating_point_v<C>) {
      if (x.dtype == dtype_of<C>) return f(x.as<const C>()), true;
    }
    if constexpr (std::is_same_v<C, float>) {
      if (x.dtype == bf16) return f(x.as<const BFloat16>()), true;
      if (x.dtype == f16) return f(x.as<const Half>()), true;
    }
    return false;
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
  void load(C* to, std::int64_t pitch, const BlockPlace& b, const C* centre) const {
    load_block(to, pitch, x, b);
    for (C* row = to; row < to + b.rows * pitch; row += pitch) {
      for (std::int64_t j = 0; j < b.columns; ++j) row[j] = (row[j] - centre[j]) * (row[j] - centre[j]);
    }
  }
  template <class F> bool with_memory(const F&) const { return false; }  // rounded before it is folded, also where there is FMA
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
  void load(C* to, std::int64_t pitch, const BlockPlace& b, const C* centre) const {
    for (std::int64_t r = 0; r < b.rows; ++r) load(to + r * pitch, b.offset + r * b.row, b.column, b.columns, centre, 1);
  }
  template <class F> bool with_memory(const F&) const { return false; }
};

// The next `rows` steps of the reduction as rows of a block, whose pitch is a multiple of every vector.
template <class C, class Source>
void load_rows(const ReducePlan& p, const Source& source, std::int64_t base, Walker& at, std::int64_t rows, std::int64_t columns,
               const C* centre, C* to, std::int64_t pitch) {
  for (std::int64_t r = 0; r < rows;) {
    const std::int64_t m = std::min(rows - r, at.left_in_row());
    source.load(to + r * pitch, pitch, BlockPlace{base + at.offset(), at.inner_stride(), m, p.column_stride, columns}, centre);
    at.advance(m);
    r += m;
  }
}
// The same where vectors can be loaded from memory: only where the rows begin.
inline void find_rows(std::int64_t base, Walker& at, std::int64_t rows, std::int64_t* offsets) {
  for (std::int64_t r = 0; r < rows;) {
    const std::int64_t m = std::min(rows - r, at.left_in_row()), from = base + at.offset(), step = at.inner_stride();
    for (std::int64_t i = 0; i < m; ++i) offsets[r + i] = from + i * step;
    at.advance(m);
    r += m;
  }
}
// A vector from memory. A part of halves in one instruction where there is one: narrow images are full of them.
template <class Lanes, class T> inline auto stored_vector(const Lanes& of, const T* p) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (std::is_same_v<Lanes, PartOfVector> && sizeof(T) == 2) {
    const __m256i bits = _mm256_maskz_loadu_epi16(first_lanes(of.n), p);
    if constexpr (std::is_same_v<T, BFloat16>) return widen_bfloat16(bits);
    else return Vec<float>(_mm512_cvtph_ps(bits));
  } else
#endif
  return of.load(p);
}
// f.operator()<w>(lanes, j) for w neighbouring vectors of columns from column j.
template <class C, class F> void for_columns(std::int64_t columns, const F& f) {
  constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
  std::int64_t j = 0;
  for (; j + 4 * width <= columns; j += 4 * width) f.template operator()<4>(WholeVector{}, j);
  for (; j + width <= columns; j += width) f.template operator()<1>(WholeVector{}, j);
  if (j < columns) f.template operator()<1>(PartOfVector{columns - j}, j);
}

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

// Columns taken at once. Through blocks: those of a tile of all rows, or of a short reduction with more columns.
inline constexpr std::int64_t largest_block = 16 * fold_tile;
template <class Source> std::int64_t side_across(const ReducePlan& p, const Source& source) {
  if (p.column_stride == 1 && source.with_memory([](const auto*) {})) return p.count <= fold_tile / 8 ? fold_tile : block_side;
  return p.count <= largest_block / block_side ? block_side : 16;
}
// As fold_one_tile of core/cpu/rows.h, for `columns` results at once, at most fold_tile: what is a lane there is a row here, so
// that the order of folding is the same. at(lanes, r, j): row r from column j. `out` has room for whole vectors.
template <class Fold, class C, class At> void fold_tile_across(std::int64_t n, std::int64_t columns, const At& at, C* out) {
  constexpr auto lanes = static_cast<std::int64_t>(Vec<C>::size);
  const Fold fold;
  const std::int64_t whole = n / (4 * lanes) * (4 * lanes), rest = n / lanes * lanes;
  if (whole == 0) {  // all of it in registers
    for_vectors<C>(columns, [&](const auto& of, std::int64_t j) {
      Vec<C> v[lanes];
#pragma GCC unroll 16
      for (std::int64_t k = 0; k < lanes; ++k) {
        v[k] = Vec<C>(Fold::template identity<C>());
        for (std::int64_t r = k; r < n; r += lanes) v[k] = fold(v[k], at(of, r, j));
      }
#pragma GCC unroll 8
      for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
        for (std::int64_t k = 0; k < half; ++k) v[k] = fold(v[k], v[half + k]);
      }
      store(out + j, v[0]);
    });
    return;
  }
  alignas(64) C part[lanes][fold_tile];
  for (std::int64_t k = 0; k < lanes; ++k) {
    for_columns<C>(columns, [&]<int w>(const auto& of, std::int64_t j) {
      const auto row = [&](std::int64_t r, int i) { return at(of, r, j + i * lanes); };
      Vec<C> a[w], b[w], c[w], d[w];
      for (int i = 0; i < w; ++i) a[i] = b[i] = c[i] = d[i] = Vec<C>(Fold::template identity<C>());
      for (std::int64_t r = k; r < whole; r += 4 * lanes) {
        for (int i = 0; i < w; ++i) {
          a[i] = fold(a[i], row(r, i));
          b[i] = fold(b[i], row(r + lanes, i));
          c[i] = fold(c[i], row(r + 2 * lanes, i));
          d[i] = fold(d[i], row(r + 3 * lanes, i));
        }
      }
      for (std::int64_t r = whole + k; r < rest; r += lanes) {
        for (int i = 0; i < w; ++i) a[i] = fold(a[i], row(r, i));
      }
      if (rest + k < n) {
        for (int i = 0; i < w; ++i) b[i] = fold(b[i], row(rest + k, i));
      }
      for (int i = 0; i < w; ++i) store(part[k] + j + i * lanes, fold(fold(a[i], b[i]), fold(c[i], d[i])));
    });
  }
  for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
    for (std::int64_t k = 0; k < half; ++k) map_run(columns, part[k], fold, part[k], part[half + k]);
  }
  std::copy_n(part[0], columns, out);
}
// reduce_segment for `columns` results, at most block_side, or fold_tile if that is one tile; out[j * step]. `pitch`: of the block that holds a tile.
template <class Fold, class C, class Source>
void reduce_segment_across(const ReducePlan& p, const Source& source, std::int64_t base, std::int64_t columns, std::int64_t pitch,
                           std::int64_t begin, std::int64_t end, const C* centre, C* out, std::int64_t step) {
  Walker at(p.reduced, p.reduced_strides, begin);
  alignas(64) C block[largest_block], tile[fold_tile];
  const auto fold_next = [&](std::int64_t n) {
    const bool done = p.column_stride == 1 && source.with_memory([&](const auto* memory) {
      std::int64_t offsets[fold_tile];
      find_rows(base, at, n, offsets);
      fold_tile_across<Fold>(n, columns, [&](const auto& of, std::int64_t r, std::int64_t j) { return stored_vector(of, memory + offsets[r] + j); }, tile);
    });
    if (done) return;
    load_rows(p, source, base, at, n, columns, centre, block, pitch);
    fold_tile_across<Fold>(n, columns, [&](const auto&, std::int64_t r, std::int64_t j) { return load(block + r * pitch + j); }, tile);
  };
  if (p.count <= fold_tile) {
    fold_next(p.count);
    for (std::int64_t j = 0; j < columns; ++j) out[j * step] = tile[j];
    return;
  }
  Cascade<C, Fold> cascade[block_side];
  for (; begin < end; begin += fold_tile) {
    fold_next(std::min(fold_tile, end - begin));
    for (std::int64_t j = 0; j < columns; ++j) cascade[j].add(tile[j]);
  }
  for (std::int64_t j = 0; j < columns; ++j) out[j * step] = cascade[j].total();
}

// reduce_segment where the rows of the innermost reduced dimension lie side by side in memory: the whole segment is put in order first.
template <class Fold, class C, class Source>
C reduce_segment_turned(const ReducePlan& p, const Source& source, std::int64_t base, std::int64_t begin, std::int64_t end, const C* centre,
                        C* ordered) {
  const std::int64_t length = p.reduced.back(), step = p.reduced_strides.back(), lying = p.reduced[p.reduced.rank() - 2];
  alignas(64) C block[block_side * block_side], centres[block_side];
  if (centre) std::fill_n(centres, block_side, *centre);
  Walker at(p.reduced, p.reduced_strides, begin);
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t from = base + at.offset(), rows = std::min((end - i) / length, lying - i / length % lying);
    C* to = ordered + (i - begin);
    if (i % length != 0 || rows == 0) {
      const std::int64_t m = std::min(end - i, at.left_in_row());
      source.load(to, from, step, m, centre, 0);
      at.advance(m);
      i += m;
      continue;
    }
    for (std::int64_t j = 0; j < length; j += block_side) {
      for (std::int64_t r = 0; r < rows; r += block_side) {
        const BlockPlace place{from + r + j * step, 1, std::min(block_side, rows - r), step, std::min(block_side, length - j)};
        source.load(block, block_side, place, centres);
        for (std::int64_t k = 0; k < place.rows; ++k) std::copy_n(block + k * block_side, place.columns, to + (r + k) * length + j);
      }
    }
    for (std::int64_t r = 0; r < rows; ++r) at.advance(length);
    i += rows * length;
  }
  return fold_run<Fold>(end - begin, static_cast<const C*>(ordered));
}

template <class Fold, class C, class Source>
void reduce_inner(const ReducePlan& p, const Source& source, C* out, const C* centre) {
  constexpr std::int64_t segment = grain_size;
  const std::int64_t segments = (p.count + segment - 1) / segment, items = p.outputs * segments;
  std::unique_ptr<C[]> partial(segments > 1 ? new C[static_cast<std::size_t>(items)] : nullptr);
  C* results = segments > 1 ? partial.get() : out;
  // Side by side where memory lies so, and where runs are too short for vectors along them.
  const bool across = (p.column_stride == 1 && !p.reduces_runs()) || (p.count <= block_side && p.columns >= 8);
  const bool turned = !across && p.turned();
  const std::int64_t side = across ? side_across(p, source) : 1;
  const std::int64_t tiles = (p.columns + side - 1) / side, pieces = p.outputs / p.columns * tiles * segments;
  parallel_for(pieces, std::max<std::int64_t>(1, segment / p.count / std::min(side, p.columns)), [&](std::int64_t first, std::int64_t last) {
    C centres[fold_tile];
    std::unique_ptr<C[]> ordered(turned ? new C[static_cast<std::size_t>(std::min(segment, p.count))] : nullptr);
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t begin = i % segments * segment, end = std::min(p.count, begin + segment);
      const std::int64_t column = i / segments % tiles * side, columns = std::min(side, p.columns - column);
      const Columns at(p, i / segments / tiles);
      const std::int64_t base = at.offset + column * p.column_stride, o = at.result + column * p.column_step;
      for (std::int64_t j = 0; centre && j < columns; ++j) centres[j] = centre[o + j * p.column_step];
      const C* middle = centre ? centres : nullptr;
      C* to = results + o * segments + i % segments;
      if (across) reduce_segment_across<Fold>(p, source, base, columns, side, begin, end, middle, to, p.column_step * segments);
      else if (turned) *to = reduce_segment_turned<Fold>(p, source, base, begin, end, middle, ordered.get());
      else *to = reduce_segment<Fold>(p, source, base, begin, end, middle);
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
// The first row, then four rows at a time, then what is left one by one. at(lanes, r, j) as above.
template <class Fold, class C, class At> void fold_group(std::int64_t rows, std::int64_t columns, const At& at, C* sum) {
  constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
  const Fold fold;
  const std::int64_t fours = 1 + (rows - 1) / 4 * 4;
  if (columns <= block_side) {  // sums in registers
    for_columns<C>(columns, [&]<int w>(const auto& of, std::int64_t j) {
      Vec<C> v[w];
      const auto row = [&](std::int64_t r, int i) { return at(of, r, j + i * width); };
      for (int i = 0; i < w; ++i) v[i] = row(0, i);
      for (std::int64_t r = 1; r < fours; r += 4) {
        for (int i = 0; i < w; ++i) v[i] = fold(v[i], fold(fold(row(r, i), row(r + 1, i)), fold(row(r + 2, i), row(r + 3, i))));
      }
      for (std::int64_t r = fours; r < rows; ++r) {
        for (int i = 0; i < w; ++i) v[i] = fold(v[i], row(r, i));
      }
      for (int i = 0; i < w; ++i) store(sum + j + i * width, v[i]);
    });
    return;
  }
  for_vectors<C>(columns, [&](const auto& of, std::int64_t j) { store(sum + j, at(of, 0, j)); });
  for (std::int64_t r = 1; r < fours; r += 4) {
    for_vectors<C>(columns, [&](const auto& of, std::int64_t j) {
      store(sum + j, fold(load(sum + j), fold(fold(at(of, r, j), at(of, r + 1, j)), fold(at(of, r + 2, j), at(of, r + 3, j)))));
    });
  }
  for (std::int64_t r = fours; r < rows; ++r) {
    for_vectors<C>(columns, [&](const auto& of, std::int64_t j) { store(sum + j, fold(load(sum + j), at(of, r, j))); });
  }
}
// Folds rows [begin, end) of n columns, at most fold_tile (block_side where they go through blocks), into acc: groups of 64 rows apart.
// acc has room for whole vectors.
template <class Fold, class C, class Source>
void reduce_columns(const ReducePlan& p, const Source& source, std::int64_t base, std::int64_t n, std::int64_t begin, std::int64_t end,
                    C* acc, const C* centre) {
  Walker at(p.reduced, p.reduced_strides, begin);
  C group[fold_tile];
  bool first_group = true;
  for (std::int64_t rows; begin < end; begin += rows) {
    rows = std::min<std::int64_t>(block_side, end - begin);
    C* sum = first_group ? acc : group;
    const bool done = p.column_stride == 1 && source.with_memory([&](const auto* memory) {
      std::int64_t offsets[block_side];
      find_rows(base, at, rows, offsets);
      fold_group<Fold>(rows, n, [&](const auto& of, std::int64_t r, std::int64_t j) { return stored_vector(of, memory + offsets[r] + j); }, sum);
    });
    if (!done) {
      alignas(64) C block[block_side * block_side];
      load_rows(p, source, base, at, rows, n, centre, block, block_side);
      fold_group<Fold>(rows, n, [&](const auto&, std::int64_t r, std::int64_t j) { return load(block + r * block_side + j); }, sum);
    }
    if (!first_group) map_run(n, acc, Fold{}, acc, group);
    first_group = false;
  }
}

template <class Fold, class C, class Source>
void reduce_outer(const ReducePlan& p, const Source& source, C* out, const C* centre) {
  const bool from_memory = p.column_stride == 1 && source.with_memory([](const auto*) {});
  const std::int64_t side = from_memory ? fold_tile : block_side;
  const std::int64_t tiles = (p.columns + side - 1) / side, outer = p.outputs / p.columns;
  // Rows of one segment: from shapes alone.
  const std::int64_t segment = std::max<std::int64_t>(64, grain_size / std::min(p.outputs, fold_tile));
  const std::int64_t segments = (p.count + segment - 1) / segment;
  std::unique_ptr<C[]> partial(segments > 1 ? new C[static_cast<std::size_t>(segments * p.outputs)] : nullptr);
  C* results = segments > 1 ? partial.get() : out;
  const std::int64_t work = std::min(p.columns, side) * std::min(p.count, segment);
  parallel_for(segments * outer * tiles, std::max<std::int64_t>(1, grain_size / work), [&](std::int64_t first, std::int64_t last) {
    C acc[fold_tile], centres[fold_tile];
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t column = i % tiles * side, s = i / (tiles * outer), n = std::min(side, p.columns - column);
      const Columns at(p, i / tiles % outer);
      const std::int64_t o = at.result + column * p.column_step;
      for (std::int64_t j = 0; centre && j < n; ++j) centres[j] = centre[o + j * p.column_step];
      reduce_columns<Fold>(p, source, at.offset + column * p.column_stride, n, s * segment, std::min(p.count, (s + 1) * segment), acc, centres);
      C* to = results + s * p.outputs + o;
      for (std::int64_t j = 0; j < n; ++j) to[j * p.column_step] = acc[j];
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
