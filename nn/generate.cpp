#include "nn/generate.h"

#include <algorithm>
#include <cfloat>

#include "amp/autocast.h"
#include "autograd/grad_mode.h"
#include "core/operators.h"
#include "core/ops.h"
#include "core/random.h"

namespace mantissa::nn {

Tensor sample(const Tensor& logits, const SampleOptions& o) {
  check(logits.dim() >= 1 && logits.size(-1) > 0 && logits.is_floating(),
        "sample: needs floating logits [..., V], got ", logits);
  check(o.temperature >= 0 && o.top_k >= 0 && o.top_p > 0 && o.min_p >= 0 && o.min_p <= 1,
        "sample: temperature and top_k must not be negative, top_p must be positive, and min_p between 0 and 1, got ",
        o.temperature, ", ", o.top_k, ", ", o.top_p, " and ", o.min_p);
  const NoGrad no_grad;
  const amp::Autocast off(amp::disabled);
  if (o.temperature == 0) return argmax(logits, -1);
  const auto last = [](const Tensor& x) { return slice(x, -1, -1); };
  const std::int64_t all_tokens = logits.size(-1);
  Tensor x = cast(logits, f32), candidates;  // undefined: all, in order
  if (o.top_k > 0 && o.top_k < all_tokens) {
    const auto [values, indices] = topk(x, o.top_k);
    x = values;
    candidates = indices;
  }
  // The largest is 1, so that even the lowest temperatures work; clamped to f32's smallest normal number.
  Tensor weight = exp((x - amax(x, {-1}, true)) / std::max<double>(o.temperature, FLT_MIN));
  const bool nucleus = o.top_p < 1;
  if (o.min_p > 0 && !nucleus) weight = where(weight >= o.min_p, weight, zeros_like(weight));
  Tensor edges = cumsum(weight, -1, f64), end = last(edges);
  if (x.device().is_cpu())  // elsewhere the check would synchronise
    check(all(end > 0.0).item<bool>(), "sample: the logits ", logits,
          " have NaN or infinity, or nothing but -infinity");
  if (nucleus) {
    if (!candidates.defined()) {  // most likely first; a full sort takes as long as the model, and 1024 mostly suffice
      auto best = topk(weight, std::min<std::int64_t>(1024, all_tokens));
      if (!all(last(cumsum(best.values, -1, f64)) >= end * o.top_p)) best = topk(weight, all_tokens);
      candidates = best.indices;
      weight = best.values;
      edges = cumsum(weight, -1, f64);
    }
    const Tensor enough = searchsorted(edges, end * o.top_p);
    end = gather(edges, -1, clamp(enough, 0, static_cast<double>(edges.size(-1) - 1)));
    if (o.min_p > 0) {  // of the nucleus, not of what a nucleus of the rest would be
      const Tensor probable = cast(weight >= o.min_p, i64).sum(-1, true);
      end = minimum(end, gather(edges, -1, clamp(probable - 1, 0, static_cast<double>(edges.size(-1) - 1))));
    }
  }
  // Inverse transform sampling, in f64: in f32, rounding would shift probability from unlikely tokens to likely ones.
  const Tensor at = searchsorted(edges, rand(end.sizes(), {.dtype = f64, .device = x.device()}) * end, true);
  const Tensor chosen = clamp(at, 0, static_cast<double>(edges.size(-1) - 1));  // NaN maps beyond the end
  return squeeze(candidates.defined() ? gather(candidates, -1, chosen) : chosen, -1);
}

Tensor penalize_repetitions(const Tensor& texts, const Tensor& logits, double penalty) {
  check(texts.dim() == 2 && texts.dtype() == i64 && logits.dim() == 2 && logits.is_floating() &&
            logits.size(0) == texts.size(0),
        "penalize_repetitions: needs texts i64 [N, T] and logits [N, V], got ", texts, " and ", logits);
  check(penalty > 0, "penalize_repetitions: the penalty must be positive, got ", penalty);
  const Tensor said = gather(logits, 1, texts);
  return scatter(logits, 1, texts, where(said < 0, said * penalty, said / penalty));
}

Tensor generate(const Decoder& model, const Tensor& tokens, const GenerateOptions& o) {
  check(tokens.dim() == 2 && tokens.numel() > 0 && tokens.dtype() == i64, "generate: needs tokens i64 [N, T], got ",
        tokens);
  check(o.context == 0 || o.context >= 2, "generate: needs a context of 2 tokens at least, got ", o.context);
  check(o.max_new_tokens >= 0, "generate: the number of tokens to write must not be negative, got ", o.max_new_tokens);
  check(!o.eos || *o.eos >= 0, "generate: the token that ends a text must not be negative, got ", o.eos.value_or(0));
  check(static_cast<bool>(model), "generate: there is no model");
  const NoGrad no_grad;
  const KvCache cache;
  Tensor text = tokens, next = tokens, over;  // over: bool [N], sequences that have ended
  for (std::int64_t i = 0; i < o.max_new_tokens; ++i) {
    if (!o.use_cache) {
      next = o.context > 0 ? slice(text, 1, std::max<std::int64_t>(0, text.size(1) - o.context)) : text;
    } else if (o.context > 0 && cache.length() + next.size(1) > o.context) {
      cache.clear();
      next = slice(text, 1, std::max<std::int64_t>(0, text.size(1) - (i == 0 ? o.context : o.context / 2)));
    }
    const Tensor logits = model(next, o.use_cache ? cache : no_cache);
    check(logits.dim() == 3 && logits.size(0) == text.size(0) && logits.size(1) > 0,
          "generate: the model must give logits [N, t, V], got ", logits);
    Tensor scores = select(logits, 1, -1);
    if (o.logits_processor) {
      const Dims sizes = scores.sizes();
      scores = o.logits_processor(text, scores);
      check(scores.defined() && scores.sizes() == sizes, "generate: logits_processor must give logits ", sizes,
            ", got ", scores);
    }
    Tensor token = sample(scores, o.sample);
    if (o.eos) {
      if (over.defined()) token = masked_fill(token, over, static_cast<double>(*o.eos));
      over = token == *o.eos;
    }
    next = unsqueeze(token, 1);
    text = cat({text, next}, 1);
    if ((o.on_token && !o.on_token(token)) || (over.defined() && all(over))) break;
  }
  return text;
}

}  // namespace mantissa::nn
