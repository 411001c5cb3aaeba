// Distributions give the same results on every device as on the CPU: results and gradients of the golden cases in f32,
// and samples of each kind.
#include "autograd/backward.h"
#include "nn/distributions.h"
#include "tests/devices.h"
#include "tests/golden/distributions.h"
#include "tests/golden/golden.h"

using namespace mantissa;
using namespace mantissa::test;
namespace d = mantissa::distributions;

namespace {

// Results, then gradients of their sum.
std::vector<Tensor> run_on(Device device, const Golden& golden, const Case& c) {
  Tensor in[6];
  std::vector<Tensor> leaves;
  for (int i = 0; i < 6; ++i) {
    const std::string letter(1, "xyzuvw"[i]), name = c.name;
    in[i] = golden.input(name + "/" + letter, f32);
    if (in[i].defined()) in[i] = in[i].to(device);
    if (golden.find(name + "/d" + letter).defined()) leaves.push_back(in[i].requires_grad_());
  }
  std::vector<Tensor> all = c.run(in[0], in[1], in[2], in[3], in[4], in[5]), roots, ones;
  for (const Tensor& y : all) {
    if (!y.requires_grad()) continue;
    roots.push_back(y);
    ones.push_back(ones_like(y));
  }
  if (!roots.empty())
    for (const Tensor& g : grad(roots, leaves, ones, {.allow_unused = true}))
      if (g.defined()) all.push_back(g);
  for (Tensor& y : all) {
    CHECK(y.device() == device);
    y = y.detach().to(cpu);
  }
  return all;
}

}  // namespace

TEST_CASE("densities, moments and divergences on every device") {
  const Golden golden("distributions");
  for (const Device device : devices()) {
    if (device.is_cpu()) continue;
    for (const Case& c : distribution_cases()) {
      INFO(c.name);
      const std::vector<Tensor> got = run_on(device, golden, c), expected = run_on(cpu, golden, c);
      REQUIRE(got.size() == expected.size());
      for (std::size_t k = 0; k < got.size(); ++k) {
        INFO("result " << k);
        CHECK(golden_difference(got[k], expected[k].is_floating() ? expected[k].to(f64) : expected[k], f32) == "");
      }
    }
  }
}

TEST_CASE("draws on every device are of that device, in range and without a gradient") {
  for (const Device device : devices()) {
    manual_seed(3);
    const Tensor a = tensor({0.5, 1.5}).to(device), b = tensor({2.0, 0.7}).to(device), unit = eye(2).to(device);
    const auto check_draws = [&](const auto& p, double low, double high) {
      const Tensor x = p.sample({50});
      CHECK(x.device() == device);
      CHECK(!x.requires_grad());
      CHECK(static_cast<bool>(all(logical_and(x >= low, x <= high))));
      CHECK(static_cast<bool>(all(isfinite(p.log_prob(x)))));
    };
    const double inf = HUGE_VAL;
    check_draws(d::Normal(a, b), -inf, inf);
    check_draws(d::HalfNormal(b), 0, inf);
    check_draws(d::Cauchy(a, b), -inf, inf);
    check_draws(d::HalfCauchy(b), 0, inf);
    check_draws(d::Weibull(a, b), 0, inf);
    check_draws(d::Pareto(1, b), 1, inf);
    check_draws(d::GeneralizedPareto(0, b, -0.5), 0, 4);
    check_draws(d::VonMises(a, b), -3.2, 3.2);
    check_draws(d::Gamma(a, b), 0, inf);
    check_draws(d::InverseGamma(a, b), 0, inf);
    check_draws(d::FisherSnedecor(a, b), 0, inf);
    check_draws(d::Kumaraswamy(a, b), 0, 1);
    check_draws(d::ContinuousBernoulli({.logits = a}), 0, 1);
    check_draws(d::RelaxedBernoulli(0.9, {.logits = a}), 0, 1);
    check_draws(d::Geometric({.logits = a}), 0, inf);
    check_draws(d::Binomial(7, {.logits = a}), 0, 7);
    check_draws(d::NegativeBinomial(3, {.logits = a}), 0, inf);
    check_draws(d::Multinomial(9, {.probs = b}), 0, 9);
    check_draws(d::LogisticNormal(a, b), 0, 1);
    check_draws(d::LowRankMultivariateNormal(a, unit, b), -inf, inf);
    check_draws(d::Wishart(5, unit), -inf, inf);
    check_draws(d::LKJCholesky(3, a), -1, 1);
    check_draws(d::TransformedDistribution(d::Normal(a, b), d::AffineTransform(1, 2), d::TanhTransform()), -1, 1);
  }
}
