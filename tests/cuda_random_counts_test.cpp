// poisson and binomial: means, variances and whole distributions compared with the exact probabilities, on both sides
// of the threshold between sampling algorithms, on every device.
#include <algorithm>
#include <cmath>

#include "core/ops_numeric.h"
#include "core/random.h"
#include "core/variates.h"
#include "tests/devices.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t draws = 20000;

// Pearson's chi-squared statistic of the samples, over values expected at least ten times, in standard deviations above
// its mean: 5 is one in a few million for the true distribution.
template <class Log> double surprise(const Tensor& drawn, const Log& log_probability) {
  std::vector<double> counts;
  for (const double k : drawn.to_vector<double>()) {
    REQUIRE(k >= 0);
    REQUIRE(k == std::floor(k));
    const auto at = static_cast<std::size_t>(k);
    if (at >= counts.size()) counts.resize(at + 1);
    ++counts[at];
  }
  double statistic = 0, cells = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const double expected = static_cast<double>(draws) * std::exp(log_probability(static_cast<double>(k)));
    if (expected < 10) continue;
    statistic += (counts[k] - expected) * (counts[k] - expected) / expected;
    ++cells;
  }
  return (statistic - cells) / std::sqrt(2 * cells);
}

}  // namespace

TEST_CASE("poisson follows its distribution for small and large rates") {
  for (const Device device : devices()) {
    manual_seed(1);
    for (const double rate : {0.3, 4.0, 9.9, 10.0, 60.0}) {
      INFO("rate " << rate);
      const Tensor x = poisson(full({draws}, rate, {.dtype = f64}).to(device));
      CHECK(surprise(x, [&](double k) { return k * std::log(rate) - rate - std::lgamma(k + 1); }) < 5);
    }
    const Tensor large = poisson(full({draws}, 1e6, {.dtype = f64}).to(device));
    CHECK(std::abs(mean(large).item<double>() - 1e6) < 5 * 1e3 / std::sqrt(draws));
    CHECK(std::abs(var(large).item<double>() / 1e6 - 1) < 0.06);
    const Tensor mixed = poisson(tensor({0, 1, 0, 100}, {.dtype = f16}).to(device));  // both algorithms in one tensor
    CHECK(mixed.dtype() == f16);
    CHECK(mixed[0].item<float>() == 0);
    CHECK(mixed[2].item<float>() == 0);
    CHECK(mixed[3].item<float>() > 40);
    CHECK(poisson(zeros({0, 3}).to(device)).sizes() == Dims{0, 3});
    const RngState at = rng_state();
    const Tensor first = poisson(full({50}, 20.0).to(device));
    set_rng_state(at);
    CHECK(equal(first, poisson(full({50}, 20.0).to(device))));
  }
  CHECK_THAT(message_of([] { poisson(tensor({1.0, -1.0})); }), Contains("must be finite and not negative"));
  CHECK_THAT(message_of([] { poisson(full({2}, HUGE_VAL)); }), Contains("must be finite and not negative"));
}

TEST_CASE("binomial follows its distribution, for probabilities on either side of a half") {
  for (const Device device : devices()) {
    manual_seed(2);
    for (const double n : {7.0, 50.0, 400.0}) {
      for (const double p : {0.01, 0.3, 0.5, 0.8}) {
        INFO("n " << n << ", p " << p);
        const TensorOptions o{.dtype = f64};
        const Tensor x = binomial(full({draws}, n, o).to(device), scalar(p, o).to(device));
        CHECK(max(x).item<double>() <= n);
        CHECK(surprise(x, [&](double k) {
                if (k > n) return -HUGE_VAL;
                const double ways = std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
                return ways + k * std::log(p) + (n - k) * std::log1p(-p);
              }) < 5);
      }
    }
    const Tensor ends = binomial(full({3}, 40.0).to(device), tensor({0.0, 1.0, 0.5}).to(device));
    CHECK(ends[0].item<float>() == 0);
    CHECK(ends[1].item<float>() == 40);
    CHECK(equal(binomial(zeros({4}).to(device), full({4}, 0.7).to(device)), zeros({4}).to(device)));
  }
  CHECK_THAT(message_of([] { binomial(tensor({1.5}), tensor({0.5})); }), Contains("must be whole numbers"));
  CHECK_THAT(message_of([] { binomial(tensor({2.0}), tensor({1.5})); }), Contains("values outside [0, 1]"));
}

TEST_CASE("variates are the same on every device, but for the last bits of logarithms") {
  const Tensor rate = rand({3000}, {.dtype = f64}) * 40.0, trials = floor(rate), p = rand({3000}, {.dtype = f64});
  const auto drawn = [&](Device device) {
    manual_seed(3);
    return cat({poisson(rate.to(device)), binomial(trials.to(device), p.to(device)),
                draw_variates(Variate::gamma, rate.to(device))}).to(cpu);
  };
  const Tensor expected = drawn(cpu);
  for (const Device device : devices()) {
    const Tensor equal_ones = abs(drawn(device) - expected) < 1e-9 * (abs(expected) + 1.0);
    CHECK(mean(cast(equal_ones, f64)).item<double>() > 0.999);  // another last bit may reject another candidate
  }
}
