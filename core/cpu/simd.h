// Vec<T>: the SIMD vector of the instruction set this file is compiled for, from xsimd, and conversions between element
// types over runs of elements. Only files in core/cpu include this; everything is inside the instruction set's
// namespace, because the same source is compiled three times with different flags and must not share symbols.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <xsimd/xsimd.hpp>

#include "core/dtype.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

#if defined(__aarch64__)
// xsimd's own is that of 32-bit ARM, iterating from an estimate, for which the root of infinity is NaN.
template <> inline xsimd::batch<float, xsimd::neon64> xsimd::sqrt(const batch<float, neon64>& x) noexcept {
  return vsqrtq_f32(x);
}
#endif

namespace mantissa::cpu_backend::MANTISSA_ISA {

#if defined(__AVX512BW__)
using Arch = xsimd::avx512bw;
#elif defined(__AVX2__) && defined(__FMA__)
using Arch = xsimd::fma3<xsimd::avx2>;
#else
using Arch = xsimd::default_arch;
#endif
template <class T> using Vec = xsimd::batch<T, Arch>;

template <class T> inline Vec<T> load(const T* p) { return Vec<T>::load_unaligned(p); }
template <class T> inline void store(T* p, const Vec<T>& v) { v.store_unaligned(p); }

// --- runs of elements: to[i] = from[i * stride] ---
// Float to integer saturates, NaN gives 0; to bool nonzero is true: defined for every input.
template <class To, class From> inline To convert(From x) {
  if constexpr (std::is_same_v<To, bool>) return static_cast<bool>(x != From(0));
  else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    if (!(x == x)) return 0;
    if (x <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (x >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From> inline void convert_run(To* to, const From* from, std::int64_t stride, std::int64_t n) {
  using Wide = Compute<From>;
  if (stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = convert<To>(static_cast<Wide>(from[i]));
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = convert<To>(static_cast<Wide>(from[i * stride]));
  }
}

#if defined(__F16C__)
inline void convert_run(float* to, const Half* from, std::int64_t stride, std::int64_t n) {
  std::int64_t i = 0;
  if (stride == 1) {
    for (; i + 8 <= n; i += 8) {
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
    }
  }
  for (; i < n; ++i) to[i] = _cvtsh_ss(from[i * stride].bits);
}
inline void convert_run(Half* to, const float* from, std::int64_t stride, std::int64_t n) {
  std::int64_t i = 0;
  if (stride == 1) {
    for (; i + 8 <= n; i += 8) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    }
  }
  for (; i < n; ++i) to[i].bits = _cvtss_sh(from[i * stride], _MM_FROUND_TO_NEAREST_INT);
}
#endif

// The same with the stored type known at run time: the only place where elements are converted, so that kernels are
// instantiated for the three compute types (f32, f64, i64) and not for pairs of dtypes.
template <class C>
void load_run(C* to, const void* from, Dtype dtype, std::int64_t offset, std::int64_t stride, std::int64_t n) {
  visit(dtype, [&]<class T> { convert_run(to, static_cast<const T*>(from) + offset, stride, n); });
}
template <class C>
void store_run(void* to, Dtype dtype, std::int64_t offset, std::int64_t stride, const C* from, std::int64_t n) {
  visit(dtype, [&]<class T> {
    T* p = static_cast<T*>(to) + offset;
    if (stride == 1) {
      convert_run(p, from, 1, n);
    } else {
      for (std::int64_t i = 0; i < n; ++i) p[i * stride] = convert<T>(from[i]);
    }
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
