// Attention without the weight matrix in memory: y = dropout(softmax(scale * q k^T + mask)) v, and its gradients. Two
// arithmetics: Tensor Cores for f16 and bf16 (cuda/attention_mma.cuh), ordinary multiplication for f32 and f64
// (cuda/attention_plain.cuh). The algorithm is in cuda/attention.cuh.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "cuda/runtime.h"

namespace mantissa::cuda_backend {

inline constexpr double log2_e = 1.4426950408889634;  // our own kernels compute exponentials in base 2

// Rows of a tensor [batch, heads, length, width]; the last dimension is contiguous.
struct AttentionRows {
  void* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0;  // strides, in elements
};

// Sizes in elements. Head h of q attends to head h / (heads / kv_heads) of k and v.
struct AttentionProblem {
  Dtype dtype = f32;  // of q, k, v, y and their gradients
  std::int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0;
  int width = 0, v_width = 0;  // head sizes: of q and k; of v and y
  AttentionRows q, k, v, y, dy, dq, dk, dv;
  // [batch, heads, queries, keys] by strides (0 broadcasts): bool, true where a query may attend, or a value added to
  // the scores, of dtype, or f32 for f16 and bf16.
  const void* mask = nullptr;
  Dtype mask_dtype = boolean;
  std::int64_t mask_strides[4] = {};
  bool causal = false;  // query i attends to keys 0 .. i
  // f16 and bf16: the weights are rounded to that dtype before their products, as under autocast; otherwise results are
  // those of f32, rounded once.
  bool rounds_weights = true;
  double scale = 1;
  // Dropout: weight ((batch * heads + head) * queries + query) * keys + key is dropped if the uniform random number
  // with that index (core/random.h) is below `dropout`; the others are divided by 1 - dropout.
  double dropout = 0;
  RandomPosition random;
  // Contiguous [batch, heads, queries], f64 for f64, else f32. lse: log of the sum of exp(scores); infinity for a query
  // with every key masked, whose y and gradients are zero. delta: sums of dy * y, scratch memory of backward.
  void* lse = nullptr;
  void* delta = nullptr;
};

// A mask as values to add to the scores, for kernels that cannot read it by strides: contiguous f32 of these sizes, 1
// in broadcast dimensions. About -2e38 masks a key.
struct AttentionBias {
  float* data = nullptr;
  std::int64_t sizes[4] = {1, 1, 1, 1};
};

void attention_forward(const AttentionProblem& p);   // q, k, v -> y, lse
void attention_backward(const AttentionProblem& p);  // dy and all of these -> dq, dk, dv

}  // namespace mantissa::cuda_backend
