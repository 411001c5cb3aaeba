// What a decoder remembers of the tokens that it has seen: their keys and values, layer by layer. With it the next
// token costs the work of one token; without, that of the whole context.
//
//   nn::KvCache cache;
//   Tensor logits = net(prompt, cache);  // [N, T]: all tokens of the prompt at once
//   logits = net(next, cache);           // [N, 1]: and one after the other, N texts side by side
//
// A model that can be called so hands each layer its part. Positions count from where the cache ends:
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
// Numbers are those of the whole context up to rounding. nn/generate.h writes with it. Not for training: the cache
// takes keys and values out of the graph, and refuses those that want a gradient.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "core/ops.h"

namespace mantissa::nn {

struct KeysAndValues {
  Tensor keys, values;  // [..., heads, length, D]
};

// The part of one layer. Refers to the cache.
class LayerCache {
 public:
  LayerCache() = default;                                            // of no cache: nothing is remembered
  std::int64_t length() const { return part_ ? part_->length : 0; }  // tokens seen
  // Remembers key and value [..., heads, T, D] of the next T tokens, and gives all so far, views of the cache. Of no
  // cache: key and value themselves.
  KeysAndValues append(const Tensor& key, const Tensor& value) const;

 private:
  friend class KvCache;
  struct Part {
    Tensor keys, values;  // with room for more, which doubles when it is used up
    std::int64_t length = 0;
  };
  explicit LayerCache(Part* part) : part_(part) {}
  Part* part_ = nullptr;
};

// All layers. A handle, as a Tensor is: a copy is the same cache. It keeps the dtype that keys have (that of the
// region under autocast) and makes room as it is needed. One at a time writes with it.
class KvCache {
 public:
  KvCache() : parts_(std::make_shared<std::deque<LayerCache::Part>>()) {}
  static KvCache none() { return KvCache(nullptr); }

  LayerCache operator[](std::size_t layer) const;  // layers come to be when they are asked for
  std::int64_t length() const { return (*this)[0].length(); }
  void truncate(std::int64_t length) const;  // forgets the tokens from `length` on
  void clear() const { truncate(0); }
  void select(const Tensor& index) const;  // i64 [n]: goes on with these of the texts, as a search by beams does
  std::int64_t nbytes() const;

 private:
  explicit KvCache(std::shared_ptr<std::deque<LayerCache::Part>> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<std::deque<LayerCache::Part>> parts_;  // a deque, so that parts stay where they are
};
inline const KvCache no_cache = KvCache::none();

// Attention of new tokens to themselves, to those before them and to what the cache holds: query [..., H, T, D], key
// [..., G, T, D], value [..., G, T, E] of the new tokens -> [..., H, T, E]. Each of the G heads of keys and values
// serves H / G heads of queries. Of the options is_causal and enable_gqa are set here. `window` is how many tokens one
// looks at, itself and those before it (the sliding window of Mistral: Jiang et al., 2023); 0: all.
Tensor causal_attention(const Tensor& query, const Tensor& key, const Tensor& value, const LayerCache& past = {},
                        AttentionOptions options = {}, std::int64_t window = 0);

}  // namespace mantissa::nn
