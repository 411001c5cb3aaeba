// Writing with a language model: the choice of the next token, and the loop around it with a cache (nn/kv_cache.h).
//
//   Tensor text = nn::generate(net, bpe.encode("Once upon a time").unsqueeze(0),
//                              {.tokens = 100, .context = 1024, .sample = {.temperature = 0.8, .top_k = 50}});
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>

#include "core/tensor.h"
#include "nn/kv_cache.h"

namespace mantissa::nn {

// Which tokens may follow, and how likely: what is asked for is done in this order.
struct SampleOptions {
  std::int64_t top_k = 0;  // only the so many likeliest; 0: all
  double temperature = 1;  // logits are divided by it: below 1 likely tokens become likelier; 0: always the likeliest
  double top_p = 1;        // only the likeliest that have this probability together (Holtzman et al., 2020)
};

// Draws a token for each row, by one random number of f64: logits [..., V] -> i64 [...]. A logit of -infinity is never
// drawn. Error for NaN on the CPU (a GPU would have to be waited for).
Tensor sample(const Tensor& logits, const SampleOptions& options = {});

struct GenerateOptions {
  std::int64_t tokens = 100;  // to write, at most
  // How many tokens the model sees at once; 0: any number. When they are full, it goes on with the newer half of them.
  std::int64_t context = 0;
  SampleOptions sample = {};
  std::optional<std::int64_t> end = {};  // a text is over with this token; when all are, so is the writing
  // Called with each token, i64 [N]; false ends the writing.
  std::function<bool(const Tensor&)> written = {};
};

// Tokens i64 [N, t] that follow those in the cache -> logits [N, t, V], or [N, 1, V] of the last. After the first call
// these are the tokens written since, one for each text: a model that does not fill the cache has to remember the
// others by itself, as a recurrent one does with its state.
using Decoder = std::function<Tensor(const Tensor& tokens, const KvCache& cache)>;

// Goes on with N texts of T >= 1 tokens: i64 [N, T] -> [N, T + what was written]. A text that is over is filled up with
// `end`. Records no gradients; autocast is that of the caller, and modules with a mode should be in nn::eval.
Tensor generate(const Decoder& model, const Tensor& tokens, const GenerateOptions& options = {});
// A module or function as it stands, which need not be copied.
template <class Model>
  requires std::is_invocable_r_v<Tensor, const Model&, const Tensor&, const KvCache&>
Tensor generate(const Model& model, const Tensor& tokens, const GenerateOptions& options = {}) {
  return generate(Decoder(std::cref(model)), tokens, options);
}

}  // namespace mantissa::nn
