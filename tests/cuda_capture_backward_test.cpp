// Captured steps that leave the backward pass to the caller, bitwise against the steps as they are.
#include <cstring>
#include <string>
#include <vector>

#include "mantissa.h"
#include "tests/catch_compat.h"

using namespace mantissa;
using mantissa::test::message_of;

namespace {

struct Net {
  nn::Linear in{6, 32}, out{32, 6};
  nn::Dropout drop{.p = 0.25};
  MANTISSA_FIELDS(in, out, drop)
  Tensor operator()(const Tensor& x) const { return out(drop(relu(in(x)))); }
};
using Values = std::vector<std::vector<float>>;
void note(Values& all, const Tensor& x) { all.push_back(x.detach().to(cpu).to_vector<float>()); }

bool same_bits(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size() || std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0)
      return false;
  }
  return true;
}

// Calls a function of two tensors, captured or as it is.
template <class F> auto maybe_captured(bool captured, F f) {
  return [captured, f, step = jit::capture(f)](const Tensor& x, const Tensor& y) mutable {
    return captured ? step(x, y) : f(x, y);
  };
}

// body(captured, values): a program that notes what it computes.
template <class F> void check_same(F&& body) {
  Values expected, found;
  manual_seed(31);
  body(false, expected);
  manual_seed(31);
  body(true, found);
  CHECK(same_bits(found, expected));
}
using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("the caller differentiates what a captured step computes, with dropout, under a loss scaler") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  for (const int batches : {1, 3}) {  // that are accumulated
    check_same([&](bool captured, Values& all) {
      Net net;
      nn::to(net, cuda);
      optim::AdamW opt(nn::parameters(net), {.lr = 1e-2});
      amp::GradScaler scaler({.init_scale = 1024, .growth_interval = 2});
      auto outputs = jit::capture([&](const Tensor& x) { return amp::autocast(f16, [&] { return net(x); }); });
      const auto plain = [&](const Tensor& x) { return amp::autocast(f16, [&] { return net(x); }); };
      for (int i = 0; i < 9; ++i) {
        const Tensor x = randn({4, 6}).to(cuda), label = randint(0, 6, {4}, {.dtype = i64}).to(cuda);
        const Tensor loss = cross_entropy((captured ? outputs(x) : plain(x)).to(f32), label);
        backward(scaler.scale(loss));
        note(all, loss);
        if (i % batches != batches - 1) continue;
        scaler.step(opt);
        scaler.update();
        opt.zero_grad();
        for (const Tensor& p : nn::parameters(net)) note(all, p);
      }
      if (captured) CHECK(outputs.recordings() == 1);
      if (captured) CHECK(outputs.replays() == 7);
    });
  }
}

TEST_CASE("gradients pass through captured steps to their inputs, and from one to another") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  check_same([&](bool captured, Values& all) {
    Net first, second;
    nn::to(first, cuda), nn::to(second, cuda);
    optim::SGD opt(nn::parameters(first), {.lr = 0.1});
    opt.add_group(nn::parameters(second), {.lr = 0.05});
    auto body = maybe_captured(captured, [&](const Tensor& x, const Tensor& y) { return first(x) * y; });
    auto head = maybe_captured(captured, [&](const Tensor& x, const Tensor& y) { return mean(second(x) * y); });
    for (int i = 0; i < 6; ++i) {
      const Tensor x = randn({4, 6}).to(cuda).requires_grad_(), y = randn({4, 6}).to(cuda);
      const Tensor loss = head(tanh(body(x * 2, y)), y);
      backward(loss);
      note(all, loss), note(all, x.grad());
      opt.step();
      opt.zero_grad();
    }
    for (const Tensor& p : nn::parameters(first)) note(all, p);
    for (const Tensor& p : nn::parameters(second)) note(all, p);
  });
}

TEST_CASE("several results of a captured step, some unused, some without a gradient, some inputs or weights") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  check_same([&](bool captured, Values& all) {
    const Tensor w = randn({6}).to(cuda).requires_grad_();
    const auto f = [&](const Tensor& x, const Tensor& y) {
      return std::vector<Tensor>{x * w, argmax(x, 1), sum(y * w), x, w, exp(y), x.detach() * 3};
    };
    auto step = maybe_captured(captured, f);
    for (int i = 0; i < 9; ++i) {
      const Tensor x = randn({4, 6}).to(cuda).requires_grad_(), y = randn({4, 6}).to(cuda);
      const std::vector<Tensor> r = step(x, y);
      CHECK(r[0].requires_grad());
      CHECK_FALSE(r[1].requires_grad());
      CHECK_FALSE(r[5].requires_grad());
      const Tensor loss = i % 3 == 0 ? sum(r[0]) : i % 3 == 1 ? r[2] * 2 : sum(r[0] * r[3]) + sum(r[4]) + sum(r[6]);
      if (i % 3 == 2) CHECK(grad(loss, x, {.retain_graph = true})[0].sizes() == x.sizes());
      backward(loss);
      note(all, loss), note(all, w.grad());
      if (x.grad().defined()) note(all, x.grad());
      for (const Tensor& t : r) note(all, cast(t, f32));
      if (i == 4) Tensor(w).set_grad({});
    }
  });
}

TEST_CASE("a result of a captured step can be differentiated after the step is gone") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Tensor w = ones({4}).to(cuda).requires_grad_();
  auto step = jit::capture([&](const Tensor& x) { return exp(w * x); });
  const Tensor x = zeros({4}).to(cuda);
  for (int i = 0; i < 2; ++i) step(x);
  const Tensor y = sum(step(full({4}, 2).to(cuda)) * 2);
  step.reset();
  empty_cache(cuda);
  backward(y);
  CHECK(allclose(w.grad().to(cpu), full({4}, 4 * std::exp(2.0f)), 1e-6, 0));
}

TEST_CASE("what cannot be differentiated says why") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Tensor w = ones({4}).to(cuda).requires_grad_(), x = full({4}, 3).to(cuda);
  auto step = jit::capture([&](const Tensor& t) { return exp(w * t); });
  for (int i = 0; i < 3; ++i) step(x);
  const Tensor early = step(x), late = step(x);
  CHECK_THAT(message_of([&] { backward(sum(early)); }), Contains("called again before the backward pass"));
  CHECK_THAT(message_of([&] { (void)grad(sum(late), {w}, {.create_graph = true}); }), Contains("second derivatives"));
  backward(sum(late));
  CHECK_THAT(message_of([&] { backward(sum(late)); }), Contains("backward ran through \"captured step\" twice"));

  auto within = jit::capture([&](const Tensor& t) {
    const Tensor loss = sum(w * t);
    backward(loss);
    return loss;
  });
  const Tensor wanted = full({4}, 3).to(cuda).requires_grad_();
  const auto call = [&] {
    for (int i = 0; i < 3; ++i) {
      Tensor(w).set_grad({});
      within(wanted);
    }
  };
  CHECK_THAT(message_of(call), Contains("which the caller's tensor would not get"));
}
