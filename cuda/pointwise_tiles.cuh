// The launches of the elementwise kernels, one per formula and compute dtype. Formula i is instantiated in
// cuda/pointwise_<i % pointwise_files>.cu, so that no file is slow to compile; a new formula needs no edit there. Next:
// cuda/pointwise.cpp.
#pragma once

#include <array>
#include <tuple>
#include <utility>

#include "core/pointwise.h"
#include "cuda/elementwise.cuh"
#include "cuda/pointwise_entry.h"

namespace mantissa::cuda_backend {

template <class F, class C> void launch_formula(const void* formula, const ElementwiseLoop& loop) {
  launch_elementwise<F, C, arity_of<F, C>>("pointwise", *static_cast<const F*>(formula), loop);
}
template <class F> constexpr PointwiseEntry entry() {
  PointwiseEntry e;
  if constexpr (F::floats) e.f32 = &launch_formula<F, float>, e.f64 = &launch_formula<F, double>;
  if constexpr (F::integers) e.i64 = &launch_formula<F, std::int64_t>;
  return e;
}

// The entries of every pointwise_files-th formula, starting with `first`.
template <int first, class... F> constexpr auto make_entries(List<F...>) {
  constexpr std::size_t count = (sizeof...(F) - first + pointwise_files - 1) / pointwise_files;
  return []<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<PointwiseEntry, count>{
        entry<std::tuple_element_t<first + i * pointwise_files, std::tuple<F...>>>()...};
  }(std::make_index_sequence<count>{});
}
template <int first> inline constexpr auto entries_of = make_entries<first>(pointwise::PointwiseFormulas{});

}  // namespace mantissa::cuda_backend
