// Key-value cache of a decoder: the keys and values of all tokens so far, per layer. With it each new token costs the
// work of one token; without, that of the whole context.
//
//   nn::KvCache cache;
//   Tensor logits = net(prompt, cache);  // [N, T]: all tokens of the prompt at once
//   logits = net(next, cache);           // [N, 1]: then token by token, N sequences in parallel
//
// Such a model passes each layer its part of the cache. Positions count from the cache's length:
//
//   Tensor operator()(const Tensor& tokens, const nn::KvCache& cache = nn::no_cache) const {
//     Tensor x = token(tokens);
//     for (std::size_t i = 0; i < blocks.size(); ++i) x = blocks[i](x, cache[i]);
//   ...
//   Tensor attend(const Tensor& x, const nn::LayerCache& past) const {
//     const Tensor q = rotary_embedding(..., past.length()), k = rotary_embedding(..., past.length()), v = ...;
//     return nn::causal_attention(q, k, v, past);
//   }
//
// Results equal those of the whole context up to rounding. Used by nn/generate.h. Not for training: the cache detaches
// keys and values, and throws for those that require a gradient.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "core/ops.h"

namespace mantissa::nn {

struct KeysAndValues {
  Tensor keys, values;  // [..., heads, length, D]
};

// One layer's part: a reference into the cache.
class LayerCache {
 public:
  LayerCache() = default;                                            // no cache: nothing is stored
  std::int64_t length() const { return part_ ? part_->length : 0; }  // tokens seen
  // Appends key and value [..., heads, T, D] of the next T tokens and returns all so far, as views of the cache.
  // Without a cache: returns key and value.
  KeysAndValues append(const Tensor& key, const Tensor& value) const;

 private:
  friend class KvCache;
  struct Part {
    Tensor keys, values;  // with spare capacity, doubled when full
    std::int64_t length = 0;
  };
  explicit LayerCache(Part* part) : part_(part) {}
  Part* part_ = nullptr;
};

// The cache of all layers. A handle, like Tensor: copies share the cache. Stored in the dtype of the keys (that of the
// region under autocast); grows as needed. Not thread-safe: one sequence of calls at a time.
class KvCache {
 public:
  KvCache() : parts_(std::make_shared<std::deque<LayerCache::Part>>()) {}
  static KvCache none() { return KvCache(nullptr); }

  LayerCache operator[](std::size_t layer) const;  // layers are created on first access
  std::int64_t length() const { return (*this)[0].length(); }
  void truncate(std::int64_t length) const;  // drops the tokens from position `length` on
  void clear() const { truncate(0); }
  void select(const Tensor& index) const;  // i64 [n]: keeps these sequences of the batch, e.g. for beam search
  std::int64_t nbytes() const;

 private:
  explicit KvCache(std::shared_ptr<std::deque<LayerCache::Part>> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<std::deque<LayerCache::Part>> parts_;  // a deque: elements must not move
};
inline const KvCache no_cache = KvCache::none();

// Causal attention of the new tokens to the cache, to earlier new tokens and to themselves: query [..., H, T, D], key
// [..., G, T, D], value [..., G, T, E] of the new tokens -> [..., H, T, E]. Each of the G key-value heads serves H / G
// query heads. Sets is_causal and enable_gqa of the options. `window`: how many tokens each token attends to, itself
// included (sliding window of Mistral: Jiang et al., 2023); 0: all.
Tensor causal_attention(const Tensor& query, const Tensor& key, const Tensor& value, const LayerCache& past = {},
                        AttentionOptions options = {}, std::int64_t window = 0);

}  // namespace mantissa::nn
