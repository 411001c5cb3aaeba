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
  double min_p = 0;        // only tokens this probable, as a part of the likeliest one's (Nguyen et al., 2024)
};

// Draws one token per row, each with one f64 random number: logits [..., V] -> i64 [...]. A logit of -infinity is never
// drawn. NaN is an Error on the CPU (on a GPU the check would need a synchronisation).
Tensor sample(const Tensor& logits, const SampleOptions& options = {});

// Logits [N, V] of the next token, of which those of tokens in the texts, i64 [N, T], are divided by `penalty` if
// positive and multiplied by it if negative (Keskar et al., "CTRL", 2019): above 1 discourages repetitions.
Tensor penalize_repetitions(const Tensor& texts, const Tensor& logits, double penalty);

struct GenerateOptions {
  std::int64_t max_new_tokens = 100;
  // The model's context length; 0: unlimited. When it is full, generation restarts from its most recent half.
  std::int64_t context = 0;
  SampleOptions sample = {};
  std::optional<std::int64_t> eos = {};  // ends a sequence; generation stops when all have ended
  // Called with each new token, i64 [N]; returning false stops the generation.
  std::function<bool(const Tensor&)> on_token = {};
  // false, for a model without a cache: it is called with whole texts, of which the last `context` tokens, and only its
  // logits of the last token are used. Each token then costs the work of the whole text.
  bool use_cache = true;
  // Replaces the logits of the next token, [N, V], knowing the texts so far, i64 [N, T]:
  //   [](const Tensor& texts, const Tensor& logits) { return nn::penalize_repetitions(texts, logits, 1.2); }
  std::function<Tensor(const Tensor& texts, const Tensor& logits)> logits_processor = {};
};

// Tokens i64 [N, t] that follow those in the cache -> logits [N, t, V], or [N, 1, V] of the last token. After the first
// call only the tokens generated since are passed, one per sequence: a model that does not fill the cache must keep its
// own state, as a recurrent one does, or be called without use_cache.
using Decoder = std::function<Tensor(const Tensor& tokens, const KvCache& cache)>;

// Continues N prompts of T >= 1 tokens: i64 [N, T] -> [N, T + new tokens]. Finished sequences are padded with `eos`.
// Records no gradients; runs in the caller's autocast region; call nn::eval(net) first.
Tensor generate(const Decoder& model, const Tensor& tokens, const GenerateOptions& options = {});
// Takes the module or function by reference: it need not be copyable. One that takes no cache, net(tokens), is called
// with whole texts.
template <class Model>
  requires std::is_invocable_r_v<Tensor, const Model&, const Tensor&, const KvCache&>
Tensor generate(const Model& model, const Tensor& tokens, const GenerateOptions& options = {}) {
  return generate(Decoder(std::cref(model)), tokens, options);
}
template <class Model>
  requires(std::is_invocable_r_v<Tensor, const Model&, const Tensor&> &&
           !std::is_invocable_r_v<Tensor, const Model&, const Tensor&, const KvCache&>)
Tensor generate(const Model& model, const Tensor& tokens, GenerateOptions options = {}) {
  options.use_cache = false;
  return generate(Decoder([&](const Tensor& text, const KvCache&) { return model(text); }), tokens, options);
}

}  // namespace mantissa::nn
