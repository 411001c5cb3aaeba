// Maxima and minima, for core/cpu/reduce_max.cpp and reduce_min.cpp, which are separate files because the folds of all
// dtypes take long to compile.
#pragma once

#include "core/cpu/reduce.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// Calls f.operator()<C>() with the type in which extremes of dtype `t` are folded.
template <class F> void with_fold_type(Dtype t, const F& f) {
  switch (compute_dtype(t)) {
    case Dtype::f64:
      return f.template operator()<double>();
    case Dtype::f32:
      return f.template operator()<float>();
    default:
      return t == i64 ? f.template operator()<std::int64_t>() : f.template operator()<std::int32_t>();
  }
}

// Extremes of integers, without the NaN test.
template <class Fold> struct OfIntegers {
  static constexpr bool in_any_order = true;
  template <class T> static T identity() { return Fold::template identity<T>(); }
  template <class T> T operator()(const T& a, const T& b) const {
    if constexpr (std::is_integral_v<T>) return std::is_same_v<Fold, Max> ? std::max(a, b) : std::min(a, b);
    else return std::is_same_v<Fold, Max> ? xsimd::max(a, b) : xsimd::min(a, b);
  }
};

template <class C, class Fold> void extremes_as(const View& y, const View& x) {
  DenseResult<C> out(y);
  const Elements<C, false> source{x};
  reduce<std::conditional_t<std::is_integral_v<C>, OfIntegers<Fold>, Fold>>(ReducePlan(y.sizes, x), source, out.data());
  out.finish();
}
template <class Fold> void extremes(View y, View x) {
  for (View* v : {&y, &x}) if (v->dtype == boolean) v->dtype = u8;  // bytes of 0 and 1
  if (x.dtype == u8) return extremes_as<std::uint8_t, Fold>(y, x);
  with_fold_type(x.dtype, [&]<class C> { extremes_as<C, Fold>(y, x); });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
