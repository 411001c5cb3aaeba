// The loss scaler compared with the simplest possible model on random cases: settings, thresholds above which gradients
// overflow, overflow flags, numbers of optimizers, calls in random order, lags between forward and step; and invalid
// states. Next: tests/scale_policy_test.cpp.
#include <cmath>
#include <deque>
#include <limits>
#include <optional>

#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "core/ops.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::GradScaler;
using amp::GradScalerOptions;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

class Dice {  // random numbers that do not depend on the order of tests
 public:
  explicit Dice(std::uint64_t stream) : stream_(stream) {}
  double uniform() { return static_cast<double>(uniform_from_bits(philox_(count_++, stream_).v[0])); }
  int below(int n) { return std::min(n - 1, static_cast<int>(uniform() * n)); }
  bool chance(double p) { return uniform() < p; }
  template <class T> T pick(std::initializer_list<T> list) {
    return list.begin()[below(static_cast<int>(list.size()))];
  }

 private:
  Philox philox_{seed()};
  std::uint64_t stream_, count_ = 0;
};

struct OneParameter final : amp::Steppable {
  std::vector<Tensor> parameters() const override { return {p}; }
  std::string parameter_name(std::size_t) const override { return "p"; }
  void step_unless(const Tensor& skip) override { steps += !(skip.defined() && *skip.data<bool>()); }
  Tensor p = ones({1}).requires_grad_();
  int steps = 0;
};

// The meaning of the settings, restated as plainly as possible.
struct Model {
  explicit Model(const GradScalerOptions& options) : o(options), scale(static_cast<float>(options.init_scale)) {}
  void overflow() {
    clean = 0;
    ++overflows, ++iterations;
    if (o.static_scale) return;
    if (bad_in_a_row_or_budget + 1 < o.hysteresis) {
      ++bad_in_a_row_or_budget;
      return;
    }
    if (static_cast<double>(overflows) / static_cast<double>(iterations) < o.tolerance) return;
    if (scale <= o.min_scale) return;
    move(std::max(o.min_scale, scale * o.backoff_factor));
  }
  void good() {
    ++iterations;
    if (o.hysteresis_mode == amp::Hysteresis::consecutive) bad_in_a_row_or_budget = 0;
    if (++clean < o.growth_interval) return;
    clean = bad_in_a_row_or_budget = 0;
    const double up = static_cast<double>(static_cast<float>(scale * o.growth_factor));
    const double to = static_cast<double>(static_cast<float>(std::min(up, o.max_scale)));
    if (!o.static_scale && std::isfinite(up) && to > scale) move(to);
  }
  void move(double to) {
    scale = static_cast<double>(static_cast<float>(to));
    iterations = overflows = 0;
  }
  GradScalerOptions o;
  double scale;
  std::int64_t clean = 0, bad_in_a_row_or_budget = 0, iterations = 0, overflows = 0;
};

GradScalerOptions random_options(Dice& dice) {
  GradScalerOptions o;
  o.init_scale = std::exp2(dice.below(24) - 4) * (dice.chance(0.3) ? 1.7 : 1);
  o.growth_factor = dice.pick({2.0, 4.0, 1.5, 1.001});
  o.backoff_factor = dice.pick({0.5, 0.25, 0.9});
  o.growth_interval = 1 + dice.below(6);
  if (dice.chance(0.4)) o.min_scale = o.init_scale * dice.pick({1.0, 0.5, 0.01});
  if (dice.chance(0.4)) o.max_scale = o.init_scale * dice.pick({1.0, 3.0, 100.0});
  if (dice.chance(0.4)) o.hysteresis = 1 + dice.below(4);
  if (dice.chance(0.5)) o.hysteresis_mode = amp::Hysteresis::budget;
  if (dice.chance(0.2)) o.tolerance = dice.pick({0.1, 0.3, 0.6});
  o.static_scale = dice.chance(0.05);
  return o;
}

}  // namespace

// 100,000 short runs in the style of real training: a gradient overflows when the scale is above a threshold.
TEST_CASE("random settings and overflow thresholds: the scale follows the model", "[scaler][G25][G27][G28][G32][G33]") {
  MANTISSA_PRINT_SEED();
  Dice dice(701);
  OneParameter first, second;
  const Tensor loss = ones({});
  for (int run = 0; run < 100000; ++run) {
    INFO("run " << run);
    const GradScalerOptions o = random_options(dice);
    GradScaler scaler(o);
    Model model(o);
    const bool both = dice.chance(0.3);
    const double threshold = o.init_scale * std::exp2(dice.below(9) - 4), noise = dice.pick({0.0, 0.1});
    const int iterations = 3 + dice.below(6);
    for (int t = 0; t < iterations; ++t) {
      scaler.scale(loss);
      bool overflow = false;
      for (OneParameter* opt : {&first, &second}) {
        if (opt == &second && !both) break;
        const bool bad = model.scale > threshold || dice.chance(noise);
        overflow = overflow || bad;
        if (bad) opt->p.set_grad(full({1}, dice.chance(0.5) ? inf : std::nan("")));
        else opt->p.set_grad(full({1}, model.scale));
        if (dice.chance(0.3)) scaler.unscale_(*opt);
        const int before = opt->steps;
        scaler.step(*opt);
        REQUIRE(opt->steps == before + !bad);
        if (!bad) REQUIRE(opt->p.grad().item() == Approx(1).epsilon(1e-6));
      }
      scaler.update();
      overflow ? model.overflow() : model.good();
      REQUIRE(scaler.get_scale() == model.scale);
    }
  }
}

// Optimizer steps run `lag` iterations behind the forward passes. Compared with the synchronous scaler: as many skips
// as it needs and at most `lag` more, and the same scale in the end. (RoundPipe's rule ends 2^lag too low.)
TEST_CASE("random lags: a burst of overflows costs at most the lag in skips, and no scale", "[scaler][G44]") {
  MANTISSA_PRINT_SEED();
  Dice dice(702);
  OneParameter synchronous;
  const auto train = [](int lag, double init, double threshold, int iterations) {
    GradScaler scaler({.init_scale = init, .growth_interval = 100000});
    std::deque<std::unique_ptr<OneParameter>> waiting;  // each holds the gradients of one iteration
    const auto finish = [&] {
      scaler.step(*waiting.front());
      waiting.pop_front();
      scaler.update();
    };
    for (int t = 0; t < iterations; ++t) {
      auto work = std::make_unique<OneParameter>();
      const double scale = scaler.get_scale();
      backward(scaler.scale(work->p.sum()));
      if (scale > threshold) work->p.grad().fill_(inf);
      waiting.push_back(std::move(work));
      if (t >= lag) finish();
    }
    while (!waiting.empty()) finish();
    return std::pair{scaler.total_skipped(), scaler.get_scale()};
  };
  for (int run = 0; run < 3000; ++run) {
    const int halvings = dice.below(9), lag = dice.below(5);
    const double init = std::exp2(dice.below(20)), threshold = init / std::exp2(halvings) * (1 + 0.9 * dice.uniform());
    INFO("run " << run << ", lag " << lag << ", " << halvings << " halvings from " << init);
    const auto [skips, scale] = train(0, init, threshold, 30);
    const auto [skips_lagging, scale_lagging] = train(lag, init, threshold, 30);
    REQUIRE(skips == halvings);
    REQUIRE(skips_lagging <= halvings + (halvings > 0 ? lag : 0));
    REQUIRE(scale_lagging == scale);
    REQUIRE(scale == init / std::exp2(halvings));
  }
}

TEST_CASE("with a lag one isolated overflow costs one skip and one halving", "[scaler][G44]") {
  for (int lag = 0; lag <= 4; ++lag) {
    GradScaler scaler({.init_scale = 64});
    std::deque<std::unique_ptr<OneParameter>> waiting;
    for (int t = 0; t < 20; ++t) {
      auto work = std::make_unique<OneParameter>();
      backward(scaler.scale(work->p.sum()));
      if (t == 5) work->p.grad().fill_(inf);
      waiting.push_back(std::move(work));
      if (t < lag) continue;
      scaler.step(*waiting.front());
      CHECK(waiting.front()->steps == (t - lag == 5 ? 0 : 1));
      if (t - lag != 5) CHECK(waiting.front()->p.grad().item() == 1);
      waiting.pop_front();
      scaler.update();
    }
    CHECK(scaler.total_skipped() == 1);
    CHECK(scaler.get_scale() == 32);
  }
}

// Random calls in random order against the state machine of one optimizer: a call is refused exactly when the table in
// the documentation of torch.amp.GradScaler refuses it, and a refused call changes nothing.
TEST_CASE("random orders of calls follow the state machine", "[scaler][G9][G10][G31]") {
  MANTISSA_PRINT_SEED();
  Dice dice(703);
  enum Stage { ready, unscaled, stepped };
  for (int run = 0; run < 2000; ++run) {
    GradScaler scaler({.init_scale = 4});
    OneParameter opts[2];
    Stage stage[2] = {ready, ready};
    bool started = false;
    int updates = 0;
    for (int call = 0; call < 25; ++call) {
      INFO("run " << run << ", call " << call);
      const int k = dice.below(2);
      bool threw = false, expected = false;
      const auto attempt = [&](auto f) {
        try {
          f();
        } catch (const Error&) {
          threw = true;
        }
      };
      switch (dice.below(5)) {
        case 0:
          scaler.scale(ones({}));
          started = true;
          for (OneParameter& o : opts) o.p.set_grad(full({1}, 4));
          break;
        case 1:
          expected = !started || stage[k] != ready;
          attempt([&] { scaler.unscale_(opts[k]); });
          if (!expected) stage[k] = unscaled;
          break;
        case 2:
          expected = !started || stage[k] == stepped;
          attempt([&] { scaler.step(opts[k]); });
          if (!expected) stage[k] = stepped;
          break;
        case 3:
          expected = !started || (stage[0] == ready && stage[1] == ready);
          attempt([&] { scaler.update(); });
          if (!expected) {
            stage[0] = stage[1] = ready;
            ++updates;
          }
          break;
        default:
          expected = stage[0] != ready || stage[1] != ready;
          attempt([&] { scaler.state_dict(); });
      }
      REQUIRE(threw == expected);
      REQUIRE(scaler.total_updates() == updates);
      REQUIRE(scaler.get_scale() == 4);
    }
  }
}

// States as a file might contain them: entries missing, duplicated, of other types and shapes, with any number. Loading
// accepts them or throws an Error, and is never partial.
TEST_CASE("hostile states are loaded whole or not at all", "[scaler][G40]") {
  MANTISSA_PRINT_SEED();
  Dice dice(704);
  const double numbers[] = {0,
                            -0.0,
                            1,
                            2,
                            0.5,
                            -1,
                            3,
                            4,
                            1e-46,
                            1e-30,
                            65536,
                            1e38,
                            1e39,
                            1e300,
                            inf,
                            -inf,
                            std::nan(""),
                            2147483647.0,
                            2147483648.0,
                            0.25,
                            1.5};
  const char* keys[] = {"scale",           "growth_factor",      "backoff_factor", "growth_interval",
                        "_growth_tracker", "_mantissa_counters", "version",        ""};
  OneParameter opt;
  int loaded = 0;
  for (int run = 0; run < 20000; ++run) {
    INFO("run " << run);
    GradScalerOptions o{.init_scale = 8, .growth_interval = 7};
    if (dice.chance(0.3)) o.hysteresis = 3;
    if (dice.chance(0.2)) o.min_scale = 2;
    GradScaler scaler(o);
    if (dice.chance(0.5)) scaler.scale(ones({}));
    std::vector<std::pair<std::string, Tensor>> state = scaler.state_dict();
    const std::vector<std::pair<std::string, Tensor>> before = state;
    for (int change = dice.below(4); change >= 0 && !state.empty(); --change) {
      const std::size_t at = static_cast<std::size_t>(dice.below(static_cast<int>(state.size())));
      const double number = numbers[dice.below(static_cast<int>(std::size(numbers)))];
      switch (dice.below(8)) {
        case 0: state.erase(state.begin() + static_cast<std::ptrdiff_t>(at)); break;
        case 1: state.emplace_back(keys[dice.below(8)], scalar(1)); break;
        case 2: state[at].first = keys[dice.below(8)]; break;
        case 3: state[at].second = Tensor(); break;
        case 4: state[at].second = full({dice.below(4)}, number, {.dtype = f64}); break;
        case 5:
          state[at].second = full({1, 1}, std::isfinite(number) && std::abs(number) < 1e9 ? number : 3,
                                  {.dtype = dice.pick({i64, f32, f16, boolean})});
          break;
        default: state[at].second = scalar(number, {.dtype = f64});
      }
    }
    bool threw = false;
    try {
      scaler.load_state_dict(state);
    } catch (const Error& e) {
      threw = true;
      REQUIRE(std::string(e.what()).starts_with("GradScaler.load_state_dict: "));
    }
    const double scale = scaler.get_scale();
    if (threw) {
      const auto after = scaler.state_dict();
      REQUIRE(after.size() == before.size());
      for (std::size_t k = 0; k < after.size(); ++k) REQUIRE(same_bits(after[k].second, before[k].second));
    } else {
      ++loaded;
      REQUIRE((scale > 0 && std::isfinite(scale)));
      REQUIRE(scaler.get_growth_factor() > 1);
      REQUIRE((scaler.get_backoff_factor() > 0 && scaler.get_backoff_factor() < 1));
      REQUIRE(scaler.get_growth_interval() >= 1);
    }
    scaler.scale(ones({}));  // and it still works
    opt.p.set_grad(full({1}, inf));
    scaler.step(opt);
    scaler.update();
    REQUIRE(scaler.get_scale() <= static_cast<double>(static_cast<float>(scale)));
  }
  CHECK(loaded > 1000);
  CHECK(loaded < 15000);
}
