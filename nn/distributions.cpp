#include "nn/distributions.h"

#include <cmath>
#include <numbers>
#include <string>

#include "autograd/grad_mode.h"
#include "core/gamma_slope.h"
#include "core/ops.h"
#include "core/ops_matrix.h"
#include "core/ops_numeric.h"
#include "core/ops_special.h"
#include "core/random.h"
#include "ops/function.h"

namespace mantissa::distributions {
namespace {

constexpr double pi = std::numbers::pi, euler = std::numbers::egamma, ln2 = std::numbers::ln2;
const double log_root_2pi = 0.5 * std::log(2 * pi);

// Halves as f32; the two as broadcast views of one shape and dtype.
Tensor wide(const Tensor& x) { return x.dtype() == f64 ? x : cast(x, f32); }
std::pair<Tensor, Tensor> together(const char* name, const Parameter& a, const Parameter& b) {
  Tensor x = wide(a.value()), y = wide(b.value());
  // a number that meets a tensor goes to its dtype and device
  if (x.dim() == 0 && y.dim() > 0) x = x.to(y.dtype()).to(y.device());
  if (y.dim() == 0 && x.dim() > 0) y = y.to(x.dtype()).to(x.device());
  check(x.dtype() == y.dtype(), name, ": the parameters are ", x.dtype(), " and ", y.dtype());
  const std::vector<Tensor> both = broadcast_tensors({x, y});
  return {both[0], both[1]};
}
void check_range(const char* name, const char* what, const Tensor& inside) {
  if (!inside.device().is_cpu()) return;
  check(static_cast<bool>(all(inside)), name, ": ", what, " for every element; in ",
        inside.numel() - sum(inside).item<std::int64_t>(), " of ", inside.numel(), " it is not (or is NaN)");
}
void check_positive(const char* name, const char* parameter, const Tensor& x) {
  check_range(name, (std::string(parameter) + " must be positive").c_str(), x > 0);
}

Dims extended(const Dims& shape, const Dims& batch) {
  Dims all = shape;
  for (const std::int64_t size : batch) all.push_back(size);
  return all;
}
TensorOptions like(const Tensor& x) { return {.dtype = x.dtype(), .device = x.device()}; }
// Standard numbers for a sample; open: in (0, 1), of which a logarithm is finite.
Tensor noise(const Tensor& parameter, const Dims& shape) {
  return randn(extended(shape, parameter.sizes()), like(parameter));
}
Tensor open_uniform(const Tensor& parameter, const Dims& shape) {
  const Tensor u = rand(extended(shape, parameter.sizes()), like(parameter));
  const double step = parameter.dtype() == f64 ? 0x1p-33 : 0x1p-25;  // half a step of rand
  return clamp_max(u + step, parameter.dtype() == f64 ? 1 - 0x1p-53 : 1 - 0x1p-24);
}

template <class D> Tensor detached_sample(const D& d, const Dims& shape) {
  const NoGrad no_grad;
  return d.rsample(shape);
}

// Of shape alpha and rate 1, by rejection: rounds until every element has been accepted.
Tensor draw_gamma(const Tensor& alpha) {
  const NoGrad no_grad;
  const Tensor small = alpha < 1, a = where(small, alpha + 1, alpha);  // G(a) = G(a + 1) U^(1 / a)
  const Tensor d = a - 1.0 / 3, c = rsqrt(9 * d);
  Tensor result = zeros(alpha.sizes(), like(alpha)),
         open = ones(alpha.sizes(), {.dtype = boolean, .device = alpha.device()});
  for (int round = 0; round < 1000 && any(open); ++round) {
    const Tensor x = randn(alpha.sizes(), like(alpha)), v = pow(1 + c * x, 3), u = open_uniform(alpha, {});
    const Tensor accepted = logical_and(v > 0, log(u) < 0.5 * square(x) + d * (1 - v + log(clamp_min(v, 1e-30))));
    const Tensor now = logical_and(open, accepted);
    result = where(now, d * v, result);
    open = logical_and(open, logical_not(accepted));
  }
  return where(small, result * pow(open_uniform(alpha, {}), reciprocal(alpha)), result);
}
struct StandardGamma {
  static constexpr auto name = "standard_gamma";
  Tensor forward(Saved& saved, const Tensor& alpha) const {
    const Tensor x = draw_gamma(alpha);
    saved.save({alpha, x});
    return x;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    check(!context().create_graph, "the gradient through draws of a gamma distribution has no gradient of its own");
    return {g * gamma_slope(saved[0], saved[1])};
  }
};
Tensor standard_gamma(const Tensor& alpha) { return apply_function(StandardGamma{}, alpha); }
Tensor log_beta(const Tensor& a, const Tensor& b) { return lgamma(a) + lgamma(b) - lgamma(a + b); }

}  // namespace

Parameter::Parameter(const Tensor& value) : value_(value) {
  check(value.is_floating(), "a distribution's parameters are floating tensors or numbers, got ", value);
}

// --- Normal ---
Normal::Normal(const Parameter& l, const Parameter& s) {
  std::tie(loc, scale) = together("Normal", l, s);
  check_positive("Normal", "scale", scale);
}
Tensor Normal::sample(const Dims& shape) const { return detached_sample(*this, shape); }
Tensor Normal::rsample(const Dims& shape) const { return loc + noise(scale, shape) * scale; }
Tensor Normal::log_prob(const Tensor& value) const {
  return -0.5 * square((wide(value) - loc) / scale) - log(scale) - log_root_2pi;
}
Tensor Normal::cdf(const Tensor& value) const {
  return 0.5 * (1 + erf((wide(value) - loc) / (scale * std::numbers::sqrt2)));
}
Tensor Normal::icdf(const Tensor& p) const { return loc + scale * erfinv(2 * wide(p) - 1) * std::numbers::sqrt2; }
Tensor Normal::entropy() const { return 0.5 + log_root_2pi + log(scale); }
Tensor Normal::variance() const { return square(scale); }

// --- LogNormal ---
Tensor LogNormal::sample(const Dims& shape) const { return detached_sample(*this, shape); }
Tensor LogNormal::rsample(const Dims& shape) const { return exp(base.rsample(shape)); }
Tensor LogNormal::log_prob(const Tensor& value) const {
  const Tensor logs = log(wide(value));
  return base.log_prob(logs) - logs;
}
Tensor LogNormal::entropy() const { return base.entropy() + base.loc; }
Tensor LogNormal::mean() const { return exp(base.loc + 0.5 * base.variance()); }
Tensor LogNormal::variance() const { return expm1(base.variance()) * exp(2 * base.loc + base.variance()); }

// --- TanhNormal ---
namespace {
// log of the derivative of tanh at x, without 1 - tanh(x)^2, which has no digits left for large x
Tensor log_tanh_slope(const Tensor& x) { return 2 * (ln2 - x - softplus(-2 * x)); }
}  // namespace
TanhNormal::Scored TanhNormal::rsample_and_log_prob(const Dims& shape) const {
  const Tensor x = base.rsample(shape);
  return {tanh(x), base.log_prob(x) - log_tanh_slope(x)};
}
Tensor TanhNormal::sample(const Dims& shape) const { return detached_sample(*this, shape); }
Tensor TanhNormal::rsample(const Dims& shape) const { return tanh(base.rsample(shape)); }
Tensor TanhNormal::log_prob(const Tensor& given) const {
  const Tensor value = wide(given);
  const double edge = value.dtype() == f64 ? 1 - 0x1p-52 : 1 - 0x1p-23;
  const Tensor x = atanh(clamp(value, -edge, edge));
  return base.log_prob(x) - log_tanh_slope(x);
}

// --- Laplace ---
Laplace::Laplace(const Parameter& l, const Parameter& s) {
  std::tie(loc, scale) = together("Laplace", l, s);
  check_positive("Laplace", "scale", scale);
}
Tensor Laplace::sample(const Dims& shape) const { return detached_sample(*this, shape); }
Tensor Laplace::rsample(const Dims& shape) const {
  const Tensor u = open_uniform(scale, shape);  // the inverse of the distribution function, on either side
  return loc + scale * where(u < 0.5, log(clamp_max(2 * u, 1)), -log(clamp_max(2 - 2 * u, 1)));
}
Tensor Laplace::log_prob(const Tensor& value) const { return -abs(wide(value) - loc) / scale - log(2 * scale); }
Tensor Laplace::entropy() const { return 1 + log(2 * scale); }
Tensor Laplace::variance() const { return 2 * square(scale); }

// --- Uniform ---
Uniform::Uniform(const Parameter& l, const Parameter& h) {
  std::tie(low, high) = together("Uniform", l, h);
  check_range("Uniform", "low must be below high", low < high);
}
Tensor Uniform::sample(const Dims& shape) const { return detached_sample(*this, shape); }
Tensor Uniform::rsample(const Dims& shape) const {
  return low + rand(extended(shape, low.sizes()), like(low)) * (high - low);
}
Tensor Uniform::log_prob(const Tensor& value) const {
  const Tensor inside = logical_and(wide(value) >= low, wide(value) < high);
  return masked_fill(-log(high - low), logical_not(inside), -HUGE_VAL);
}
Tensor Uniform::entropy() const { return log(high - low); }
Tensor Uniform::mean() const { return (low + high) / 2; }
Tensor Uniform::variance() const { return square(high - low) / 12; }

// --- Exponential ---
Exponential::Exponential(const Parameter& r) : rate(wide(r.value())) { check_positive("Exponential", "rate", rate); }
Tensor Exponential::sample(const Dims& shape) const { return detached_sample(*this, shape); }
Tensor Exponential::rsample(const Dims& shape) const { return -log(open_uniform(rate, shape)) / rate; }
Tensor Exponential::log_prob(const Tensor& value) const { return log(rate) - rate * wide(value); }
Tensor Exponential::entropy() const { return 1 - log(rate); }
Tensor Exponential::mean() const { return reciprocal(rate); }
Tensor Exponential::variance() const { return reciprocal(square(rate)); }

// --- Gumbel ---
Gumbel::Gumbel(const Parameter& l, const Parameter& s) {
  std::tie(loc, scale) = together("Gumbel", l, s);
  check_positive("Gumbel", "scale", scale);
}
Tensor Gumbel::sample(const Dims& shape) const { return detached_sample(*this, shape); }
Tensor Gumbel::rsample(const Dims& shape) const { return loc - scale * log(-log(open_uniform(scale, shape))); }
Tensor Gumbel::log_prob(const Tensor& value) const {
  const Tensor y = (wide(value) - loc) / scale;
  return -y - exp(-y) - log(scale);
}
Tensor Gumbel::entropy() const { return log(scale) + (1 + euler); }
Tensor Gumbel::mean() const { return loc + scale * euler; }
Tensor Gumbel::variance() const { return square(scale) * (pi * pi / 6); }

// --- Gamma, Beta, Dirichlet ---
Gamma::Gamma(const Parameter& c, const Parameter& r) {
  std::tie(concentration, rate) = together("Gamma", c, r);
  check_positive("Gamma", "concentration", concentration);
  check_positive("Gamma", "rate", rate);
}
Tensor Gamma::sample(const Dims& shape) const { return detached_sample(*this, shape); }
Tensor Gamma::rsample(const Dims& shape) const {
  return standard_gamma(expand(concentration, extended(shape, concentration.sizes()))) / rate;
}
Tensor Gamma::log_prob(const Tensor& given) const {
  const Tensor value = wide(given);
  return xlogy(concentration, rate) + xlogy(concentration - 1, value) - rate * value - lgamma(concentration);
}
Tensor Gamma::entropy() const {
  return concentration - log(rate) + lgamma(concentration) + (1 - concentration) * digamma(concentration);
}
Tensor Gamma::mean() const { return concentration / rate; }
Tensor Gamma::variance() const { return concentration / square(rate); }

Beta::Beta(const Parameter& a, const Parameter& b) {
  std::tie(concentration1, concentration0) = together("Beta", a, b);
  check_positive("Beta", "concentration1", concentration1);
  check_positive("Beta", "concentration0", concentration0);
}
Tensor Beta::sample(const Dims& shape) const { return detached_sample(*this, shape); }
Tensor Beta::rsample(const Dims& shape) const {
  const Dims sizes = extended(shape, concentration1.sizes());
  const Tensor x = standard_gamma(expand(concentration1, sizes)), y = standard_gamma(expand(concentration0, sizes));
  return x / (x + y);
}
Tensor Beta::log_prob(const Tensor& given) const {
  const Tensor value = wide(given);
  return xlogy(concentration1 - 1, value) + xlogy(concentration0 - 1, 1 - value) -
         log_beta(concentration1, concentration0);
}
Tensor Beta::entropy() const {
  const Tensor &a = concentration1, &b = concentration0;
  return log_beta(a, b) - (a - 1) * digamma(a) - (b - 1) * digamma(b) + (a + b - 2) * digamma(a + b);
}
Tensor Beta::mean() const { return concentration1 / (concentration1 + concentration0); }
Tensor Beta::variance() const {
  const Tensor total = concentration1 + concentration0;
  return concentration1 * concentration0 / (square(total) * (total + 1));
}

Dirichlet::Dirichlet(const Tensor& c) : concentration(wide(c)) {
  check(c.dim() >= 1 && c.is_floating(), "Dirichlet: concentration must be floating [..., K], got ", c);
  check_positive("Dirichlet", "concentration", concentration);
}
Tensor Dirichlet::sample(const Dims& shape) const { return detached_sample(*this, shape); }
Tensor Dirichlet::rsample(const Dims& shape) const {
  const Tensor x = standard_gamma(expand(concentration, extended(shape, concentration.sizes())));
  return x / x.sum(-1, true);
}
Tensor Dirichlet::log_prob(const Tensor& value) const {
  return xlogy(concentration - 1, wide(value)).sum(-1) + lgamma(concentration.sum(-1)) - lgamma(concentration).sum(-1);
}
Tensor Dirichlet::entropy() const {
  const Tensor total = concentration.sum(-1);
  const double k = static_cast<double>(concentration.size(-1));
  return lgamma(concentration).sum(-1) - lgamma(total) - (k - total) * digamma(total) -
         ((concentration - 1) * digamma(concentration)).sum(-1);
}
Tensor Dirichlet::mean() const { return concentration / concentration.sum(-1, true); }

// --- Chi2, StudentT ---
Chi2::Chi2(const Parameter& df) : Gamma(0.5 * df.value(), 0.5) {}

StudentT::StudentT(const Parameter& freedom, const Parameter& l, const Parameter& s) {
  std::tie(loc, scale) = together("StudentT", l, s);
  std::tie(df, loc) = together("StudentT", freedom, loc);
  std::tie(df, scale) = together("StudentT", df, scale);
  loc = expand(loc, scale.sizes()).to(scale.dtype()).to(scale.device());
  check_positive("StudentT", "df", df);
  check_positive("StudentT", "scale", scale);
}
Tensor StudentT::sample(const Dims& shape) const { return detached_sample(*this, shape); }
Tensor StudentT::rsample(const Dims& shape) const {
  return loc + scale * noise(scale, shape) * rsqrt(Chi2(df).rsample(shape) / df);
}
Tensor StudentT::log_prob(const Tensor& value) const {
  const Tensor y = (wide(value) - loc) / scale;
  return -0.5 * (df + 1) * log1p(square(y) / df) - log(scale) - 0.5 * log(df * pi) - lgamma(0.5 * df) +
         lgamma(0.5 * (df + 1));
}
Tensor StudentT::entropy() const {
  const Tensor more = 0.5 * (df + 1), half = 0.5 * df;
  return log(scale) + more * (digamma(more) - digamma(half)) + 0.5 * log(df * pi) + lgamma(half) - lgamma(more);
}
Tensor StudentT::mean() const { return where(df > 1, loc, Tensor(NAN)); }
Tensor StudentT::variance() const {
  const Tensor finite = square(scale) * df / (df - 2);
  return where(df > 2, finite, where(df > 1, Tensor(HUGE_VAL), Tensor(NAN)));
}

// --- mixtures ---
namespace detail {
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
  return mix_values(probs, variances + square(means), event_dims) - square(mix_values(probs, means, event_dims));
}
}  // namespace detail

// --- of classes ---
namespace {
void check_one(const char* name, const ProbsOrLogits& o) {
  check(o.probs.defined() != o.logits.defined(), name, ": give either probs or logits");
  const Tensor& x = o.probs.defined() ? o.probs : o.logits;
  check(x.is_floating(), name, ": needs a floating tensor, got ", x);
}
double smallest_step(const Tensor& x) { return x.dtype() == f64 ? 0x1p-52 : 0x1p-23; }
}  // namespace

Bernoulli::Bernoulli(const ProbsOrLogits& o) {
  check_one("Bernoulli", o);
  if (o.probs.defined()) {
    probs = wide(o.probs);
    check_range("Bernoulli", "probs must lie between 0 and 1", logical_and(probs >= 0, probs <= 1));
    logits = logit(probs, smallest_step(probs));
  } else {
    logits = wide(o.logits);
    probs = sigmoid(logits);
  }
}
Tensor Bernoulli::sample(const Dims& shape) const {
  const NoGrad no_grad;
  return bernoulli(expand(probs, extended(shape, probs.sizes())));
}
Tensor Bernoulli::log_prob(const Tensor& given) const {
  const Tensor value = given.is_floating() ? wide(given) : cast(given, logits.dtype());
  const Dims sizes = broadcast(value.sizes(), logits.sizes());
  return -binary_cross_entropy_with_logits(expand(logits, sizes), expand(value, sizes), {}, Reduction::none);
}
Tensor Bernoulli::entropy() const { return binary_cross_entropy_with_logits(logits, probs, {}, Reduction::none); }
Tensor Bernoulli::variance() const { return probs * (1 - probs); }

Categorical::Categorical(const ProbsOrLogits& o) {
  check_one("Categorical", o);
  const Tensor x = wide(o.probs.defined() ? o.probs : o.logits);
  check(x.dim() >= 1 && x.size(-1) > 0, "Categorical: needs [..., K] with at least one class, got ", x);
  if (o.probs.defined()) {
    check_range("Categorical", "probs must not be negative, nor all 0", logical_and(amin(x, -1) >= 0, x.sum(-1) > 0));
    probs = x / x.sum(-1, true);
    logits = log(clamp(probs, smallest_step(x), 1 - smallest_step(x)));
  } else {
    logits = log_softmax(x, -1);
    probs = softmax(x, -1);
  }
}
Tensor Categorical::sample(const Dims& shape) const {
  const NoGrad no_grad;
  Dims batch = probs.sizes();
  batch.erase(batch.rank() - 1);
  const Tensor drawn = multinomial(probs.detach().reshape({-1, probs.size(-1)}), numel_of(shape), true);  // [N, n]
  return drawn.t().contiguous().reshape(extended(shape, batch));
}
Tensor Categorical::log_prob(const Tensor& value) const {
  check(!value.is_floating(), "Categorical: a value is a class number, i64, got ", value);
  const Tensor index = cast(value, i64).unsqueeze(-1);
  Dims sizes = broadcast(index.sizes(), slice(logits, -1, 0, 1).sizes()), all = sizes;
  all.back() = logits.size(-1);
  return gather(expand(logits, all), -1, expand(index, sizes)).squeeze(-1);
}
Tensor Categorical::entropy() const {
  return -(probs * clamp_min(logits, probs.dtype() == f64 ? -1e300 : -1e38)).sum(-1);  // 0 log 0 is 0
}
Tensor Categorical::mode() const { return argmax(probs, -1); }

Tensor OneHotCategorical::sample(const Dims& shape) const {
  return cast(one_hot(base.sample(shape), base.probs.size(-1)), base.probs.dtype());
}
Tensor OneHotCategorical::rsample(const Dims& shape) const {
  return sample(shape) + (base.probs - base.probs.detach());
}
Tensor OneHotCategorical::log_prob(const Tensor& value) const { return base.log_prob(argmax(value, -1)); }
Tensor OneHotCategorical::mode() const { return cast(one_hot(base.mode(), base.probs.size(-1)), base.probs.dtype()); }

RelaxedOneHotCategorical::RelaxedOneHotCategorical(double t, const ProbsOrLogits& o) : temperature(t), base(o) {
  check(t > 0, "RelaxedOneHotCategorical: the temperature must be positive, got ", t);
}
Tensor RelaxedOneHotCategorical::sample(const Dims& shape) const { return detached_sample(*this, shape); }
Tensor RelaxedOneHotCategorical::rsample(const Dims& shape) const {
  return softmax((base.logits - log(-log(open_uniform(base.logits, shape)))) / temperature, -1);
}
Tensor RelaxedOneHotCategorical::log_prob(const Tensor& value) const {
  const Tensor logs = log(wide(value));
  const auto k = static_cast<double>(base.logits.size(-1));
  return log_softmax(base.logits - temperature * logs, -1).sum(-1) - logs.sum(-1) + std::lgamma(k) +
         (k - 1) * std::log(temperature);
}

Poisson::Poisson(const Parameter& r) : rate(wide(r.value())) {
  check_range("Poisson", "rate must not be negative", rate >= 0);
}
Tensor Poisson::sample(const Dims& shape) const {
  const NoGrad no_grad;
  return poisson(expand(rate, extended(shape, rate.sizes())));
}
Tensor Poisson::log_prob(const Tensor& given) const {
  const Tensor value = given.is_floating() ? wide(given) : cast(given, rate.dtype());
  return xlogy(value, rate) - rate - lgamma(value + 1);
}

// --- MultivariateNormal ---
namespace {
Tensor half_log_det(const Tensor& scale_tril) { return log(diagonal(scale_tril, 0, -2, -1)).sum(-1); }
// |L^-1 x|^2 of vectors x [..., D]
Tensor mahalanobis(const Tensor& scale_tril, const Tensor& x) {
  return square(solve_triangular(scale_tril, x.unsqueeze(-1), false)).sum({-2, -1});
}
}  // namespace
MultivariateNormal::MultivariateNormal(const Tensor& l, const Tensor& s) {
  check(l.is_floating() && s.is_floating() && l.dim() >= 1 && s.dim() >= 2 && s.size(-1) == l.size(-1) &&
            s.size(-2) == l.size(-1),
        "MultivariateNormal: needs loc [..., D] and scale_tril [..., D, D], got ", l, " and ", s);
  const Tensor mean = wide(l), tril = wide(s);
  const Dims batch = broadcast(mean.unsqueeze(-1).sizes(), slice(tril, -1, 0, 1).sizes());
  Dims square_batch = batch;
  square_batch.back() = mean.size(-1);
  scale_tril = expand(tril, square_batch);
  loc = expand(mean.unsqueeze(-1), batch).squeeze(-1);
  check_positive("MultivariateNormal", "the diagonal of scale_tril", diagonal(scale_tril, 0, -2, -1));
}
MultivariateNormal MultivariateNormal::of_covariance(const Tensor& loc, const Tensor& covariance) {
  return {loc, cholesky(wide(covariance))};
}
Tensor MultivariateNormal::sample(const Dims& shape) const { return detached_sample(*this, shape); }
Tensor MultivariateNormal::rsample(const Dims& shape) const {
  return loc + matmul(scale_tril, noise(loc, shape).unsqueeze(-1)).squeeze(-1);
}
Tensor MultivariateNormal::log_prob(const Tensor& value) const {
  const Tensor x = wide(value) - loc;
  Dims matrix = x.sizes();
  matrix.push_back(x.size(-1));
  return -0.5 * mahalanobis(expand(scale_tril, matrix), x) - half_log_det(scale_tril) -
         static_cast<double>(loc.size(-1)) * log_root_2pi;
}
Tensor MultivariateNormal::entropy() const {
  return static_cast<double>(loc.size(-1)) * (0.5 + log_root_2pi) + half_log_det(scale_tril);
}

// --- kl_divergence ---
Tensor kl_divergence(const Normal& p, const Normal& q) {
  const Tensor ratio = square(p.scale / q.scale);
  return 0.5 * (ratio + square((p.loc - q.loc) / q.scale) - 1 - log(ratio));
}
Tensor kl_divergence(const LogNormal& p, const LogNormal& q) { return kl_divergence(p.base, q.base); }
Tensor kl_divergence(const Uniform& p, const Uniform& q) {
  const Tensor beyond = logical_or(q.low > p.low, q.high < p.high);
  return masked_fill(log((q.high - q.low) / (p.high - p.low)), beyond, HUGE_VAL);
}
Tensor kl_divergence(const Gumbel& p, const Gumbel& q) {
  const Tensor ratio = p.scale / q.scale, distance = (p.loc - q.loc) / q.scale;
  return distance - log(ratio) + euler * ratio + exp(lgamma(1 + ratio) - distance) - (1 + euler);
}
Tensor kl_divergence(const OneHotCategorical& p, const OneHotCategorical& q) { return kl_divergence(p.base, q.base); }
Tensor kl_divergence(const Poisson& p, const Poisson& q) {
  return xlogy(p.rate, p.rate) - xlogy(p.rate, q.rate) - (p.rate - q.rate);
}
Tensor kl_divergence(const Laplace& p, const Laplace& q) {
  const Tensor ratio = p.scale / q.scale, distance = abs(p.loc - q.loc);
  return -log(ratio) + distance / q.scale + ratio * exp(-distance / p.scale) - 1;
}
Tensor kl_divergence(const Exponential& p, const Exponential& q) {
  const Tensor ratio = q.rate / p.rate;
  return -log(ratio) + ratio - 1;
}
Tensor kl_divergence(const Gamma& p, const Gamma& q) {
  return q.concentration * log(p.rate / q.rate) + lgamma(q.concentration) - lgamma(p.concentration) +
         (p.concentration - q.concentration) * digamma(p.concentration) +
         (q.rate - p.rate) * (p.concentration / p.rate);
}
Tensor kl_divergence(const Beta& p, const Beta& q) {
  const Tensor &a = p.concentration1, &b = p.concentration0;
  return log_beta(q.concentration1, q.concentration0) - log_beta(a, b) + (a - q.concentration1) * digamma(a) +
         (b - q.concentration0) * digamma(b) + (q.concentration1 + q.concentration0 - a - b) * digamma(a + b);
}
Tensor kl_divergence(const Dirichlet& p, const Dirichlet& q) {
  const Tensor total = p.concentration.sum(-1);
  const Tensor each = (p.concentration - q.concentration) * (digamma(p.concentration) - digamma(total).unsqueeze(-1));
  return lgamma(total) - lgamma(q.concentration.sum(-1)) - (lgamma(p.concentration) - lgamma(q.concentration)).sum(-1) +
         each.sum(-1);
}
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q) {
  return p.probs * (softplus(-q.logits) - softplus(-p.logits)) +
         (1 - p.probs) * (softplus(q.logits) - softplus(p.logits));
}
Tensor kl_divergence(const Categorical& p, const Categorical& q) {
  const Tensor each = p.probs * (p.logits - q.logits);
  return where(p.probs == 0, zeros_like(each), each).sum(-1);
}
Tensor kl_divergence(const MultivariateNormal& p, const MultivariateNormal& q) {
  const auto d = static_cast<double>(p.loc.size(-1));
  const Tensor ratio = solve_triangular(q.scale_tril, p.scale_tril, false);
  return half_log_det(q.scale_tril) - half_log_det(p.scale_tril) +
         0.5 * (square(ratio).sum({-2, -1}) + mahalanobis(q.scale_tril, q.loc - p.loc) - d);
}

}  // namespace mantissa::distributions
