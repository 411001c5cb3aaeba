// Attention without its matrix of weights in memory: y = dropout(softmax(scale * q k^T + mask)) v, and its gradients.
// One problem, two arithmetics: Tensor Cores for halves (cuda/attention_mma.cuh), ordinary numbers for f32 and f64
// (cuda/attention_plain.cuh). The algorithm is in cuda/attention.cuh.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "cuda/runtime.h"

namespace mantissa::cuda_backend {

// Rows of a tensor [batch, heads, length, width]; neighbours of the last dimension lie side by side.
struct AttentionRows {
  void* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0;  // strides, in elements
};

// Sizes in elements. Head h of q looks at head h / (heads / kv_heads) of k and v.
struct AttentionProblem {
  Dtype dtype = f32;  // of q, k, v, y and their gradients
  std::int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0;
  int width = 0, v_width = 0;  // of a head of q and k; of v and y
  AttentionRows q, k, v, y, dy, dq, dk, dv;
  // [batch, heads, queries, keys] by strides (0 repeats): boolean, true where a query may look, or added to the scores.
  const void* mask = nullptr;
  Dtype mask_dtype = boolean;
  std::int64_t mask_strides[4] = {};
  bool causal = false;  // query i looks at keys 0 .. i
  // Weights of halves become halves for their products, as autocast has it; else results
  // are those of f32, rounded once.
  bool rounds_weights = true;
  double scale = 1;
  // Weight number ((batch * heads + head) * queries + query) * keys + key of a draw (core/random.h) is dropped where
  // its number is below `dropout`; the others are divided by 1 - dropout.
  double dropout = 0;
  RandomPosition random;
  // Dense [batch, heads, queries], f64 for f64, else f32. lse: the logarithm of the sum of exp(scores); infinity for a
  // query that may look at nothing, whose y and gradients are zero. delta: sums of dy * y, scratch of backward.
  void* lse = nullptr;
  void* delta = nullptr;
};

// A mask as numbers to add to scores, for who cannot read it by strides: dense f32 of these sizes, 1 where it repeats.
// -3e38 hides.
struct AttentionBias {
  float* data = nullptr;
  std::int64_t sizes[4] = {1, 1, 1, 1};
};

void attention_forward(const AttentionProblem& p);   // q, k, v -> y, lse
void attention_backward(const AttentionProblem& p);  // dy and all of these -> dq, dk, dv

}  // namespace mantissa::cuda_backend
