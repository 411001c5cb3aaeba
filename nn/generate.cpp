#include "nn/generate.h"

#include <algorithm>
#include <cmath>

#include "amp/autocast.h"
#include "autograd/grad_mode.h"
#include "core/operators.h"
#include "core/ops.h"
#include "core/random.h"

namespace mantissa::nn {

Tensor sample(const Tensor& logits, const SampleOptions& o) {
  check(logits.dim() >= 1 && logits.size(-1) > 0 && logits.is_floating(),
        "sample: needs floating logits [..., V], got ", logits);
  check(o.temperature >= 0 && o.top_k >= 0 && o.top_p > 0,
        "sample: temperature and top_k must not be negative and top_p must be positive, got ", o.temperature, ", ",
        o.top_k, " and ", o.top_p);
  const NoGrad no_grad;
  const amp::Autocast off(amp::disabled);
  if (o.temperature == 0) return argmax(logits, -1);
  Tensor x = cast(logits, f32) / o.temperature, candidates;  // undefined: all, in order
  const std::int64_t all_tokens = x.size(-1);
  if (o.top_k > 0 && o.top_k < all_tokens) {
    const auto [values, indices] = topk(x, o.top_k);
    x = values;
    candidates = indices;
  }
  if (o.top_p < 1) {
    Tensor p = softmax(x, -1);
    if (!candidates.defined()) {  // likeliest first; to sort all takes as long as the model, and some are mostly enough
      auto best = topk(p, std::min<std::int64_t>(1024, all_tokens));
      if (!all(sum(best.values, {-1}) >= o.top_p)) best = topk(p, all_tokens);
      p = best.values;
      candidates = best.indices;
      x = gather(x, -1, candidates);
    }
    x = masked_fill(x, cumsum(p, -1) - p >= o.top_p, -INFINITY);  // the likeliest is always among them
  }
  // The largest of logits + Gumbel noise is a draw from their softmax.
  const Tensor noise = -log(-log(rand(x.sizes(), {.device = x.device()})));
  const Tensor chosen = argmax(x + noise, -1, true);
  return squeeze(candidates.defined() ? gather(candidates, -1, chosen) : chosen, -1);
}

Tensor generate(const Decoder& model, const Tensor& tokens, const GenerateOptions& o) {
  check(tokens.dim() == 2 && tokens.numel() > 0 && tokens.dtype() == i64, "generate: needs tokens i64 [N, T], got ",
        tokens);
  check(o.context == 0 || o.context >= 2, "generate: needs a context of 2 tokens at least, got ", o.context);
  const NoGrad no_grad;
  const KvCache cache;
  Tensor text = tokens, next = tokens, over;  // over: bool [N], the texts that have ended
  for (std::int64_t i = 0; i < o.tokens; ++i) {
    if (o.context > 0 && cache.length() + next.size(1) > o.context) {
      cache.clear();
      next = slice(text, 1, std::max<std::int64_t>(0, text.size(1) - (i == 0 ? o.context : o.context / 2)));
    }
    const Tensor logits = model(next, cache);
    check(logits.dim() == 3 && logits.size(0) == text.size(0) && logits.size(1) > 0,
          "generate: the model must give logits [N, t, V], got ", logits);
    Tensor token = sample(select(logits, 1, -1), o.sample);
    if (o.end) {
      if (over.defined()) token = masked_fill(token, over, static_cast<double>(*o.end));
      over = token == *o.end;
    }
    next = unsqueeze(token, 1);
    text = cat({text, next}, 1);
    if ((o.written && !o.written(token)) || (over.defined() && all(over))) break;
  }
  return text;
}

}  // namespace mantissa::nn
