// The precision doctor on models with a known problem: it finds the layer, the remedy, and problems that no precision
// can solve. Next: amp/doctor.h.
#include <cmath>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "core/ops.h"
#include "core/random.h"
#include "nn/amp.h"
#include "nn/dropout.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

Tensor input(const Dims& sizes, std::uint64_t stream, Dtype dtype = f32) {
  return random_tensor(sizes, stream).to(dtype);
}

struct Net {
  nn::Linear first{8, 16}, weak{16, 16}, back{16, 16}, last{16, 4};
  nn::BatchNorm1d norm{16};
  nn::Dropout drop{.p = 0.1};
  double gain = 1;  // of what `weak` gives, taken back afterwards
  MANTISSA_FIELDS(first, weak, back, last, norm, drop)
  Tensor operator()(const Tensor& x) const {
    const Tensor y = weak(drop(norm(relu(first(x)))));
    return last(relu(back(y * (1 / gain))));
  }
  void make_weak(double by) {
    const NoGrad no_grad;
    gain = by;
    weak.weight.mul_(by);
    weak.bias.mul_(by);
  }
};
struct Case {
  Net net;
  Tensor x = input({32, 8}, 1), target = tensor({1, 0, 3, 2}).reshape({1, 4}).expand({8, 4}).flatten();
  Case() { manual_seed(seed()); net = Net(); }
  std::function<Tensor()> step() {
    return [this] { return cross_entropy(net(x), target); };
  }
};
const amp::LayerHealth& layer(const amp::Diagnosis& d, const std::string& name) {
  for (const amp::LayerHealth& h : d.layers) if (h.name == name) return h;
  FAIL("no layer " << name << " in\n" << d.report());
  return d.layers[0];
}

}  // namespace

TEST_CASE("a sound net is found sound, and the suggested scale leaves gradients their room", "[amp]") {
  MANTISSA_PRINT_SEED();
  Case c;
  const amp::Diagnosis d = amp::doctor(c.net, c.step());
  INFO(d.report());
  CHECK(d.cause == amp::Cause::none);
  CHECK(d.overlay.find("f32") == std::string::npos);
  CHECK(std::abs(d.loss_half - d.loss_f32) < 0.01 * d.loss_f32);
  double most = 0;
  for (const amp::LayerHealth& h : d.layers) most = std::max(most, h.gradient_largest);
  CHECK(most > 0);
  CHECK(most * d.initial_scale <= 65504.0 / 8);
  CHECK(std::log2(d.initial_scale) == std::floor(std::log2(d.initial_scale)));
  CHECK(amp::doctor(c.net, c.step(), {.dtype = bf16}).initial_scale == 1);
}

TEST_CASE("a layer that overflows is ranked first, and the overlay loads and cures it", "[amp]") {
  MANTISSA_PRINT_SEED();
  Case c;
  c.net.make_weak(1e6);
  const amp::Diagnosis d = amp::doctor(c.net, c.step());
  INFO(d.report());
  CHECK(d.cause == amp::Cause::forward_half);
  CHECK_THAT(d.explanation, Contains("weak") && Contains("a lower scale does not help"));
  CHECK(d.layers[0].name == "weak");
  CHECK(d.layers[0].overflows);
  CHECK(d.layers[0].headroom < 1);
  CHECK(d.layers[0].worst_operator == "linear");
  CHECK_THAT(d.overlay, Contains("\"weak\": \"f32\""));
  CHECK_THAT(d.report(), Contains("OVERFLOW"));
  const auto loss_with = [&](const amp::Policies& p) {
    const NoGrad no_grad;
    return amp::autocast(amp::AutocastOptions{.dtype = f16, .policies = p}, c.step()).item<double>();
  };
  CHECK(!std::isfinite(loss_with({})));
  CHECK(std::isfinite(loss_with(amp::policies_from_json(c.net, d.overlay))));
  CHECK(std::isfinite(loss_with(d.policies)));
  CHECK(std::abs(d.loss_half - d.loss_f32) < 0.02 * d.loss_f32);
}

TEST_CASE("a layer whose results are lost to 0 is found by its underflow", "[amp]") {
  MANTISSA_PRINT_SEED();
  Case c;
  c.net.make_weak(1e-9);
  const amp::Diagnosis d = amp::doctor(c.net, c.step());
  INFO(d.report());
  CHECK(d.layers[0].name == "weak");
  CHECK(layer(d, "weak").underflow > 0.9);
  CHECK(layer(d, "first").underflow < 0.01);
  CHECK_THAT(d.overlay, Contains("\"weak\": \"f32\""));
}

TEST_CASE("a scale that is too high is told from a NaN of the forward", "[amp]") {
  MANTISSA_PRINT_SEED();
  {
    Case c;
    const amp::Diagnosis d = amp::doctor(c.net, c.step(), {.scale = 1e12});
    INFO(d.report());
    CHECK(d.cause == amp::Cause::scale);
    CHECK_THAT(d.explanation, Contains("forward is sound"));
    CHECK(d.initial_scale < 1e12);
    CHECK(amp::doctor(c.net, c.step(), {.scale = d.initial_scale}).cause == amp::Cause::none);
  }
  {
    Case c;
    c.x.data<float>()[3] = std::nanf("");
    const amp::Diagnosis d = amp::doctor(c.net, c.step());
    CHECK(d.cause == amp::Cause::input);
    CHECK_THAT(d.explanation, Contains("linear in first") && Contains("outside the step"));
  }
  {
    Case c;
    const NoGrad no_grad;
    c.net.back.weight.data<float>()[0] = INFINITY;
    const EnableGrad grad;
    CHECK_THAT(amp::doctor(c.net, c.step()).explanation, Contains("parameter back.weight holds"));
  }
  {
    Case c;
    const amp::Diagnosis d = amp::doctor(c.net, [&] { return log(c.net(c.x) - 1e6).sum(); });
    CHECK(d.cause == amp::Cause::forward_f32);
    CHECK_THAT(d.explanation, Contains("log gives inf or NaN in f32 too"));
  }
  {
    Case c;
    const amp::Diagnosis d = amp::doctor(c.net, [&] { return sqrt(c.net(c.x) * 0.0).sum(); });
    CHECK(d.cause == amp::Cause::backward_f32);
  }
}

TEST_CASE("the doctor leaves parameters, gradients, buffers, numbers and the region as they were", "[amp]") {
  Case c;
  backward(cross_entropy(c.net(c.x), c.target));
  std::vector<Tensor> before;
  const auto everything = [&] {
    std::vector<Tensor> all;
    for (const auto& [name, t] : nn::state_dict(c.net)) all.push_back(t.clone());
    for (const Tensor& p : nn::parameters(c.net)) all.push_back(p.grad().clone());
    return all;
  };
  before = everything();
  const RngState random = rng_state();
  const AutocastState region = amp::capture();
  amp::doctor(c.net, c.step());
  const std::vector<Tensor> after = everything();
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(same_bits(after[i], before[i]));
  CHECK(amp::capture() == region);
  CHECK(rng_state().offset == random.offset);
}

TEST_CASE("what the doctor refuses", "[amp]") {
  Case c;
  CHECK_THAT(message_of([&] { amp::doctor(c.net, c.step(), {.dtype = f32}); }), Contains("must be f16 or bf16"));
  CHECK_THAT(message_of([&] { amp::doctor(c.net, c.step(), {.scale = 0}); }), Contains("must be positive"));
  CHECK_THAT(message_of([&] { amp::doctor(c.net, [&] { return c.net(c.x); }); }), Contains("scalar loss"));
  CHECK_THAT(
      message_of([&] { amp::doctor(c.net, [&] { return amp::autocast(f16, [&] { return c.net(c.x).sum(); }); }); }),
      Contains("enters a region itself"));
  CHECK_THAT(message_of([&] { amp::doctor(c.net, [&] { return scalar(1); }); }), Contains("needs no gradient"));
  int calls = 0;
  CHECK_THAT(
      message_of([&] { amp::doctor(c.net, [&] { return calls++ ? c.net(c.x).sum() : relu(c.net(c.x)).sum(); }); }),
      Contains("different paths"));
}
