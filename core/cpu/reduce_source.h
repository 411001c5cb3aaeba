// Sources of a reduction's elements (core/cpu/reduce.h): runs along one result, or blocks of several results side by
// side.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/cpu/reduce_plan.h"
#include "core/cpu/transpose.h"
#include "core/cpu/vectors.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// --- loading vectors: as in core/cpu/vectors.h, and integers, which are widened ---
// Elements are folded in their compute type, except extremes of i32 and of bytes, which are folded (and, for their
// index, searched) as i32: twice as many per vector.
template <class T, class C>
inline constexpr bool is_folded_as =
    std::is_same_v<Compute<T>, C> || std::is_same_v<T, C> ||
    (std::is_same_v<C, std::int32_t> && std::is_integral_v<T> && sizeof(T) <= 4);
template <class C, class T> inline Vec<C> load_stored_vector(const T* p) {
  if constexpr (std::is_same_v<T, C>) {
    return load(p);
  } else if constexpr (!std::is_integral_v<T>) {
    return load_wide(p);
  } else {  // i32, u8, bool
#if defined(__AVX512BW__)
    if constexpr (sizeof(C) == 4)
      return Vec<C>(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    else if constexpr (sizeof(T) == 4)
      return Vec<C>(_mm512_cvtepi32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
    else return Vec<C>(_mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#elif defined(__AVX2__)
    if constexpr (sizeof(C) == 4) {
      return Vec<C>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
    } else if constexpr (sizeof(T) == 4) {
      return Vec<C>(_mm256_cvtepi32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    } else {
      int four;
      std::memcpy(&four, p, sizeof(four));
      return Vec<C>(_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four)));
    }
#else
    C buffer[Vec<C>::size];
    convert_run(buffer, p, 1, static_cast<std::int64_t>(Vec<C>::size));
    return load(buffer);
#endif
  }
}
#if defined(__AVX512BW__)
inline __mmask64 first_bytes(std::int64_t n) { return (1ull << n) - 1; }
#endif
// Loads the first n elements; the others are 0.
template <class C, class T> inline Vec<C> load_stored_part(const T* p, std::int64_t n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (std::is_integral_v<T> && sizeof(C) == 1) {
    return Vec<C>(_mm512_maskz_loadu_epi8(first_bytes(n), p));
  } else if constexpr (std::is_integral_v<T>) {
    const __mmask16 some = first_lanes(n);
    if constexpr (sizeof(T) == 8) return Vec<C>(_mm512_maskz_loadu_epi64(static_cast<__mmask8>(some), p));
    else if constexpr (sizeof(T) == 4 && sizeof(C) == 4) return Vec<C>(_mm512_maskz_loadu_epi32(some, p));
    else if constexpr (sizeof(T) == 4) return Vec<C>(_mm512_cvtepi32_epi64(_mm256_maskz_loadu_epi32(some, p)));
    else if constexpr (sizeof(C) == 4) return Vec<C>(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(some, p)));
    else return Vec<C>(_mm512_cvtepu8_epi64(_mm_maskz_loadu_epi8(some, p)));
  } else
#endif
      if constexpr (std::is_integral_v<T>) {
    T buffer[Vec<C>::size] = {};
    std::copy_n(p, n, buffer);
    return load_stored_vector<C>(buffer);
  } else {
    return load_wide_part(p, n);
  }
}
// The same with the fold's neutral element in the other lanes, and the fold over a vector's lanes: for integers with
// masks and in registers if there are such instructions.
template <class Fold, class C, class T> inline Vec<C> load_stored_rest(const T* p, std::int64_t n) {
  const Vec<C> v = load_stored_part<C>(p, n);
#if defined(__AVX512BW__)
  if constexpr (std::is_integral_v<C>) {
    const Vec<C> neutral(Fold::template identity<C>());
    if constexpr (sizeof(C) == 1) return Vec<C>(_mm512_mask_blend_epi8(first_bytes(n), neutral, v));
    else if constexpr (sizeof(C) == 4) return Vec<C>(_mm512_mask_blend_epi32(first_lanes(n), neutral, v));
    else return Vec<C>(_mm512_mask_blend_epi64(static_cast<__mmask8>(first_lanes(n)), neutral, v));
  } else
#endif
    return keep_part<Fold>(v, n);
}
template <class Fold, class C> inline C fold_stored_lanes(const Vec<C>& v) {
#if defined(__AVX512BW__)
  if constexpr (std::is_integral_v<C>) {
    const Fold fold;
    const Vec<C> a = fold(v, Vec<C>(_mm512_shuffle_i64x2(v, v, 0b01001110)));
    const Vec<C> b = fold(a, Vec<C>(_mm512_shuffle_i64x2(a, a, 0b10110001)));
    const Vec<C> c = fold(b, Vec<C>(_mm512_shuffle_epi32(b, _MM_PERM_BADC)));
    if constexpr (sizeof(C) == 8) return _mm_cvtsi128_si64(_mm512_castsi512_si128(c));
    const Vec<C> d = fold(c, Vec<C>(_mm512_shuffle_epi32(c, _MM_PERM_CDAB)));
    if constexpr (sizeof(C) == 4) return _mm_cvtsi128_si32(_mm512_castsi512_si128(d));
    const Vec<C> e = fold(d, Vec<C>(_mm512_srli_epi32(d, 16))), f = fold(e, Vec<C>(_mm512_srli_epi32(e, 8)));
    return static_cast<C>(_mm_cvtsi128_si32(_mm512_castsi512_si128(f)));
  } else
#endif
    return fold_lanes<Fold, C>(v);
}

// A source that folds a function of the stored elements (with f(0) = 0), applied after loading into registers.
template <class T, class Map> struct Mapped {
  const T* p;
  Mapped operator+(std::int64_t i) const { return {p + i}; }
};
template <class C, class T, class Map> inline Vec<C> load_stored_vector(const Mapped<T, Map>& m) {
  return Map{}(load_stored_vector<C>(m.p));
}
template <class C, class T, class Map> inline Vec<C> load_stored_part(const Mapped<T, Map>& m, std::int64_t n) {
  return Map{}(load_stored_part<C>(m.p, n));
}
template <class Fold, class C, class T, class Map>
inline Vec<C> load_stored_rest(const Mapped<T, Map>& m, std::int64_t n) {
  return keep_part<Fold>(load_stored_part<C>(m, n), n);
}
template <class C, class From> inline Vec<C> stored_vector(const WholeVector&, const From& p) {
  return load_stored_vector<C>(p);
}
template <class C, class From> inline Vec<C> stored_vector(const PartOfVector& of, const From& p) {
  return load_stored_part<C>(p, of.n);
}

// --- blocks: elements of several results; one row per step of the reduction, one column per result ---
inline constexpr std::int64_t block_side = 64;
struct BlockPlace {
  std::int64_t offset;     // of element (0, 0)
  std::int64_t row, rows;  // stride and number of rows; below, of columns
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
    for (std::int64_t r = 0; r < rows; ++r)
      to[r * pitch + j] = static_cast<C>(static_cast<Compute<T>>(from[j * from_pitch + r]));
  }
}
// At most block_side rows and columns, any strides.
template <class C> void load_block(C* to, std::int64_t pitch, const View& x, const BlockPlace& b) {
  if (b.row != 1 || b.column == 1) {
    for (std::int64_t r = 0; r < b.rows; ++r)
      load_run(to + r * pitch, x.data, x.dtype, b.offset + r * b.row, b.column, b.columns);
  } else if (b.column == b.rows && x.dtype != dtype_of<C>) {  // a dense run of memory: converted at once
    C runs[block_side * block_side];
    load_run(runs, x.data, x.dtype, b.offset, 1, b.rows * b.columns);
    turn(runs, b.rows, to, pitch, b.rows, b.columns);
  } else {
    visit(x.dtype, [&]<class T> { turn(x.as<const T>() + b.offset, b.column, to, pitch, b.rows, b.columns); });
  }
}

// --- sources of the folded elements. `centre` is per result: centre[i * step]. ---
// widens: integers may be stored in a type narrower than C.
template <class C, bool widens = true> struct Elements {
  View x;
  void load(C* to, std::int64_t offset, std::int64_t stride, std::int64_t n, const C*, int) const {
    load_run(to, x.data, x.dtype, offset, stride, n);
  }
  void load(C* to, std::int64_t pitch, const BlockPlace& b, const C*) const { load_block(to, pitch, x, b); }
  // f(pointer to memory) if vectors can be loaded from there.
  template <class F> bool with_memory(const F& f) const {
    bool found = false;
    visit(x.dtype, [&]<class T> {
      if constexpr (is_folded_as<T, C> && (widens || std::is_same_v<T, C> || !std::is_integral_v<T>))
        f(x.as<const T>()), found = true;
    });
    return found;
  }
};
// Functions of vectors and numbers. A square is rounded before it is folded, whatever the source:
// core/cpu/reduce_norm.cpp is compiled without FMA contraction.
struct Square {
  template <class V> V operator()(const V& v) const { return v * v; }
};
struct NanToZero {
  template <class V> V operator()(const V& v) const { return xsimd::select(v == v, v, V(0)); }
};
template <class C, class Map> struct MappedElements {
  View x;
  void load(C* to, std::int64_t offset, std::int64_t stride, std::int64_t n, const C*, int) const {
    const C* from = to;
    if (stride == 1 && x.dtype == dtype_of<C>) from = x.as<const C>() + offset;
    else load_run(to, x.data, x.dtype, offset, stride, n);
    map_run(n, to, Map{}, from);
  }
  void load(C* to, std::int64_t pitch, const BlockPlace& b, const C*) const {
    load_block(to, pitch, x, b);
    for (C* row = to; row < to + b.rows * pitch; row += pitch) map_run(b.columns, row, Map{}, row);
  }
  template <class F> bool with_memory(const F& f) const {
    bool found = false;
    visit(x.dtype, [&]<class T> {
      if constexpr (is_folded_as<T, C>) f(Mapped<T, Map>{x.as<const T>()}), found = true;
    });
    return found;
  }
};
template <class C, bool squared> struct Deviations {  // from one mean per result
  View x;
  void load(C* to, std::int64_t offset, std::int64_t stride, std::int64_t n, const C* centre, int step) const {
    const C* from = to;
    if (stride == 1 && x.dtype == dtype_of<C>) from = x.as<const C>() + offset;
    else load_run(to, x.data, x.dtype, offset, stride, n);
    if (step == 0) {
      const C c = *centre;
      for (std::int64_t i = 0; i < n; ++i) to[i] = of(from[i] - c);
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i] = of(from[i] - centre[i]);
    }
  }
  void load(C* to, std::int64_t pitch, const BlockPlace& b, const C* centre) const {
    load_block(to, pitch, x, b);
    for (C* row = to; row < to + b.rows * pitch; row += pitch) {
      for (std::int64_t j = 0; j < b.columns; ++j) row[j] = of(row[j] - centre[j]);
    }
  }
  // rounded before it is folded, also with FMA
  template <class F> bool with_memory(const F&) const { return false; }

 private:
  static C of(C deviation) { return squared ? deviation * deviation : deviation; }
};

// The next `rows` steps of the reduction as rows of a block, whose pitch is a multiple of every vector width.
template <class C, class Source>
void load_rows(const ReducePlan& p, const Source& source, std::int64_t base, Walker& at, std::int64_t rows,
               std::int64_t columns, const C* centre, C* to, std::int64_t pitch) {
  for (std::int64_t r = 0; r < rows;) {
    const std::int64_t m = std::min(rows - r, at.left_in_row());
    source.load(to + r * pitch, pitch, BlockPlace{base + at.offset(), at.inner_stride(), m, p.column_stride, columns},
                centre);
    at.advance(m);
    r += m;
  }
}
// The same if vectors can be loaded from memory: only the offsets of the rows.
inline void find_rows(std::int64_t base, Walker& at, std::int64_t rows, std::int64_t* offsets) {
  for (std::int64_t r = 0; r < rows;) {
    const std::int64_t m = std::min(rows - r, at.left_in_row()), from = base + at.offset(), step = at.inner_stride();
    for (std::int64_t i = 0; i < m; ++i) offsets[r + i] = from + i * step;
    at.advance(m);
    r += m;
  }
}
// f.operator()<w>(lanes, j) for w adjacent vectors of columns starting at column j.
template <class C, class F> void for_columns(std::int64_t columns, const F& f) {
  constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
  std::int64_t j = 0;
  for (; j + 4 * width <= columns; j += 4 * width) f.template operator()<4>(WholeVector{}, j);
  for (; j + width <= columns; j += width) f.template operator()<1>(WholeVector{}, j);
  if (j < columns) f.template operator()<1>(PartOfVector{columns - j}, j);
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
