// What the loss scaler gathers in its single pass over the gradients and reports: the norm that clipping reuses,
// counts, overflow reports, failures of the forward, repeated iterations; and that none of it makes a step read the
// device. Next: tests/scaler_test.cpp, tests/scale_policy_test.cpp.
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "core/host_reads.h"
#include "core/ops.h"
#include "optim/clip.h"
#include "optim/ema.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/scaler_optimizers.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::GradScaler;
using Catch::Matchers::Contains;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan_value = std::numeric_limits<double>::quiet_NaN();

Tensor parameter(const Dims& sizes = {4}, Dtype dtype = f32) { return ones(sizes, {.dtype = dtype}).requires_grad_(); }
void start(GradScaler& scaler) { scaler.scale(ones({})); }
Tensor random_gradient(const Tensor& p, std::uint64_t stream) {
  return random_tensor(p.sizes(), stream, -100, 100).to(p.dtype());
}
void put(Tensor t, std::int64_t position, double value) { t.as_strided({}, {}, position).fill_(value); }

Tensor loss_of(const Tensor& w, std::uint64_t batch) {
  const Tensor x = random_tensor({6, 4}, 10 + batch).to(f32), y = random_tensor({6, 3}, 50 + batch).to(f32);
  return mse_loss(tanh(matmul(x, w)), y);
}
Tensor start_weight(std::uint64_t stream = 1) { return random_tensor({4, 3}, stream).to(f32).requires_grad_(); }

}  // namespace

TEST_CASE("G16: the pass over the gradients knows norm, largest element, inf, NaN and the first bad one",
          "[scaler][G16]") {
  MANTISSA_PRINT_SEED();
  for (Dtype dtype : {f32, f64, bf16}) {
    Tensor a = parameter({3}, dtype), none = parameter(), b = parameter({70001}, dtype), c = parameter({5, 3}, dtype);
    optim::Sgd opt({a, none, b, c});
    GradScaler scaler({.init_scale = 8});
    const auto step = [&](auto spoil) {
      start(scaler);
      for (Tensor p : {a, b, c}) p.set_grad(random_gradient(p, 3));
      c.set_grad(random_tensor({3, 5}, 9).to(dtype).t());
      spoil();
      const amp::StepResult r = scaler.step(opt);
      scaler.update();
      return r.gradients();
    };
    const amp::GradientStats clean = step([] {});
    double squares = 0, largest = 0;
    for (const Tensor& p : {a, b, c}) {
      for (double x : p.grad().to_vector<double>()) {
        squares += x * x;
        largest = std::max(largest, std::abs(x));
      }
    }
    CHECK(clean.norm == Approx(std::sqrt(squares)).epsilon(1e-12));
    CHECK(clean.largest == largest);
    CHECK(clean.infs + clean.nans == 0);
    CHECK(clean.first_bad == -1);
    const amp::GradientStats bad = step([&] {
      put(c.grad(), 2, nan_value);
      put(b.grad(), 70000, -inf);
      put(b.grad(), 33000, inf);
      put(b.grad(), 1, nan_value);
    });
    CHECK(bad.infs == 2);
    CHECK(bad.nans == 2);
    CHECK(bad.first_bad == 2);
    CHECK(bad.largest == inf);
  }
}

TEST_CASE("G16: clipping takes the norm of unscale_, bit by bit, and reads no gradient for it", "[scaler][G16]") {
  MANTISSA_PRINT_SEED();
  Tensor a = parameter({70001}), b = parameter({17, 5});
  optim::Sgd first({a}), second({b});
  const auto gradients = [&] {
    a.set_grad(random_gradient(a, 1));
    b.set_grad(random_gradient(b, 2));
  };
  GradScaler scaler({.init_scale = 16});
  start(scaler);
  gradients();
  scaler.unscale_(first);
  scaler.unscale_(second);
  const Tensor alone = a.grad().clone(), both[] = {a.grad().clone(), b.grad().clone()};
  // Written without the version counter's knowledge: whatever reads the gradients sees it.
  a.grad().data<float>()[5] += 1000;
  const float reused = optim::clip_grad_norm_({a}, inf).item();
  a.grad().data<float>()[5] -= 1000;
  a.grad().data<float>()[5] = alone.data<float>()[5];
  Tensor copy = parameter({70001});
  copy.set_grad(alone);
  const float separate = optim::clip_grad_norm_({copy}, inf).item();
  CHECK(std::memcmp(&reused, &separate, sizeof(float)) == 0);
  scaler.step(first);
  scaler.step(second);
  scaler.update();

  gradients();
  scaler.unscale_(first);
  scaler.unscale_(second);
  const double joint =
      std::sqrt(sum(square(a.grad().to(f64))).item<double>() + sum(square(b.grad().to(f64))).item<double>());
  CHECK(optim::clip_grad_norm_({a, b}, 1).item<double>() == Approx(joint).epsilon(1e-6));
  CHECK(optim::clip_grad_norm_({b, a}, 1).item<double>() == Approx(1).epsilon(1e-5));  // clipping has changed them
}

TEST_CASE("G16: clipping looks again when gradients changed since, or are others", "[scaler][G16]") {
  Tensor a = parameter({2}), b = parameter({2});
  optim::Sgd opt({a, b});
  GradScaler scaler({.init_scale = 2});
  start(scaler);
  a.set_grad(full({2}, 6));
  b.set_grad(full({2}, 8));
  scaler.unscale_(opt);
  CHECK(optim::clip_grad_norm_({a}, inf).item<double>() == Approx(std::sqrt(18.0)));
  CHECK(optim::clip_grad_norm_({a, b}, inf, {.norm_type = inf}).item() == 4);
  a.grad().mul_(2);
  CHECK(optim::clip_grad_norm_({a, b}, inf).item<double>() == Approx(std::sqrt(72.0 + 32.0)));
  b.set_grad(zeros({2}));
  CHECK(optim::clip_grad_norm_({a, b}, inf).item<double>() == Approx(std::sqrt(72.0)));
}

TEST_CASE("G24: training steps read nothing back to the host", "[scaler][G24]") {
  MANTISSA_PRINT_SEED();
  const auto run = [](auto make, bool clip) {
    Tensor w = start_weight(), v = start_weight(2);
    auto a = make(w);
    auto b = make(v);
    GradScaler scaler({.growth_interval = 3, .min_scale = 1, .hysteresis = 2, .check_loss = true});
    const std::uint64_t before = host_reads();
    for (std::uint64_t t = 0; t < 100; ++t) {
      for (std::uint64_t part = 0; part < 2; ++part) {
        const Tensor loss = amp::autocast(f16, [&] { return loss_of(w, t + part) + loss_of(v, t + part); });
        backward(scaler.scale(loss / 2.0));
      }
      if (t % 7 == 3) put(w.grad(), 2, inf);
      if (clip) {
        scaler.unscale_(*a);
        optim::clip_grad_norm_({w}, 0.1);
      }
      scaler.step(*a);
      scaler.step(*b);
      scaler.update();
      a->zero_grad();
      b->zero_grad();
    }
    CHECK(host_reads() == before);
    CHECK(scaler.total_updates() == 100);
    CHECK(scaler.total_skipped() >= 14);
    CHECK(!scaler.overflows().empty());
    CHECK(host_reads() == before);
  };
  for (const OptimizerMaker& m : all_optimizers()) {
    for (bool clip : {false, true}) {
      INFO(m.name << (clip ? ", clipped" : ""));
      run([&](const Tensor& w) { return m.make({w}); }, clip);
    }
  }
}

TEST_CASE("G23: a moving average gated by the result stands still when a step is skipped", "[scaler][G23]") {
  Tensor p = parameter({2});
  optim::Sgd opt({p}, {.lr = 1});
  optim::Ema ema({p}, {.decay = 0.5});
  GradScaler scaler({.init_scale = 1});
  const auto step = [&](double g) {
    start(scaler);
    p.set_grad(full({2}, g));
    const std::uint64_t before = host_reads();
    ema.update(scaler.step(opt));
    CHECK(host_reads() == before);
    scaler.update();
    return ema.average(0).to_vector<double>();
  };
  CHECK(step(inf) == std::vector<double>{1, 1});  // p = 1, and the first update is still to come
  scaler.update(1.0);
  CHECK(step(2) == std::vector<double>{-1, -1});    // p = -1
  CHECK(step(inf) == std::vector<double>{-1, -1});  // p = -1
  scaler.update(1.0);
  CHECK(step(-4) == std::vector<double>{1, 1});  // p = 3
  {
    const auto scope = ema.applied();
    CHECK(same_bits(p.detach(), full({2}, 1)));
  }
  CHECK(same_bits(p.detach(), full({2}, 3)));
  ema.update();
  CHECK(ema.average(0).to_vector<double>()[0] == 2);
  CHECK_THAT(message_of([&] { optim::Ema({p}, {.decay = 1}); }), Contains("decay"));
}

TEST_CASE("G45: an overflow report names iteration, parameter, layer, kind and scale", "[scaler][G45]") {
  Tensor w1 = parameter(), b1 = parameter(), w2 = parameter();
  GradScaler scaler({.init_scale = 256});
  {
    optim::Sgd opt(NamedTensors{{"net.fc1.weight", w1}, {"net.fc1.bias", b1}, {"head", w2}});
    for (int t = 1; t <= 5; ++t) {
      start(scaler);
      for (Tensor p : {w1, b1, w2}) p.set_grad(ones({4}));
      if (t == 3) {
        put(b1.grad(), 2, inf);
        put(w2.grad(), 0, nan_value);
        put(w2.grad(), 1, nan_value);
      }
      if (t == 5) put(w2.grad(), 3, -inf);
      scaler.step(opt);
      scaler.update();
    }
  }
  const std::vector<amp::OverflowReport> reports = scaler.overflows();
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].update == 3);
  CHECK(reports[0].parameter == "net.fc1.bias");
  CHECK(reports[0].layer == "net.fc1");
  CHECK(reports[0].infs == 1);
  CHECK(reports[0].nans == 2);
  CHECK(reports[0].scale == 256);
  CHECK(!reports[0].forward);
  CHECK(reports[1].update == 5);
  CHECK(reports[1].parameter == "head");
  CHECK(reports[1].layer.empty());
  CHECK(reports[1].scale == 128);
  CHECK(amp::to_string(reports[0]) == "update 3: 1 inf and 2 NaN, first in net.fc1.bias, at scale 256");
  CHECK(scaler.summary() ==
        "scale 64, 2 of 5 steps skipped, last: update 5: 1 inf and 0 NaN, first in head, at scale 128");
}

TEST_CASE("G45: the last 32 overflows are kept, of several optimizers", "[scaler][G45]") {
  Tensor p = parameter(), q = parameter();
  optim::Sgd a(NamedTensors{{"p", p}}), b(NamedTensors{{"q", q}});
  GradScaler scaler({.init_scale = 2, .min_scale = 1});
  for (int t = 1; t <= 20; ++t) {
    start(scaler);
    for (Tensor x : {p, q}) x.set_grad(full({4}, inf));
    scaler.step(a);
    scaler.step(b);
    scaler.update();
  }
  const std::vector<amp::OverflowReport> reports = scaler.overflows();
  REQUIRE(reports.size() == 32);
  CHECK(reports[0].update == 5);
  CHECK(reports[0].parameter == "p");
  CHECK(reports[31].update == 20);
  CHECK(reports[31].parameter == "q");
  CHECK(scaler.total_skipped() == 20);
  CHECK(scaler.total_updates() == 20);
}

TEST_CASE("G36: a loss that is not finite skips the step and leaves the scale alone", "[scaler][G36]") {
  for (double bad : {inf, nan_value}) {
    GradScaler scaler({.init_scale = 64, .growth_interval = 2, .check_loss = true});
    Tensor p = parameter();
    optim::Sgd opt({p}, {.lr = 1});
    const auto step = [&](double loss, double gradient) {
      scaler.scale(full({}, loss));
      scaler.scale(full({3}, 1));  // a second, good loss changes nothing
      p.set_grad(full({4}, gradient));
      const bool skipped = scaler.step(opt).skipped();
      scaler.update();
      return skipped;
    };
    CHECK(!step(1, 64));
    const Tensor before = p.detach().clone();
    CHECK(step(bad, nan_value));
    CHECK(step(bad, 64));  // even when the gradients look well
    CHECK(same_bits(p.detach(), before));
    CHECK(scaler.get_scale() == 64);
    CHECK(scaler.forward_failures() == 2);
    CHECK(!step(1, 64));
    CHECK(scaler.get_scale() == 128);  // two clean iterations: the failures did not count
    CHECK(step(1, inf));
    CHECK(scaler.get_scale() == 64);
    const std::vector<amp::OverflowReport> reports = scaler.overflows();
    REQUIRE(reports.size() == 3);
    CHECK(reports[0].forward);
    CHECK(reports[1].update == 3);
    CHECK(!reports[2].forward);
    CHECK_THAT(amp::to_string(reports[0]), Contains("the loss itself"));
    CHECK_THAT(scaler.summary(), Contains("3 of 5 steps skipped (2 for the loss)"));
  }
  GradScaler plain({.init_scale = 64});
  Tensor p = parameter();
  optim::Sgd opt({p});
  plain.scale(full({}, nan_value));
  p.set_grad(full({4}, nan_value));
  plain.step(opt);
  plain.update();
  CHECK(plain.get_scale() == 32);  // PyTorch's rule
}

TEST_CASE("attempt computes a batch again at a lower scale until its step is executed", "[scaler]") {
  MANTISSA_PRINT_SEED();
  // Gradients above 100 after scaling simulate an overflow in f16.
  const auto train = [](double init_scale, int retries) {
    Tensor w = start_weight();
    optim::Sgd opt({w}, {.lr = 0.5});
    GradScaler scaler({.init_scale = init_scale});
    int runs = 0;
    for (std::uint64_t t = 0; t < 5; ++t) {
      scaler.attempt(retries, [&] {
        ++runs;
        opt.zero_grad();
        backward(scaler.scale(loss_of(w, t)));
        if (amax(abs(w.grad())).item() > 100) put(w.grad(), 0, inf);
        return scaler.step(opt);
      });
    }
    return std::pair{w.detach(), runs};
  };
  const auto [w, runs] = train(16, 0);
  CHECK(runs == 5);
  const auto [w_high, runs_high] = train(1 << 20, 30);
  CHECK(runs_high > 10);
  CHECK(same_bits(w_high, w));
  const auto [w_lost, runs_lost] = train(1 << 20, 0);
  CHECK(runs_lost == 5);
  CHECK(!same_bits(w_lost, w));
  GradScaler fixed({.static_scale = true});
  Tensor p = parameter();
  optim::Sgd opt({p});
  int count = 0;
  const amp::StepResult r = fixed.attempt(5, [&] {
    ++count;
    start(fixed);
    p.set_grad(full({4}, inf));
    return fixed.step(opt);
  });
  CHECK(r.skipped());
  CHECK(count == 1);
  CHECK_THROWS(fixed.attempt(-1, [&] { return fixed.step(opt); }));
}

TEST_CASE("G5: an f16 loss cannot carry a scale beyond f16", "[scaler][G5]") {
  const Tensor loss = ones({}, {.dtype = f16}).requires_grad_();
  GradScaler scaler, low({.init_scale = 1024, .max_scale = 32768});
  CHECK_THAT(message_of([&] { scaler.scale(loss); }), Contains("the loss is f16"));
  const Tensor scaled = low.scale(loss);
  CHECK(scaled.dtype() == f32);
  CHECK(scaled.item() == 1024);
  backward(scaled);
  CHECK(loss.grad().item() == 1024);
}

TEST_CASE("G42: with recheck a gradient spoiled after unscale_ skips the step", "[scaler][G42]") {
  Tensor p = parameter();
  optim::Sgd opt({p}, {.lr = 1});
  GradScaler scaler({.init_scale = 4, .recheck = true});
  for (double spoilt : {1.0, inf, nan_value}) {
    start(scaler);
    const double scale = scaler.get_scale();
    p.set_grad(ones({4}));
    scaler.unscale_(opt);
    put(p.grad(), 1, spoilt);
    const Tensor before = p.detach().clone();
    const bool skipped = scaler.step(opt).skipped();
    CHECK(skipped == (spoilt != 1.0));
    CHECK(same_bits(p.detach(), before) == skipped);
    scaler.update();
    CHECK(scaler.get_scale() == (skipped ? scale / 2 : scale));
  }
  REQUIRE(scaler.overflows().size() == 2);
  CHECK(scaler.overflows()[1].nans == 1);
}

TEST_CASE("check_gradients lists the gradients that are not finite", "[scaler]") {
  Tensor p = parameter({3}), q = parameter({5}, bf16), none = parameter();
  optim::Sgd opt(NamedTensors{{"p", p}, {"q", q}, {"none", none}});
  p.set_grad(full({3}, 2));
  q.set_grad(full({5}, 3, {.dtype = bf16}));
  CHECK(amp::check_gradients(opt).empty());
  put(q.grad(), 1, nan_value);
  put(q.grad(), 4, inf);
  const std::vector<amp::GradientReport> bad = amp::check_gradients(opt);
  REQUIRE(bad.size() == 1);
  CHECK(bad[0].parameter == "q");
  CHECK(bad[0].infs == 1);
  CHECK(bad[0].nans == 1);
  CHECK(bad[0].largest == 3);
  CHECK(bad[0].norm == Approx(std::sqrt(27.0)));
}

TEST_CASE("a pass may end in another thread than it began", "[scaler]") {
  Tensor p = parameter();
  optim::Sgd opt({p});
  GradScaler scaler({.init_scale = 2});
  start(scaler);
  p.set_grad(full({4}, 4));
  scaler.unscale_(opt);
  std::thread([&] {
    CHECK(optim::clip_grad_norm_({p}, inf).item() == 4);
    scaler.step(opt);
    scaler.update();
  }).join();
  p.set_grad(full({4}, 1));
  CHECK(optim::clip_grad_norm_({p}, inf).item() == 2);
}

TEST_CASE("a whole f16 iteration: an overflowed step is skipped and training goes on as without it", "[scaler]") {
  MANTISSA_PRINT_SEED();
  const auto train = [](int spoil) {
    Tensor w = start_weight();
    optim::Adam opt({w}, {.lr = 0.05});
    GradScaler scaler({.init_scale = 128, .growth_interval = 1});
    for (std::uint64_t t = 0; t < 6; ++t) {
      if (spoil < 0 && t == 3) continue;
      opt.zero_grad();
      const Tensor loss = amp::autocast(f16, [&] { return loss_of(w, t); });
      backward(scaler.scale(loss));
      if (static_cast<int>(t) == spoil) w.grad().as_strided({}, {}, 5).fill_(inf);
      scaler.step(opt);
      scaler.update();
    }
    CHECK(scaler.get_scale() == (spoil < 0 ? 128 * 32 : 128 * 16));
    return w.detach();
  };
  CHECK(difference(train(3), train(-1).to(f64), tolerance_for(f16)) == "");
}
