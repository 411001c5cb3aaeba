// Probability distributions, as torch.distributions: what policies, variational autoencoders and generative models draw
// from and are scored by. Each is a plain value of its parameters, which broadcast against each other.
//
//   const distributions::Categorical policy({.logits = net(state)});
//   Tensor action = policy.sample(), score = policy.log_prob(action), bonus = policy.entropy();
//   const distributions::Normal z(mean, std);
//   Tensor loss = reconstruction(z.rsample()) + kl_divergence(z, distributions::Normal(0, 1)).sum();
//
// sample(shape) gives [shape..., batch...] without a gradient; rsample lets gradients reach the parameters through what
// is drawn, where there is one. Numbers come from the default generator (core/random.h). Parameters in halves, as
// layers give them in a region of autocast, are taken as f32: logarithms of probabilities have few digits to lose.
// On the CPU parameters are checked to lie in their range; a GPU would have to be waited for.
//
// For the dimensions of one event (the actions of a robot, the pixels of a picture): Independent(Normal(m, s), 1).
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>

#include "core/tensor.h"

namespace mantissa::distributions {

// A parameter: a floating tensor, or a number.
class Parameter {
 public:
  Parameter(const Tensor& value);
  template <class T>
  requires std::is_arithmetic_v<T> Parameter(T number) : value_(scalar(static_cast<double>(number))) {}
  const Tensor& value() const { return value_; }

 private:
  Tensor value_;
};

struct Normal {
  Normal(const Parameter& loc, const Parameter& scale);  // scale > 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const { return loc; }
  Tensor stddev() const { return scale; }
  Tensor variance() const;
  Tensor loc, scale;
};

struct LogNormal {  // exp of a Normal(loc, scale)
  LogNormal(const Parameter& loc, const Parameter& scale) : base(loc, scale) {}
  Tensor sample(const Dims& shape = {}) const;
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor variance() const;
  Normal base;
};

// tanh of a Normal(loc, scale): the squashed actions of soft actor-critic (Haarnoja et al., 2018). log_prob of a value
// has to find where it came from, which fails near -1 and 1: take that of rsample_and_log_prob where there is a choice.
struct TanhNormal {
  TanhNormal(const Parameter& loc, const Parameter& scale) : base(loc, scale) {}
  struct Scored {
    Tensor value, log_prob;
  };
  Scored rsample_and_log_prob(const Dims& shape = {}) const;
  Tensor sample(const Dims& shape = {}) const;
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Normal base;
};

struct Laplace {
  Laplace(const Parameter& loc, const Parameter& scale);  // scale > 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const { return loc; }
  Tensor variance() const;
  Tensor loc, scale;
};

struct Uniform {
  Uniform(const Parameter& low, const Parameter& high);  // low < high
  Tensor sample(const Dims& shape = {}) const;
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;  // -infinity outside [low, high)
  Tensor entropy() const;
  Tensor mean() const;
  Tensor variance() const;
  Tensor low, high;
};

struct Exponential {
  explicit Exponential(const Parameter& rate);  // rate > 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor variance() const;
  Tensor rate;
};

struct Gumbel {
  Gumbel(const Parameter& loc, const Parameter& scale);  // scale > 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor variance() const;
  Tensor loc, scale;
};

// Gamma, Beta and Dirichlet are drawn by rejection (Marsaglia and Tsang, 2000), whose rounds wait for the device.
// Gradients go through draws by implicit reparameterisation (Figurnov, Mohamed and Mnih, 2018), once: not with
// create_graph.
struct Gamma {
  Gamma(const Parameter& concentration, const Parameter& rate);  // both > 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor variance() const;
  Tensor concentration, rate;
};
struct Beta {
  Beta(const Parameter& concentration1, const Parameter& concentration0);  // alpha and beta, both > 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor variance() const;
  Tensor concentration1, concentration0;
};
struct Dirichlet {
  explicit Dirichlet(const Tensor& concentration);  // [..., K], > 0
  Tensor sample(const Dims& shape = {}) const;      // [shape..., ..., K]
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor concentration;
};

struct Chi2 : Gamma {  // of df > 0 degrees of freedom
  explicit Chi2(const Parameter& df);
};
// loc + scale t, of df degrees of freedom. The mean is NaN for df <= 1; the variance infinite for df <= 2, and NaN for
// df <= 1.
struct StudentT {
  explicit StudentT(const Parameter& df, const Parameter& loc = 0, const Parameter& scale = 1);  // df, scale > 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor variance() const;
  Tensor df, loc, scale;
};

// Of one: Bernoulli({.probs = p}) or Bernoulli({.logits = z}).
struct ProbsOrLogits {
  Tensor probs = {}, logits = {};
};
struct Bernoulli {
  Bernoulli(const ProbsOrLogits& o);
  Tensor sample(const Dims& shape = {}) const;  // 0 or 1, in the dtype of the parameters
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const { return probs; }
  Tensor variance() const;
  Tensor probs, logits;
};
// Over the last dimension, [..., K]; probs need not sum to 1. probs and logits are normalised.
struct Categorical {
  Categorical(const ProbsOrLogits& o);
  Tensor sample(const Dims& shape = {}) const;  // i64 [shape..., ...]
  Tensor log_prob(const Tensor& value) const;   // value i64, broadcasts with the batch
  Tensor entropy() const;
  Tensor mode() const;
  Tensor probs, logits;
};
struct OneHotCategorical {  // the same as vectors [..., K]
  OneHotCategorical(const ProbsOrLogits& o) : base(o) {}
  Tensor sample(const Dims& shape = {}) const;
  // The sample with the gradient of probs (OneHotCategoricalStraightThrough; Bengio et al., 2013).
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const { return base.entropy(); }
  Tensor mean() const { return base.probs; }
  Tensor mode() const;
  Categorical base;
};
// Points inside the simplex [..., K] instead of its corners, which they come to as the temperature goes to 0, with
// gradients (the concrete distribution: Maddison et al., 2017; Jang et al., 2017). gumbel_softmax is a draw of it.
struct RelaxedOneHotCategorical {
  RelaxedOneHotCategorical(double temperature, const ProbsOrLogits& o);  // temperature > 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;  // the density at value > 0
  double temperature;
  Categorical base;
};

struct Poisson {
  explicit Poisson(const Parameter& rate);  // rate >= 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor mean() const { return rate; }
  Tensor variance() const { return rate; }
  Tensor rate;
};

// loc [..., D] and the lower triangle scale_tril [..., D, D] with covariance scale_tril scale_tril^T; batches
// broadcast.
struct MultivariateNormal {
  MultivariateNormal(const Tensor& loc, const Tensor& scale_tril);
  static MultivariateNormal of_covariance(const Tensor& loc, const Tensor& covariance);
  Tensor sample(const Dims& shape = {}) const;
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const { return loc; }
  Tensor loc, scale_tril;
};

// The last `dims` dimensions of D's batch are one event: log_prob and entropy are their sums.
template <class D> struct Independent {
  Independent(D distribution, int event_dims) : base(std::move(distribution)), dims(event_dims) {
    check(dims >= 0, "Independent: the number of dimensions must not be negative, got ", dims);
  }
  Tensor sample(const Dims& shape = {}) const { return base.sample(shape); }
  Tensor rsample(const Dims& shape = {}) const requires requires(const D& d) { d.rsample(); }
  { return base.rsample(shape); }
  Tensor log_prob(const Tensor& value) const { return sum_events(base.log_prob(value)); }
  Tensor entropy() const { return sum_events(base.entropy()); }
  Tensor mean() const { return base.mean(); }
  Tensor sum_events(const Tensor& x) const {
    check(x.dim() >= dims, "Independent: ", x, " has fewer than the ", dims, " dimensions of an event");
    Dims last;
    for (int d = 1; d <= dims; ++d) last.push_back(-d);
    return dims == 0 ? x : x.sum(last);
  }
  D base;
  int dims;
};

// How many dimensions one event of D has.
template <class D> int event_dims(const D&) { return 0; }
inline int event_dims(const Dirichlet&) { return 1; }
inline int event_dims(const OneHotCategorical&) { return 1; }
inline int event_dims(const RelaxedOneHotCategorical&) { return 1; }
inline int event_dims(const MultivariateNormal&) { return 1; }
template <class D> int event_dims(const Independent<D>& d) { return d.dims + event_dims(d.base); }

namespace detail {
Tensor pick_component(const Tensor& choice, const Tensor& draws, int event_dims);
Tensor for_components(const Tensor& value, int event_dims);
Tensor mix_densities(const Tensor& logits, const Tensor& log_prob);
Tensor mix_values(const Tensor& probs, const Tensor& values, int event_dims);
Tensor mix_variances(const Tensor& probs, const Tensor& means, const Tensor& variances, int event_dims);
}  // namespace detail

// One of K distributions of a kind: the last dimension of D's batch, of which a Categorical [..., K] chooses.
//
//   MixtureSameFamily mixture(Categorical({.logits = z}), Normal(mean, std));                  // all [N, K]
//   MixtureSameFamily points(Categorical({.logits = z}), Independent(Normal(mean, std), 1));   // mean [N, K, 2]
template <class D> struct MixtureSameFamily {
  MixtureSameFamily(Categorical choice, D components) : mixture(std::move(choice)), component(std::move(components)) {
    const Dims sizes = component.mean().sizes(), k = mixture.probs.sizes();
    const int at = sizes.rank() - 1 - event_dims(component);
    check(at >= 0 && sizes[at] == k.back(), "MixtureSameFamily: a choice among ", k.back(),
          " needs as many components as the last dimension of their batch; their means have shape ", sizes);
  }
  Tensor sample(const Dims& shape = {}) const {
    return detail::pick_component(mixture.sample(shape), component.sample(shape), event_dims(component));
  }
  Tensor log_prob(const Tensor& value) const {
    return detail::mix_densities(mixture.logits,
                                 component.log_prob(detail::for_components(value, event_dims(component))));
  }
  Tensor mean() const { return detail::mix_values(mixture.probs, component.mean(), event_dims(component)); }
  Tensor variance() const requires requires(const D& d) { d.variance(); }
  { return detail::mix_variances(mixture.probs, component.mean(), component.variance(), event_dims(component)); }
  Categorical mixture;
  D component;
};

// The expectation under p of log p - log q, in nats.
Tensor kl_divergence(const Normal& p, const Normal& q);
Tensor kl_divergence(const LogNormal& p, const LogNormal& q);
Tensor kl_divergence(const Laplace& p, const Laplace& q);
Tensor kl_divergence(const Uniform& p, const Uniform& q);  // infinite where p reaches beyond q
Tensor kl_divergence(const Gumbel& p, const Gumbel& q);
Tensor kl_divergence(const Exponential& p, const Exponential& q);
Tensor kl_divergence(const Gamma& p, const Gamma& q);
Tensor kl_divergence(const Beta& p, const Beta& q);
Tensor kl_divergence(const Dirichlet& p, const Dirichlet& q);
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);
Tensor kl_divergence(const Categorical& p, const Categorical& q);  // infinite where q is 0 and p is not
Tensor kl_divergence(const OneHotCategorical& p, const OneHotCategorical& q);
Tensor kl_divergence(const Poisson& p, const Poisson& q);
Tensor kl_divergence(const MultivariateNormal& p, const MultivariateNormal& q);
template <class D> Tensor kl_divergence(const Independent<D>& p, const Independent<D>& q) {
  check(p.dims == q.dims, "kl_divergence: events of ", p.dims, " and of ", q.dims, " dimensions");
  return p.sum_events(kl_divergence(p.base, q.base));
}

}  // namespace mantissa::distributions
