// nn/distributions.h: densities, entropies, moments and divergences match torch.distributions in f64 (more of them:
// golden_distributions_test.cpp); samples have the right distribution function or moments; gradients; f16 and bf16;
// errors.
#include <cmath>
#include <numbers>
#include <vector>

#include "autograd/backward.h"
#include "autograd/gradcheck.h"
#include "core/gamma_slope.h"
#include "core/ops_special.h"
#include "nn/distributions.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
namespace d = mantissa::distributions;

namespace {

using Values = std::vector<double>;
constexpr Tolerance printed{1e-9, 1e-10};  // the numbers have twelve digits

Tensor vec(const Values& v) { return from_data(v, {static_cast<std::int64_t>(v.size())}); }
const Tensor a = vec({0.5, -1.2}), b = vec({0.7, 2.0}), v = vec({0.3, 1.1});
const Tensor c = vec({0.4, 3.5}), shares = vec({0.4, 3.5, 1.0});

void check_golden(const std::vector<Tensor>& got, const Values& expected) {
  std::vector<Tensor> flat;
  for (const Tensor& x : got) {
    REQUIRE(x.dtype() == f64);
    flat.push_back(x.reshape(-1));
  }
  CHECK(difference(cat(flat), vec(expected), printed) == "");
}

// The mean and variance of samples of each element are within five standard errors of the stated ones.
template <class D> void check_moments(const D& p, const Tensor& mean, const Tensor& variance) {
  const std::int64_t n = 40000;
  const Tensor x = p.sample({n});
  REQUIRE(x.size(0) == n);
  CHECK(!x.requires_grad());
  const Tensor m = x.mean(0), s = var(x, 0);
  CHECK(static_cast<bool>(all(abs(m - mean) <= 5 * sqrt(variance / n))));
  CHECK(static_cast<bool>(all(abs(s - variance) <= 5 * sqrt(pow(x - m, 4).mean(0) / n))));
}

}  // namespace

TEST_CASE("densities, entropies and moments are PyTorch's", "[distributions]") {
  const d::Normal normal(a, b);
  check_golden({normal.log_prob(v), normal.cdf(v), normal.icdf(vec({.2, .9})), normal.entropy(), normal.variance()},
               {-0.603079915797, -2.27333571376, 0.387548481098, 0.874928064363, -0.089134863501, 1.36310313109,
                1.06226358927, 2.11208571376, 0.49, 4});
  const d::LogNormal logs(a, b);
  check_golden({logs.log_prob(v), logs.entropy(), logs.mean(), logs.variance()},
               {-2.32106968074, -1.91712445131, 1.56226358927, 0.912085713765, 2.10644143498, 2.22554092849,
                2.80564746616, 265.473375002});
  check_golden({d::TanhNormal(a, b).log_prob(vec({.3, -.9}))}, {-0.5049761559, 0.0393825617434});
  const d::Laplace laplace(a, b);
  check_golden({laplace.log_prob(v), laplace.entropy(), laplace.variance()},
               {-0.622186522335, -2.53629436112, 1.33647223662, 2.38629436112, 0.98, 8});
  const d::Uniform uniform(vec({-1, 0}), vec({2, .5}));
  check_golden({uniform.log_prob(vec({.3, .4})), uniform.entropy(), uniform.mean(), uniform.variance()},
               {-1.09861228867, 0.69314718056, 1.09861228867, -0.69314718056, 0.5, 0.25, 0.75, 0.0208333333333});
  CHECK(uniform.log_prob(vec({2, -0.1})).to_vector<double>() == Values{-HUGE_VAL, -HUGE_VAL});
  const d::Exponential exponential(b);
  check_golden(
      {exponential.log_prob(v), exponential.entropy(), exponential.mean(), exponential.variance()},
      {-0.566674943939, -1.50685281944, 1.35667494394, 0.30685281944, 1.42857142857, 0.5, 2.04081632653, 0.25});
  const d::Gumbel gumbel(a, b);
  check_golden({gumbel.log_prob(v), gumbel.entropy(), gumbel.mean(), gumbel.variance()},
               {-0.688322967794, -2.15978394994, 1.22054072096, 2.27036284546, 0.904050965431, -0.0455686701969,
                0.806017692756, 6.57973626739});
  const d::Gamma gamma(c, b);
  check_golden(
      {gamma.log_prob(v), gamma.entropy(), gamma.mean(), gamma.variance()},
      {-0.426964112682, -0.736683020876, 0.0165220348894, 1.24993482017, 0.571428571429, 1.75, 0.816326530612, 0.875});
  const d::Beta beta(c, b);
  check_golden({beta.log_prob(vec({.3, .8})), beta.entropy(), beta.mean(), beta.variance()},
               {-0.278031339716, 0.589543574552, -0.414040840997, -0.298690281947, 0.363636363636, 0.636363636364,
                0.110192837466, 0.0356007628735});
  const d::Dirichlet dirichlet(shares);
  check_golden({dirichlet.log_prob(vec({.2, .5, .3})), dirichlet.entropy(), dirichlet.mean()},
               {0.263700276389, -2.50652600151, 0.0816326530612, 0.714285714286, 0.204081632653});
  const d::Chi2 chi2(c);
  check_golden({chi2.log_prob(v), chi2.entropy(), chi2.mean(), chi2.variance()},
               {-0.849515015082, -1.60712381011, -1.81402091428, 2.17314171938, 0.4, 3.5, 0.8, 7});
  const d::StudentT student(c, a, b);
  check_golden({student.log_prob(v), student.entropy(), student.variance()[{slice(1)}]},
               {-1.150743211, -2.40381214075, 3.86905264897, 2.41403730124, 9.33333333333});
  CHECK(static_cast<bool>(isnan(student.mean()[0])));
  CHECK(student.mean()[1].item<double>() == -1.2);
  CHECK(std::isnan(student.variance()[0].item<double>()));
  CHECK(d::StudentT(1.5).variance().item<double>() == HUGE_VAL);
  const Tensor choice = stack({vec({.3, -1, 2}), vec({0, 0, -3})});
  const Tensor centers = stack({vec({.1, -1, 2}), vec({.5, 0, -3})}),
               widths = stack({vec({.4, 1, .2}), vec({.5, 2, 1})});
  const d::MixtureSameFamily mixture(d::Categorical({.logits = choice}), d::Normal(centers, widths));
  check_golden({mixture.log_prob(v), mixture.mean(), mixture.variance()},
               {-1.98496628041, -1.29782501919, 1.597183167, 0.171061082542, 0.832965241295, 2.40897706305});
  const d::MixtureSameFamily points(
      d::Categorical({.logits = choice}),
      d::Independent(d::Normal(stack({centers, flip(centers, {1})}, -1), stack({widths, widths}, -1)), 1));
  check_golden({points.log_prob(stack({v, b}, -1)), points.mean()},
               {-6.6355515813, -4.5931296016, 1.597183167, 0.33719261319, 0.171061082542, -1.45142220464});
  const d::Bernoulli coin({.probs = vec({.3, .9})}), far({.logits = vec({.3, -40})});
  check_golden(
      {coin.log_prob(vec({1, 0})), coin.entropy(), coin.variance(), coin.logits},
      {-1.20397280433, -2.30258509299, 0.610864302055, 0.325082973391, 0.21, 0.09, -0.847297860387, 2.19722457734});
  check_golden({far.log_prob(tensor({1, 0})), far.entropy(), far.probs},
               {-0.554355244469, 0, 0.682022489425, 0, 0.574442516812, 4.24835425529e-18});
  const d::Categorical weights({.probs = vec({1, 3, 6})});
  check_golden({weights.log_prob(tensor({0, 2})), weights.entropy(), weights.logits},
               {-2.30258509299, -0.510825623766, 0.897945724857, -2.30258509299, -1.20397280433, -0.510825623766});
  const d::Categorical rows({.logits = stack({vec({.3, -1, 2}), vec({0, 0, -3})})});
  check_golden({rows.log_prob(tensor({0, 2})), rows.entropy(), rows.probs},
               {-1.90902076655, -3.71773591867, 0.582192506968, 0.790602611704, 0.148225462884, 0.0403961511731,
                0.811378385943, 0.48785555116, 0.48785555116, 0.0242888976793});
  CHECK(same_bits(rows.mode(), tensor({2, 0})));
  CHECK(same_bits(d::OneHotCategorical({.logits = rows.logits}).log_prob(one_hot(tensor({0, 2}), 3)),
                  d::Categorical({.logits = rows.logits}).log_prob(tensor({0, 2}))));
  const d::OneHotCategorical corners({.logits = vec({.3, -1, 2})});
  check_golden({corners.mean(), corners.mode()}, {0.148225462884, 0.0403961511731, 0.811378385943, 0, 0, 1});
  const d::RelaxedOneHotCategorical relaxed(0.7, {.logits = stack({vec({.3, -1, 2}), vec({0, 0, -3})})});
  check_golden({relaxed.log_prob(stack({vec({.2, .5, .3}), vec({.6, .3, .1})}))}, {-2.02201830678, -0.351187927115});
  check_golden({d::Poisson(b).log_prob(vec({0, 4}))}, {-0.7, -2.40546510811});
  const Tensor tril = stack({vec({1.5, 0}), vec({-.4, .8})});
  const d::MultivariateNormal many(a, tril);
  check_golden({many.log_prob(stack({v, b})), many.entropy()}, {-5.97245556765, -10.297976401, 3.0201986232});
  check_golden({d::MultivariateNormal::of_covariance(a, matmul(tril, tril.t())).log_prob(stack({v, b}))},
               {-5.97245556765, -10.297976401});
}

TEST_CASE("divergences are PyTorch's, and 0 between equals", "[distributions]") {
  const Tensor tril = stack({vec({1.5, 0}), vec({-.4, .8})}), other = stack({vec({.7, 0}), vec({.2, 1.1})});
  const d::MultivariateNormal p(a, tril), q(b, other);
  check_golden(
      {kl_divergence(d::Normal(a, b), d::Normal(b, v)), kl_divergence(d::Laplace(a, b), d::Laplace(b, v)),
       kl_divergence(d::Exponential(b), d::Exponential(v)), kl_divergence(d::Gamma(b, v), d::Gamma(v, b)),
       kl_divergence(d::Beta(b, v), d::Beta(v, b)), kl_divergence(d::Dirichlet(shares), d::Dirichlet(vec({2, .5, 3}))),
       kl_divergence(d::Bernoulli({.probs = vec({.3, .9})}), d::Bernoulli({.probs = vec({.5, .2})})),
       kl_divergence(d::Categorical({.probs = vec({1, 3, 6})}), d::Categorical({.probs = vec({2, 2, 1})})),
       kl_divergence(p, q)},
      {1.59714658406, 4.78646051991, 0.572815823455, 1.67833848651, 0.275869288959, 0.147837000756, 1.02606530202,
       1.30937639586, 0.913000267401, 0.761885347959, 7.79096283522, 0.0822828785051, 1.14572550293, 0.434233315353,
       5.52283417157});
  CHECK(amax(abs(kl_divergence(p, p))).item<double>() < 1e-12);
  check_golden({kl_divergence(d::LogNormal(a, b), d::LogNormal(b, v)),
                kl_divergence(d::Uniform(vec({0, .2}), vec({1, .4})), d::Uniform(vec({-1, 0}), vec({2, .5}))),
                kl_divergence(d::Gumbel(a, b), d::Gumbel(b, v)), kl_divergence(d::Poisson(b), d::Poisson(v)),
                kl_divergence(d::OneHotCategorical({.probs = vec({1, 3, 6})}),
                              d::OneHotCategorical({.probs = vec({2, 2, 1})}))},
               {1.59714658406, 4.78646051991, 1.09861228867, 0.916290731874, 3.66677020327, 27.1880893267,
                0.193108502271, 0.295674001511, 0.434233315353});
  CHECK(kl_divergence(d::Uniform(0, 2), d::Uniform(0, 1)).item<double>() == HUGE_VAL);
  CHECK(kl_divergence(d::Poisson(0), d::Poisson(2)).item<double>() == 2);
  CHECK(kl_divergence(d::Independent(d::OneHotCategorical({.logits = zeros({4, 3, 5})}), 1),
                      d::Independent(d::OneHotCategorical({.logits = zeros({4, 3, 5})}), 1))
            .sizes() == Dims{4});
  const d::Independent<d::Normal> one(d::Normal(a, b), 1), two(d::Normal(b, v), 1);
  check_golden({kl_divergence(one, two), one.log_prob(v)}, {6.38360710397, -2.876415629557});
}

TEST_CASE("what is drawn has the distribution's moments", "[distributions]") {
  const std::uint64_t seed = 17;
  CAPTURE(seed);
  manual_seed(seed);
  check_moments(d::Normal(a, b), a, square(b));
  const d::LogNormal logs(a, vec({0.3, 0.5}));
  check_moments(logs, logs.mean(), logs.variance());
  const d::Laplace laplace(a, b);
  check_moments(laplace, a, laplace.variance());
  const d::Uniform uniform(vec({-1, 0}), vec({2, .5}));
  check_moments(uniform, uniform.mean(), uniform.variance());
  check_moments(d::Exponential(b), reciprocal(b), reciprocal(square(b)));
  const d::Gumbel gumbel(a, b);
  check_moments(gumbel, gumbel.mean(), gumbel.variance());
  for (const double shape : {0.05, 0.4, 1.0, 7.5}) {
    CAPTURE(shape);
    const d::Gamma gamma(shape, b);
    check_moments(gamma, gamma.mean(), gamma.variance());
    const d::Beta beta(shape, b);
    check_moments(beta, beta.mean(), beta.variance());
  }
  const d::Chi2 chi2(vec({1, 6}));
  check_moments(chi2, chi2.mean(), chi2.variance());
  const d::StudentT student(vec({9, 30}), a, b);
  check_moments(student, student.mean(), student.variance());
  const d::MixtureSameFamily mixture(d::Categorical({.probs = vec({1, 3, 6})}),
                                     d::Normal(vec({-2, 0, 1}), vec({.5, 1, 2})));
  check_moments(mixture, mixture.mean(), mixture.variance());
  const d::Bernoulli coin({.probs = vec({.3, .9})});
  check_moments(coin, coin.mean(), coin.variance());
  check_moments(d::Poisson(b), b, b);
  const d::Dirichlet dirichlet(shares);
  const Tensor mean = dirichlet.mean();
  check_moments(dirichlet, mean, mean * (1 - mean) / (shares.sum() + 1));
  // The most likely corner of a relaxed sample has the probability of its class.
  const Tensor nearest = argmax(d::RelaxedOneHotCategorical(0.5, {.probs = vec({1, 3, 6})}).sample({40000}), -1);
  CHECK(bincount(nearest, {}, 3)[2].item() == Approx(24000).margin(5 * 98));
  const Tensor counts = d::Categorical({.probs = stack({vec({1, 3, 6}), vec({0, 1, 0})})}).sample({40000});
  CHECK(counts.sizes() == Dims{40000, 2});
  CHECK(bincount(counts[{all, 0}].contiguous(), {}, 3)[2].item() == Approx(24000).margin(5 * 98));
  CHECK(static_cast<bool>(all(counts[{all, 1}] == 1)));
  const Tensor tril = stack({vec({1.5, 0}), vec({-.4, .8})});
  const Tensor x = d::MultivariateNormal(a, tril).sample({40000});
  CHECK(difference(cov(x.t()), matmul(tril, tril.t()), {0, 0.08}) == "");
}

namespace {

// Samples of each element are distributed as cdf says: the Kolmogorov-Smirnov distance of their empirical distribution
// function is below 2.2 / sqrt(n), which chance exceeds once in 8000 elements.
template <class D> void check_spread(const D& p, std::int64_t n = 20000) {
  const Tensor x = p.sample({n}), u = sort(p.cdf(x), 0).values;
  CHECK(!x.requires_grad());
  const Tensor rank = arange(0, static_cast<double>(n), 1, {.dtype = f64}).unsqueeze(-1) / static_cast<double>(n);
  const Tensor distance = amax(maximum(abs(u - rank), abs(u - rank - 1.0 / static_cast<double>(n))), 0);
  INFO(amax(distance).template item<double>());
  CHECK(static_cast<bool>(all(distance < 2.2 / std::sqrt(static_cast<double>(n)))));
  if constexpr (requires { p.icdf(vec({.3})); }) {
    const Tensor q = vec({.02, .3, .5, .97}).unsqueeze(-1);
    CHECK(difference(p.cdf(p.icdf(q)), expand(q, p.cdf(p.icdf(q)).sizes()), {1e-9, 1e-10}) == "");
  }
}
// The counts 0, 1, ..., and their probabilities.
template <class D> void check_counts(const D& p, std::int64_t n = 40000) {
  const std::int64_t classes = 12;
  const Tensor x = p.sample({n}), counts = arange(0, static_cast<double>(classes), 1, {.dtype = f64}).unsqueeze(-1);
  const Tensor probs = exp(p.log_prob(counts)), shares = cast(x.unsqueeze(1) == counts, f64).mean(0);
  CHECK(static_cast<bool>(all(abs(shares - probs) <= 5 * sqrt(probs * (1 - probs) / n) + 1e-12)));
}

}  // namespace

TEST_CASE("draws are spread as the distribution function says", "[distributions]") {
  manual_seed(29);
  const Tensor low = vec({-1, 0}), high = vec({2, .5}), even = vec({-3, -1e-4, 0, 1e-4, 3, 40});
  check_spread(d::Normal(a, b));
  check_spread(d::LogNormal(a, b));
  check_spread(d::HalfNormal(b));
  check_spread(d::Laplace(a, b));
  check_spread(d::Cauchy(a, b));
  check_spread(d::HalfCauchy(b));
  check_spread(d::Gumbel(a, b));
  check_spread(d::Exponential(b));
  check_spread(d::Weibull(b, c));
  check_spread(d::Pareto(b, c));
  check_spread(d::GeneralizedPareto(vec({0, 1, 2, 3}), 2, vec({-.7, 0, .3, 2})));
  check_spread(d::Uniform(low, high));
  check_spread(d::Kumaraswamy(c, b));
  check_spread(d::ContinuousBernoulli({.logits = even}));
  check_spread(d::TransformedDistribution(d::Normal(a, b), d::AffineTransform(1, -2), d::SigmoidTransform()));
  check_spread(d::MixtureSameFamily(d::Categorical({.probs = expand(vec({1, 3, 6}), {2, 3})}),
                                    d::Normal(expand(vec({-2, 0, 1}), {2, 3}), 1)));
  check_spread(d::Gamma(c, b));
  check_spread(d::Chi2(vec({1, 6})));
  check_spread(d::InverseGamma(c, b));
  check_counts(d::Poisson(b));
  check_counts(d::Geometric({.probs = vec({.3, .9})}));
  check_counts(d::Binomial(vec({11, 30}), {.probs = vec({.3, .1})}));
  check_counts(d::NegativeBinomial(vec({2.5, 7}), {.probs = vec({.6, .2})}));
}

TEST_CASE("more draws have their moments", "[distributions]") {
  manual_seed(31);
  const d::InverseGamma inverse(vec({9, 12}), b);
  check_moments(inverse, inverse.mean(), inverse.variance());
  const d::FisherSnedecor f(vec({3, 8}), vec({20, 30}));
  check_moments(f, f.mean(), f.variance());
  const d::Multinomial counts(20, {.probs = vec({1, 3, 0, 6})});
  const Tensor drawn = counts.sample({20000});
  CHECK(static_cast<bool>(all(drawn.sum(-1) == 20)));
  CHECK(static_cast<bool>(all(select(drawn, -1, 2) == 0)));
  CHECK(difference(drawn.mean(0), counts.mean(), {0, 0.08}) == "");
  CHECK(difference(var(drawn, 0), counts.variance(), {0.08, 1e-9}) == "");
  const Tensor relaxed = d::RelaxedBernoulli(0.6, {.probs = vec({.3, .8})}).sample({20000});
  CHECK(difference(cast(relaxed > 0.5, f64).mean(0), vec({.3, .8}), {0, 5 * 0.0033}) == "");
  const Tensor factor = stack({vec({1, -.5}), vec({.3, 2}), vec({0, 1})});
  const d::LowRankMultivariateNormal low(vec({1, 2, 3}), factor, vec({.5, 1, 2}));
  CHECK(difference(cov(low.sample({40000}).t()), low.covariance_matrix(), {0.03, 0.08}) == "");
  const Tensor tril = stack({vec({1.5, 0}), vec({-.4, .8})});
  const d::Wishart wishart(5, tril);
  CHECK(difference(wishart.sample({40000}).mean(0), wishart.mean(), {0.03, 0.08}) == "");
  CHECK(difference(var(wishart.sample({40000}), 0), wishart.variance(), {0.1, 0.1}) == "");
  // The correlation of two, with concentration n, is 2 Beta(n, n) - 1.
  const Tensor rows = d::LKJCholesky(2, vec({1, 3})).sample({40000}), r = select(select(rows, -2, 1), -1, 0);
  CHECK(difference(square(rows).sum(-1), ones_like(square(rows).sum(-1)), {1e-12, 1e-12}) == "");
  CHECK(difference(var(r, 0), vec({1.0 / 3, 1.0 / 7}), {0.03, 0}) == "");
  // The correlations of any pair of four have the same distribution, 2 Beta(n + 1, n + 1) - 1.
  const Tensor l = d::LKJCholesky(4, vec({1.0})).sample({40000}).squeeze(1), all_of = matmul(l, l.mT());
  const Tensor spread = var(all_of, 0) + eye(4, {.dtype = f64});
  CHECK(difference(spread, full({4, 4}, 0.2, {.dtype = f64}) + 0.8 * eye(4, {.dtype = f64}), {0.04, 0}) == "");
  const Tensor simplex = d::LogisticNormal(a, b).sample({5});
  CHECK(simplex.sizes() == Dims{5, 3});
  CHECK(difference(simplex.sum(-1), ones({5}, {.dtype = f64}), {1e-12, 0}) == "");
}

TEST_CASE("angles: the density is one around the circle, and draws follow it", "[distributions]") {
  manual_seed(37);
  const Tensor k = vec({1e-7, 0.3, 4, 300});
  const d::VonMises p(vec({0, 3, -2, 1}), k);
  const std::int64_t places = 4096, bins = 16, n = 40000;
  const Tensor step = arange(0, static_cast<double>(places), 1, {.dtype = f64}) * (2 * std::numbers::pi / places);
  const Tensor density = exp(p.log_prob((step - std::numbers::pi).unsqueeze(-1))) * (2 * std::numbers::pi / places);
  CHECK(difference(density.sum(0), ones({4}, {.dtype = f64}), {1e-10, 0}) == "");
  const Tensor x = p.sample({n});
  CHECK(static_cast<bool>(all(logical_and(x >= -std::numbers::pi, x < std::numbers::pi))));
  const Tensor shares = density.reshape({bins, places / bins, 4}).sum(1);  // of the parts of the circle
  const Tensor part = floor((x + std::numbers::pi) * (bins / (2 * std::numbers::pi)));
  const Tensor number = arange(0, static_cast<double>(bins), 1, {.dtype = f64}).reshape({bins, 1, 1});
  const Tensor found = cast(part == number, f64).mean(1);
  // 5 standard errors, and the place that lies on an edge
  CHECK(static_cast<bool>(all(abs(found - shares) <= 5 * sqrt(shares / n) + amax(density, 0))));
  CHECK(difference(1 - cos(x - p.loc).mean(0), p.variance(), {0.03, 0.012}) == "");
  // torch.distributions, whose Bessel functions have seven digits
  const d::VonMises theirs(a, vec({0.7, 5}));
  CHECK(difference(theirs.log_prob(v), vec({-1.27077103925, -8.473939217915}), {0, 1e-6}) == "");
  CHECK(difference(theirs.variance(), vec({0.669822708549, 0.106616876171}), {0, 1e-6}) == "");
}

TEST_CASE("a mode is where the density is highest", "[distributions]") {
  const auto peaks = [](const auto& p) {
    for (const double step : {-1e-3, 1e-3})
      CHECK(static_cast<bool>(all(p.log_prob(p.mode()) > p.log_prob(p.mode() + step))));
  };
  const Tensor more = vec({1.7, 3.5});
  peaks(d::Normal(a, b));
  peaks(d::LogNormal(a, b));
  peaks(d::Cauchy(a, b));
  peaks(d::Gumbel(a, b));
  peaks(d::Weibull(b, more));
  peaks(d::Gamma(more, b));
  peaks(d::InverseGamma(more, b));
  peaks(d::FisherSnedecor(more + 1, b));
  peaks(d::Beta(more, more));
  peaks(d::Kumaraswamy(more, 2 * more));
  peaks(d::StudentT(more, a, b));
}

TEST_CASE("shapes: sample shape, batch, event", "[distributions]") {
  const d::Normal normal(zeros({3, 1}), ones({1, 4}));
  CHECK(normal.sample().sizes() == Dims{3, 4});
  CHECK(normal.sample({5, 2}).sizes() == Dims{5, 2, 3, 4});
  CHECK(d::Independent(normal, 1).log_prob(zeros({7, 3, 4})).sizes() == Dims{7, 3});
  CHECK(d::Independent(normal, 2).entropy().sizes() == Dims{});
  CHECK(d::Normal(0, 1).sample({2}).dtype() == f32);
  CHECK(d::Normal(zeros({2}, {.dtype = f64}), 1).sample().dtype() == f64);
  const d::Categorical rows({.logits = zeros({3, 2, 5})});
  CHECK(rows.sample({4}).sizes() == Dims{4, 3, 2});
  CHECK(rows.log_prob(rows.sample({4})).sizes() == Dims{4, 3, 2});
  CHECK(d::OneHotCategorical({.logits = zeros({3, 5})}).sample({2}).sizes() == Dims{2, 3, 5});
  CHECK(d::MultivariateNormal(zeros({7, 2}), eye(2)).rsample({4}).sizes() == Dims{4, 7, 2});
  const d::RelaxedOneHotCategorical relaxed(0.5, {.logits = zeros({3, 5})});
  CHECK(relaxed.sample({2}).sizes() == Dims{2, 3, 5});
  CHECK(relaxed.log_prob(relaxed.sample({2})).sizes() == Dims{2, 3});
}

TEST_CASE("gradients of densities, and through rsample", "[distributions]") {
  const auto leaf = [](const Tensor& x) { return x.clone().requires_grad_(); };
  gradcheck([](const std::vector<Tensor>& x) { return d::Normal(x[0], x[1]).log_prob(x[2]); },
            {leaf(a), leaf(b), leaf(v)});
  gradcheck(
      [](const std::vector<Tensor>& x) {
        return d::Beta(x[0], x[1]).log_prob(vec({.3, .8}));
      },
      {leaf(c), leaf(b)});
  gradcheck([](const std::vector<Tensor>& x) { return d::Categorical({.logits = x[0]}).entropy(); }, {leaf(shares)});
  const auto drawn = [](const auto& distribution) {  // the same numbers every time
    manual_seed(4);
    return distribution.rsample({3});
  };
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::Normal(x[0], x[1])); }, {leaf(a), leaf(b)});
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::Laplace(x[0], x[1])); }, {leaf(a), leaf(b)});
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::Cauchy(x[0], x[1])); }, {leaf(a), leaf(b)});
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::HalfNormal(x[0])); }, {leaf(b)});
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::HalfCauchy(x[0])); }, {leaf(b)});
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::Weibull(x[0], x[1])); }, {leaf(b), leaf(c)});
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::Pareto(x[0], x[1])); }, {leaf(b), leaf(c)});
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::GeneralizedPareto(x[0], x[1], x[2])); },
            {leaf(a), leaf(b), leaf(vec({-.7, .3}))});
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::Kumaraswamy(x[0], x[1])); }, {leaf(b), leaf(c)});
  // where the two sides of the series meet, and at even odds, too
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::ContinuousBernoulli({.logits = x[0]})); },
            {leaf(vec({-3, -1e-2, 0, 1e-2, 3, 40}))});
  gradcheck(
      [](const std::vector<Tensor>& x) {
        const d::ContinuousBernoulli p({.logits = x[0]});
        return stack({p.log_prob(vec({.3})), p.cdf(vec({.3})), p.mean(), p.variance(), p.entropy()});
      },
      {leaf(vec({-3, -.25, 0, 1e-2, .25, 40}))});
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::RelaxedBernoulli(0.7, {.logits = x[0]})); }, {leaf(a)});
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::LogisticNormal(x[0], x[1])); }, {leaf(a), leaf(b)});
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::LowRankMultivariateNormal(x[0], x[1], x[2])); },
            {leaf(a), leaf(stack({vec({1.5}), vec({-.4})})), leaf(b)});
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::Gumbel(x[0], x[1])); }, {leaf(a), leaf(b)});
  gradcheck(
      [&](const std::vector<Tensor>& x) {
        manual_seed(4);
        const auto [value, score] = d::TanhNormal(x[0], x[1]).rsample_and_log_prob({3});
        return value + score;
      },
      {leaf(a), leaf(b)});
  gradcheck([&](const std::vector<Tensor>& x) { return drawn(d::RelaxedOneHotCategorical(0.7, {.logits = x[0]})); },
            {leaf(shares)});
  const Tensor logits = leaf(shares);
  const Tensor hard = d::OneHotCategorical({.logits = logits}).rsample();
  CHECK(hard.sum().item<double>() == Approx(1));
  (hard * vec({1, 2, 3})).sum().backward();
  const Tensor soft = leaf(shares);
  (softmax(soft, -1) * vec({1, 2, 3})).sum().backward();
  CHECK(difference(logits.grad(), soft.grad(), {1e-12, 1e-14}) == "");
}

namespace {

// The distribution function of Gamma(a, 1) by its series, and its density.
long double gamma_cdf(long double a, long double x) {
  long double term = 1 / a, sum = term;
  for (int n = 1; n < 100000 && term > 1e-22L * sum; ++n) sum += term *= x / (a + n);
  return sum * std::exp(a * std::log(x) - x - std::lgamma(a));
}
// The gradient of a mean over samples with respect to a parameter is within five standard errors of the true one.
template <class F> void check_mean_slope(double at, double expected, const F& draw) {
  const Tensor p = full({40000}, at, {.dtype = f64}).requires_grad_();  // each sample has its own parameter
  draw(p).sum().backward();
  const double mean = p.grad().mean().item<double>(), spread = std::sqrt(var(p.grad(), 0).item<double>() / 40000);
  INFO("at " << at << ": " << mean << " instead of " << expected << ", standard error " << spread);
  CHECK(std::abs(mean - expected) < 5 * spread + 1e-12);
}

}  // namespace

TEST_CASE("gamma_slope is how a draw follows its shape at its probability", "[distributions]") {
  for (const double alpha : {0.05, 0.3, 1.0, 2.5, 20.0, 300.0, 1900.0, 2100.0, 9000.0}) {
    for (const double sigmas : {-1.5, -0.5, 0.0, 1.0, 3.0}) {
      const double x = alpha < 20 ? alpha * std::exp(0.6 * sigmas) : alpha + sigmas * std::sqrt(alpha);
      const long double h = 1e-4L * std::min(alpha, std::sqrt(alpha));
      const long double change = (gamma_cdf(alpha + h, x) - gamma_cdf(alpha - h, x)) / (2 * h);
      const long double density = std::exp((alpha - 1) * std::log(static_cast<long double>(x)) - x -
                                           std::lgamma(static_cast<long double>(alpha)));
      const double expected = static_cast<double>(-change / density);
      INFO("alpha " << alpha << ", x " << x);
      const Tensor got = gamma_slope(full({1}, alpha, {.dtype = f64}), full({1}, x, {.dtype = f64}));
      CHECK(got.item<double>() == Approx(expected).epsilon(alpha > 2000 ? 1e-5 : 1e-6));
    }
  }
  CHECK(gamma_slope(vec({2.0}), vec({0.0})).item<double>() == 0);
  CHECK(std::isfinite(gamma_slope(vec({0.5}), vec({1e300})).item<double>()));
  CHECK(gamma_slope(vec({2.5}), vec({50.0})).item<double>() >
        2);  // beyond any draw, where the series has no digits left
  CHECK(std::isnan(gamma_slope(vec({-1.0}), vec({1.0})).item<double>()));
}

TEST_CASE("gradients go through draws of gamma distributions and what is made of them", "[distributions]") {
  manual_seed(23);
  for (const double shape : {0.3, 2.0, 40.0}) {
    check_mean_slope(shape, 1 / 0.7, [](const Tensor& p) { return d::Gamma(p, 0.7).rsample(); });
    check_mean_slope(shape, 2 * shape + 1, [](const Tensor& p) { return square(d::Gamma(p, 1).rsample()); });
    check_mean_slope(shape, 1.5 / square(Tensor(shape + 1.5)).item<double>(),
                     [](const Tensor& p) { return d::Beta(p, 1.5).rsample(); });
    check_mean_slope(shape, 3.5 / square(Tensor(shape + 3.5)).item<double>(), [](const Tensor& p) {
      const Tensor others = stack({full_like(p, 1.5), full_like(p, 2)}, -1).detach();
      return select(d::Dirichlet(cat({unsqueeze(p, -1), others}, -1)).rsample(), -1, 0);
    });
  }
  // the second moment of a t is df / (df - 2)
  check_mean_slope(12, -2.0 / 100, [](const Tensor& p) { return square(d::StudentT(p).rsample()); });
  const Tensor twice = full({2}, 3, {.dtype = f64}).requires_grad_();
  const Tensor once = grad(d::Gamma(twice, 1).rsample().sum(), {twice}, {.create_graph = true})[0];
  CHECK(static_cast<bool>(all(isfinite(once))));
  CHECK_THROWS_WITH(grad(once.sum(), {twice}), Contains("standard_gamma: is once_differentiable"));
}

TEST_CASE("the score of a squashed action is right where tanh is 1", "[distributions]") {
  const auto [value, score] = d::TanhNormal(full(4, 12), full(4, 1e-3)).rsample_and_log_prob();
  CHECK(same_bits(value, ones(4)));  // the way back from there is lost
  CHECK(static_cast<bool>(all(isfinite(score))));
  // density of x, and the slope of tanh there: 4 exp(-2 x) for large x
  CHECK(score.mean().item() == Approx(2 * 12 - std::log(4) - std::log(1e-3) - 0.919 - 0.5).margin(2));
}

TEST_CASE("what is small beside what it is computed from keeps its digits", "[distributions]") {
  // Far from 0, a mixture's variance is no difference of squares.
  const Tensor means = from_data<float>({10000, 10000.5f}, {2}), widths = from_data<float>({.125f, .25f}, {2});
  const d::MixtureSameFamily mixture(d::Categorical({.logits = zeros({2})}), d::Normal(means, widths));
  CHECK(std::abs(mixture.variance().item<double>() - .1015625) < 1e-7);
  // Long waits: the entropy is 1 - log(probs) up to probs / 2, and its slope along the logits -1.
  for (const double z : {-30.0, -60.0, -500.0}) {
    CAPTURE(z);
    Tensor logits = vec({z});
    const Tensor entropy = d::Geometric({.logits = logits.requires_grad_()}).entropy();
    entropy.sum().backward();
    CHECK(std::abs(entropy.item<double>() / (1 - z) - 1) < 1e-12);
    CHECK(std::abs(logits.grad().item<double>() + 1) < 1e-12);
  }
  const Tensor unlikely = from_data<float>({-120}, {1});  // probs are 0 in f32
  CHECK(d::Geometric({.logits = unlikely}).log_prob(tensor({0.0f})).item<float>() == -120);
  // Of successes that are nearly sure, all happen but with a probability of that size.
  const d::Binomial sure(1000, {.logits = from_data<float>({15}, {1})});
  CHECK(std::abs(sure.log_prob(full({1}, 1000)).item<double>() / (-1000 * std::exp(-15.0)) - 1) < 1e-5);
}

TEST_CASE("parameters in halves are taken as f32", "[distributions]") {
  const Tensor logits = randn({4, 6}).to(bf16), mean = randn({4}).to(f16);
  CHECK(d::Categorical({.logits = logits}).log_prob(tensor({0, 1, 2, 3})).dtype() == f32);
  const d::Normal normal(mean, full(4, 0.5).to(f16));
  CHECK(normal.rsample().dtype() == f32);
  CHECK(normal.log_prob(mean).dtype() == f32);
}

TEST_CASE("parameters out of range are refused by name", "[distributions]") {
  CHECK_THROWS_WITH(d::Normal(a, vec({1, 0})), Contains("Normal: scale must be positive") && Contains("in 1 of 2"));
  CHECK_THROWS_WITH(d::Normal(a, vec({1, std::nan("")})), Contains("scale must be positive"));
  CHECK_THROWS_WITH(d::Uniform(1, 1), Contains("low must be below high"));
  CHECK_THROWS_WITH(d::Bernoulli({.probs = vec({1.5})}), Contains("probs must lie between 0 and 1"));
  CHECK_THROWS_WITH(d::Bernoulli({}), Contains("give either probs or logits"));
  CHECK_THROWS_WITH(d::Categorical({.probs = vec({0, 0})}), Contains("nor all 0"));
  CHECK_THROWS_WITH(d::Categorical({.logits = tensor({1, 2})}), Contains("needs a floating tensor"));
  CHECK_THROWS_WITH(d::Categorical({.logits = a}).log_prob(vec({1.0})), Contains("a value is a class number"));
  CHECK_THROWS_WITH(d::RelaxedOneHotCategorical(0, {.logits = a}), Contains("temperature must be positive"));
  CHECK_THROWS_WITH(d::MultivariateNormal(a, eye(3)), Contains("needs loc [..., D] and scale_tril [..., D, D]"));
  CHECK_THROWS_WITH(d::Normal(tensor({1}), 1), Contains("floating tensors or numbers"));
  CHECK_THROWS_WITH(d::HalfCauchy(-1), Contains("HalfCauchy: scale must be positive"));
  CHECK_THROWS_WITH(d::Weibull(b, 0), Contains("Weibull: concentration must be positive"));
  CHECK_THROWS_WITH(d::Binomial(2.5, {.probs = vec({.5})}), Contains("total_count must be a whole number"));
  CHECK_THROWS_WITH(d::NegativeBinomial(2, {.probs = vec({1.0})}), Contains("probs must be below 1"));
  CHECK_THROWS_WITH(d::Multinomial(-1, {.probs = vec({1.0})}), Contains("must not be negative, got -1"));
  CHECK_THROWS_WITH(d::RelaxedBernoulli(0, {.logits = a}), Contains("temperature must be positive"));
  CHECK_THROWS_WITH(d::LowRankMultivariateNormal(a, b, b), Contains("cov_factor [..., D, R]"));
  CHECK_THROWS_WITH(d::Wishart(0.5, eye(3)), Contains("df must exceed D - 1"));
  CHECK_THROWS_WITH(d::LKJCholesky(1), Contains("a dim of at least 2"));
  CHECK_THROWS_WITH(kl_divergence(d::Binomial(2, {.probs = vec({.5})}), d::Binomial(3, {.probs = vec({.5})})),
                    Contains("must not count fewer trials"));
  const d::TransformedDistribution wide(d::Normal(0, 1), d::AffineTransform(vec({1, 2, 3}), 1));
  CHECK_THROWS_WITH(wide.sample(), Contains("parameters of the whole batch"));
  const d::Categorical three({.logits = zeros({2, 3})});
  CHECK_THROWS_WITH(d::MixtureSameFamily(three, d::Normal(zeros({2}), 1)), Contains("a choice among 3 needs"));
  CHECK_THROWS_WITH(d::MixtureSameFamily(three, d::Normal(zeros({3}), 1)), Contains("does not broadcast to the comp"));
  CHECK(d::MixtureSameFamily(d::Categorical({.logits = zeros({3})}), d::Normal(zeros({4, 3}), 1)).sample({5}).sizes() ==
        Dims{5, 4});
}

TEST_CASE("distributions: small concentrations give numbers inside of the support, in f32 too") {
  manual_seed(5);
  const Tensor small = full({20000}, 0.01);
  for (const Tensor& x : {d::Beta(small, small).rsample(), d::Dirichlet(full({7000, 3}, 0.01)).rsample(),
                          d::Beta(full({20000}, 0.5), full({20000}, 0.5)).rsample()}) {
    CHECK(min(x).item() > 0);
    CHECK(max(x).item() < 1);
  }
  CHECK(min(d::Gamma(small, ones({20000})).rsample()).item() > 0);
  CHECK(std::abs(mean(d::Beta(small, small).rsample()).item() - 0.5) < 0.02);
}

TEST_CASE("distributions: a divergence from what the other one cannot give is infinite") {
  const Tensor half = tensor({0.5, 0.5}), one = tensor({1.0, 0.0});
  CHECK(kl_divergence(d::Categorical({.probs = half}), d::Categorical({.probs = one})).item() == INFINITY);
  CHECK(kl_divergence(d::Categorical({.probs = one}), d::Categorical({.probs = half})).item() == Approx(std::log(2)));
  for (const double q : {0.0, 1.0})
    CHECK(kl_divergence(d::Bernoulli({.probs = scalar(0.5)}), d::Bernoulli({.probs = scalar(q)})).item() == INFINITY);
  const d::Bernoulli never({.probs = scalar(0.0)});
  CHECK(kl_divergence(never, never).item() == Approx(0).margin(1e-6));
}
