// The implementation of all reductions: y[o] = fold over the reduced elements of source, for any strides. The order of
// folding depends on shapes only, never on strides or threads, so a view and its copy, and any number of threads, give
// the same bits.
//
// There are two orders. If the innermost dimension is reduced, every result folds runs of elements
// (tiles of 512 in vector registers). If it is kept, rows are folded into each other column by column. Either order is
// computed with vectors along one result, or with one lane for each of many results, whichever suits the memory layout.
// If neither does, blocks are transposed first.
#pragma once

#include <memory>

#include "core/cpu/reduce_source.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// --- the innermost dimension is reduced ---
// Folds n contiguous elements, at most fold_tile, to one vector, in the order of fold_one_tile of core/cpu/rows.h.
template <class Fold, class C, class From> Vec<C> fold_stored_vectors(std::int64_t n, const From& p) {
  constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
#if defined(__AVX512BW__)
  // Only the processor's maximum, and one NaN test per two vectors: the folds' own tests cost as much as the maximum.
  // If there is a NaN, the tile is folded again.
  if constexpr (std::is_floating_point_v<C> && (std::is_same_v<Fold, Max> || std::is_same_v<Fold, Min>)) {
    using V = Vec<C>;
    constexpr bool largest = std::is_same_v<Fold, Max>;
    const auto fold = [](const V& a, const V& b) {
      if constexpr (std::is_same_v<C, float>) return V(largest ? _mm512_max_ps(b, a) : _mm512_min_ps(b, a));
      else return V(largest ? _mm512_max_pd(b, a) : _mm512_min_pd(b, a));
    };
    unsigned nan = 0;
    const auto test = [&nan](const V& a, const V& b) {
      if constexpr (std::is_same_v<C, float>) nan |= _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
      else nan |= _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q);
    };
    V a(Fold::template identity<C>()), b = a, c = a, d = a;
    std::int64_t i = 0;
    for (; i + 4 * width <= n; i += 4 * width) {
      const V v = load_stored_vector<C>(p + i), w = load_stored_vector<C>(p + i + width),
              x = load_stored_vector<C>(p + i + 2 * width), y = load_stored_vector<C>(p + i + 3 * width);
      a = fold(a, v), b = fold(b, w), c = fold(c, x), d = fold(d, y);
      test(v, w), test(x, y);
    }
    for (; i + width <= n; i += width) {
      const V v = load_stored_vector<C>(p + i);
      a = fold(a, v), test(v, v);
    }
    if (i < n) {
      const V v = load_stored_rest<Fold, C>(p + i, n - i);
      b = fold(b, v), test(v, v);
    }
    if (nan == 0) return fold(fold(a, b), fold(c, d));
  }
#endif
  const Fold fold;
  Vec<C> a(Fold::template identity<C>()), b = a, c = a, d = a;
  std::int64_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    a = fold(a, load_stored_vector<C>(p + i));
    b = fold(b, load_stored_vector<C>(p + i + width));
    c = fold(c, load_stored_vector<C>(p + i + 2 * width));
    d = fold(d, load_stored_vector<C>(p + i + 3 * width));
  }
  for (; i + width <= n; i += width) a = fold(a, load_stored_vector<C>(p + i));
  if (i < n) b = fold(b, load_stored_rest<Fold, C>(p + i, n - i));
  return fold(fold(a, b), fold(c, d));
}
template <class Fold, class C, class From> C fold_stored_tile(std::int64_t n, const From& p) {
  return fold_stored_lanes<Fold>(fold_stored_vectors<Fold, C>(n, p));
}

// If the order does not matter, as for extremes of integers, tiles are longer: fewer horizontal folds.
template <class Fold> inline constexpr std::int64_t tile_of = fold_tile;
template <class Fold> requires Fold::in_any_order inline constexpr std::int64_t tile_of<Fold> = 8 * fold_tile;
template <class Fold, class C, class Source>
C reduce_segment(const ReducePlan& p, const Source& source, std::int64_t base, std::int64_t begin, std::int64_t end,
                 const C* centre) {
  Walker at(p.reduced, p.reduced_strides, begin);
  Cascade<C, Fold> cascade;
  C buffer[tile_of<Fold>];
  while (begin < end) {
    const std::int64_t n = std::min(tile_of<Fold>, end - begin);
    C v{};
    const auto fold_memory = [&](const auto& memory) { v = fold_stored_tile<Fold, C>(n, memory + base + at.offset()); };
    if (at.inner_stride() == 1 && at.left_in_row() >= n && source.with_memory(fold_memory)) {
      at.advance(n);
    } else {
      for (std::int64_t filled = 0; filled < n;) {
        const std::int64_t m = std::min(n - filled, at.left_in_row());
        source.load(buffer + filled, base + at.offset(), at.inner_stride(), m, centre, 0);
        at.advance(m);
        filled += m;
      }
      v = fold_stored_tile<Fold, C>(n, static_cast<const C*>(buffer));
    }
    if (p.count <= tile_of<Fold>) return v;
    cascade.add(v);
    begin += n;
  }
  return cascade.total();
}

// Columns processed at once. In blocks: those of a tile over all rows, or of a short reduction with more columns.
inline constexpr std::int64_t largest_block = 16 * fold_tile;
template <class Source> std::int64_t side_across(const ReducePlan& p, const Source& source) {
  if (p.column_stride == 1 && source.with_memory([](const auto&) {}))
    return p.count <= fold_tile / 8 ? fold_tile : block_side;
  return p.count <= largest_block / block_side ? block_side : 16;
}
// Like fold_one_tile of core/cpu/rows.h, for `columns` results at once, at most fold_tile: a lane there is a row here,
// so that the order of folding is the same. at(lanes, r, j): row r from column j. `out` must have room for whole
// vectors.
template <class Fold, class C, class At>
void fold_tile_across(std::int64_t n, std::int64_t columns, const At& at, C* out) {
  constexpr auto lanes = static_cast<std::int64_t>(Vec<C>::size);
  const Fold fold;
  const std::int64_t whole = n / (4 * lanes) * (4 * lanes), rest = n / lanes * lanes;
  if (whole == 0) {  // entirely in registers
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
#if defined(__AVX2__)
// Folds the lanes of several results together: one vector each, as many as there are lanes. Only the first `count`
// exist.
template <class Fold>
void fold_lanes_together(transpose::Lanes (&v)[transpose::width], std::int64_t count, float* out) {
  transpose::turn_square(v);
#pragma GCC unroll 8
  for (std::int64_t half = transpose::width / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (std::int64_t k = 0; k < half; ++k) v[k] = Fold{}(Vec<float>(v[k]), Vec<float>(v[half + k]));
  }
  store_part(out, Vec<float>(v[0]), count);
}
// The same if each result's elements are contiguous, fewer than four vectors: vectors along the runs.
template <class Fold, class From>
void fold_short_runs(std::int64_t n, std::int64_t columns, const From& from, std::int64_t pitch, float* out) {
  constexpr std::int64_t width = transpose::width;
  const Fold fold;
  for (std::int64_t j = 0; j < columns; j += width) {
    transpose::Lanes v[width];
    const std::int64_t runs = std::min(width, columns - j);
    for (std::int64_t k = 0; k < width; ++k) {
      const auto run = from + (j + std::min(k, runs - 1)) * pitch;
      Vec<float> sum(Fold::template identity<float>());
      std::int64_t i = 0;
      for (; i + width <= n; i += width) sum = fold(sum, load_stored_vector<float>(run + i));
      if (i < n) sum = fold(sum, keep_part<Fold>(load_stored_part<float>(run + i, n - i), n - i));
      v[k] = sum;
    }
    fold_lanes_together<Fold>(v, runs, out + j);
  }
}
#endif
// Whether the results' elements are such runs.
template <class C> bool are_short_runs(const ReducePlan& p) {
  return std::is_same_v<C, float> && p.count < 4 * static_cast<std::int64_t>(Vec<C>::size) && p.reduced.rank() == 1 &&
         p.reduced_strides[0] == 1;
}
// reduce_segment for `columns` results, at most block_side, or fold_tile if that is one tile; writes out[j * step].
// `pitch`: row stride of the block that holds a tile.
template <class Fold, class C, class Source>
void reduce_segment_across(const ReducePlan& p, const Source& source, std::int64_t base, std::int64_t columns,
                           std::int64_t pitch, std::int64_t begin, std::int64_t end, const C* centre, C* out,
                           std::int64_t step) {
  Walker at(p.reduced, p.reduced_strides, begin);
  alignas(64) C block[largest_block], tile[fold_tile];
  const auto fold_next = [&](std::int64_t n) {
#if defined(__AVX2__)
    if constexpr (std::is_same_v<C, float>) {
      const auto fold_runs = [&](const auto& memory) {
        fold_short_runs<Fold>(n, columns, memory + base, p.column_stride, tile);
      };
      if (are_short_runs<C>(p) && source.with_memory(fold_runs)) return;
    }
#endif
    const bool done = p.column_stride == 1 && source.with_memory([&](const auto& memory) {
      std::int64_t offsets[fold_tile];
      find_rows(base, at, n, offsets);
      fold_tile_across<Fold>(
          n, columns,
          [&](const auto& of, std::int64_t r, std::int64_t j) { return stored_vector<C>(of, memory + offsets[r] + j); },
          tile);
    });
    if (done) return;
    load_rows(p, source, base, at, n, columns, centre, block, pitch);
    fold_tile_across<Fold>(
        n, columns, [&](const auto&, std::int64_t r, std::int64_t j) { return load(block + r * pitch + j); }, tile);
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

// reduce_segment if adjacent rows of the innermost reduced dimension are adjacent in memory: the whole segment is first
// reordered.
template <class Fold, class C, class Source>
C reduce_segment_turned(const ReducePlan& p, const Source& source, std::int64_t base, std::int64_t begin,
                        std::int64_t end, const C* centre, C* ordered) {
  const std::int64_t length = p.reduced.back(), step = p.reduced_strides.back(),
                     lying = p.reduced[p.reduced.rank() - 2];
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
        const BlockPlace place{from + r + j * step, 1, std::min(block_side, rows - r), step,
                               std::min(block_side, length - j)};
        source.load(block, block_side, place, centres);
        for (std::int64_t k = 0; k < place.rows; ++k)
          std::copy_n(block + k * block_side, place.columns, to + (r + k) * length + j);
      }
    }
    for (std::int64_t r = 0; r < rows; ++r) at.advance(length);
    i += rows * length;
  }
  return fold_run<Fold>(end - begin, static_cast<const C*>(ordered));
}

#if defined(__AVX2__)
// Contiguous runs of one segment each, tile by tile in memory order: the lanes of as many tiles as there are lanes are
// folded together. False if the source is not in memory, or there are few tiles.
template <class Fold, class Source> bool reduce_runs_together(const ReducePlan& p, const Source& source, float* out) {
  constexpr std::int64_t width = transpose::width;
  if (p.outputs < 2 * width) return false;
  return source.with_memory([&](const auto& memory) {
    const std::int64_t grain = std::max<std::int64_t>(1, grain_size / (width * p.count));
    const std::int64_t tiles = (p.count + fold_tile - 1) / fold_tile;  // per result
    parallel_for((p.outputs + width - 1) / width, grain, [&](std::int64_t first, std::int64_t last) {
      Walker at(p.kept, p.kept_strides, first * width);
      Cascade<float, Fold> cascade;
      std::int64_t o = first * width, begin = 0, added = 0;  // the next result, start of its next tile
      for (std::int64_t left = (std::min(p.outputs, last * width) - o) * tiles; left > 0; left -= width) {
        const std::int64_t count = std::min(width, left);
        transpose::Lanes v[width] = {};
        for (std::int64_t k = 0; k < count; ++k) {
          v[k] = fold_stored_vectors<Fold, float>(std::min(fold_tile, p.count - begin), memory + (at.offset() + begin));
          begin += fold_tile;
          if (begin >= p.count) at.advance(1), begin = 0;
        }
        if (tiles == 1) {
          fold_lanes_together<Fold>(v, count, out + o);
          o += count;
          continue;
        }
        float folded[width];
        fold_lanes_together<Fold>(v, count, folded);
        for (std::int64_t k = 0; k < count; ++k) {
          cascade.add(folded[k]);
          if (++added == tiles) out[o++] = cascade.total(), cascade = {}, added = 0;
        }
      }
    });
  });
}
#endif
// Contiguous runs of one tile each, too long for vectors across them: one after the other, without the overhead that
// longer ones need.
template <class Fold, class C, class Source>
void reduce_tiles(const ReducePlan& p, const Source& source, C* out, const C* centre) {
  parallel_for(p.outputs, std::max<std::int64_t>(1, grain_size / p.count), [&](std::int64_t first, std::int64_t last) {
    C buffer[fold_tile];
    Walker at(p.kept, p.kept_strides, first);
    for (std::int64_t o = first; o < last; ++o, at.advance(1)) {
      const auto fold_memory = [&](const auto& memory) {
        out[o] = fold_stored_tile<Fold, C>(p.count, memory + at.offset());
      };
      if (source.with_memory(fold_memory)) continue;
      source.load(buffer, at.offset(), 1, p.count, centre ? centre + o : nullptr, 0);
      out[o] = fold_stored_tile<Fold, C>(p.count, static_cast<const C*>(buffer));
    }
  });
}

template <class Fold, class C, class Source>
void reduce_inner(const ReducePlan& p, const Source& source, C* out, const C* centre) {
  constexpr std::int64_t segment = grain_size;
  const std::int64_t segments = (p.count + segment - 1) / segment, items = p.outputs * segments;
  std::unique_ptr<C[]> partial(segments > 1 ? new C[static_cast<std::size_t>(items)] : nullptr);
  C* results = segments > 1 ? partial.get() : out;
#if defined(__AVX2__)
  if constexpr (std::is_same_v<C, float>) {
    const bool runs = p.reduced.rank() == 1 && p.reduces_runs() && segments == 1 && !are_short_runs<C>(p);
    if (runs && reduce_runs_together<Fold>(p, source, out)) return;
  }
#endif
  // Results side by side if memory is contiguous that way, or if runs are too short for vectors along them.
  const bool across = (p.column_stride == 1 && !p.reduces_runs()) || (p.count <= block_side && p.columns >= 8);
  if (!across && p.reduced.rank() == 1 && p.reduces_runs() && p.count <= fold_tile)
    return reduce_tiles<Fold>(p, source, out, centre);
  const bool turned = !across && p.turned();
  const std::int64_t side = across ? side_across(p, source) : 1;
  const std::int64_t tiles = (p.columns + side - 1) / side, pieces = p.outputs / p.columns * tiles * segments;
  parallel_for(
      pieces, std::max<std::int64_t>(1, segment / p.count / std::min(side, p.columns)),
      [&](std::int64_t first, std::int64_t last) {
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
          if (across)
            reduce_segment_across<Fold>(p, source, base, columns, side, begin, end, middle, to,
                                        p.column_step * segments);
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
// The first row, then four rows at a time, then the rest one by one. at(lanes, r, j) as above.
template <class Fold, class C, class At>
void fold_group(std::int64_t rows, std::int64_t columns, const At& at, C* sum) {
  constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
  const Fold fold;
  const std::int64_t fours = 1 + (rows - 1) / 4 * 4;
  if (columns <= block_side) {  // sums in registers
    for_columns<C>(columns, [&]<int w>(const auto& of, std::int64_t j) {
      Vec<C> v[w];
      const auto row = [&](std::int64_t r, int i) { return at(of, r, j + i * width); };
      for (int i = 0; i < w; ++i) v[i] = row(0, i);
      for (std::int64_t r = 1; r < fours; r += 4) {
        for (int i = 0; i < w; ++i)
          v[i] = fold(v[i], fold(fold(row(r, i), row(r + 1, i)), fold(row(r + 2, i), row(r + 3, i))));
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
      store(sum + j,
            fold(load(sum + j), fold(fold(at(of, r, j), at(of, r + 1, j)), fold(at(of, r + 2, j), at(of, r + 3, j)))));
    });
  }
  for (std::int64_t r = fours; r < rows; ++r) {
    for_vectors<C>(columns, [&](const auto& of, std::int64_t j) { store(sum + j, fold(load(sum + j), at(of, r, j))); });
  }
}
// Folds rows [begin, end) of n columns, at most fold_tile (block_side if they go through blocks), into acc, in groups
// of 64 rows. acc must have room for whole vectors.
template <class Fold, class C, class Source>
void reduce_columns(const ReducePlan& p, const Source& source, std::int64_t base, std::int64_t n, std::int64_t begin,
                    std::int64_t end, C* acc, const C* centre) {
  Walker at(p.reduced, p.reduced_strides, begin);
  C group[fold_tile];
  bool first_group = true;
  for (std::int64_t rows; begin < end; begin += rows) {
    rows = std::min<std::int64_t>(block_side, end - begin);
    C* sum = first_group ? acc : group;
    const bool done = p.column_stride == 1 && source.with_memory([&](const auto& memory) {
      std::int64_t offsets[block_side];
      find_rows(base, at, rows, offsets);
      fold_group<Fold>(
          rows, n,
          [&](const auto& of, std::int64_t r, std::int64_t j) { return stored_vector<C>(of, memory + offsets[r] + j); },
          sum);
    });
    if (!done) {
      alignas(64) C block[block_side * block_side];
      load_rows(p, source, base, at, rows, n, centre, block, block_side);
      fold_group<Fold>(
          rows, n, [&](const auto&, std::int64_t r, std::int64_t j) { return load(block + r * block_side + j); }, sum);
    }
    if (!first_group) map_run(n, acc, Fold{}, acc, group);
    first_group = false;
  }
}

template <class Fold, class C, class Source>
void reduce_outer(const ReducePlan& p, const Source& source, C* out, const C* centre) {
  const bool from_memory = p.column_stride == 1 && source.with_memory([](const auto&) {});
  const std::int64_t side = from_memory ? fold_tile : block_side;
  const std::int64_t tiles = (p.columns + side - 1) / side, outer = p.outputs / p.columns;
  // Rows per segment; depends on shapes alone.
  const std::int64_t segment = std::max<std::int64_t>(64, grain_size / std::min(p.outputs, fold_tile));
  const std::int64_t segments = (p.count + segment - 1) / segment;
  std::unique_ptr<C[]> partial(segments > 1 ? new C[static_cast<std::size_t>(segments * p.outputs)] : nullptr);
  C* results = segments > 1 ? partial.get() : out;
  const std::int64_t work = std::min(p.columns, side) * std::min(p.count, segment);
  parallel_for(segments * outer * tiles, std::max<std::int64_t>(1, grain_size / work),
               [&](std::int64_t first, std::int64_t last) {
                 C acc[fold_tile], centres[fold_tile];
                 for (std::int64_t i = first; i < last; ++i) {
                   const std::int64_t column = i % tiles * side, s = i / (tiles * outer),
                                      n = std::min(side, p.columns - column);
                   const Columns at(p, i / tiles % outer);
                   const std::int64_t o = at.result + column * p.column_step;
                   for (std::int64_t j = 0; centre && j < n; ++j) centres[j] = centre[o + j * p.column_step];
                   reduce_columns<Fold>(p, source, at.offset + column * p.column_stride, n, s * segment,
                                        std::min(p.count, (s + 1) * segment), acc, centres);
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
