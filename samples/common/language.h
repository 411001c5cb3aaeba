// Shared by the language models: validation loss, prompts, and the training loop of token models. For generation see
// writing.h.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <variant>

#include "run.h"

namespace samples {

// Text generation after the training.
struct Writing {
  std::string prompt = {}, chat = {};
  std::int64_t tokens = 100;
  nn::SampleOptions sample{.temperature = 0.8};

  std::vector<Flag> flags(const char* tokens_help, const char* prompt_help) {
    return {{"--write", &tokens, tokens_help, {}, 0},
            {"--prompt", &prompt, prompt_help},
            {"--temperature", &sample.temperature, "Sampling temperature; 0: greedy"},
            {"--top-k", &sample.top_k, "Samples from the k most probable tokens only; 0: all", {}, 0},
            {"--top-p", &sample.top_p, "Samples from the most probable tokens with this total probability"},
            {"--min-p", &sample.min_p, "Samples from tokens this probable, as a part of the most probable one's"}};
  }
};
inline std::vector<Flag> operator+(std::vector<Flag> a, const std::vector<Flag>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Mean loss in nats per token over all of `text`, data::Tokens or a data::TokenFile, in consecutive windows, batched by
// `at_once`. loss(input, target), both i64 [B, T], returns the sum over a batch.
template <class Tokens>
double text_loss(const Tokens& text, std::int64_t length, std::int64_t at_once, const Run& run,
                 const std::function<Tensor(const Tensor&, const Tensor&)>& loss) {
  const NoGrad no_grad;
  length = std::min(length, text.size() - 1);  // a short text is one shorter window
  check(length > 0, "the text is too short: its last tenth, for validation, has fewer than two tokens");
  const std::int64_t all = text.windows_of(length);
  double sum = 0;
  for (std::int64_t first = 0; first < all; first += at_once) {
    const auto [input, target] = text.windows(first, at_once, length);
    const Tensor of_batch =
        amp::autocast(run.dtype, [&] { return loss(input.to(run.device), target.to(run.device)); });
    sum += of_batch.item<double>();
  }
  return sum / static_cast<double>(all * length);
}
// The same from logits: i64 [B, T] -> [B, T, V].
inline double text_loss(const data::Tokens& text, std::int64_t length, const Run& run,
                        const std::function<Tensor(const Tensor&)>& logits) {
  return text_loss(text, length, 64, run, [&](const Tensor& input, const Tensor& target) {
    return cross_entropy(flatten(cast(logits(input), f32), 0, 1), flatten(target), {.reduction = Reduction::sum});
  });
}

// i64 [2, length], example input for an export.
inline Tensor some_tokens(std::int64_t vocabulary, std::int64_t length) {
  return reshape(remainder(arange(2 * length), Tensor(vocabulary)), {2, length});
}

// The start of the generated text: `prompt`, or if empty a newline, or the first character of a text without newlines.
// To be called before training: throws for characters the model will not know.
inline std::string first_words(const std::string& prompt, const data::Text& text) {
  check(text.size() > 0, "the text is empty");
  const bool has_lines = text.alphabet.find('\n') != std::string::npos;
  if (prompt.empty()) return has_lines ? "\n" : text.decode(text.tokens.slice(0, 0, 1));
  try {
    (void)text.encode(prompt);
  } catch (const Error& e) { fail("--prompt: ", e.what()); }
  return prompt;
}

// The training data of a token model: an encoded text, or with --tokens a file of tokens.
using Corpus = std::variant<data::Tokens, data::TokenFile>;
inline std::int64_t size_of(const Corpus& corpus) {
  return std::visit([](const auto& tokens) { return tokens.size(); }, corpus);
}
// One tenth of a text is for validation; of a file, which may be very large, at most the last 100 000 tokens.
inline double validation_part(const Corpus& corpus) {
  const bool is_file = std::holds_alternative<data::TokenFile>(corpus);
  return is_file ? std::min(0.1, 1e5 / static_cast<double>(size_of(corpus))) : 0.1;
}
inline std::int64_t steps_per_epoch(const Corpus& corpus, std::int64_t tokens_per_step) {
  return data::first_of_validation(size_of(corpus), validation_part(corpus)) / tokens_per_step;
}

template <class Net, class Tokens>
int train_on(Net& net, const Tokens& tokens, double validation_part, const std::string& source, std::int64_t length,
             const Options& o, Run& run) {
  const auto [train, validation] = data::split(tokens, validation_part);
  optim::Optimizer& optimizer = run.optimizer("optim", nn::named_parameters(net));
  run.evaluate([&] {
    return Values{{"validation_loss",
                   text_loss(validation, length, o.batch, run,
                             [&](const Tensor& x, const Tensor& y) { return net.loss(x, y, Reduction::sum); })}};
  });
  run.start(source, nn::count(net));
  while (run.next()) {
    const auto [input, target] = train.batch(o.batch, length, run.seed(), static_cast<std::uint64_t>(run.step()));
    optimizer.zero_grad();
    const Tensor loss = amp::autocast(
        run.dtype, [&] { return net.loss(input.to(run.device), target.to(run.device), Reduction::mean); });
    backward(run.scaler.scale(loss));
    run.scaler.step(optimizer, amp::ClipNorm{1});
    run.scaler.update();
    run.done({{"loss", loss}});
  }
  return run.finish();
}
// Trains a token model with net.loss(input, target, reduction), both i64 [B, T]; returns the exit code.
template <class Net> int train(Net& net, const Corpus& corpus, std::int64_t length, const Options& o, Run& run) {
  const auto* text = std::get_if<data::Tokens>(&corpus);
  const std::string source = text ? text->source : concat("a file of ", size_of(corpus), " tokens");
  return std::visit(
      [&](const auto& tokens) { return train_on(net, tokens, validation_part(corpus), source, length, o, run); },
      corpus);
}

}  // namespace samples
