// The two products of attention for a single query: keys and values are read once, in place, as packing them would pay
// off only for more queries. U is the stored type; sums are f32, in an order that depends on the sizes alone.
#pragma once

#include "core/cpu/transpose.h"
#include "core/cpu/vectors.h"

namespace mantissa::cpu_backend::MANTISSA_ISA::attention_few {

using V = Vec<float>;
inline constexpr auto lanes = static_cast<std::int64_t>(V::size);

// scores[j] = the sum over d of query[d] * key[j * row + d], for j < n.
template <class U>
void scores(float* to, const float* query, const U* key, std::int64_t row, std::int64_t n, std::int64_t depth) {
  std::int64_t j = 0;
#if defined(__AVX2__)
  // As many keys as a vector has elements: their sums are transposed and added up together.
  for (; j + lanes <= n; j += lanes) {
    V sum[lanes];
    for (V& v : sum) v = V(0.0f);
    for_vectors<float>(depth, [&](const auto& of, std::int64_t d) {
      const V q = of.load(query + d);
#pragma GCC unroll 16
      for (std::int64_t k = 0; k < lanes; ++k) sum[k] = xsimd::fma(q, V(of.load(key + (j + k) * row + d)), sum[k]);
    });
    transpose::Lanes turned[lanes];
    for (std::int64_t k = 0; k < lanes; ++k) turned[k] = sum[k];
    transpose::turn_square(turned);
    for (std::int64_t k = 0; k < lanes; ++k) sum[k] = V(turned[k]);
    for (std::int64_t half = lanes / 2; half > 0; half /= 2) {  // in the order of fold_lanes
#pragma GCC unroll 8
      for (std::int64_t k = 0; k < half; ++k) sum[k] = sum[k] + sum[k + half];
    }
    store(to + j, sum[0]);
  }
#endif
  for (; j < n; ++j) {
    V sum(0.0f);
    for_vectors<float>(depth, [&](const auto& of, std::int64_t d) {
      sum = xsimd::fma(V(of.load(query + d)), V(of.load(key + j * row + d)), sum);
    });
    to[j] = fold_lanes<Sum, float>(sum);
  }
}

// out[c] += the sum over j < n of weights[j] * value[j * row + c], for c < width.
template <class U>
void add_values(float* out, const float* weights, const U* value, std::int64_t row, std::int64_t n,
                std::int64_t width) {
  const auto columns = [&]<int count>(const auto& of, std::int64_t c) {
    V sum[count];
#pragma GCC unroll 4
    for (int u = 0; u < count; ++u) sum[u] = of.load(static_cast<const float*>(out) + c + u * lanes);
    for (std::int64_t j = 0; j < n; ++j) {
      const V weight(weights[j]);
      const U* from = value + j * row + c;
#pragma GCC unroll 4
      for (int u = 0; u < count; ++u) sum[u] = xsimd::fma(weight, V(of.load(from + u * lanes)), sum[u]);
    }
#pragma GCC unroll 4
    for (int u = 0; u < count; ++u) of.store(out + c + u * lanes, sum[u]);
  };
  std::int64_t c = 0;
  for (; c + 4 * lanes <= width; c += 4 * lanes) columns.template operator()<4>(WholeVector{}, c);
  for (; c + lanes <= width; c += lanes) columns.template operator()<1>(WholeVector{}, c);
  if (c < width) columns.template operator()<1>(PartOfVector{width - c}, c);
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::attention_few
