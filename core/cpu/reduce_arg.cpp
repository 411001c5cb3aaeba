// argmax and argmin, and all and any, based on maxima and minima.
#include <vector>

#include "core/cpu/reduce_extrema.h"
#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(reduce_max, const View& y, const View& x)
MANTISSA_KERNEL(reduce_min, const View& y, const View& x)
MANTISSA_KERNEL(reduce_truth, const View& y, const View& x, bool all)
MANTISSA_KERNEL(reduce_arg, const View& values, const View& indices, const View& x, bool largest)
}  // namespace mantissa

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

inline constexpr std::int64_t column_tile = 128;

// Index of the first occurrence of the wanted value, which is present, among n contiguous elements. If it is NaN, any
// NaN matches.
template <class C, class T> std::int64_t find_first(const T* p, std::int64_t n, C wanted) {
  constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
  std::int64_t i = 0;
  const auto skip = [&](const auto& is) {
    for (; i + 4 * width <= n; i += 4 * width) {
      const auto at = [&](std::int64_t k) { return is(load_stored_vector<C>(p + i + k * width)); };
      if (xsimd::any((at(0) | at(1)) | (at(2) | at(3)))) break;
    }
    while (i < n - 1 && !is(static_cast<C>(static_cast<Compute<T>>(p[i])))) ++i;
  };
  if (wanted == wanted) skip([wanted](const auto& v) { return v == wanted; });
  else skip([](const auto& v) { return !(v == v); });
  return i;
}
// The same for adjacent columns, whose elements are `pitch` apart: rows are visited from the last to the first, so that
// the first index remains. Indices are as wide as C.
template <class C, class T>
void find_first_of_columns(const T* p, std::int64_t rows, std::int64_t pitch, std::int64_t columns, const C* wanted,
                           std::int64_t* index) {
  using Place = std::conditional_t<sizeof(C) == 4, std::int32_t, std::int64_t>;
  constexpr std::int64_t at_once = 8, most = column_tile;
  alignas(64) Place place[most] = {};
  for (std::int64_t end = rows; end > 0; end -= std::min(end, at_once)) {
    for_vectors<C>(columns, [&](const auto& of, std::int64_t j) {
      const Vec<C> w = load(wanted + j);
      const auto w_is_nan = !(w == w);
      Vec<Place> found = load(static_cast<const Place*>(place) + j);
      for (std::int64_t r = end - 1; r >= std::max<std::int64_t>(0, end - at_once); --r) {
        const Vec<C> v = stored_vector<C>(of, p + r * pitch + j);
        const auto is = (v == w) | (w_is_nan & !(v == v));
        const Vec<Place> here(static_cast<Place>(r));
        if constexpr (std::is_floating_point_v<C>) found = xsimd::select(xsimd::bool_cast(is), here, found);
        else found = xsimd::select(is, here, found);
      }
      store(place + j, found);
    });
  }
  std::copy_n(place, columns, index);
}

// The extreme value and the index of its first occurrence. NaN counts as the extreme of both kinds.
template <class C> void arg(const View& values, const View& indices, const View& x, bool largest) {
  const ReducePlan plan(indices.sizes, x);
  const Tensor extremes = Tensor::allocate(indices.sizes, dtype_of<C>);
  (largest ? reduce_max : reduce_min)(extremes.view(), x);
  const C* best = extremes.data<C>();
  const std::int64_t n = plan.count, stride = plan.reduced_strides.empty() ? 1 : plan.reduced_strides.back();
  std::int64_t* index = indices.as<std::int64_t>();
  const Elements<C> source{x};
  if (plan.column_stride == 1 && stride != 1 && plan.columns >= 4 && n <= INT32_MAX &&
      source.with_memory([](const auto&) {})) {
    const std::int64_t tiles = (plan.columns + column_tile - 1) / column_tile, around = plan.outputs / plan.columns;
    parallel_for(around * tiles, std::max<std::int64_t>(1, grain_size / (n * std::min(column_tile, plan.columns))),
                 [&](std::int64_t first, std::int64_t last) {
                   alignas(64) C wanted[column_tile] = {};
                   std::int64_t found[column_tile];
                   for (std::int64_t i = first; i < last; ++i) {
                     const Columns at(plan, i / tiles);
                     const std::int64_t column = i % tiles * column_tile,
                                        columns = std::min(column_tile, plan.columns - column),
                                        o = at.result + column * plan.column_step;
                     for (std::int64_t j = 0; j < columns; ++j) wanted[j] = best[o + j * plan.column_step];
                     source.with_memory([&](const auto* memory) {
                       find_first_of_columns<C>(memory + at.offset + column, n, stride, columns, wanted, found);
                     });
                     for (std::int64_t j = 0; j < columns; ++j) index[o + j * plan.column_step] = found[j];
                   }
                 });
  } else {
    parallel_for(plan.outputs, std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, n)),
                 [&](std::int64_t first, std::int64_t last) {
                   std::vector<C> copied(static_cast<std::size_t>(stride == 1 ? 0 : n));
                   for (std::int64_t o = first; o < last; ++o) {
                     const std::int64_t from = Walker(plan.kept, plan.kept_strides, o).offset();
                     const auto find = [&](const auto* memory) { index[o] = find_first(memory + from, n, best[o]); };
                     if (stride == 1 && source.with_memory(find)) continue;
                     source.load(copied.data(), from, stride, n, nullptr, 0);
                     index[o] = find_first(static_cast<const C*>(copied.data()), n, best[o]);
                   }
                 });
  }
  if (values) store_run(values.data, values.dtype, 0, 1, best, plan.outputs);
}

}  // namespace

// Along the one dimension in which `indices` has size 1; `values` may be absent.
void reduce_arg(const View& values, const View& indices, const View& x, bool largest) {
  with_fold_type(x.dtype, [&]<class C> { arg<C>(values, indices, x, largest); });
}

// For booleans and u8: from their smallest and largest byte.
void reduce_truth(const View& y, const View& x, bool all) {
  (all ? reduce_min : reduce_max)(y, x);
  std::uint8_t* const to = y.as<std::uint8_t>();
  for (std::int64_t i = 0; i < y.numel(); ++i) to[i] = to[i] != 0;
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
