// GradScaler. Test names carry the numbers of the mixed-precision contract that they check. Gradients are set by hand
// where overflow handling is tested, and come from backward where values are.
#include <cmath>
#include <limits>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "core/ops.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/schedule.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::GradScaler;
using Catch::Matchers::Contains;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan_value = std::numeric_limits<double>::quiet_NaN();

Tensor parameter(const Dims& sizes = {4}, Dtype dtype = f32) { return ones(sizes, {.dtype = dtype}).requires_grad_(); }
// A scaler with initialized device tensors.
void start(GradScaler& scaler) { scaler.scale(ones({})); }

// One iteration with a clean or an overflowed gradient.
void iterate(GradScaler& scaler, optim::Optimizer& opt, Tensor p, bool overflow) {
  start(scaler);
  p.set_grad(full(p.sizes(), overflow ? inf : 1.0));
  scaler.step(opt);
  scaler.update();
}
double tracker_of(const GradScaler& scaler) {
  for (const auto& [name, t] : scaler.state_dict()) if (name == "_growth_tracker") return t.item<double>();
  return -1;
}

// A small regression; returns the loss of parameter `w`.
Tensor loss_of(const Tensor& w, std::uint64_t batch, std::int64_t rows = 6) {
  const Tensor x = random_tensor({rows, 4}, 10 + batch).to(f32), y = random_tensor({rows, 3}, 50 + batch).to(f32);
  return mse_loss(tanh(matmul(x, w)), y);
}
Tensor start_weight(std::uint64_t stream = 1) { return random_tensor({4, 3}, stream).to(f32).requires_grad_(); }

}  // namespace

TEST_CASE("G1: PyTorch's defaults", "[scaler]") {
  const GradScaler scaler;
  CHECK(scaler.get_scale() == 65536);
  CHECK(scaler.get_growth_factor() == 2);
  CHECK(scaler.get_backoff_factor() == 0.5);
  CHECK(scaler.get_growth_interval() == 2000);
  CHECK(scaler.is_enabled());
}

TEST_CASE("G2: arguments are validated, in the constructor and in setters", "[scaler]") {
  const auto message = [](amp::GradScalerOptions o) { return message_of([&] { GradScaler s(o); }); };
  CHECK_THAT(message({.growth_factor = 1}), Contains("growth_factor must be above 1"));
  CHECK_THAT(message({.backoff_factor = 1}), Contains("backoff_factor must be between 0 and 1"));
  CHECK_THAT(message({.backoff_factor = 0}), Contains("backoff_factor"));
  CHECK_THAT(message({.init_scale = 0}), Contains("positive and finite"));
  CHECK_THAT(message({.init_scale = 1e39}), Contains("finite in f32"));
  CHECK_THAT(message({.init_scale = nan_value}), Contains("positive and finite"));
  CHECK_THAT(message({.growth_interval = 0}), Contains("growth_interval must be at least 1"));
  CHECK(message({.growth_factor = 0.5, .backoff_factor = 2, .enabled = false}).empty());
  GradScaler scaler;
  CHECK_THROWS(scaler.set_growth_factor(0.5));
  CHECK_THROWS(scaler.set_backoff_factor(-1));
  CHECK_THROWS(scaler.set_growth_interval(0));
  scaler.set_growth_factor(3);
  CHECK(scaler.get_growth_factor() == 3);
}

TEST_CASE("G3: scale multiplies, differentiably, in containers too", "[scaler]") {
  GradScaler scaler({.init_scale = 4});
  Tensor x = full({}, 3).requires_grad_();
  const Tensor scaled = scaler.scale(x);
  CHECK(scaled.item() == 12);
  CHECK(scaler.get_scale() == 4);
  backward(scaled);
  CHECK(x.grad().item() == 4);
  const std::vector<std::vector<Tensor>> nested{{ones({2})}, {ones({}), ones({1})}};
  const auto list = scaler.scale(nested);
  REQUIRE(list[1].size() == 2);
  CHECK(same_bits(list[0][0], full({2}, 4)));
  CHECK(scaler.scale(std::array<Tensor, 1>{ones({})})[0].item() == 4);
  CHECK(scaler.scale(ones({}, {.dtype = f16})).dtype() == f32);
  CHECK(scaler.scale(ones({}, {.dtype = f64})).dtype() == f64);
  CHECK_THAT(message_of([&] { scaler.scale(tensor({1})); }), Contains("floating"));
}

TEST_CASE("a scaled loss keeps its factor when the scale changes before backward", "[scaler]") {
  GradScaler scaler({.init_scale = 8});
  Tensor p = parameter();
  const Tensor scaled = scaler.scale(p.sum());
  scaler.update(2.0);
  backward(scaled);
  CHECK(same_bits(p.grad(), full({4}, 8)));
}

TEST_CASE("G4: a disabled scaler passes everything through", "[scaler]") {
  GradScaler scaler({.enabled = false});
  Tensor p = parameter();
  optim::Sgd opt({p}, {.lr = 1});
  const Tensor loss = p.sum();
  CHECK(scaler.scale(loss).is_same(loss));
  p.set_grad(full({4}, inf));
  scaler.unscale_(opt);
  CHECK(!scaler.step(opt).skipped());
  scaler.update();
  CHECK(p.to_vector<float>()[0] == -std::numeric_limits<float>::infinity());
  CHECK(scaler.get_scale() == 1);
  CHECK(scaler.state_dict().empty());
  scaler.load_state_dict({});
}

TEST_CASE("G6: unscaling multiplies by the reciprocal rounded once to f32", "[scaler]") {
  for (double scale : {65536.0, 3.0, 0.1}) {
    GradScaler scaler({.init_scale = scale});
    Tensor p = parameter({1000});
    optim::Sgd opt({p});
    start(scaler);
    const Tensor g = random_tensor({1000}, 3).to(f32);
    p.set_grad(g.clone());
    scaler.unscale_(opt);
    const float inverse = static_cast<float>(1.0 / static_cast<double>(static_cast<float>(scale)));
    std::vector<float> expected = g.to_vector<float>();
    for (float& x : expected) x *= inverse;
    CHECK(same_bits(p.grad(), from_data<float>(expected, {1000})));
  }
}

TEST_CASE("G7 G13: inf and NaN are found at every position, in every dtype and layout", "[scaler]") {
  struct Case {
    Dims sizes;
    std::vector<std::int64_t> positions;
  };
  const std::vector<Case> cases{
      {{}, {0}}, {{1}, {0}}, {{70001}, {0, 7, 511, 512, 32767, 32768, 65535, 70000}}, {{5, 3}, {0, 4, 14}}};
  for (Dtype dtype : {f32, f64, bf16, f16}) {
    for (const Case& c : cases) {
      for (std::int64_t position : c.positions) {
        for (double bad : {inf, -inf, nan_value}) {
          GradScaler scaler({.init_scale = 2, .allow_f16_gradients = true});
          start(scaler);
          Tensor before = parameter({3}), p = parameter(c.sizes, dtype);
          optim::Sgd opt({before, p}, {.lr = 1});
          before.set_grad(ones({3}));
          Tensor g = ones({numel_of(c.sizes)}, {.dtype = dtype});
          g.as_strided({}, {}, position).fill_(bad);
          p.set_grad(c.sizes.rank() == 2 ? g.reshape({3, 5}).t() : g.reshape(c.sizes));
          INFO(describe(p) << " position " << position << " value " << bad);
          CHECK(scaler.step(opt).skipped());
          REQUIRE(same_bits(before.detach(), ones({3})));
        }
      }
    }
  }
}

TEST_CASE("G8: missing gradients are left out, mixed dtypes and layouts are unscaled", "[scaler]") {
  GradScaler scaler({.init_scale = 4});
  start(scaler);
  Tensor a = parameter({2, 3}), b = parameter({3}, f64), c = parameter({2}, bf16), none = parameter();
  optim::Sgd opt({a, none, b, c}, {.lr = 1});
  const Tensor strided = full({3, 2}, 4).t();
  a.set_grad(strided);
  b.set_grad(full({3}, 8, {.dtype = f64}));
  c.set_grad(full({2}, 2, {.dtype = bf16}));
  scaler.unscale_(opt);
  CHECK(same_bits(a.grad().clone(), ones({2, 3})));
  CHECK(same_bits(b.grad(), full({3}, 2, {.dtype = f64})));
  CHECK(same_bits(c.grad(), full({2}, 0.5, {.dtype = bf16})));
  CHECK(!none.grad().defined());
  CHECK(!scaler.step(opt).skipped());
}

TEST_CASE("G9 G31: per optimizer unscale_ once, then step once, until update", "[scaler]") {
  GradScaler scaler;
  start(scaler);
  Tensor p = parameter(), q = parameter();
  optim::Sgd a({p}), b({q});
  p.set_grad(ones({4}));
  q.set_grad(ones({4}));
  scaler.unscale_(a);
  CHECK_THAT(message_of([&] { scaler.unscale_(a); }), Contains("already called on optimizer 0"));
  scaler.unscale_(b);
  scaler.step(b);
  CHECK_THAT(message_of([&] { scaler.unscale_(b); }), Contains("after step() on optimizer 1"));
  CHECK_THAT(message_of([&] { scaler.step(b); }), Contains("already called on optimizer 1"));
  scaler.step(a);
  scaler.update();
  scaler.unscale_(b);
  scaler.step(b);
  scaler.step(a);
  scaler.update();
}

TEST_CASE("G10: nothing before scale, no update without a verdict", "[scaler]") {
  GradScaler scaler;
  Tensor p = parameter();
  p.set_grad(ones({4}));
  optim::Sgd opt({p});
  CHECK_THAT(message_of([&] { scaler.unscale_(opt); }), Contains("GradScaler.unscale_: nothing was scaled yet"));
  CHECK_THAT(message_of([&] { scaler.step(opt); }), Contains("GradScaler.step: nothing was scaled yet"));
  CHECK_THAT(message_of([&] { scaler.update(); }), Contains("GradScaler.update: nothing was scaled yet"));
  start(scaler);
  CHECK_THAT(message_of([&] { scaler.update(); }), Contains("no step() or unscale_()"));
}

TEST_CASE("G11: an optimizer without gradients is an error, or by option an empty step", "[scaler]") {
  GradScaler strict, lenient({.allow_empty_step = true});
  start(strict);
  start(lenient);
  Tensor p = parameter();
  optim::Sgd opt({p});
  CHECK_THAT(message_of([&] { strict.step(opt); }), Contains("optimizer 0 (SGD of parameter 0) has no gradients"));
  CHECK(!lenient.step(opt).skipped());
  lenient.update();
  CHECK(tracker_of(lenient) == 1);
}

TEST_CASE("G12: f16 gradients are refused by the parameter's name, unless allowed", "[scaler]") {
  Tensor p = parameter({2}, f16);
  optim::Sgd opt(NamedTensors{{"head.weight", p}}, {.lr = 1});
  p.set_grad(full({2}, 4, {.dtype = f16}));
  GradScaler strict({.init_scale = 4}), allowed({.init_scale = 4, .allow_f16_gradients = true});
  start(strict);
  start(allowed);
  CHECK_THAT(message_of([&] { strict.step(opt); }), Contains("head.weight") && Contains("f16"));
  CHECK(same_bits(p.grad(), full({2}, 4, {.dtype = f16})));
  CHECK(!allowed.step(opt).skipped());
  CHECK(same_bits(p.detach(), zeros({2}, {.dtype = f16})));
}

TEST_CASE("G15: a gradient that overflows by unscaling is found", "[scaler]") {
  for (double scale : {0x1p-120, 0x1p-126}) {
    GradScaler scaler({.init_scale = scale});
    start(scaler);
    Tensor p = parameter();
    optim::Sgd opt({p});
    p.set_grad(full({4}, 65504));
    CHECK(scaler.step(opt).skipped());
    CHECK(same_bits(p.detach(), ones({4})));
  }
}

TEST_CASE("G17: scaled training equals unscaled training bitwise, for powers of two", "[scaler]") {
  MANTISSA_PRINT_SEED();
  const auto train = [](bool scaled, auto make) {
    Tensor w = start_weight();
    auto opt = make(w);
    GradScaler scaler({.init_scale = 1024, .growth_interval = 2});
    for (std::uint64_t step = 0; step < 8; ++step) {
      const Tensor loss = loss_of(w, step);
      opt->zero_grad();
      if (scaled) {
        backward(scaler.scale(loss));
        scaler.step(*opt);
        scaler.update();
      } else {
        backward(loss);
        opt->step();
      }
    }
    if (scaled) CHECK(scaler.get_scale() == 1024 * 16);
    return w.detach();
  };
  const auto sgd = [](const Tensor& w) {
    return std::make_unique<optim::Sgd>(optim::Parameters{w}, optim::SgdOptions{.lr = 0.1, .momentum = 0.9});
  };
  const auto adam = [](const Tensor& w) {
    return std::make_unique<optim::AdamW>(optim::Parameters{w}, optim::AdamWOptions{.lr = 0.1, .amsgrad = true});
  };
  CHECK(same_bits(train(true, sgd), train(false, sgd)));
  CHECK(same_bits(train(true, adam), train(false, adam)));
}

TEST_CASE("G18: a skipped step changes no bit of parameters, state, step counts or shadows", "[scaler]") {
  MANTISSA_PRINT_SEED();
  Tensor w = start_weight(), v = parameter({3});
  optim::Adam opt({w, v}, {.lr = 0.1, .amsgrad = true});
  GradScaler scaler({.init_scale = 16});
  const Tensor x = random_tensor({2, 4}, 9).to(f16);
  const auto forward = [&] { return amp::autocast(f16, [&] { return matmul(x, w); }); };
  const auto step = [&](double bad) {
    start(scaler);
    forward();
    w.set_grad(random_tensor({4, 3}, 11).to(f32));
    Tensor g = ones({3});
    g.as_strided({}, {}, 2).fill_(bad);
    v.set_grad(g);
    const amp::StepResult r = scaler.step(opt);
    scaler.update();
    return r.skipped();
  };
  CHECK(!step(1));
  const Tensor w_before = w.detach().clone(), v_before = v.detach().clone(),
               shadow_before = amp::shadow(w, f16).detach().clone();
  const NamedTensors state = opt.state_dict();
  for (double bad : {inf, nan_value}) {
    CHECK(step(bad));
    CHECK(same_bits(w.detach(), w_before));
    CHECK(same_bits(v.detach(), v_before));
    const std::uint64_t casts = amp::cast_count();
    CHECK(same_bits(amp::shadow(w, f16).detach(), shadow_before));
    CHECK(amp::cast_count() == casts);
    const NamedTensors after = opt.state_dict();
    for (std::size_t i = 0; i < state.size(); ++i) {
      INFO(state[i].first);
      CHECK(same_bits(after[i].second, state[i].second));
    }
  }
  CHECK(!step(1));
  CHECK(!same_bits(w.detach(), w_before));
}

TEST_CASE("G19 G30: of two optimizers only the overflowed one is skipped, and the scale backs off once", "[scaler]") {
  GradScaler scaler({.init_scale = 64});
  start(scaler);
  Tensor p = parameter(), q = parameter();
  optim::Sgd a({p}, {.lr = 1}), b({q}, {.lr = 1});
  p.set_grad(full({4}, inf));
  q.set_grad(full({4}, 64));
  CHECK(scaler.step(a).skipped());
  CHECK(!scaler.step(b).skipped());
  scaler.update();
  CHECK(same_bits(p.detach(), ones({4})));
  CHECK(same_bits(q.detach(), zeros({4})));
  CHECK(scaler.get_scale() == 32);
  start(scaler);
  p.set_grad(full({4}, inf));
  q.set_grad(full({4}, inf));
  scaler.step(a);
  scaler.step(b);
  scaler.update();
  CHECK(scaler.get_scale() == 16);
  iterate(scaler, a, p, false);
  CHECK(tracker_of(scaler) == 1);
}

TEST_CASE("G22: with and without unscale_ before step the result is the same", "[scaler]") {
  MANTISSA_PRINT_SEED();
  const auto train = [](bool unscale) {
    Tensor w = start_weight();
    optim::Adam opt({w}, {.lr = 0.1, .weight_decay = 0.1, .amsgrad = true, .maximize = true});
    GradScaler scaler;
    for (std::uint64_t t = 0; t < 4; ++t) {
      opt.zero_grad();
      backward(scaler.scale(loss_of(w, t)));
      if (unscale) scaler.unscale_(opt);
      scaler.step(opt);
      scaler.update();
    }
    return std::pair{w.detach(), w.grad()};
  };
  const auto [w1, g1] = train(true);
  const auto [w2, g2] = train(false);
  CHECK(same_bits(w1, w2));
  CHECK(same_bits(g1, g2));
}

TEST_CASE("G23: a schedule gated by the result advances once per executed step", "[scaler]") {
  GradScaler scaler({.init_scale = 4});
  Tensor p = parameter();
  optim::Sgd opt({p}, {.lr = 1});
  optim::Scheduler schedule(opt, optim::StepLR{.step_size = 1, .gamma = 0.5});
  for (bool overflow : {false, true, true, false}) {
    start(scaler);
    p.set_grad(full({4}, overflow ? inf : 0.0));
    schedule.step(scaler.step(opt));
    scaler.update();
  }
  CHECK(schedule.current_step() == 2);
  CHECK(opt.lr() == 0.25);
}

TEST_CASE("G25 G26 G27: growth after clean iterations in a row, backoff at once", "[scaler]") {
  const auto trace = [](amp::GradScalerOptions o, const std::vector<bool>& overflows) {
    GradScaler scaler(o);
    Tensor p = parameter();
    optim::Sgd opt({p});
    std::vector<double> scales, trackers;
    for (bool overflow : overflows) {
      iterate(scaler, opt, p, overflow);
      scales.push_back(scaler.get_scale());
      trackers.push_back(tracker_of(scaler));
    }
    return std::pair{scales, trackers};
  };
  using V = std::vector<double>;
  const auto a = trace({.init_scale = 4, .backoff_factor = 0.25, .growth_interval = 2}, {false, false, true});
  CHECK(a.first == V{4, 8, 2});
  CHECK(a.second == V{1, 0, 0});
  const auto b = trace({.init_scale = 4, .growth_interval = 2}, {false, true, false, true});
  CHECK(b.first == V{4, 2, 2, 1});
  CHECK(b.second == V{1, 0, 1, 0});
  const auto c = trace({.init_scale = 4, .growth_interval = 3}, {false, false, true, false, false, false});
  CHECK(c.first == V{4, 4, 2, 2, 2, 4});
}

TEST_CASE("G28: a scale that would not be finite does not grow", "[scaler]") {
  GradScaler scaler({.init_scale = 0x1p127, .growth_interval = 1});
  Tensor p = parameter();
  optim::Sgd opt({p});
  iterate(scaler, opt, p, false);
  CHECK(scaler.get_scale() == 0x1p127);
  CHECK(tracker_of(scaler) == 0);
}

TEST_CASE("G29: update(new scale) from numbers and tensors", "[scaler]") {
  GradScaler scaler;
  start(scaler);
  scaler.update(3.5);
  CHECK(scaler.get_scale() == 3.5);
  scaler.update(8);
  CHECK(scaler.get_scale() == 8);
  Tensor s = full({1}, 16);
  scaler.update(s);
  s.fill_(1);
  CHECK(scaler.get_scale() == 16);
  for (double bad : {0.0, -1.0, inf, nan_value}) {
    CHECK_THROWS(scaler.update(bad));
    CHECK_THROWS(scaler.update(full({}, bad)));
  }
  CHECK_THROWS(scaler.update(ones({2})));
  CHECK_THROWS(scaler.update(tensor({1})));
  CHECK_THROWS(scaler.update(parameter({1})));
  CHECK(scaler.get_scale() == 16);
}

TEST_CASE("G35: an interval lowered below the tracker grows at the next clean step", "[scaler]") {
  GradScaler scaler({.init_scale = 4, .growth_interval = 100});
  Tensor p = parameter();
  optim::Sgd opt({p});
  for (int i = 0; i < 5; ++i) iterate(scaler, opt, p, false);
  scaler.set_growth_interval(3);
  iterate(scaler, opt, p, false);
  CHECK(scaler.get_scale() == 8);
  CHECK(tracker_of(scaler) == 0);
}

TEST_CASE("G37: accumulating microbatches equals the large batch", "[scaler]") {
  MANTISSA_PRINT_SEED();
  constexpr std::uint64_t parts = 4;
  const auto train = [](bool accumulate) {
    Tensor w = start_weight();
    optim::Sgd opt({w}, {.lr = 0.5});
    GradScaler scaler({.init_scale = 256});
    if (accumulate) {
      for (std::uint64_t k = 0; k < parts; ++k) backward(scaler.scale(loss_of(w, k) / static_cast<double>(parts)));
    } else {
      Tensor total = loss_of(w, 0);
      for (std::uint64_t k = 1; k < parts; ++k) total = total + loss_of(w, k);
      backward(scaler.scale(total / static_cast<double>(parts)));
    }
    scaler.step(opt);
    scaler.update();
    return w.detach();
  };
  CHECK(difference(train(true), train(false).to(f64), tolerance_for(f32, parts)) == "");
}

TEST_CASE("G38: clipping after unscale_ equals clipping at max_norm * scale and the unscaled control", "[scaler]") {
  MANTISSA_PRINT_SEED();
  enum Recipe { unscaled, separate, at_scaled_norm };
  constexpr double max_norm = 0.05, scale = 128;
  const auto train = [&](Recipe recipe) {
    Tensor w = start_weight();
    optim::Sgd opt({w}, {.lr = 0.5, .momentum = 0.9});
    GradScaler scaler({.init_scale = scale});
    for (std::uint64_t t = 0; t < 4; ++t) {
      opt.zero_grad();
      const Tensor loss = loss_of(w, t);
      backward(recipe == unscaled ? loss : scaler.scale(loss));
      if (recipe == separate) scaler.unscale_(opt);
      const Tensor norm = optim::clip_grad_norm_({w}, recipe == at_scaled_norm ? max_norm * scale : max_norm,
                                                  {.scaled = recipe == at_scaled_norm});
      CHECK(norm.item() > (recipe == at_scaled_norm ? max_norm * scale : max_norm));
      if (recipe == unscaled) {
        opt.step();
      } else {
        scaler.step(opt);
        scaler.update();
      }
    }
    return w.detach();
  };
  CHECK(same_bits(train(separate), train(unscaled)));
  // the 1e-6 in the factor differs
  CHECK(difference(train(at_scaled_norm), train(unscaled).to(f64), {1e-5, 1e-5}) == "");
}

TEST_CASE("clipping works with several optimizers", "[scaler]") {
  GradScaler scaler({.init_scale = 4});
  start(scaler);
  Tensor p = parameter({1}), q = parameter({1});
  optim::Sgd a({p}, {.lr = 1}), b({q}, {.lr = 1});
  p.set_grad(full({1}, 12));
  q.set_grad(full({1}, 16));
  scaler.unscale_(a);
  scaler.unscale_(b);
  CHECK(optim::clip_grad_norm_({p, q}, 1).item() == 5);
  scaler.step(a);
  scaler.step(b);
  scaler.update();
  CHECK(p.item<double>() == Approx(1 - 0.6).epsilon(1e-5));
  CHECK(q.item<double>() == Approx(1 - 0.8).epsilon(1e-5));
}

TEST_CASE("G39: the gradient-penalty recipe equals the unscaled control", "[scaler]") {
  MANTISSA_PRINT_SEED();
  const auto train = [](bool scaled) {
    Tensor w = start_weight();
    optim::Sgd opt({w}, {.lr = 0.5});
    GradScaler scaler({.init_scale = 512});
    const Tensor loss = loss_of(w, 3);
    Tensor g = grad(scaled ? scaler.scale(loss) : loss, {w}, {.create_graph = true})[0];
    if (scaled) g = g * (1 / scaler.get_scale());
    const Tensor total = loss + square(g).sum();
    backward(scaled ? scaler.scale(total) : total);
    if (scaled) scaler.step(opt);
    else opt.step();
    return w.detach();
  };
  CHECK(same_bits(train(true), train(false)));
}

TEST_CASE("G40: a state round trip resumes the same sequence of scales", "[scaler]") {
  const amp::GradScalerOptions o{.init_scale = 4, .growth_factor = 4, .backoff_factor = 0.25, .growth_interval = 3};
  Tensor p = parameter();
  optim::Sgd opt({p});
  GradScaler a(o), fresh;
  fresh.load_state_dict(GradScaler(o).state_dict());  // before first use
  CHECK(fresh.get_scale() == 4);
  CHECK(fresh.get_growth_interval() == 3);
  for (bool overflow : {false, true, false, false}) iterate(a, opt, p, overflow);
  GradScaler b, used;
  start(used);
  b.load_state_dict(a.state_dict());
  used.load_state_dict(a.state_dict());
  for (bool overflow : {false, false, true, false, false, false}) {
    iterate(a, opt, p, overflow);
    iterate(b, opt, p, overflow);
    iterate(used, opt, p, overflow);
    CHECK(b.get_scale() == a.get_scale());
    CHECK(used.get_scale() == a.get_scale());
    CHECK(tracker_of(b) == tracker_of(a));
  }
  std::vector<std::string> keys;
  for (const auto& entry : a.state_dict()) keys.push_back(entry.first);
  CHECK(keys ==
        std::vector<std::string>{"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"});
}

TEST_CASE("G40: a bad state is refused and changes nothing", "[scaler]") {
  GradScaler scaler({.init_scale = 4});
  const auto state = scaler.state_dict();
  CHECK_THAT(message_of([&] { scaler.load_state_dict({}); }), Contains("empty"));
  auto missing = state;
  missing.erase(missing.begin() + 1);
  CHECK_THAT(message_of([&] { scaler.load_state_dict(missing); }), Contains("needs \"growth_factor\""));
  auto extra = state;
  extra.emplace_back("version", scalar(9));
  CHECK_THAT(message_of([&] { scaler.load_state_dict(extra); }), Contains("later version"));
  for (std::size_t k = 0; k < state.size(); ++k) {
    auto bad = state;
    bad[k].second = scalar(-1, {.dtype = f64});
    INFO(state[k].first);
    CHECK_THROWS(scaler.load_state_dict(bad));
  }
  CHECK(scaler.get_scale() == 4);
  CHECK(scaler.get_growth_interval() == 2000);
}

TEST_CASE("G41: in the middle of an iteration a scaler is neither copied nor saved", "[scaler]") {
  GradScaler scaler({.init_scale = 4});
  start(scaler);
  Tensor p = parameter();
  optim::Sgd opt({p});
  p.set_grad(ones({4}));
  scaler.unscale_(opt);
  CHECK_THAT(message_of([&] { GradScaler copy(scaler); }), Contains("middle of an iteration"));
  CHECK_THAT(message_of([&] { scaler.state_dict(); }), Contains("middle of an iteration"));
  scaler.step(opt);
  scaler.update();
  GradScaler copy(scaler);
  scaler.update(2.0);
  CHECK(copy.get_scale() == 4);
}

TEST_CASE("G42: a gradient spoiled after unscale_ is not checked again", "[scaler]") {
  GradScaler scaler({.init_scale = 4});
  start(scaler);
  Tensor p = parameter();
  optim::Sgd opt({p}, {.lr = 1});
  p.set_grad(ones({4}));
  scaler.unscale_(opt);
  p.grad().fill_(nan_value);
  CHECK(!scaler.step(opt).skipped());
  CHECK(std::isnan(p.to_vector<float>()[0]));
}
