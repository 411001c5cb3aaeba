// Distributions built from others: Independent and MixtureSameFamily. Read nn/distributions.h first.
#pragma once

#include <utility>

#include "nn/distributions_classes.h"
#include "nn/distributions_counts.h"
#include "nn/distributions_gamma.h"
#include "nn/distributions_matrices.h"
#include "nn/distributions_vectors.h"

namespace mantissa::distributions {

// Makes the last `dims` batch dimensions of D one event: log_prob and entropy are summed over them.
template <class D> struct Independent : Distribution<Independent<D>> {
  Independent(D distribution, int event_dims) : base(std::move(distribution)), dims(event_dims) {
    check(dims >= 0, "Independent: the number of dimensions must not be negative, got ", dims);
  }
  Tensor sample(const Dims& shape = {}) const { return base.sample(shape); }
  Tensor rsample(const Dims& shape = {}) const requires requires(const D& d) { d.rsample(); }
  { return base.rsample(shape); }
  Tensor log_prob(const Tensor& value) const { return sum_events(base.log_prob(value)); }
  Tensor entropy() const { return sum_events(base.entropy()); }
  Tensor mean() const { return base.mean(); }
  Tensor mode() const requires requires(const D& d) { d.mode(); }
  { return base.mode(); }
  Tensor variance() const requires requires(const D& d) { d.variance(); }
  { return base.variance(); }
  Tensor sum_events(const Tensor& x) const {
    check(x.dim() >= dims, "Independent: ", x, " has fewer than the ", dims, " dimensions of an event");
    return detail::sum_last(x, dims);
  }
  D base;
  int dims;
};

// Number of event dimensions of D.
template <class D> int event_dims(const D&) { return 0; }
inline int event_dims(const Dirichlet&) { return 1; }
inline int event_dims(const OneHotCategorical&) { return 1; }
inline int event_dims(const RelaxedOneHotCategorical&) { return 1; }
inline int event_dims(const Multinomial&) { return 1; }
inline int event_dims(const MultivariateNormal&) { return 1; }
inline int event_dims(const LowRankMultivariateNormal&) { return 1; }
inline int event_dims(const Wishart&) { return 2; }
inline int event_dims(const LKJCholesky&) { return 2; }
template <class D> int event_dims(const Independent<D>& d) { return d.dims + event_dims(d.base); }

namespace detail {
// `choice` expanded to the components' batch; `means` are the sizes of the components' means.
Categorical choice_among(Categorical choice, const Dims& means, int event_dims);
Tensor pick_component(const Tensor& choice, const Tensor& draws, int event_dims);
Tensor for_components(const Tensor& value, int event_dims);
Tensor mix_densities(const Tensor& logits, const Tensor& log_prob);
Tensor mix_values(const Tensor& probs, const Tensor& values, int event_dims);
Tensor mix_variances(const Tensor& probs, const Tensor& means, const Tensor& variances, int event_dims);
}  // namespace detail

// A mixture of K components of one family: the last batch dimension of D holds the components, and a Categorical [...,
// K], whose batch broadcasts with the components', selects among them.
//
//   MixtureSameFamily mixture(Categorical({.logits = z}), Normal(mean, std));                  // all [N, K]
//   MixtureSameFamily points(Categorical({.logits = z}), Independent(Normal(mean, std), 1));   // mean [N, K, 2]
template <class D> struct MixtureSameFamily : Distribution<MixtureSameFamily<D>> {
  MixtureSameFamily(Categorical choice, D components) : mixture(std::move(choice)), component(std::move(components)) {
    mixture = detail::choice_among(mixture, component.mean().sizes(), event_dims(component));
  }
  Tensor sample(const Dims& shape = {}) const {
    return detail::pick_component(mixture.sample(shape), component.sample(shape), event_dims(component));
  }
  Tensor log_prob(const Tensor& value) const {
    return detail::mix_densities(mixture.logits,
                                 component.log_prob(detail::for_components(value, event_dims(component))));
  }
  Tensor cdf(const Tensor& value) const requires requires(const D& d, const Tensor& x) { d.cdf(x); }
  { return (mixture.probs * component.cdf(detail::for_components(value, 0))).sum(-1); }
  Tensor mean() const { return detail::mix_values(mixture.probs, component.mean(), event_dims(component)); }
  Tensor variance() const requires requires(const D& d) { d.variance(); }
  { return detail::mix_variances(mixture.probs, component.mean(), component.variance(), event_dims(component)); }
  Categorical mixture;
  D component;
};
template <class D> int event_dims(const MixtureSameFamily<D>& d) { return event_dims(d.component); }

}  // namespace mantissa::distributions
