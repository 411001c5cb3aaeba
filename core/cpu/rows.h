// Shared by kernels over contiguous runs: elementwise passes and reductions with explicit vectors, and Dense, which
// gives any tensor as dense elements of a compute type. Reductions have a fixed shape that depends on the length only:
// tiles of 512 elements in four vector accumulators, tiles combined pairwise. So results do not depend on threads or
// alignment.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/cpu/simd.h"
#include "core/tensor.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

void copy(const View& y, const View& x);  // core/cpu/copy.cpp

inline constexpr std::int64_t fold_tile = 512;

// --- fold operations, on vectors and scalars ---
struct Sum {
  template <class T> static T identity() { return T(0); }
  template <class T> T operator()(const T& a, const T& b) const { return a + b; }
};
// Both propagate NaN. Written with ==, because xsimd's != is false for NaN on AVX.
struct Max {
  template <class T> static T identity() {
    if constexpr (std::is_integral_v<T>) return std::numeric_limits<T>::min();
    else return -std::numeric_limits<T>::infinity();
  }
  template <class T> T operator()(T a, T b) const { return ((b > a) | !(b == b)) ? b : a; }
  template <class T, class A>
  [[gnu::always_inline]] xsimd::batch<T, A> operator()(const xsimd::batch<T, A>& a, const xsimd::batch<T, A>& b) const {
    return xsimd::select(!(b == b), b, xsimd::max(b, a));  // the processor's maximum returns a if one is NaN
  }
};
struct Min {
  template <class T> static T identity() {
    if constexpr (std::is_integral_v<T>) return std::numeric_limits<T>::max();
    else return std::numeric_limits<T>::infinity();
  }
  template <class T> T operator()(T a, T b) const { return ((b < a) | !(b == b)) ? b : a; }
  template <class T, class A>
  [[gnu::always_inline]] xsimd::batch<T, A> operator()(const xsimd::batch<T, A>& a, const xsimd::batch<T, A>& b) const {
    return xsimd::select(!(b == b), b, xsimd::min(b, a));
  }
};

// Combines a stream of partial results pairwise, like a binary counter: level i holds the result of 2^i of them. The
// rounding error of a sum grows with log n instead of n.
template <class C, class Fold> class Cascade {
 public:
  void add(C v) {
    int i = 0;
    for (; count_ >> i & 1; ++i) v = Fold{}(level_[i], v);
    level_[i] = v;
    ++count_;
  }
  C total() const {
    C v = Fold::template identity<C>();
    bool first = true;
    for (int i = 0; count_ >> i; ++i) {
      if (!(count_ >> i & 1)) continue;
      v = first ? level_[i] : Fold{}(level_[i], v);
      first = false;
    }
    return v;
  }

 private:
  C level_[48];
  std::uint64_t count_ = 0;
};

// Loads the first n < Vec<C>::size elements, the others 0; and stores only n.
template <class C> inline Vec<C> load_part(const C* p, std::int64_t n) {
  C buffer[Vec<C>::size] = {};
  for (std::int64_t j = 0; j < n; ++j) buffer[j] = p[j];
  return load(buffer);
}
template <class C> inline void store_part(C* p, const Vec<C>& v, std::int64_t n) {
  C buffer[Vec<C>::size];
  store(buffer, v);
  for (std::int64_t j = 0; j < n; ++j) p[j] = buffer[j];
}
// v with the fold's neutral element in all but the first n lanes.
template <class Fold, class C> inline Vec<C> keep_part(const Vec<C>& v, std::int64_t n) {
  C buffer[Vec<C>::size];
  store(buffer, v);
  for (std::int64_t j = n; j < static_cast<std::int64_t>(Vec<C>::size); ++j) buffer[j] = Fold::template identity<C>();
  return load(buffer);
}
#if defined(__AVX512BW__)  // the same with masks
inline __mmask16 first_lanes(std::int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }
inline Vec<float> load_part(const float* p, std::int64_t n) {
  return Vec<float>(_mm512_maskz_loadu_ps(first_lanes(n), p));
}
inline Vec<double> load_part(const double* p, std::int64_t n) {
  return Vec<double>(_mm512_maskz_loadu_pd(static_cast<__mmask8>(first_lanes(n)), p));
}
inline void store_part(float* p, const Vec<float>& v, std::int64_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), v); }
inline void store_part(double* p, const Vec<double>& v, std::int64_t n) {
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>(first_lanes(n)), v);
}
template <class Fold> inline Vec<float> keep_part(const Vec<float>& v, std::int64_t n) {
  return Vec<float>(_mm512_mask_blend_ps(first_lanes(n), Vec<float>(Fold::template identity<float>()), v));
}
template <class Fold> inline Vec<double> keep_part(const Vec<double>& v, std::int64_t n) {
  return Vec<double>(
      _mm512_mask_blend_pd(static_cast<__mmask8>(first_lanes(n)), Vec<double>(Fold::template identity<double>()), v));
}
#elif defined(__AVX2__)
inline __m256i first_lanes(std::int64_t n) {  // of floats
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline __m256i first_wide_lanes(std::int64_t n) {  // of doubles
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
inline Vec<float> load_part(const float* p, std::int64_t n) {
  return Vec<float>(_mm256_maskload_ps(p, first_lanes(n)));
}
inline Vec<double> load_part(const double* p, std::int64_t n) {
  return Vec<double>(_mm256_maskload_pd(p, first_wide_lanes(n)));
}
inline void store_part(float* p, const Vec<float>& v, std::int64_t n) { _mm256_maskstore_ps(p, first_lanes(n), v); }
inline void store_part(double* p, const Vec<double>& v, std::int64_t n) {
  _mm256_maskstore_pd(p, first_wide_lanes(n), v);
}
template <class Fold> inline Vec<float> keep_part(const Vec<float>& v, std::int64_t n) {
  const Vec<float> other(Fold::template identity<float>());
  return Vec<float>(_mm256_blendv_ps(other, v, _mm256_castsi256_ps(first_lanes(n))));
}
template <class Fold> inline Vec<double> keep_part(const Vec<double>& v, std::int64_t n) {
  const Vec<double> other(Fold::template identity<double>());
  return Vec<double>(_mm256_blendv_pd(other, v, _mm256_castsi256_pd(first_wide_lanes(n))));
}
#endif

// Folds the lanes of a vector, upper half onto lower half.
#if defined(__AVX512BW__)
template <class Fold> inline float fold_in_registers(const Vec<float>& v) {
  const Fold fold;
  const Vec<float> a = fold(v, Vec<float>(_mm512_shuffle_f32x4(v, v, 0b01001110)));
  const Vec<float> b = fold(a, Vec<float>(_mm512_shuffle_f32x4(a, a, 0b10110001)));
  const Vec<float> c = fold(b, Vec<float>(_mm512_permute_ps(b, 0b01001110)));
  return _mm512_cvtss_f32(fold(c, Vec<float>(_mm512_permute_ps(c, 0b10110001))));
}
template <class Fold> inline double fold_in_registers(const Vec<double>& v) {
  const Fold fold;
  const Vec<double> a = fold(v, Vec<double>(_mm512_shuffle_f64x2(v, v, 0b01001110)));
  const Vec<double> b = fold(a, Vec<double>(_mm512_shuffle_f64x2(a, a, 0b10110001)));
  return _mm512_cvtsd_f64(fold(b, Vec<double>(_mm512_permute_pd(b, 0b01010101))));
}
#elif defined(__AVX2__)
template <class Fold> inline float fold_in_registers(const Vec<float>& v) {
  const Fold fold;
  const Vec<float> a = fold(v, Vec<float>(_mm256_permute2f128_ps(v, v, 1)));
  const Vec<float> b = fold(a, Vec<float>(_mm256_permute_ps(a, 0b01001110)));
  return _mm256_cvtss_f32(fold(b, Vec<float>(_mm256_permute_ps(b, 0b10110001))));
}
template <class Fold> inline double fold_in_registers(const Vec<double>& v) {
  const Fold fold;
  const Vec<double> a = fold(v, Vec<double>(_mm256_permute2f128_pd(v, v, 1)));
  return _mm256_cvtsd_f64(fold(a, Vec<double>(_mm256_permute_pd(a, 0b0101))));
}
#endif
template <class Fold, class C> inline C fold_lanes(const Vec<C>& v) {
#if defined(__AVX2__)
  if constexpr (std::is_floating_point_v<C>) return fold_in_registers<Fold>(v);
#endif
  C lanes[Vec<C>::size];
  store(lanes, v);
  for (std::size_t half = Vec<C>::size / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) lanes[j] = Fold{}(lanes[j], lanes[j + half]);
  }
  return lanes[0];
}

// Folds f(p[i], ...) over [0, n), n <= fold_tile. Named accumulators instead of an array, to keep them in registers.
template <class Fold, class C, class F, class... P>
inline C fold_one_tile(std::int64_t n, const F& f, const C* first, const P*... rest) {
  using V = Vec<C>;
  constexpr auto width = static_cast<std::int64_t>(V::size);
  const Fold fold;
  V a(Fold::template identity<C>()), b = a, c = a, d = a;
  const auto at = [&](std::int64_t i) { return f(load(first + i), load(rest + i)...); };
  std::int64_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    a = fold(a, at(i));
    b = fold(b, at(i + width));
    c = fold(c, at(i + 2 * width));
    d = fold(d, at(i + 3 * width));
  }
  for (; i + width <= n; i += width) a = fold(a, at(i));
  if (i < n) b = fold(b, keep_part<Fold>(f(load_part(first + i, n - i), load_part(rest + i, n - i)...), n - i));
  return fold_lanes<Fold, C>(fold(fold(a, b), fold(c, d)));
}

// Folds f(p[i], ...) over [0, n) for any n.
template <class Fold, class C, class F, class... P>
inline C fold_run(std::int64_t n, const F& f, const C* first, const P*... rest) {
  if (n <= fold_tile) return fold_one_tile<Fold>(n, f, first, rest...);
  Cascade<C, Fold> cascade;
  for (std::int64_t i = 0; i < n; i += fold_tile) {
    cascade.add(fold_one_tile<Fold>(std::min(fold_tile, n - i), f, first + i, (rest + i)...));
  }
  return cascade.total();
}
inline constexpr auto itself = [](const auto& v) { return v; };
template <class Fold, class C> inline C fold_run(std::int64_t n, const C* p) { return fold_run<Fold>(n, itself, p); }

// y[i] = f(p[i], ...) over [0, n); y may be one of the inputs.
template <class C, class F, class... P> inline void map_run(std::int64_t n, C* y, const F& f, const P*... p) {
  constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
  std::int64_t i = 0;
  for (; i + width <= n; i += width) store(y + i, f(load(p + i)...));
  if (i < n) store_part(y + i, f(load_part(p + i, n - i)...), n - i);
}

// --- tensors as dense rows of compute type C ---
inline View moved_to_last(View v, int dim) {
  if (v.dim() == 0) return v;
  const std::int64_t size = v.sizes[dim], stride = v.strides[dim];
  v.sizes.erase(dim);
  v.strides.erase(dim);
  v.sizes.push_back(size);
  v.strides.push_back(stride);
  return v;
}

// The elements of a view in row-major order: its own memory if it is dense and of type C, else a converted copy.
template <class C> class Dense {
 public:
  explicit Dense(const View& v) : data_(v.as<const C>()) {
    if (!v || (v.dtype == dtype_of<C> && v.is_contiguous())) return;
    copy_ = Tensor::allocate(v.sizes, dtype_of<C>);
    copy(copy_.view(), v);
    data_ = static_cast<const C*>(copy_.raw_data());
  }
  const C* data() const { return data_; }  // null for an absent argument

 private:
  Tensor copy_;
  const C* data_;
};
// The same for a result: finish() copies to the destination if a copy was needed.
template <class C> class DenseResult {
 public:
  explicit DenseResult(const View& v) : view_(v), data_(v.as<C>()) {
    if (v.dtype == dtype_of<C> && v.is_contiguous()) return;
    copy_ = Tensor::allocate(v.sizes, dtype_of<C>);
    data_ = static_cast<C*>(copy_.raw_data());
  }
  C* data() const { return data_; }
  void finish() {
    if (copy_.defined()) copy(view_, copy_.view());
  }

 private:
  View view_;
  Tensor copy_;
  C* data_;
};

// Calls f.operator()<C>() with the compute type of the floating dtype `t`.
template <class F> void visit_compute(Dtype t, F&& f) {
  if (t == f64) f.template operator()<double>();
  else f.template operator()<float>();
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
