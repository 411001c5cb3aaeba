// Beam search with a language model: the most probable continuations that are found by keeping the best few of each
// length. For translation and the like; open text reads better when it is sampled (nn/generate.h).
//
//   const nn::Beams found = nn::beam_search(net, prompts, {.beams = 4, .max_new_tokens = 50, .eos = bpe.id("</s>")});
//   found.tokens[0][0];    // the best continuation of the first prompt, with the prompt
//
// An encoder and a decoder: the model is called with the rows of N prompts first, then with N * beams rows, those of a
// prompt one after the other.
//
//   const auto decode = [&](const Tensor& tokens, const nn::KvCache& cache) {
//     return net.decoder(tokens, repeat_interleave(memory, tokens.size(0) / memory.size(0), 0), cache);
//   };
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>

#include "nn/generate.h"

namespace mantissa::nn {

struct BeamSearchOptions {
  std::int64_t beams = 4;
  std::int64_t max_new_tokens = 100;
  std::optional<std::int64_t> eos = {};  // ends a text
  // A finished text's score is the sum of its new tokens' log-probabilities, `eos` included, divided by their number to
  // this power: above 0 favours long texts, below 0 short ones.
  double length_penalty = 1;
  std::int64_t returned = 1;  // texts of each prompt, at most `beams`
  // Whether a prompt is done with as many finished texts as beams; otherwise it goes on while a running text may become
  // better than the worst of them, by its score at its present length.
  bool early_stopping = false;
  bool use_cache = true;  // as GenerateOptions'
  // Replaces the log-probabilities of the next token, f32 [rows, V], knowing the texts so far, i64 [rows, T].
  std::function<Tensor(const Tensor& texts, const Tensor& scores)> logits_processor = {};
};

struct Beams {
  Tensor tokens;  // i64 [N, returned, T + new tokens]: the best first; shorter ones are padded with `eos`
  Tensor scores;  // f32 [N, returned]; -infinity if the model allows fewer texts
};

// Continues N prompts of T >= 1 tokens, i64 [N, T]. Follows Hugging Face's generate(num_beams=...). Texts that
// max_new_tokens cuts off count as finished. Records no gradients; runs in the caller's autocast region, with
// probabilities in f32; call nn::eval(net) first. Each token needs one copy of beams * 4 numbers to the host.
Beams beam_search(const Decoder& model, const Tensor& tokens, const BeamSearchOptions& options = {});
template <class Model>
  requires std::is_invocable_r_v<Tensor, const Model&, const Tensor&, const KvCache&>
Beams beam_search(const Model& model, const Tensor& tokens, const BeamSearchOptions& options = {}) {
  return beam_search(Decoder(std::cref(model)), tokens, options);
}
template <class Model>  // a model without a cache is called with whole texts
  requires(std::is_invocable_r_v<Tensor, const Model&, const Tensor&> &&
           !std::is_invocable_r_v<Tensor, const Model&, const Tensor&, const KvCache&>)
Beams beam_search(const Model& model, const Tensor& tokens, BeamSearchOptions options = {}) {
  options.use_cache = false;
  return beam_search(Decoder([&](const Tensor& text, const KvCache&) { return model(text); }), tokens, options);
}

}  // namespace mantissa::nn
