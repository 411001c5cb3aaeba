// What the language models of characters share: the validation loss and the choice of the next character.
#pragma once

#include <functional>

#include "run.h"

namespace samples {

// Mean loss in nats per character over all of `text`, in windows side by side. logits: i64 [B, T] -> [B, T, V].
inline double text_loss(const data::Text& text, std::int64_t length, const Run& run, const std::function<Tensor(const Tensor&)>& logits) {
  const NoGrad no_grad;
  const std::int64_t all = text.windows_of(length), at_once = 64;
  double sum = 0;
  for (std::int64_t first = 0; first < all; first += at_once) {
    const auto [input, target] = text.windows(first, at_once, length);
    const Tensor y = amp::autocast(run.dtype, [&] { return cast(logits(input.to(run.device)), f32); });
    sum += cross_entropy(flatten(y, 0, 1), flatten(target).to(run.device), {.reduction = Reduction::sum}).item<double>();
  }
  return sum / static_cast<double>(all * length);
}

// Draws from softmax(logits / temperature), logits [V]; the most likely one at temperature 0. i64 [1].
inline Tensor draw(const Tensor& logits, double temperature) {
  const Tensor gumbel = -log(-log(rand(logits.sizes(), {.device = logits.device()})));  // the largest of logits + Gumbel noise is such a draw
  return argmax(temperature > 0 ? logits / temperature + gumbel : logits, -1, true);
}

}  // namespace samples
