// What the language models of characters share: the validation loss and the choice of the next character.
#pragma once

#include <functional>
#include <string>

#include "run.h"

namespace samples {

// Mean loss in nats per character over all of `text`, in windows side by side. logits: i64 [B, T] -> [B, T, V].
inline double text_loss(const data::Text& text, std::int64_t length, const Run& run,
                        const std::function<Tensor(const Tensor&)>& logits) {
  const NoGrad no_grad;
  const std::int64_t all = text.windows_of(length), at_once = 64;
  double sum = 0;
  for (std::int64_t first = 0; first < all; first += at_once) {
    const auto [input, target] = text.windows(first, at_once, length);
    const Tensor y = amp::autocast(run.dtype, [&] { return cast(logits(input.to(run.device)), f32); });
    const Tensor loss = cross_entropy(flatten(y, 0, 1), flatten(target).to(run.device), {.reduction = Reduction::sum});
    sum += loss.item<double>();
  }
  return sum / static_cast<double>(all * length);
}

// What a writing begins with: `prompt`, or where it is empty a new line, or the first character of a text without
// lines. To be called before training: refuses what the model will not know.
inline std::string first_words(const std::string& prompt, const data::Text& text) {
  check(text.size() > 0, "the text is empty");
  const bool has_lines = text.alphabet.find('\n') != std::string::npos;
  if (prompt.empty()) return has_lines ? "\n" : text.decode(text.tokens.slice(0, 0, 1));
  try {
    (void)text.encode(prompt);
  } catch (const Error& e) {
    fail("--prompt: ", e.what());
  }
  return prompt;
}

// Draws from softmax(logits / temperature), logits [V]; the most likely one at temperature 0. i64 [1].
inline Tensor draw(const Tensor& logits, double temperature) {
  // The largest of logits + Gumbel noise is such a draw.
  const Tensor gumbel = -log(-log(rand(logits.sizes(), {.device = logits.device()})));
  return argmax(temperature > 0 ? logits / temperature + gumbel : logits, -1, true);
}

}  // namespace samples
