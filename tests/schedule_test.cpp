// Schedules and schedulers besides their numbers (tests/golden_optim_test.cpp): any step can be queried and resumed,
// groups have separate schedules, mistakes are reported.
#include <algorithm>
#include <cmath>
#include <limits>

#include "optim/adam.h"
#include "optim/plateau.h"
#include "optim/rmsprop.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/every_schedule.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

TEST_CASE("every schedule resumes at any step with the same bits", "[optim]") {
  for (const auto& [name, schedule] : schedules()) {
    INFO(name);
    Tensor p = zeros({1}).requires_grad_();
    optim::Sgd a({p}, {.lr = 0.1, .momentum = 0.9}), b({p}, {.lr = 0.3, .momentum = 0.8});
    optim::Scheduler first(a, schedule), second(b, schedule);
    std::vector<double> rates;
    for (int t = 0; t < 90; ++t) {
      first.step();
      rates.push_back(first.get_last_lr()[0]);
    }
    second.load_state_dict(first.state_dict());
    CHECK(b.lr() == a.lr());
    for (int t = 90; t < 150; ++t) {
      first.step();
      second.step();
      REQUIRE(a.lr() == b.lr());
    }
    first.set_step(7);  // and back
    CHECK(a.lr() == rates[6]);
  }
}

TEST_CASE("a state that a schedule refuses changes nothing", "[optim]") {
  Tensor p = zeros({1}).requires_grad_();
  optim::Sgd opt({p}, {.lr = 0.1});
  optim::Scheduler schedule(opt, optim::StepLR{.step_size = 2});
  schedule.step();
  const NamedTensors bad{{"step", full({}, -1, {.dtype = i64})}, {"base_lr", full({1}, 7, {.dtype = f64})}};
  CHECK_THAT(message_of([&] { schedule.load_state_dict(bad); }), Contains("must not be negative, got -1"));
  schedule.step();
  CHECK(opt.lr() == 0.1 * 0.1);
}

TEST_CASE("groups may have schedules of their own, and a skipped step does not advance one", "[optim]") {
  Tensor p = zeros({1}).requires_grad_(), q = zeros({1}).requires_grad_();
  optim::Adam opt({p}, {.lr = 0.1});
  opt.add_group({q}, {.lr = 0.2});
  optim::Scheduler schedule(opt, {optim::ConstantLR{.factor = 1}, optim::ExponentialLR{.gamma = 0.5}});
  schedule.step(amp::StepResult());
  schedule.step(amp::StepResult(ones({}, {.dtype = boolean}), {}));
  CHECK(schedule.current_step() == 1);
  CHECK(schedule.get_last_lr() == std::vector<double>{0.1, 0.1});
  CHECK_THAT(message_of([&] { optim::Scheduler s(opt, std::vector<optim::Schedule>(3, optim::StepLR{})); }),
             Contains("3 schedules for 2 groups"));
  opt.add_group({ones({2}).requires_grad_()}, {});
  CHECK_THAT(message_of([&] { schedule.step(); }), Contains("has got 3 groups"));
}

TEST_CASE("a group that is added later follows the schedule of all, and a resumed run has the same rates", "[optim]") {
  Tensor p = zeros({1}).requires_grad_(), q = zeros({1}).requires_grad_();
  optim::Adam opt({p}, {.lr = 0.1}), resumed({p}, {.lr = 0.1});
  const optim::ExponentialLR halves{.gamma = 0.5};
  optim::Scheduler schedule(opt, halves), again(resumed, halves);
  schedule.step();
  opt.add_group({q}, {.lr = 0.8});
  resumed.add_group({q}, {.lr = 0.3});
  CHECK(schedule.get_last_lr() == std::vector<double>{0.05, 0.8});
  const NamedTensors optimizer_state = opt.state_dict(), state = schedule.state_dict();
  schedule.step();
  CHECK(schedule.get_last_lr() == std::vector<double>{0.025, 0.2});
  resumed.load_state_dict(optimizer_state);
  again.load_state_dict(state);
  again.step();
  CHECK(again.get_last_lr() == schedule.get_last_lr());
}

TEST_CASE("a schedule that cycles momentum sets beta1 or momentum, or says that there is neither", "[optim]") {
  Tensor p = zeros({1}).requires_grad_();
  optim::Adam adam({p});
  optim::RMSprop with({p}, {.momentum = 0.5});
  optim::Sgd without({p});
  const optim::CyclicLR cycle{.base_lr = 0.1, .max_lr = 1, .step_size_up = 4};
  optim::Scheduler a(adam, cycle), b(with, cycle);
  CHECK(adam.get("beta1") == 0.9);
  CHECK(with.get("momentum") == 0.9);
  CHECK_THAT(message_of([&] { optim::Scheduler s(without, cycle); }), Contains("set cycle_momentum to false"));
}

TEST_CASE("a momentum that an optimizer was made without cannot be cycled or set", "[optim]") {
  Tensor p = zeros({1}).requires_grad_();
  optim::RMSprop without({p});
  const optim::CyclicLR cycle{.base_lr = 0.1, .max_lr = 1, .step_size_up = 4};
  CHECK_THAT(message_of([&] { optim::Scheduler s(without, cycle); }), Contains("set cycle_momentum to false"));
  CHECK_THAT(message_of([&] { without.set("momentum", 0.5); }), Contains("made with momentum 0"));
  CHECK(without.get("momentum") == 0);
  optim::Sgd mixed({p}, {.lr = 1, .momentum = 0.5});
  Tensor q = zeros({1}).requires_grad_();
  mixed.add_group({q}, {.lr = 1});
  CHECK_THAT(message_of([&] { optim::Scheduler s(mixed, cycle); }), Contains("set cycle_momentum to false"));
  CHECK(mixed.lr(0) == 1);
}

TEST_CASE("schedulers multiply, and keep what others did to the rate", "[optim]") {
  Tensor p = zeros({1}).requires_grad_();
  optim::Sgd opt({p}, {.lr = 1});
  optim::Scheduler warm(opt, optim::LinearLR{.start_factor = 0.25, .end_factor = 1, .total_iters = 3}),
      decay(opt, optim::ExponentialLR{.gamma = 0.5});
  CHECK(opt.lr() == Approx(0.25));
  for (int i = 1; i <= 4; ++i) {
    warm.step();
    decay.step();
    CHECK(opt.lr() == Approx(std::min(1.0, 0.25 + 0.25 * i) * std::pow(0.5, i)));
  }
  opt.set_lr(opt.lr() / 10);  // as ReduceLROnPlateau does
  const double reduced = opt.lr();
  warm.step();
  CHECK(opt.lr() == Approx(reduced));
  decay.step();
  CHECK(opt.lr() == Approx(reduced / 2));

  optim::Sgd other({p}, {.lr = 1});  // resumes with the same rates, whatever is loaded first
  optim::Scheduler a(other, optim::LinearLR{.start_factor = 0.25, .end_factor = 1, .total_iters = 3}),
      b(other, optim::ExponentialLR{.gamma = 0.5});
  a.load_state_dict(warm.state_dict());
  b.load_state_dict(decay.state_dict());
  other.load_state_dict(opt.state_dict());
  optim::Sgd third({p}, {.lr = 3});
  optim::Scheduler c(third, optim::LinearLR{.start_factor = 0.25, .end_factor = 1, .total_iters = 3}),
      d(third, optim::ExponentialLR{.gamma = 0.5});
  third.load_state_dict(opt.state_dict());
  d.load_state_dict(decay.state_dict());
  c.load_state_dict(warm.state_dict());
  for (int i = 0; i < 3; ++i) {
    for (optim::Scheduler* s : {&warm, &decay, &a, &b, &c, &d}) s->step();
    CHECK(other.lr() == opt.lr());
    CHECK(third.lr() == opt.lr());
  }

  optim::Sgd cycled({p}, {.lr = 1}), again({p}, {.lr = 1});  // a rate that the schedule does not take as its base
  const optim::CyclicLR cycle{.base_lr = 0.1, .max_lr = 1, .step_size_up = 4, .cycle_momentum = false};
  optim::Scheduler first(cycled, cycle), second(again, cycle);
  first.step();
  cycled.set_lr(0.3);
  again.load_state_dict(cycled.state_dict());
  second.load_state_dict(first.state_dict());
  CHECK(again.lr() == 0.3);
  NamedTensors earlier = first.state_dict();  // files of earlier versions have two entries
  earlier.resize(2);
  second.load_state_dict(earlier);
  CHECK(again.lr() == cycle.lr_at(1, 1));
  NamedTensors bad = first.state_dict();
  bad[3].second = tensor({-1.0}, {.dtype = f64});
  CHECK_THAT(message_of([&] { second.load_state_dict(bad); }), Contains("-1 is no learning rate"));
  bad.erase(bad.begin() + 2);
  CHECK_THAT(message_of([&] { second.load_state_dict(bad); }), Contains("written_lr"));

  optim::Sgd reduced_opt({p}, {.lr = 1}), resumed({p}, {.lr = 1});  // the optimizer first, as in PyTorch
  optim::Scheduler saved(reduced_opt, optim::ExponentialLR{.gamma = 0.5}),
      loaded(resumed, optim::ExponentialLR{.gamma = 0.5});
  saved.step();
  reduced_opt.set_lr(0.05);
  resumed.load_state_dict(reduced_opt.state_dict());
  loaded.load_state_dict(saved.state_dict());
  CHECK(resumed.lr() == Approx(0.05));
  loaded.step();
  CHECK(resumed.lr() == Approx(0.025));

  optim::Sgd from_zero({p}, {.lr = 1});
  optim::Scheduler falls(from_zero, optim::ExponentialLR{.gamma = 0.5}),
      rises(from_zero, [](std::int64_t step) { return static_cast<double>(step) / 10; });
  CHECK(from_zero.lr() == 0);
  for (int i = 1; i <= 3; ++i) falls.step(), rises.step();
  CHECK(from_zero.lr() > 0);
}

TEST_CASE("settings of schedules that make no sense are errors", "[optim]") {
  using namespace optim;
  const auto message = [](const Schedule& s) { return message_of([&] { s.lr_at(1, 3); }); };
  CHECK_THAT(message(ConstantLR{.factor = 2}), Contains("ConstantLR: factor"));
  CHECK_THAT(message(PolynomialLR{.total_iters = 0}), Contains("total_iters must be at least 1"));
  CHECK_THAT(message(CosineAnnealingWarmRestarts{.t_0 = 0}), Contains("t_0 must be at least 1"));
  CHECK_THAT(message(CosineAnnealingWarmRestarts{.t_mult = 0}), Contains("t_mult must be at least 1"));
  CHECK_THAT(message(CyclicLR{.step_size_up = 0}), Contains("step_size_up"));
  CHECK_THAT(message(SWALR{.anneal_epochs = -1}), Contains("anneal_epochs"));
  CHECK_THAT(message(LambdaLR{}), Contains("no function"));
  CHECK_THAT(message(ChainedScheduler{}), Contains("at least one schedule"));
  CHECK_THAT(message(SequentialLR{{StepLR{}}, {1, 2}}), Contains("one milestone fewer"));
  CHECK(CosineAnnealingWarmRestarts{.t_0 = 3, .t_mult = 1'000'000}.lr_at(1, std::numeric_limits<std::int64_t>::max()) >=
        0);
}

TEST_CASE("ReduceLROnPlateau resumes, ignores NaN, keeps to min_lr, and tells mistakes", "[optim]") {
  Tensor p = zeros({1}).requires_grad_();
  optim::Sgd a({p}, {.lr = 1}), b({p}, {.lr = 1});
  const optim::PlateauOptions options{.factor = 0.5, .patience = 2, .cooldown = 1, .min_lr = 0.1};
  optim::ReduceLROnPlateau first(a, options), second(b, options);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> metrics{3, 2, nan, 2, 2, 2, nan, nan, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  for (std::size_t t = 0; t < metrics.size(); ++t) {
    first.step(metrics[t]);
    if (t == 7) {
      second.load_state_dict(first.state_dict());
      b.set_lr(a.lr());
    }
    if (t > 7) second.step(scalar(metrics[t], {.dtype = f64}));
    if (t > 7) CHECK(a.lr() == b.lr());
  }
  CHECK(first.best() == 1);
  CHECK(a.lr() == 0.1);
  CHECK_THAT(message_of([&] { optim::ReduceLROnPlateau s(a, {.factor = 1}); }), Contains("factor must be between"));
  CHECK_THAT(message_of([&] { first.load_state_dict({}); }), Contains("best"));
}
