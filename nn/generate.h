// Text generation with a language model: sampling the next token, and the autoregressive loop with a KV cache
// (nn/kv_cache.h).
//
//   Tensor text = nn::generate(net, bpe.encode("Once upon a time").unsqueeze(0),
//                              {.max_new_tokens = 100, .context = 1024, .sample = {.temperature = 0.8, .top_k = 50}});
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>

#include "core/tensor.h"
#include "nn/kv_cache.h"

namespace mantissa::nn {

// Sampling options, applied in this order.
struct SampleOptions {
  std::int64_t top_k = 0;  // keep only the k most probable tokens; 0: all
  double temperature = 1;  // divides the logits: below 1 favours likely tokens; 0: greedy
  double top_p = 1;        // nucleus sampling: the likeliest tokens with this total probability (Holtzman et al., 2020)
};

// Draws one token per row, each with one f64 random number: logits [..., V] -> i64 [...]. A logit of -infinity is never
// drawn. NaN is an Error on the CPU (on a GPU the check would need a synchronisation).
Tensor sample(const Tensor& logits, const SampleOptions& options = {});

struct GenerateOptions {
  std::int64_t max_new_tokens = 100;
  // The model's context length; 0: unlimited. When it is full, generation restarts from its most recent half.
  std::int64_t context = 0;
  SampleOptions sample = {};
  std::optional<std::int64_t> eos = {};  // ends a sequence; generation stops when all have ended
  // Called with each new token, i64 [N]; returning false stops the generation.
  std::function<bool(const Tensor&)> on_token = {};
};

// Tokens i64 [N, t] that follow those in the cache -> logits [N, t, V], or [N, 1, V] of the last token. After the first
// call only the tokens generated since are passed, one per sequence: a model that does not fill the cache must keep its
// own state, as a recurrent one does.
using Decoder = std::function<Tensor(const Tensor& tokens, const KvCache& cache)>;

// Continues N prompts of T >= 1 tokens: i64 [N, T] -> [N, T + new tokens]. Finished sequences are padded with `eos`.
// Records no gradients; runs in the caller's autocast region; call nn::eval(net) first.
Tensor generate(const Decoder& model, const Tensor& tokens, const GenerateOptions& options = {});
// Takes the module or function by reference: it need not be copyable.
template <class Model>
  requires std::is_invocable_r_v<Tensor, const Model&, const Tensor&, const KvCache&>
Tensor generate(const Model& model, const Tensor& tokens, const GenerateOptions& options = {}) {
  return generate(Decoder(std::cref(model)), tokens, options);
}

}  // namespace mantissa::nn
