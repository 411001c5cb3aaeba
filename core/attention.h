// Shared by ops/attention.cpp and core/cpu/attention.cpp: fused attention.
#pragma once

#include <cstdint>

#include "core/kernel.h"

namespace mantissa {

// The maximum head dimension of the CUDA kernels. Tiles of wider f64 heads do not fit into 99 KiB of shared memory.
inline constexpr int most_cuda_attention_width(Dtype t) { return t == f64 ? 128 : 256; }

// Scores are query @ key^T * scale. Element e = (item, i, j) of the weights, counted in [items, L, S], is dropped if
// its random number is below dropout_p: word e % 4 of Philox counter offset + e / 4, as in dropout (ops/dropout.cpp).
struct AttentionSettings {
  double scale = 1;
  bool causal = false;  // query i attends to keys j <= i
  double dropout_p = 0;
  std::uint64_t seed = 0, offset = 0;
  // f16 and bf16 kernels may round the weights to the dtype before multiplying by values: allowed under autocast, for
  // speed.
  bool may_round_weights = false;
};

// query [..., H, L, D], key [..., G, S, D], value [..., G, S, E] with any strides, in f32, f16 or bf16, on CUDA also in
// f64; G divides H, and each head of key and value serves H / G adjacent query heads. mask [..., H, L, S] or absent:
// bool, true where a query may attend, or added to scores, of query's dtype or its compute dtype. y [..., H, L, E] in
// query's dtype, with dense rows. log_sum [..., H, L], contiguous f32 (f64 for f64): log of the sum of exp(score);
// infinite for a query that may attend to no key, whose y is 0.
MANTISSA_KERNEL(attention, const View& y, const View& log_sum, const View& query, const View& key, const View& value,
                const View& mask, const AttentionSettings& settings)
// The gradients of query, key and value, with their shapes and dtypes, rows dense. `g` is the gradient of y.
MANTISSA_KERNEL(attention_backward, const View& d_query, const View& d_key, const View& d_value, const View& g,
                const View& query, const View& key, const View& value, const View& mask, const View& y,
                const View& log_sum, const AttentionSettings& settings)

}  // namespace mantissa
