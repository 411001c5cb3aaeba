#include "nn/distributions_combined.h"

namespace mantissa::distributions::detail {

Categorical choice_among(Categorical choice, const Dims& means, int event_dims) {
  const Dims k = choice.probs.sizes();
  Dims batch = means;
  for (int d = 0; d < event_dims && batch.rank() > 0; ++d) batch.erase(batch.rank() - 1);
  check(batch.rank() > 0 && batch.back() == k.back(), "MixtureSameFamily: a choice among ", k.back(),
        " needs as many components as the last dimension of their batch; their means have shape ", means);
  check(broadcast(k, batch) == batch, "MixtureSameFamily: the choice ", k, " does not broadcast to the components ",
        batch, "; give those parameters of the whole batch");
  choice.probs = expand(choice.probs, batch);
  choice.logits = expand(choice.logits, batch);
  return choice;
}

// choice [S..., B...] of draws [S..., B..., K, E...]
Tensor pick_component(const Tensor& choice, const Tensor& draws, int event_dims) {
  Tensor at = choice;
  for (int d = 0; d <= event_dims; ++d) at = unsqueeze(at, -1);
  const int dim = draws.dim() - 1 - event_dims;
  return squeeze(take_along_dim(draws, at, dim), dim);
}
Tensor for_components(const Tensor& value, int event_dims) {
  check(value.dim() >= event_dims, "MixtureSameFamily: ", value, " has fewer than the ", event_dims,
        " dimensions of an event");
  return unsqueeze(value, value.dim() - event_dims);
}
Tensor mix_densities(const Tensor& logits, const Tensor& log_prob) { return logsumexp(logits + log_prob, {-1}); }
Tensor mix_values(const Tensor& probs, const Tensor& values, int event_dims) {
  Tensor weights = probs;
  for (int d = 0; d < event_dims; ++d) weights = unsqueeze(weights, -1);
  return sum(weights * values, {-1 - event_dims});
}
Tensor mix_variances(const Tensor& probs, const Tensor& means, const Tensor& variances, int event_dims) {
  // Mean of the variances plus variance of the means: E[x^2] - E[x]^2 would lose digits.
  const Tensor mean = unsqueeze(mix_values(probs, means, event_dims), -1 - event_dims);
  return mix_values(probs, variances + square(means - mean), event_dims);
}

}  // namespace mantissa::distributions::detail
