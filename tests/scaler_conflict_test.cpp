// The loss scaler's handling of inconsistent calls: the source line of each call in the message, gradients of different
// scales in one sum, gradients unscaled too early, twice or by another scaler, parameters on several devices, and how
// to continue after an error. Next: tests/scaler_test.cpp.
#include <cmath>
#include <limits>

#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "core/host_reads.h"
#include "core/ops.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::GradScaler;
using Catch::Matchers::Contains;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

Tensor parameter(const Dims& sizes = {4}, Device device = cpu) {
  return ones(sizes, {.device = device}).requires_grad_();
}
NamedTensors named(const char* name, const Tensor& p) { return {{name, p}}; }
// How errors name the line `up` lines above.
std::string above(int up, int line) { return concat("scaler_conflict_test.cpp:", line - up); }

}  // namespace

TEST_CASE("G9: errors name optimizer, first parameter and the lines of both calls", "[scaler][G9]") {
  GradScaler scaler;
  Tensor p = parameter(), q = parameter(), r = parameter();
  optim::Adam a(NamedTensors{{"fc1.weight", p}, {"fc1.bias", r}});
  optim::Sgd b(named("head", q));
  backward(scaler.scale(sum(p + q + r)));
  scaler.unscale_(a);
  const std::string twice = message_of([&] { scaler.unscale_(a); });
  CHECK_THAT(twice, Contains("optimizer 0 (Adam of fc1.weight and 1 more)"));
  CHECK_THAT(twice, Contains(above(3, __LINE__)) && Contains(above(2, __LINE__)));
  scaler.step(b);
  const std::string again = message_of([&] { scaler.step(b); });
  CHECK_THAT(again, Contains("optimizer 1 (SGD of head)"));
  CHECK_THAT(again, Contains(above(3, __LINE__)) && Contains(above(2, __LINE__)));
  const std::string late = message_of([&] { scaler.unscale_(b); });
  CHECK_THAT(late, Contains("after step()"));
  CHECK_THAT(late, Contains(above(6, __LINE__)) && Contains(above(2, __LINE__)));
  CHECK_THAT(message_of([&] { GradScaler copy(scaler); }), Contains("optimizer 0") && Contains(above(11, __LINE__)));
  scaler.step(a);
  scaler.update();
  CHECK_THAT(message_of([&] { scaler.update(); }), Contains(above(0, __LINE__)));
}

TEST_CASE("a scaled gradient is neither clipped nor stepped with by those who take it for the true one", "[scaler]") {
  GradScaler scaler;
  Tensor p = parameter();
  optim::Sgd opt(named("w", p), {.lr = 1});
  const auto clip = [&] { optim::clip_grad_norm_(opt.parameters(), 1); };
  const auto scaled = [&] {
    opt.zero_grad();
    backward(scaler.scale(p.sum()));
  };
  scaled();
  CHECK_THAT(message_of(clip),
             Contains("clip_grad_norm_: the gradient of parameter 0") && Contains("scaler.unscale_(optimizer)"));
  CHECK_THAT(message_of([&] { optim::clip_grad_value_(named("w", p), 1); }),
             Contains("clip_grad_value_: the gradient of w"));
  CHECK_THAT(message_of([&] { opt.step(); }),
             Contains("SGD.step: the gradient of w") && Contains("scaler.step(optimizer)"));
  CHECK(p.grad()[0].item() == 65536);
  CHECK(p.detach()[0].item() == 1);
  optim::clip_grad_norm_(opt.parameters(), inf);  // only looks
  scaler.unscale_(opt);
  clip();
  opt.step();
  scaler.update();
  scaled();
  scaler.step(opt);  // the gradients are unscaled when requested
  clip();
  scaler.update();
  scaled();
  p.grad().mul_(1.0 / 65536);  // by hand
  clip();
  opt.step();
  amp::GradScaler off({.enabled = false});
  opt.zero_grad();
  backward(off.scale(p.sum()));
  clip();
  opt.step();
}

TEST_CASE("G37: a scale changed between the backward passes of a window is refused, by parameter and lines",
          "[scaler][G37]") {
  GradScaler scaler({.init_scale = 8});
  Tensor p = parameter();
  optim::Sgd opt(named("w", p), {.lr = 1});
  backward(scaler.scale(p.sum()));
  scaler.update(2.0);
  backward(scaler.scale(p.sum()));
  const std::string message = message_of([&] { scaler.step(opt); });
  CHECK_THAT(message, Contains("gradient of w mixes losses scaled by 8") && Contains("update(new_scale)"));
  CHECK_THAT(message, Contains(above(5, __LINE__)) && Contains(above(4, __LINE__)) && Contains(above(3, __LINE__)));
  CHECK(same_bits(p.grad(), full({4}, 10)));  // nothing has happened
  CHECK(same_bits(p.detach(), ones({4})));
  opt.zero_grad();
  backward(scaler.scale(p.sum()));
  CHECK(!scaler.step(opt).skipped());
  CHECK(same_bits(p.detach(), zeros({4})));
}

TEST_CASE("G37: a gradient is divided by the scale its loss had, whatever the scale is now", "[scaler][G37]") {
  for (int when : {0, 1}) {  // the scale changes before, or after the backward pass
    GradScaler scaler({.init_scale = 8});
    Tensor p = parameter();
    optim::Sgd opt({p}, {.lr = 1});
    const amp::ScaledLoss scaled = scaler.scale(p.sum());
    if (when == 0) scaler.update(2.0);
    backward(scaled);
    if (when == 1) scaler.update(2.0);
    CHECK(same_bits(p.grad(), full({4}, 8)));
    CHECK(!scaler.step(opt).skipped());
    CHECK(same_bits(p.grad(), ones({4})));
    CHECK(same_bits(p.detach(), zeros({4})));
    scaler.update();
    CHECK(scaler.get_scale() == 2);
  }
}

TEST_CASE("G37: windows of different length: gradients over an update are one sum while the scale stays",
          "[scaler][G37]") {
  GradScaler scaler({.init_scale = 8, .growth_interval = 3});
  Tensor p = parameter(), q = parameter();
  optim::Sgd each(named("p", p), {.lr = 1}), second(named("q", q), {.lr = 1});
  const auto iteration = [&] {
    each.zero_grad();
    backward(scaler.scale(p.sum() + q.sum()));
    scaler.step(each);
  };
  iteration();
  scaler.update();
  iteration();
  CHECK(!scaler.step(second).skipped());  // 8 + 8, divided by 8
  CHECK(same_bits(q.detach(), full({4}, -1)));
  scaler.update();
  second.zero_grad();
  iteration();
  scaler.update();
  CHECK(scaler.get_scale() == 16);
  iteration();
  CHECK_THAT(message_of([&] { scaler.step(second); }),
             Contains("gradient of q mixes losses scaled by 8") && Contains("by 16") && Contains("update()"));
}

TEST_CASE("G37: unscaling before the window ends is refused at step", "[scaler][G37]") {
  GradScaler scaler({.init_scale = 8});
  Tensor p = parameter(), late = parameter();
  optim::Sgd opt(NamedTensors{{"w", p}, {"late", late}}, {.lr = 1});
  backward(scaler.scale(p.sum()));
  scaler.unscale_(opt);
  backward(scaler.scale(p.sum()));
  const std::string message = message_of([&] { scaler.step(opt); });
  CHECK_THAT(message, Contains("gradient of w was given a scaled part"));
  CHECK_THAT(message, Contains(above(3, __LINE__)) && Contains(above(4, __LINE__)));
  CHECK(same_bits(p.detach(), ones({4})));
  scaler.discard();
  opt.zero_grad();
  backward(scaler.scale(p.sum()));
  scaler.unscale_(opt);
  backward(scaler.scale(late.sum()));  // the first gradient of `late` comes too late
  CHECK_THAT(message_of([&] { scaler.step(opt); }), Contains("gradient of late was given a scaled part"));
  scaler.discard();
  opt.zero_grad();
  backward(scaler.scale(p.sum()));
  scaler.unscale_(opt);
  optim::clip_grad_norm_({p}, 1);
  backward(scaler.scale(p.sum()));  // also when clipping came in between
  CHECK_THAT(message_of([&] { scaler.step(opt); }), Contains("gradient of w was given a scaled part"));
}

TEST_CASE("G37: gradients left from an earlier iteration are refused", "[scaler][G37]") {
  GradScaler scaler({.init_scale = 8});
  Tensor p = parameter();
  optim::Sgd opt(named("w", p), {.lr = 1});
  const auto backward_and_step = [&] {
    backward(scaler.scale(p.sum()));
    scaler.step(opt);
    scaler.update();
  };
  backward_and_step();
  CHECK_THAT(message_of(backward_and_step),
             Contains("gradient of w still holds what was unscaled at") && Contains("zero_grad()"));
  scaler.discard();
  opt.zero_grad();
  backward_and_step();
  // no backward at all
  CHECK_THAT(message_of([&] { scaler.step(opt); }), Contains("in an earlier iteration; call zero_grad()"));
  for (bool set_to_none : {false, true}) {
    scaler.discard();
    opt.zero_grad(set_to_none);
    backward_and_step();
  }
  p.grad().fill_(0);  // by hand is as good
  backward_and_step();
  CHECK(same_bits(p.detach(), full({4}, -4)));
}

TEST_CASE("a parameter of two optimizers is not unscaled twice", "[scaler]") {
  GradScaler scaler({.init_scale = 8});
  Tensor p = parameter();
  optim::Sgd a(named("w", p)), b(named("w", p));
  backward(scaler.scale(p.sum()));
  scaler.step(a);
  const std::string message = message_of([&] { scaler.step(b); });
  CHECK_THAT(message, Contains("gradient of w was already unscaled") && Contains(above(2, __LINE__)));
  CHECK_THAT(message, Contains("two optimizers"));
  CHECK(same_bits(p.grad(), ones({4})));
  a.zero_grad();
  backward(scaler.scale(p.sum()));
  CHECK(!scaler.step(b).skipped());
  scaler.update();
}

TEST_CASE("gradients of another scaler are refused", "[scaler]") {
  GradScaler mine({.init_scale = 8}), other({.init_scale = 4});
  Tensor p = parameter(), q = parameter();
  optim::Sgd opt(named("w", p));
  backward(other.scale(p.sum()));
  mine.scale(q.sum());
  CHECK_THAT(message_of([&] { mine.step(opt); }),
             Contains("gradient of w comes from a loss that another GradScaler has scaled"));
  CHECK(!other.step(opt).skipped());
  CHECK(same_bits(p.grad(), ones({4})));
}

TEST_CASE("gradients set by hand, and losses that were not scaled, are taken as PyTorch takes them", "[scaler]") {
  GradScaler scaler({.init_scale = 8});
  Tensor p = parameter();
  optim::Sgd opt({p}, {.lr = 1});
  backward(scaler.scale(p.sum()));
  backward(p.sum() * 8.0);  // scaled by the user
  scaler.step(opt);
  CHECK(same_bits(p.grad(), full({4}, 2)));
  scaler.update();
  p.set_grad(full({4}, 16));
  scaler.step(opt);
  CHECK(same_bits(p.grad(), full({4}, 2)));
  scaler.update();
}

TEST_CASE("after an error in mid-iteration discard() starts anew and counts nothing", "[scaler]") {
  GradScaler scaler({.init_scale = 8});
  Tensor p = parameter();
  optim::Sgd opt({p}, {.lr = 1});
  backward(scaler.scale(p.sum()));
  p.grad().fill_(inf);
  scaler.unscale_(opt);
  CHECK_THROWS(scaler.unscale_(opt));
  scaler.discard();
  CHECK(scaler.get_scale() == 8);
  CHECK(scaler.total_updates() == 0);
  CHECK_THAT(message_of([&] { scaler.update(); }), Contains("no step()"));
  opt.zero_grad();
  backward(scaler.scale(p.sum()));
  CHECK(!scaler.step(opt).skipped());
  scaler.update();
  CHECK(scaler.get_scale() == 8);
}

TEST_CASE("a failed step leaves gradients unscaled once, and can be repeated", "[scaler]") {
  struct Failing final : amp::Steppable {
    std::vector<Tensor> parameters() const override { return {p}; }
    std::string parameter_name(std::size_t) const override { return "p"; }
    void step_unless(const Tensor&) override { if (fails) throw Error("out of luck"); }
    Tensor p = ones({4}).requires_grad_();
    bool fails = true;
  } opt;
  GradScaler scaler({.init_scale = 8});
  backward(scaler.scale(opt.p.sum()));
  CHECK_THAT(message_of([&] { scaler.step(opt); }), Contains("out of luck"));
  opt.fails = false;
  CHECK(!scaler.step(opt).skipped());
  CHECK(same_bits(opt.p.grad(), ones({4})));
  scaler.update();
}

TEST_CASE("an optimizer without gradients is named; the others of the iteration go on", "[scaler][G11]") {
  GradScaler scaler({.init_scale = 8});
  Tensor p = parameter(), unused = parameter();
  optim::Sgd a(named("p", p)), b(named("unused", unused));
  backward(scaler.scale(p.sum()));
  const std::string message = message_of([&] { scaler.step(b); });
  CHECK_THAT(message, Contains("(SGD of unused) has no gradients at") && Contains(above(1, __LINE__)));
  scaler.step(a);
  scaler.update();
  GradScaler copy(scaler);
  CHECK(copy.get_scale() == 8);
}

TEST_CASE("G20: an optimizer with parameters on two devices is skipped as a whole", "[scaler][G20]") {
  const Device first = cpu, second = cpu(1);
  for (int bits = 0; bits < 4; ++bits) {
    GradScaler scaler({.init_scale = 8});
    Tensor p = parameter({3}, first), q = parameter({5}, second);
    optim::Sgd opt({p}, {.lr = 1});
    opt.add_group({q}, {.lr = 1});
    const auto [a, b] = scaler.scale(std::pair{p.sum(), q.sum()});
    REQUIRE(a.device() == first);
    REQUIRE(b.device() == second);
    backward(a);
    backward(b);
    if (bits & 1) p.grad().as_strided({}, {}, 2).fill_(inf);
    if (bits & 2) q.grad().as_strided({}, {}, 4).fill_(std::nan(""));
    const std::uint64_t reads = host_reads();
    const amp::StepResult r = scaler.step(opt);
    scaler.update();
    CHECK(host_reads() == reads);
    CHECK(r.skipped() == (bits != 0));
    CHECK(r.gradients().infs == (bits & 1));
    CHECK(r.gradients().nans == (bits >> 1));
    CHECK(r.gradients().first_bad == (bits == 0 ? -1 : bits == 2 ? 1 : 0));
    CHECK(same_bits(p.detach(), full({3}, bits == 0 ? 0 : 1)));
    CHECK(same_bits(q.detach(), full({5}, bits == 0 ? 0 : 1, {.device = second})));
    CHECK(scaler.get_scale() == (bits == 0 ? 8 : 4));
    if (bits == 0) CHECK(r.gradients().norm == Approx(std::sqrt(8.0)));
  }
}

TEST_CASE("G20: two optimizers on two devices, with unscale_ and recheck", "[scaler][G20]") {
  const Device second = cpu(1);
  for (bool recheck : {false, true}) {
    GradScaler scaler({.init_scale = 8, .recheck = recheck});
    Tensor p = parameter({3}), q = parameter({5}, second);
    optim::Sgd a({p}, {.lr = 1}), b({q}, {.lr = 1});
    backward(scaler.scale(p.sum()));
    backward(scaler.scale(q.sum()));
    scaler.unscale_(a);
    scaler.unscale_(b);
    CHECK(optim::clip_grad_norm_({q}, inf).item() == Approx(std::sqrt(5.0)));
    q.grad().fill_(inf);
    CHECK(!scaler.step(a).skipped());
    CHECK(scaler.step(b).skipped() == recheck);
    scaler.update();
    CHECK(scaler.get_scale() == (recheck ? 4 : 8));
  }
}

TEST_CASE("G21: step returns whether it was skipped, and takes no closure in any position", "[scaler][G21]") {
  const auto accepts = []<class... A>(A&&...) {
    return requires(GradScaler& s, optim::Sgd& o, A... a) { s.step(o, a...); };
  };
  const auto closure = [] { return ones({}); };
  CHECK(accepts());
  CHECK(!accepts(closure));
  CHECK(!accepts(amp::CallSite::current(), closure));
  GradScaler scaler({.init_scale = 8});
  Tensor p = parameter();
  optim::Sgd opt({p});
  for (bool overflow : {false, true}) {
    opt.zero_grad();
    backward(scaler.scale(p.sum()));
    if (overflow) p.grad().fill_(inf);
    CHECK(scaler.step(opt).skipped() == overflow);
    scaler.update();
  }
}

TEST_CASE("G5: the value of a scaled loss is the loss, also after the scale has changed", "[scaler][G5]") {
  GradScaler scaler({.init_scale = 8}), off({.enabled = false});
  Tensor p = parameter();
  const Tensor loss = p.sum();
  const amp::ScaledLoss scaled = scaler.scale(loss);
  CHECK(scaled.item() == 32);
  scaler.update(2.0);
  CHECK(scaled.value().item() == 4);
  CHECK(!scaled.value().requires_grad());
  CHECK(off.scale(loss).value().item() == 4);
  CHECK(off.scale(loss).is_same(loss));
}

TEST_CASE("optimizers, parameters and gradients that come later, are empty or zero", "[scaler]") {
  GradScaler scaler({.init_scale = 8});
  Tensor p = parameter(), empty_one = parameter({0}), later = parameter();
  optim::Sgd first(NamedTensors{{"p", p}, {"empty", empty_one}}, {.lr = 1});
  backward(scaler.scale(p.sum() + empty_one.sum()));
  CHECK(empty_one.grad().defined());
  CHECK(!scaler.step(first).skipped());
  scaler.update();
  first.add_group(optim::Parameters(named("later", later)), {.lr = 1});  // a group after the first step
  first.zero_grad();
  backward(scaler.scale(p.sum() + later.sum()));
  later.grad().fill_(inf);
  CHECK(scaler.step(first).skipped());
  scaler.update();
  REQUIRE(scaler.overflows().size() == 1);
  CHECK(scaler.overflows()[0].parameter == "later");
  {
    Tensor q = parameter();
    optim::Adam second(named("q", q), {.lr = 1});  // an optimizer after some updates, gone before the report is read
    backward(scaler.scale((q * 0.0).sum()));
    const amp::StepResult r = scaler.step(second);
    CHECK(!r.skipped());
    CHECK(r.gradients().norm == 0);
    CHECK(same_bits(q.detach(), ones({4})));  // a gradient of zero is a step like any other
    scaler.update();
    q.grad().fill_(inf);
    scaler.scale(ones({}));
    CHECK(scaler.step(second).skipped());
    scaler.update();
  }
  REQUIRE(scaler.overflows().size() == 2);
  CHECK(scaler.overflows()[1].parameter == "q");
  CHECK(scaler.get_scale() == 2);
}

TEST_CASE("parameters in half precision with f32 masters: gradients are f32, need no flag, and skip as a whole",
          "[scaler][G12][G18]") {
  for (Dtype dtype : {f16, bf16}) {
    Tensor p = ones({4}, {.dtype = dtype}).requires_grad_();
    optim::Adam opt(named("w", p), {.lr = 0.25}, {.master_weights = true});
    GradScaler scaler({.init_scale = 8});
    const auto iterate = [&](bool overflow) {
      opt.zero_grad();
      backward(scaler.scale(p.sum().to(f32)));
      REQUIRE(p.grad().dtype() == f32);
      if (overflow) p.grad().fill_(inf);
      CHECK(scaler.step(opt).skipped() == overflow);
      scaler.update();
    };
    iterate(true);
    CHECK(same_bits(p.detach(), ones({4}, {.dtype = dtype})));
    CHECK(same_bits(opt.master(0).detach(), ones({4})));
    iterate(false);
    CHECK(p.to_vector<float>()[0] == Approx(0.75).epsilon(1e-3));
    CHECK(opt.master(0).to_vector<float>()[0] == Approx(0.75).epsilon(1e-6));
  }
}
