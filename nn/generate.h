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
  std::int64_t top_k = 0;  // only the k most probable tokens; 0: all
  double temperature = 1;  // logits are divided by it: below 1 likely tokens become likelier; 0: always the likeliest
  double top_p = 1;        // only the likeliest that have this probability together (Holtzman et al., 2020)
};

// Draws a token for each row, by one random number of f64: logits [..., V] -> i64 [...]. A logit of -infinity is never
// drawn. Error for NaN on the CPU (a GPU would have to be waited for).
Tensor sample(const Tensor& logits, const SampleOptions& options = {});

struct GenerateOptions {
  std::int64_t max_new_tokens = 100;
  // The model's context length; 0: unlimited. When it is full, generation continues from its newer half.
  std::int64_t context = 0;
  SampleOptions sample = {};
  std::optional<std::int64_t> eos = {};  // ends a sequence; when all have ended, generation stops
  // Called with each new token, i64 [N]; false stops the generation.
  std::function<bool(const Tensor&)> on_token = {};
};

// Tokens i64 [N, t] that follow those in the cache -> logits [N, t, V], or [N, 1, V] of the last. After the first call
// these are the tokens written since, one for each text: a model that does not fill the cache has to remember the
// others by itself, as a recurrent one does with its state.
using Decoder = std::function<Tensor(const Tensor& tokens, const KvCache& cache)>;

// Continues N prompts of T >= 1 tokens: i64 [N, T] -> [N, T + new tokens]. Finished sequences are padded with `eos`.
// Records no gradients; runs in the caller's autocast region; call nn::eval(net) before.
Tensor generate(const Decoder& model, const Tensor& tokens, const GenerateOptions& options = {});
// A module or function as it stands, which need not be copied.
template <class Model>
  requires std::is_invocable_r_v<Tensor, const Model&, const Tensor&, const KvCache&>
Tensor generate(const Model& model, const Tensor& tokens, const GenerateOptions& options = {}) {
  return generate(Decoder(std::cref(model)), tokens, options);
}

}  // namespace mantissa::nn
