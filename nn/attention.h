// MultiheadAttention (Vaswani et al., 2017), with the parameters and results of torch.nn.MultiheadAttention.
//
//   nn::MultiheadAttention attention{64, 8, {.dropout = 0.1, .batch_first = true}};
//   auto [y, weights] = attention(x, x, x, {.need_weights = false, .is_causal = true});
//
// A query whose keys are all masked out yields zeros.
#pragma once

#include "core/ops.h"
#include "nn/fields.h"
#include "nn/linear.h"

namespace mantissa::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  // of the attention weights, in training
  bool bias = true;
  bool add_bias_kv = false;         // append a learned key and value to the sequence
  bool add_zero_attn = false;       // append a zero key and value to the sequence
  std::int64_t kdim = 0, vdim = 0;  // feature sizes of key and value; 0: embed_dim
  bool batch_first = false;         // inputs and output [N, L, E] instead of [L, N, E]
};
// Arguments of one call. Masks are bool (true where attention is NOT allowed) or floating (added to the scores).
struct AttentionCall {
  Tensor key_padding_mask = {};  // [N, S]
  bool need_weights = true;
  Tensor attn_mask = {};         // [L, S] or [N * heads, L, S]
  bool average_attn_weights = true;
  bool is_causal = false;        // causal mask; attn_mask must then be absent
};
struct AttentionResult {
  Tensor output;   // shape of query, with last dimension embed_dim
  Tensor weights;  // [N, L, S], or [N, heads, L, S]; undefined without need_weights
};

class MultiheadAttention {
 public:
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, const MultiheadAttentionOptions& o = {});
  // query [L, N, E], key [S, N, kdim], value [S, N, vdim]; or all three without the batch dimension.
  AttentionResult operator()(const Tensor& query, const Tensor& key, const Tensor& value,
      const AttentionCall& call = {}) const;

  Param in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias;  // the first, or the next three
  Param bias_k, bias_v;  // [1, 1, embed_dim], with add_bias_kv
  Linear out_proj;
  Mode mode;
  std::int64_t embed_dim = 0, num_heads = 1;
  double dropout = 0;
  bool batch_first = false, add_zero_attn = false;
  MANTISSA_FIELDS(in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias, bias_k, bias_v, out_proj,
      mode)
  MultiheadAttention clone() const;

 private:
  explicit MultiheadAttention(Linear out) : out_proj(std::move(out)) {}
  Tensor project(const Tensor& x, int part) const;
  Tensor with_extra_rows(const Tensor& x, const Param& bias) const;
};

}  // namespace mantissa::nn
