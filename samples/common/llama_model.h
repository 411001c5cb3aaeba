// The network of Llama (Touvron et al., 2023) and variants: Mistral (a sliding window), Qwen 2 (biases of queries, keys
// and values), Qwen 3 (norms of queries and keys).
#pragma once

#include <mantissa/mantissa.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <vector>

#include "llama_folder.h"

namespace samples {

using namespace mantissa;

// Rotary position embedding (RoPE: Su et al., 2021): cosines and sines [T, D / 2] for the positions begin ... end - 1,
// with Llama 3's frequency scaling.
struct Rope {
  Rope(const LlamaConfig& c, std::int64_t begin, std::int64_t end, Device device) {
    std::vector<double> speeds;  // angular frequencies: radians per position
    for (std::int64_t i = 0; i < c.head_dim; i += 2) {
      double speed = std::pow(c.rope_theta, -static_cast<double>(i) / static_cast<double>(c.head_dim));
      if (c.rope_scaling) {
        const double length = 2 * std::numbers::pi / speed;
        const double waves = static_cast<double>(c.rope_scaling->original_max_position_embeddings) / length;
        const double low = c.rope_scaling->low_freq_factor, high = c.rope_scaling->high_freq_factor;
        const double as_it_was = std::clamp((waves - low) / (high - low), 0.0, 1.0);
        speed *= as_it_was + (1 - as_it_was) / c.rope_scaling->factor;
      }
      speeds.push_back(speed);
    }
    const Tensor positions = arange(static_cast<double>(begin), static_cast<double>(end), 1, {.dtype = f64});
    const Tensor angles = outer(positions, from_data(speeds, {c.head_dim / 2}));
    cosines = cos(angles).to(f32).to(device), sines = sin(angles).to(f32).to(device);
  }
  // [..., T, D]; element i is paired with i + D / 2.
  Tensor operator()(const Tensor& x) const {
    const std::vector<Tensor> half = chunk(x, 2, -1);
    const Tensor c = cosines.to(x.dtype()), s = sines.to(x.dtype());
    return cat({half[0] * c - half[1] * s, half[1] * c + half[0] * s}, -1);
  }
  Tensor cosines, sines;
};

inline nn::RMSNormOptions norm_options(const LlamaConfig& c) { return {.eps = c.rms_norm_eps}; }

// Members have Hugging Face's names, so parameter names match the file's.
struct LlamaAttention {
  explicit LlamaAttention(const LlamaConfig& c)
      : q_proj(c.hidden_size, c.num_attention_heads * c.head_dim, {.bias = c.attention_bias}),
        k_proj(c.hidden_size, c.num_key_value_heads * c.head_dim, {.bias = c.attention_bias}),
        v_proj(c.hidden_size, c.num_key_value_heads * c.head_dim, {.bias = c.attention_bias}),
        o_proj(c.num_attention_heads * c.head_dim, c.hidden_size,
               {.bias = c.attention_bias && c.model_type != "qwen2"}),
        head_dim(c.head_dim), sliding_window(c.sliding_window) {
    if (c.model_type == "qwen3") q_norm.emplace(head_dim, norm_options(c)), k_norm.emplace(head_dim, norm_options(c));
  }
  nn::Linear q_proj, k_proj, v_proj, o_proj;
  std::optional<nn::RMSNorm> q_norm, k_norm;  // per head: Qwen 3
  std::int64_t head_dim, sliding_window;
  MANTISSA_FIELDS(q_proj, k_proj, v_proj, o_proj, q_norm, k_norm)

  Tensor operator()(const Tensor& x, const Rope& rope, const nn::LayerCache& past) const {
    const auto heads = [&](const Tensor& y) {  // [N, T, heads, D]
      return y.reshape({y.size(0), y.size(1), -1, head_dim});
    };
    Tensor q = heads(q_proj(x)), k = heads(k_proj(x)), v = heads(v_proj(x));
    if (q_norm) q = (*q_norm)(q), k = (*k_norm)(k);
    q = rope(q.transpose(1, 2)), k = rope(k.transpose(1, 2)), v = v.transpose(1, 2);
    const Tensor y = nn::causal_attention(q, k, v, past, {}, sliding_window);
    return o_proj(flatten(y.transpose(1, 2), 2));
  }
};
struct LlamaMlp {
  explicit LlamaMlp(const LlamaConfig& c)
      : gate_proj(c.hidden_size, c.intermediate_size, {.bias = false}),
        up_proj(c.hidden_size, c.intermediate_size, {.bias = false}),
        down_proj(c.intermediate_size, c.hidden_size, {.bias = false}) {}
  nn::Linear gate_proj, up_proj, down_proj;
  MANTISSA_FIELDS(gate_proj, up_proj, down_proj)
  Tensor operator()(const Tensor& x) const { return down_proj(silu(gate_proj(x)) * up_proj(x)); }
};
struct LlamaLayer {
  explicit LlamaLayer(const LlamaConfig& c)
      : input_layernorm(c.hidden_size, norm_options(c)), self_attn(c),
        post_attention_layernorm(c.hidden_size, norm_options(c)), mlp(c) {}
  nn::RMSNorm input_layernorm;
  LlamaAttention self_attn;
  nn::RMSNorm post_attention_layernorm;
  LlamaMlp mlp;
  MANTISSA_FIELDS(input_layernorm, self_attn, post_attention_layernorm, mlp)

  Tensor operator()(Tensor x, const Rope& rope, const nn::LayerCache& past) const {
    x = x + self_attn(input_layernorm(x), rope, past);
    return x + mlp(post_attention_layernorm(x));
  }
};
struct Llama {
  explicit Llama(const LlamaConfig& c)
      : config(c), embed_tokens(c.vocab_size, c.hidden_size), norm(c.hidden_size, norm_options(c)) {
    for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) layers.emplace_back(c);
    if (!c.tie_word_embeddings) lm_head = nn::Param(empty({c.vocab_size, c.hidden_size}));
    for (const auto& [name, p] : nn::named_parameters(*this))
      if (p.dim() == 2) nn::init::normal_(p, 0, 0.02);
  }
  LlamaConfig config;
  nn::Embedding embed_tokens;
  std::vector<LlamaLayer> layers;
  nn::RMSNorm norm;
  nn::Param lm_head;  // undefined if tied to the embedding
  MANTISSA_FIELDS(embed_tokens, layers, norm, lm_head)

  // i64 [N, T] -> [N, T, width]. With a cache: tokens that continue those in the cache.
  Tensor operator()(const Tensor& tokens, const nn::KvCache& cache = nn::no_cache) const {
    const std::int64_t begin = cache.length(), end = begin + tokens.size(1);
    check(end <= config.max_position_embeddings, "Llama: ", end, " tokens are more than its context of ",
          config.max_position_embeddings);
    Tensor x = embed_tokens(tokens);
    const Rope rope(config, begin, end, x.device());
    for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](x, rope, cache[i]);
    return norm(x);
  }
  const Tensor& output() const { return lm_head.defined() ? lm_head : embed_tokens.weight; }
  Tensor logits(const Tensor& x) const { return linear(x, output()); }  // [..., width] -> [..., vocabulary]
  Tensor loss(const Tensor& input, const Tensor& target, Reduction reduction) const {
    return linear_cross_entropy((*this)(input), output(), target, {}, {.reduction = reduction});
  }
};

}  // namespace samples
