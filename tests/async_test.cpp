// AsyncTrainer: micro-batches, the optimizer's thread, and a scaler that learns of overflows late. Statements G44 and
// G46.
#include "optim/async_trainer.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "autograd/node.h"
#include "core/loss_scale.h"
#include "core/ops.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/schedule.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

struct Net {
  explicit Net(Dtype dtype = f32) {
    for (Tensor* t : {&w1, &w2}) *t = t->to(dtype).requires_grad_();
  }
  Tensor operator()(const Tensor& x) const { return matmul(tanh(matmul(x.to(w1.dtype()), w1)), w2).to(f32); }
  optim::Parameters parameters() const { return NamedTensors{{"w1", w1}, {"w2", w2}}; }
  Tensor w1 = random_tensor({6, 8}, 1).to(f32), w2 = random_tensor({8, 3}, 2).to(f32);
};
struct Batch {
  explicit Batch(std::uint64_t t, std::int64_t rows = 7)
      : x(random_tensor({rows, 6}, 100 + t).to(f32)), y(random_tensor({rows, 3}, 200 + t).to(f32)) {}
  Tensor x, y;
};
auto loss_with(const Net& net) {
  return [&net](const Tensor& x, const Tensor& y) { return mse_loss(net(x), y); };
}
void check_equal(const Net& a, const Net& b) {
  CHECK(same_bits(a.w1.detach(), b.w1.detach()));
  CHECK(same_bits(a.w2.detach(), b.w2.detach()));
}
// The reference for async training: step t uses the gradient of the weights before step t - 1.
void train_delayed(Net& net, int steps) {
  optim::Parameters now = net.parameters();
  for (const Tensor& p : now.tensors)  // gradients are summed in f32, as the trainer has it
    static_cast<autograd::LeafNode*>(p.impl()->node.get())->set_dtype(f32, cpu);
  std::vector<Tensor> masters;
  for (const Tensor& p : now.tensors) masters.push_back(p.detach().to(f32).clone().requires_grad_());
  optim::AdamW opt(masters, {.lr = 0.01});
  std::vector<Tensor> pending;
  const auto apply = [&] {
    if (pending.empty()) return;
    for (std::size_t i = 0; i < masters.size(); ++i) masters[i].set_grad(pending[i]);
    opt.step();
    const NoGrad no_grad;
    for (std::size_t i = 0; i < masters.size(); ++i) now.tensors[i].copy_(masters[i].detach());
  };
  for (int t = 0; t < steps; ++t) {
    const Batch b(static_cast<std::uint64_t>(t));
    for (Tensor& p : now.tensors) p.set_grad({});
    backward(loss_with(net)(b.x, b.y));
    std::vector<Tensor> gradients;
    for (const Tensor& p : now.tensors) gradients.push_back(p.grad().to(f32));
    apply();
    pending = gradients;
  }
  apply();
}

}  // namespace

TEST_CASE("synchronous steps are bitwise an ordinary loop, with a scaler, clipping and a schedule", "[async]") {
  MANTISSA_PRINT_SEED();
  Net a, b;
  amp::GradScaler scaler_a({.init_scale = 64, .growth_interval = 3}),
      scaler_b({.init_scale = 64, .growth_interval = 3});
  optim::AsyncTrainer trainer(a.parameters(), {.scaler = &scaler_a});
  optim::AdamW opt_a(trainer.optim_parameters(), {.lr = 0.02}), opt_b(b.parameters(), {.lr = 0.02});
  optim::Scheduler schedule_a(opt_a, optim::ExponentialLR{.gamma = 0.9}),
      schedule_b(opt_b, optim::ExponentialLR{.gamma = 0.9});
  for (std::uint64_t t = 0; t < 10; ++t) {
    const Batch batch(t);
    const Tensor loss = trainer.forward_backward(batch.x, batch.y, loss_with(a));
    trainer.step([&] {
      scaler_a.unscale_(opt_a);
      optim::clip_grad_norm_(trainer.optim_parameters(), 0.5);
      const amp::StepResult result = scaler_a.step(opt_a);
      scaler_a.update();
      schedule_a.step(result);
    });
    opt_b.zero_grad();
    const Tensor control = loss_with(b)(batch.x, batch.y);
    backward(scaler_b.scale(control));
    scaler_b.unscale_(opt_b);
    optim::clip_grad_norm_(b.parameters(), 0.5);
    schedule_b.step(scaler_b.step(opt_b));
    scaler_b.update();
    CHECK(same_bits(loss, control.detach()));
    CHECK(!a.w1.grad().defined());
  }
  check_equal(a, b);
  CHECK(scaler_a.get_scale() == scaler_b.get_scale());
}

TEST_CASE("micro-batches sum to the batch, whatever the loss is of its rows", "[async]") {
  MANTISSA_PRINT_SEED();
  for (const optim::LossOf kind : {optim::LossOf::mean, optim::LossOf::sum}) {
    for (const int parts : {1, 2, 3, 7, 50}) {  // of 7 rows
      Net a, b;
      const Reduction reduction = kind == optim::LossOf::mean ? Reduction::mean : Reduction::sum;
      optim::AsyncTrainer trainer(a.parameters(), {.micro_batches = parts, .loss = kind});
      const Batch batch(1);
      int calls = 0;
      const Tensor loss = trainer.forward_backward(batch.x, batch.y, [&](const Tensor& x, const Tensor& y) {
        ++calls;
        return mse_loss(a(x), y, reduction);
      });
      CHECK(calls == std::min(parts, 7));
      const Tensor whole = mse_loss(b(batch.x), batch.y, reduction);
      backward(whole);
      CHECK(difference(loss, whole.detach().to(f64), {1e-5, 1e-6}) == "");
      CHECK(difference(a.w1.grad(), b.w1.grad().to(f64), {1e-5, 1e-6}) == "");
      CHECK(difference(a.w2.grad(), b.w2.grad().to(f64), {1e-5, 1e-6}) == "");
    }
  }
  Net net;
  optim::AsyncTrainer trainer(net.parameters(), {.micro_batches = 2});
  const Batch batch(1);
  const std::vector<Tensor> inputs{batch.x, batch.x * 2.0};
  trainer.forward_backward(
      inputs, batch.y, [&](const std::vector<Tensor>& x, const Tensor& y) { return mse_loss(net(x[0] + x[1]), y); });
  CHECK(net.w1.grad().defined());
}

TEST_CASE("micro-batches of a half model are summed in f32", "[async][masters]") {
  Tensor p = ones({1}, {.dtype = f16}).requires_grad_();
  optim::AsyncTrainer trainer({p}, {.micro_batches = 1025, .loss = optim::LossOf::sum});
  optim::Sgd opt(trainer.optim_parameters(), {.lr = 0});
  Tensor x = full({1025, 1}, 0x1p-12, {.dtype = f16});
  x.slice(0, 0, 1).fill_(1);
  trainer.forward_backward(x, x, [&](const Tensor& part, const Tensor&) { return (part * p).sum(); });
  double sum = 0;
  trainer.step([&] {
    sum = trainer.optim_parameters().tensors[0].grad().item<double>();
    opt.step();
  });
  CHECK(sum == 1.25);
}

TEST_CASE("asynchronous steps are bitwise one step behind, every time", "[async]") {
  MANTISSA_PRINT_SEED();
  for (const Dtype dtype : {f32, bf16}) {
    Net expected(dtype);
    train_delayed(expected, 12);
    for (int run = 0; run < 3; ++run) {
      Net net(dtype);
      optim::AsyncTrainer trainer(net.parameters());
      optim::AdamW opt(trainer.optim_parameters(), {.lr = 0.01});
      for (std::uint64_t t = 0; t < 12; ++t) {
        const Batch batch(t);
        trainer.forward_backward(batch.x, batch.y, loss_with(net));
        trainer.step(
            [&] {
              if (run == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3));
              opt.step();
            },
            true);
      }
      trainer.synchronize();
      check_equal(net, expected);
    }
  }
}

TEST_CASE("a scaler and a slow optimizer: the scale of each forward is that of the last step, so runs repeat",
          "[async]") {
  MANTISSA_PRINT_SEED();
  std::vector<Net> nets(3);
  std::vector<double> scales;
  for (std::size_t run = 0; run < nets.size(); ++run) {
    Net& net = nets[run];
    amp::GradScaler scaler({.init_scale = 0x1p125, .growth_interval = 4});  // too high: the first steps are skipped
    optim::AsyncTrainer trainer(net.parameters(), {.micro_batches = 3, .scaler = &scaler});
    optim::Adam opt(trainer.optim_parameters(), {.lr = 0.01});
    for (std::uint64_t t = 0; t < 20; ++t) {
      const Batch batch(t);
      trainer.forward_backward(batch.x, batch.y, [&](const Tensor& x, const Tensor& y) {
        if (run == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return mse_loss(net(x) * 100.0, y);
      });
      trainer.step(
          [&] {
            if (run == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3));
            scaler.step(opt);
            scaler.update();
          },
          true);
    }
    trainer.synchronize();
    scales.push_back(scaler.get_scale());
    CHECK(scaler.total_skipped() > 0);
    CHECK(scaler.total_skipped() < 20);
  }
  check_equal(nets[0], nets[1]);
  check_equal(nets[0], nets[2]);
  CHECK(scales[0] == scales[1]);
  CHECK(scales[0] == scales[2]);
}

TEST_CASE("the step runs in the caller's autocast region, forward_backward in its own", "[async]") {
  Net net;
  optim::AsyncTrainer trainer(net.parameters());
  optim::Sgd opt(trainer.optim_parameters());
  const Batch batch(1);
  bool inside = false, gradients = true;
  const std::thread::id caller = std::this_thread::get_id();
  std::thread::id worker;
  {
    const amp::Autocast region(bf16);
    const NoGrad no_grad;
    trainer.step([&] {
      inside = amp::is_enabled();
      gradients = grad_enabled();
      worker = std::this_thread::get_id();
    });
  }
  CHECK(inside);
  CHECK(!gradients);
  CHECK(worker != caller);
  trainer.step([&] { inside = amp::is_enabled(); });
  CHECK(!inside);
}

TEST_CASE("G46: an exception of the optimizer's thread is thrown by the next call, and training goes on",
          "[async][scaler]") {
  Net net;
  const Batch batch(1);
  amp::GradScaler scaler;
  optim::AsyncTrainer trainer(net.parameters(), {.scaler = &scaler});
  optim::Sgd opt(trainer.optim_parameters(), {.lr = 0.1});
  const auto forward = [&] { return trainer.forward_backward(batch.x, batch.y, loss_with(net)); };
  const auto good = [&] {
    scaler.step(opt);
    scaler.update();
  };
  const auto bad = [] { throw std::runtime_error("disk full"); };
  forward();
  CHECK_THAT(message_of([&] { trainer.step(bad); }), Contains("disk full"));
  forward();
  trainer.step(bad, true);
  CHECK_THAT(message_of([&] { trainer.synchronize(); }), Contains("disk full"));
  forward();
  trainer.step(bad, true);
  CHECK_THAT(message_of([&] {
               for (int k = 0; k < 1000; ++k) {
                 forward();
                 std::this_thread::sleep_for(std::chrono::milliseconds(1));
               }
             }),
             Contains("disk full"));
  for (Tensor p : net.parameters().tensors) p.set_grad({});
  trainer.synchronize();
  forward();
  trainer.step(bad, true);
  CHECK_THAT(message_of([&] { trainer.step(good, true); }), Contains("disk full"));
  forward();
  CHECK_THAT(message_of([&] {
               trainer.step([&] {
                 scaler.step(opt);
                 bad();
               });
             }),
             Contains("disk full"));
  const Tensor before = net.w1.detach().clone();
  trainer.synchronize();  // nothing is left of it, and the scaler is ready for the next
  forward();
  trainer.step(good, true);
  trainer.synchronize();
  CHECK(!same_bits(net.w1.detach(), before));
  {
    optim::AsyncTrainer dropped(net.parameters());
    dropped.step(bad, true);
  }  // nothing ends the process
}

TEST_CASE("masters are saved, loaded, and follow a model that somebody writes to", "[async][masters]") {
  MANTISSA_PRINT_SEED();
  Net a(bf16), b(bf16);
  optim::AsyncTrainer first(a.parameters()), second(b.parameters());
  optim::Adam opt(first.optim_parameters(), {.lr = 1e-3}), resumed(second.optim_parameters(), {.lr = 1e-3});
  const auto train = [](optim::AsyncTrainer& trainer, optim::Optimizer& o, Net& net, std::uint64_t from,
                        std::uint64_t to) {
    for (std::uint64_t t = from; t < to; ++t) {
      const Batch batch(t);
      trainer.forward_backward(batch.x, batch.y, loss_with(net));
      trainer.step([&] { o.step(); });
    }
  };
  train(first, opt, a, 0, 5);
  second.load_state_dict(first.state_dict());
  resumed.load_state_dict(opt.state_dict());
  check_equal(a, b);
  train(first, opt, a, 5, 8);
  train(second, resumed, b, 5, 8);
  check_equal(a, b);
  CHECK(same_bits(first.state_dict()[0].second, second.state_dict()[0].second));
  {
    const NoGrad no_grad;
    a.w1.fill_(0.5);
  }
  first.step([&] {});
  CHECK(same_bits(first.optim_parameters().tensors[0].detach(), full({6, 8}, 0.5)));
  const Batch batch(1);
  first.forward_backward(batch.x, batch.y, loss_with(a));
  first.step([&] { opt.step(); }, true);
  {
    const NoGrad no_grad;
    a.w1.fill_(0.25);
  }
  CHECK_THAT(message_of([&] { first.synchronize(); }), Contains("w1 was written to while"));
  first.synchronize();
  CHECK(!same_bits(a.w1.detach(), full({6, 8}, 0.25, {.dtype = bf16})));
}

TEST_CASE("parameters may be frozen and thawed between steps, as in an ordinary loop", "[async][masters]") {
  MANTISSA_PRINT_SEED();
  for (const Dtype dtype : {f32, bf16}) {
    Net a(dtype), b(dtype);
    optim::AsyncTrainer trainer(a.parameters(), {.micro_batches = 2});
    optim::Adam opt(trainer.optim_parameters(), {.lr = 0.01});
    optim::Adam plain(b.parameters(), {.lr = 0.01}, {.master_weights = true});
    const auto step = [&](std::uint64_t t) {
      const Batch batch(t, 8);
      trainer.forward_backward(batch.x, batch.y, loss_with(a));
      trainer.step([&] { opt.step(); });
      plain.zero_grad();
      for (const std::int64_t from : {0, 4})
        backward(loss_with(b)(batch.x.slice(0, from, from + 4), batch.y.slice(0, from, from + 4)) * Tensor(0.5));
      plain.step();
    };
    for (std::uint64_t t = 0; t < 4; ++t) {
      if (t == 2) a.w1.requires_grad_(false), b.w1.requires_grad_(false);
      step(t);
      check_equal(a, b);
    }
    a.w1.requires_grad_(), b.w1.requires_grad_();
    const Tensor frozen = a.w1.detach().clone();
    step(4);
    check_equal(a, b);
    CHECK(!same_bits(a.w1.detach(), frozen));
    for (Tensor p : trainer.optim_parameters().tensors) p.requires_grad_(false);
    const Tensor last = a.w2.detach().clone();
    step(5);
    CHECK(same_bits(a.w2.detach(), last));
  }
}

TEST_CASE("bad use of AsyncTrainer is an error that says what to do", "[async]") {
  Net net;
  const Batch batch(1);
  optim::AsyncTrainer trainer(net.parameters());
  CHECK_THAT(message_of([&] { optim::AsyncTrainer t(std::vector<Tensor>{}); }), Contains("at least one parameter"));
  CHECK_THAT(message_of([&] { optim::AsyncTrainer t({ones({2})}); }), Contains("require a gradient"));
  CHECK_THAT(message_of([&] { optim::AsyncTrainer t(net.parameters(), {.micro_batches = 0}); }),
             Contains("micro_batches must be at least 1"));
  CHECK_THAT(message_of([&] { trainer.forward_backward(batch.x, ones({3}), loss_with(net)); }),
             Contains("same number of rows"));
  CHECK_THAT(message_of([&] { trainer.forward_backward(ones({}), ones({}), loss_with(net)); }),
             Contains("must have rows"));
  CHECK_THAT(message_of([&] {
               trainer.forward_backward(batch.x, batch.y, [&](const Tensor& x, const Tensor&) { return net(x); });
             }),
             Contains("a loss of one element"));
  CHECK_THAT(message_of([&] { trainer.step(nullptr); }), Contains("no step function"));
  amp::GradScaler checking({.check_loss = true});
  optim::AsyncTrainer scaled(net.parameters(), {.scaler = &checking});
  CHECK_THAT(message_of([&] { scaled.step([] {}, true); }), Contains("check_loss needs synchronous"));
}

namespace {

// A scale that overflows above `limit`, with results reported `lag` iterations late, until it stops changing.
struct Simulation {
  float scale;
  ScaleCounters counters{};
  std::vector<double> under_way{};
  double smallest_clean = inf;

  void iterate(double limit, std::size_t lag, const ScaleRule& rule) {
    under_way.push_back(static_cast<double>(scale));
    if (under_way.size() <= lag) return;
    const double used = under_way.front();
    under_way.erase(under_way.begin());
    counters.advance(scale, rule, used > limit, false, used);
  }
};

}  // namespace

TEST_CASE("G44: 100,000 random thresholds and lags: at most lag more skips, and the same scale, as without lag",
          "[async][scaler]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int n = 0; n < 100'000; ++n) {
    const auto lag = static_cast<std::size_t>(pick(1, 8));
    const ScaleRule rule{.min = pick(0, 3) == 0 ? 1.0 : 0.0, .interval = 1'000'000};
    Simulation late{.scale = std::ldexp(1.0f, pick(8, 40))}, prompt{.scale = late.scale};
    double limit = static_cast<double>(late.scale);
    for (int burst = pick(1, 4); burst > 0; --burst) {
      const int halvings = pick(0, 8);
      limit =
          std::max(limit * std::ldexp(1.0, -halvings) * std::uniform_real_distribution<double>(1, 1.999)(random), 1.5);
      limit = std::min(limit, 0x1p60);
      const std::int64_t before_late = late.counters.skipped, before = prompt.counters.skipped;
      for (int t = 0; t < 30 + 2 * static_cast<int>(lag); ++t) {
        late.iterate(limit, lag, rule);
        prompt.iterate(limit, 0, rule);
      }
      const std::int64_t needed = prompt.counters.skipped - before, took = late.counters.skipped - before_late;
      if (took > needed + static_cast<std::int64_t>(lag) || late.scale != prompt.scale ||
          (needed == 0) != (took == 0)) {
        FAIL("case " << n << ": lag " << lag << ", limit " << limit << ": " << took << " skips instead of " << needed
                     << ", scale " << late.scale << " instead of " << prompt.scale);
      }
    }
  }
}

TEST_CASE("G44: an isolated overflow costs one skip and one halving, whatever the lag", "[async][scaler]") {
  const ScaleRule rule{.interval = 1'000'000};
  for (std::size_t lag = 0; lag <= 8; ++lag) {
    Simulation s{.scale = 1024};
    for (int t = 0; t < 50; ++t) s.iterate(t == static_cast<int>(lag) + 20 ? 0.5 : 0x1p60, lag, rule);
    CHECK(s.counters.skipped == 1);
    CHECK(s.scale == 512);
  }
}

TEST_CASE("G44: the same with threads, real gradients and a real scaler", "[async][scaler]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int n = 0; n < 40; ++n) {
    const int exponent = pick(4, 12), halvings = pick(0, 6), isolated = pick(20, 25);
    double scales[2], skips[2], weights[2];
    for (const bool async : {false, true}) {
      Tensor p = ones({2}).requires_grad_();
      amp::GradScaler scaler({.init_scale = std::ldexp(1.0, exponent + halvings)});
      optim::AsyncTrainer trainer({p}, {.scaler = &scaler});
      optim::Sgd opt(trainer.optim_parameters(), {.lr = 0x1p-20});
      const Tensor rows = ones({4, 2}, {.dtype = f16});
      for (int t = 0; t < 40; ++t) {
        // In f16 the gradient of p overflows when scale * factor reaches 2^16.
        const double factor = t == isolated ? 60000 : std::ldexp(1.0, 15 - exponent);
        trainer.forward_backward(rows, rows, [&](const Tensor& x, const Tensor&) {
          return ((x.slice(0, 0, 1) * p.to(f16)).to(f32) * factor).sum();
        });
        trainer.step(
            [&] {
              scaler.step(opt);
              scaler.update();
            },
            async);
      }
      trainer.synchronize();
      scales[async] = scaler.get_scale();
      skips[async] = static_cast<double>(scaler.total_skipped());
      weights[async] = p.to_vector<double>()[0];
    }
    INFO("2^" << exponent << ", " << halvings << " halvings needed");
    CHECK(scales[0] == scales[1]);
    CHECK(skips[0] == halvings + 1);
    CHECK(skips[1] >= skips[0]);
    CHECK(skips[1] <= skips[0] + 1);
    CHECK(scales[0] == std::ldexp(1.0, exponent - 1));
    const double executed = 40 - skips[1];  // each gradient was divided by the scale its own forward used
    CHECK(weights[1] == Approx(1 - executed * std::ldexp(1.0, 15 - exponent) * 0x1p-20).epsilon(1e-6));
  }
}

TEST_CASE("many asynchronous steps beside reports and forward passes", "[async]") {
  MANTISSA_PRINT_SEED();
  Net net;
  amp::GradScaler scaler({.init_scale = 0x1p30, .growth_interval = 5});
  optim::AsyncTrainer trainer(net.parameters(), {.micro_batches = 2, .scaler = &scaler});
  optim::Adam opt(trainer.optim_parameters(), {.lr = 1e-3});
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) {
      (void)scaler.get_scale();
      (void)scaler.total_skipped();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  for (std::uint64_t t = 0; t < 200; ++t) {
    const Batch batch(t);
    trainer.forward_backward(batch.x, batch.y, [&](const Tensor& x, const Tensor& y) {
      return amp::autocast(bf16, [&] { return mse_loss(dropout(net(x), 0.1), y); });
    });
    trainer.step(
        [&] {
          scaler.unscale_(opt);
          optim::clip_grad_norm_(trainer.optim_parameters(), 1);
          scaler.step(opt);
          scaler.update();
        },
        t % 3 != 0);
  }
  trainer.synchronize();
  done = true;
  reader.join();
  CHECK(std::isfinite(net.w1.sum().item<double>()));
  CHECK(scaler.total_updates() == 200);
}
