// What a captured step writes is known after each of its replays as after the step itself: to backward passes, which
// must not use what has changed, and to optimizers with master weights.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "mantissa.h"
#include "tests/catch_compat.h"

using namespace mantissa;
using Catch::Matchers::Contains;
using mantissa::test::message_of;

namespace {

using Values = std::vector<float>;
void note(Values& all, const Tensor& x) {
  const Values values = x.detach().to(cpu).to(f32).to_vector<float>();
  all.insert(all.end(), values.begin(), values.end());
}
bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
Tensor leaf(const Dims& sizes, Dtype dtype = f32) { return cast(randn(sizes), dtype).to(cuda).requires_grad_(); }

}  // namespace

TEST_CASE("weights are trained between the calls of a captured step, of which other results are differentiated later") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const auto run = [](bool captured) {
    manual_seed(5);
    const Tensor w = leaf({6}), v = leaf({6});
    optim::SGD opt({w, v}, {.lr = 0.1});
    const auto f = [&](const Tensor& x) {
      const amp::Autocast region(bf16);
      return std::vector<Tensor>{sum(exp(x * w) * v), sum(linear(x, v.unsqueeze(0)))};
    };
    auto step = jit::capture(f);
    Values all;
    for (int i = 0; i < 12; ++i) {
      const Tensor x = randn({4, 6}).to(cuda);
      const std::vector<Tensor> r = captured ? step(x) : f(x);
      backward(i < 5 ? r[0] : i < 9 ? r[1] : r[0] + r[1]);
      opt.step();
      opt.zero_grad();
      note(all, w), note(all, v);
    }
    if (captured) CHECK(step.replays() == 10);
    return all;
  };
  CHECK(same_bits(run(true), run(false)));
}

TEST_CASE("weights or results that change between a captured step and its backward pass are an error") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  for (const bool captured : {false, true}) {
    CAPTURE(captured);
    const Tensor w = ones({4}).to(cuda).requires_grad_(), x = full({4}, 2).to(cuda);
    const auto f = [&](const Tensor& t) { return exp(t * w); };
    auto step = jit::capture(f);
    const auto call = [&] { return captured ? step(x) : f(x); };
    for (int i = 0; i < 3; ++i) backward(sum(call()));

    const Tensor before = call();
    { const NoGrad no_grad; Tensor(w).mul_(0.5); }
    backward(sum(before));  // needs x and the result, not w
    const Tensor y = call();
    { const NoGrad no_grad; y.detach().mul_(2.0); }
    CHECK_THAT(message_of([&] { backward(sum(y)); }),
               Contains("\"exp\" saved its result") && Contains("since changed by mul_"));

    const Tensor wanted = full({4}, 2).to(cuda).requires_grad_();
    const auto of_input = [&] { return captured ? step(wanted) : f(wanted); };
    for (int i = 0; i < 3; ++i) backward(sum(of_input()));
    const Tensor late = of_input();
    { const NoGrad no_grad; Tensor(w).fill_(0.25); }
    CHECK_THAT(message_of([&] { backward(sum(late)); }),
               Contains("\"mul\" saved its input b") && Contains("since changed by fill_"));
    Tensor(w).set_grad({});
    backward(sum(of_input()));  // and the next one is differentiated as ever
    CHECK(allclose(w.grad().to(cpu), full({4}, 2 * std::exp(0.5f)), 1e-6, 0));
  }
}

TEST_CASE("backward passes notice what a captured step has written since") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Tensor w = leaf({4});
  optim::SGD opt({w}, {.lr = 0.1});
  auto train = jit::capture([&](const Tensor& x) {
    backward(sum(exp(x * w)));
    opt.step();
    opt.zero_grad();
  });
  auto apply = jit::capture([&](const Tensor& x) {
    const NoGrad no_grad;
    return tanh(x);
  });
  const Tensor x = randn({4}).to(cuda).requires_grad_();
  for (int i = 0; i < 5; ++i) {
    CAPTURE(i);
    const Tensor loss = sum(x * w);
    train(x.detach());
    CHECK_THAT(message_of([&] { backward(loss); }),
               Contains("\"mul\" saved its input b") &&
                   Contains(i < 2 ? "since changed by optimizer step" : "since changed by a captured step"));
    const Tensor q = leaf({4}), result = apply(x.detach()), later = sum(result * q);
    if (i < 2) continue;
    apply(x.detach());
    CHECK_THAT(message_of([&] { backward(later); }), Contains("since changed by a captured step"));
  }
}

TEST_CASE("master weights follow what is written to their parameters between replays") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const auto run = [](bool captured, Dtype dtype) {
    manual_seed(6);
    const Tensor w = leaf({64}, dtype);
    optim::Adam opt({w}, {.lr = 1e-4}, {.master_weights = true});
    const auto f = [&](const Tensor& x) {
      backward(sum(square(x * w)));
      opt.step();
      opt.zero_grad();
    };
    auto step = jit::capture(f);
    Values all;
    for (int i = 0; i < 14; ++i) {
      // From the tenth call on with another shape, which is recorded separately; the eleventh as it is.
      const Tensor x = cast(randn({i < 10 ? 3 : 5, 64}), dtype).to(cuda);
      captured && i != 11 ? step(x) : f(x);
      const NoGrad no_grad;
      if (i == 4) Tensor(w).copy_(cast(linspace(-1, 1, 64), dtype));  // loaded
      if (i == 6) Tensor(w).clamp_(-0.5, 0.5);
      note(all, w), note(all, opt.master(0));
    }
    if (captured) CHECK(step.replays() == 9);
    return all;
  };
  for (const Dtype dtype : {f16, bf16}) {
    INFO(name_of(dtype));
    CHECK(same_bits(run(true, dtype), run(false, dtype)));
  }
}

TEST_CASE("a captured step whose kernels know only casts of weights notices that these are frozen, unfrozen or moved") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const auto run = [](bool captured) {
    manual_seed(7);
    nn::Linear net(6, 3);
    nn::to(net, cuda);
    optim::SGD opt(nn::parameters(net), {.lr = 0.1});
    const auto f = [&](const Tensor& x) { return amp::autocast(bf16, [&] { return net(x); }).to(f32); };
    auto step = jit::capture(f);
    Values all;
    for (int i = 0; i < 16; ++i) {
      if (i == 4) net.weight.requires_grad_(false);
      if (i == 7) net.weight.requires_grad_(true);
      if (i == 11) nn::to(net, cpu), nn::to(net, cuda);
      const Tensor x = randn({5, 6}).to(cuda);
      backward(sum(square(captured ? step(x) : f(x))));
      opt.step();
      opt.zero_grad();
      note(all, net.weight), note(all, net.bias);
    }
    if (captured) CHECK(step.replays() == 8);
    return all;
  };
  CHECK(same_bits(run(true), run(false)));
}

TEST_CASE("gradients of a captured step are as wide as an optimizer with master weights wants them from now on") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  for (const bool within : {false, true}) {
    const auto run = [&](bool captured) {
      manual_seed(8);
      const Tensor w = leaf({6}, bf16);
      const auto f = [&](const Tensor& x) {
        const Tensor loss = sum(square(x * w).to(f32));
        if (within) backward(loss);
        return loss;
      };
      auto step = jit::capture(f);
      std::unique_ptr<optim::SGD> opt;
      Values all;
      for (int i = 0; i < 8; ++i) {
        if (i == 4) opt = std::make_unique<optim::SGD>(std::vector{w}, optim::SgdOptions{.lr = 0.01},
                                                       optim::MemoryOptions{.master_weights = true});
        const Tensor x = cast(randn({5, 6}), bf16).to(cuda), loss = captured ? step(x) : f(x);
        if (!within) backward(loss);
        CHECK(w.grad().dtype() == (i < 4 ? bf16 : f32));
        note(all, w.grad());
        if (opt) opt->step();
        Tensor(w).set_grad({});
        note(all, w);
      }
      return all;
    };
    CAPTURE(within);
    CHECK(same_bits(run(true), run(false)));
  }
}
