// The loops of the elementwise kernels: one per formula and compute type, over contiguous tiles.
// Formula number i is instantiated in core/cpu/pointwise_tiles_<i % tile_files>.cpp, so that no file
// is slow to compile; a new formula needs no edit there. Next: core/cpu/pointwise.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "core/cpu/vectors.h"
#include "core/pointwise.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// The rows of a tile: their number, and the row strides of y and of each operand, in elements. If bit k of `repeated`
// is set, operand k has a single element per row.
struct TileRows {
  unsigned repeated = 0;
  std::int64_t count = 1, y_step = 0, x_steps[3] = {};
};
// y[i] = f(x0[i], x1[i], ...) for i in [0, n) of each row, all contiguous and of one type.
using TileFn = void (*)(const void* formula, std::int64_t n, void* y, const void* const* x, const TileRows& rows);

// S is the stored type. Most formulas have loops for the compute types only, and tiles of f16 or bf16 are converted
// around them; loops that load and store f16 and bf16 directly exist for the few formulas that networks spend their
// time in.
template <class F> inline constexpr bool has_half_loops = [] {
  using namespace pointwise;
  using Formulas =
      List<Add, Sub, Mul, Div, Maximum, Minimum, Prelu, Lerp, Neg, Abs, Square, Sqrt, Rsqrt, Reciprocal, Exp, Tanh,
           Sigmoid, Relu, Gelu, GeluTanh, Silu, Clamp, LeakyRelu, Hardtanh, Hardsigmoid, Hardswish,
           Softplus, Floor, Ceil, Trunc, Round, Copysign, Addcmul, Addcdiv>;
  return index_in<F>(Formulas{}) >= 0;
}();
template <class F> inline constexpr bool has_half_loops<pointwise::GradOf<F>> = has_half_loops<F>;

template <class F, class S> struct Tile {
  using T = Compute<S>;
  static constexpr int arity = [] {
    if constexpr (requires(const F f, T t) { f.template f<T>(t); }) return 1;
    else if constexpr (requires(const F f, T t) { f.template f<T>(t, t); }) return 2;
    else return 3;
  }();
  template <class V> static V call(const F& f, const V* v) {
    if constexpr (arity == 1) return f.template f<V>(v[0]);
    else if constexpr (arity == 2) return f.template f<V>(v[0], v[1]);
    else return f.template f<V>(v[0], v[1], v[2]);
  }
  static void run(const void* formula, std::int64_t n, void* y, const void* const* x, const TileRows& rows) {
    const F& f = *static_cast<const F*>(formula);
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const S* from[3];
      for (int k = 0; k < arity; ++k) from[k] = static_cast<const S*>(x[k]) + r * rows.x_steps[k];
      run_row(f, n, static_cast<S*>(y) + r * rows.y_step, from, rows.repeated);
    }
  }
  static void run_row(const F& f, std::int64_t n, S* out, const S* const* x, unsigned repeated) {
    std::int64_t moves[3];  // mask of the stride: all bits set, or none
    for (int k = 0; k < arity; ++k) moves[k] = static_cast<std::int64_t>(repeated >> k & 1) - 1;
    if constexpr (std::is_integral_v<T>) {
      // elements of a run; repeated operands are expanded to it, so that this is a plain loop
      constexpr std::int64_t run = 256;
      T same[3][run];
      for (int k = 0; k < arity; ++k)
        if (moves[k] == 0) std::fill_n(same[k], std::min(n, run), *x[k]);
      for (std::int64_t begin = 0, step = repeated ? run : n; begin < n; begin += step) {
        const T* from[3];
        for (int k = 0; k < arity; ++k) from[k] = moves[k] == 0 ? same[k] : x[k] + begin;
        for (std::int64_t i = 0; i < std::min(step, n - begin); ++i) {
          T v[3];
          for (int k = 0; k < arity; ++k) v[k] = from[k][i];
          out[begin + i] = call(f, v);
        }
      }
    } else {
      S same[3][Vec<T>::size];  // a vector of the repeated element
      const S* from[3];
      for (int k = 0; k < arity; ++k) {
        from[k] = moves[k] == 0 ? same[k] : x[k];
        if (moves[k] == 0) std::fill_n(same[k], Vec<T>::size, S(*x[k]));
      }
      for_vectors<T>(n, [&](const auto& lanes, std::int64_t i) {
        Vec<T> v[3];
        for (int k = 0; k < arity; ++k) v[k] = lanes.load(from[k] + (i & moves[k]));
        lanes.store(out + i, call(f, v));
      });
    }
  }
};

struct Entry {
  TileFn f32 = nullptr, f64 = nullptr, i64 = nullptr, bf16 = nullptr, f16 = nullptr;
  TileFn of_halves(Dtype dtype) const { return dtype == Dtype::bf16 ? bf16 : f16; }
};
template <class F> constexpr Entry entry() {
  Entry e;
  if constexpr (F::floats) e.f32 = &Tile<F, float>::run, e.f64 = &Tile<F, double>::run;
  if constexpr (has_half_loops<F>) e.bf16 = &Tile<F, BFloat16>::run, e.f16 = &Tile<F, Half>::run;
  if constexpr (F::integers) e.i64 = &Tile<F, std::int64_t>::run;
  return e;
}

// The table entries of every tile_files-th formula, starting at `first`.
inline constexpr int tile_files = 6;
template <int first, class... F> constexpr auto make_tiles(List<F...>) {
  constexpr std::size_t count = (sizeof...(F) - first + tile_files - 1) / tile_files;
  return []<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<Entry, count>{entry<std::tuple_element_t<first + i * tile_files, std::tuple<F...>>>()...};
  }(std::make_index_sequence<count>{});
}
template <int first> inline constexpr auto tiles_of = make_tiles<first>(pointwise::PointwiseFormulas{});

extern const Entry *const tiles_0, *const tiles_1, *const tiles_2, *const tiles_3, *const tiles_4, *const tiles_5;

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
