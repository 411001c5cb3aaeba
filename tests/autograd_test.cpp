// The autograd engine: accumulation, retained and freed graphs, higher derivatives, grad(), modes, hooks, version
// counters, very deep graphs, threads, shadows under autocast. Checkpoint, anomaly mode, gradcheck and user-defined
// operators are in tests/autograd_tools_test.cpp.
#include <cmath>
#include <thread>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "core/allocator.h"
#include "core/ops.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {
Tensor leaf(std::initializer_list<double> values, Dtype dtype = f64) {
  return tensor(values, {.dtype = dtype, .requires_grad = true});
}
std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }
using V = std::vector<double>;
}  // namespace

TEST_CASE("gradients accumulate over uses and over backward calls") {
  Tensor x = leaf({1, 2, 3});
  sum(x * x + x * 3.0).backward();
  CHECK(values(x.grad()) == V{5, 7, 9});
  sum(x * 2.0).backward();
  CHECK(values(x.grad()) == V{7, 9, 11});
  x.set_grad({});
  CHECK_FALSE(x.grad().defined());
  sum(x + x + x + x).backward();
  CHECK(values(x.grad()) == V{4, 4, 4});
  CHECK_THAT(message_of([&] { x.set_grad(zeros({2})); }),
             Contains("the gradient has shape [2], the tensor [3]"));
}

TEST_CASE("a gradient that two leaves share is not one tensor") {
  Tensor a = leaf({1, 1}), b = leaf({1, 1});
  sum(a + b).backward();
  sum(a * 5.0).backward();
  CHECK(values(a.grad()) == V{6, 6});
  CHECK(values(b.grad()) == V{1, 1});
}

TEST_CASE("a gradient that can be differentiated is not one tensor for two leaves, and can be written to") {
  Tensor a = leaf({1, 2}), b = leaf({3, 4});
  backward(sum(square(a + b)), {}, {.create_graph = true});
  sum(a * 5.0).backward();
  CHECK(values(a.grad()) == V{13, 17});
  CHECK(values(b.grad()) == V{8, 12});
  Tensor c = leaf({1, 2});
  backward(sum(c), {}, {.create_graph = true});  // an expanded number
  const NoGrad no_grad;
  c.grad().detach().mul_(2.0);
  CHECK(values(c.grad()) == V{2, 2});
  for (Tensor t : {a, b, c}) t.set_grad({});  // which holds a graph that holds the leaf
}

TEST_CASE("the gradient passed in is not changed by accumulation") {
  Tensor x = leaf({1, 2});
  const Tensor y = x * 1.0, g = tensor({1.0, 1.0}, {.dtype = f64});
  backward(y, g, {.retain_graph = true});
  backward(x + 0.0, g);
  backward(y, g);
  CHECK(values(g) == V{1, 1});
  CHECK(values(x.grad()) == V{3, 3});
}

TEST_CASE("a second backward needs retain_graph and says so") {
  Tensor x = leaf({1, 2});
  Tensor y = sum(exp(x));
  y.backward({}, true);
  y.backward();
  CHECK_THAT(message_of([&] { y.backward(); }), Contains("twice") && Contains("retain_graph"));
  Tensor z = sum(sigmoid(x));
  z.backward();
  CHECK_THAT(message_of([&] { z.backward(); }),
             Contains("while differentiating") && Contains("pass retain_graph to the first backward"));
}

TEST_CASE("roots that cannot be differentiated are refused with advice") {
  Tensor x = leaf({1, 2});
  CHECK_THAT(message_of([&] { (x * 2.0).backward(); }),
             Contains("f64[2] has more than one element; reduce it (sum, mean) or pass its gradient"));
  CHECK_THAT(message_of([&] { sum(x.detach()).backward(); }), Contains("needs no gradient"));
  CHECK_THAT(message_of([&] { Tensor().backward(); }), Contains("undefined"));
  CHECK_THAT(message_of([&] { (x * 2.0).backward(ones({3}, {.dtype = f64})); }),
             Contains("backward: the gradient has shape [3], the root [2]"));
  // The message names what was called.
  CHECK_THAT(message_of([&] { grad(x * 2.0, {x}); }), Contains("grad: f64[2] has more than one element"));
  CHECK_THAT(message_of([&] { grad(sum(x.detach()), {x}); }), Contains("grad: ") && Contains("needs no gradient"));
}

TEST_CASE("first to third derivatives of sigmoid and of fused operators") {
  const double at = 0.7, s = 1 / (1 + std::exp(-at));
  Tensor x = leaf({at});
  const Tensor d1 = grad(sum(sigmoid(x)), {x}, {.create_graph = true})[0];
  const Tensor d2 = grad(sum(d1), {x}, {.create_graph = true})[0];
  const Tensor d3 = grad(sum(d2), {x})[0];
  CHECK(d1.item<double>() == Approx(s * (1 - s)).epsilon(1e-12));
  CHECK(d2.item<double>() == Approx(s * (1 - s) * (1 - 2 * s)).epsilon(1e-12));
  CHECK(d3.item<double>() == Approx(s * (1 - s) * (1 - 6 * s + 6 * s * s)).epsilon(1e-12));

  // softmax: the third derivative against differences of the second.
  const auto second = [](Tensor z, bool record) {
    const Tensor w = tensor({0.3, -1.0, 0.5}, {.dtype = f64});
    const Tensor g = grad(sum(softmax(z, 0) * w), {z}, {.create_graph = true})[0];
    return grad(sum(g * w * w), {z}, {.create_graph = record})[0];
  };
  Tensor z = leaf({0.1, 0.9, -0.4});
  const Tensor third = grad(sum(second(z, true) * z.detach()), {z})[0];
  for (int i = 0; i < 3; ++i) {
    const auto moved = [&](double eps) {
      Tensor p = z.detach().clone();
      p.data<double>()[i] += eps;
      return sum(second(p.requires_grad_(), false) * z.detach()).item<double>();
    };
    CHECK(values(third)[static_cast<std::size_t>(i)] ==
          Approx((moved(1e-5) - moved(-1e-5)) / 2e-5).epsilon(1e-6).margin(1e-8));
  }
}

TEST_CASE("backward with create_graph leaves gradients that can be differentiated") {
  Tensor x = leaf({3});
  sum(x * x * x).backward({}, false, true);
  const Tensor g = x.grad();
  CHECK(g.requires_grad());
  CHECK(values(grad(sum(g), {x})[0]) == V{18});
  x.set_grad({});  // the gradient's graph holds x, which holds the gradient
}

TEST_CASE("grad returns what it is asked for and touches no .grad()") {
  Tensor x = leaf({2}), w = leaf({5}), unused = leaf({1});
  const Tensor h = x * w, y = sum(h * h);
  CHECK(values(grad(y, {h}, {.retain_graph = true})[0]) == V{20});  // not a leaf
  const auto both = grad(y, {w, x}, {.retain_graph = true});
  CHECK(values(both[0]) == V{40});
  CHECK(values(both[1]) == V{100});
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE(w.grad().defined());
  CHECK_THAT(message_of([&] { grad(y, {unused}, {.retain_graph = true}); }),
             Contains("do not depend on input f64[1]") && Contains("allow_unused"));
  CHECK_FALSE(grad(y, {unused}, {.retain_graph = true, .allow_unused = true})[0].defined());
  CHECK_THAT(message_of([&] { grad(y, {x.detach()}); }), Contains("has no requires_grad"));
  CHECK(values(grad(y, {y}, {.retain_graph = true})[0]) == V{1});
}

TEST_CASE("grad of a root with several elements takes its gradient, for one input or a list of them") {
  const Tensor x = random_tensor({3, 2}, 1).requires_grad_(), w = random_tensor({3, 2}, 2).requires_grad_();
  const Tensor u = x * x * w, given = random_tensor({3, 2}, 3);
  const std::vector<Tensor> expected = grad((u * given).sum(), {x, w}, {.retain_graph = true});
  const std::vector<Tensor> found = grad(u, {x, w}, given, {.create_graph = true});
  CHECK(equal(found[0], expected[0]));
  CHECK(equal(found[1], expected[1]));
  CHECK(equal(grad(found[0], {x}, ones_like(x))[0], 2 * w * given));  // recorded
  CHECK(equal(grad(u, x, given, {.retain_graph = true})[0], expected[0]));
  const std::vector<Tensor> list{x, w};
  CHECK(equal(grad(u, list, given)[1], expected[1]));
  CHECK(equal(grad((x * x).sum(), x)[0], 2 * x));
  CHECK_THAT(message_of([&] { grad(x * w, {x}, ones({3})); }), Contains("the gradient has shape [3], the root [3, 2]"));
}

TEST_CASE("grad of an inner tensor frees only what lies above it") {
  Tensor x = leaf({2});
  const Tensor h = exp(x), y = sum(square(h));
  CHECK(grad(y, {h})[0].item<double>() == Approx(2 * std::exp(2)));
  sum(h).backward();  // exp was not run, so it still has what it saved
  CHECK(x.grad().item<double>() == Approx(std::exp(2)));
}

TEST_CASE("NoGrad and EnableGrad") {
  Tensor x = leaf({1});
  {
    const NoGrad off;
    CHECK_FALSE((x * 2.0).requires_grad());
    const EnableGrad on;
    CHECK((x * 2.0).requires_grad());
  }
  CHECK(grad_enabled());
  try {
    const NoGrad off;
    throw 1;
  } catch (int) {
  }
  CHECK(grad_enabled());
  std::thread([] { CHECK(grad_enabled()); }).join();
}

TEST_CASE("detach cuts the graph and shares memory") {
  Tensor x = leaf({2});
  const Tensor y = x * 3.0;
  sum(y.detach() * x).backward();
  CHECK(values(x.grad()) == V{6});
  CHECK(y.detach().storage() == y.storage());
}

TEST_CASE("hooks see gradients, replace them, and run after accumulation") {
  Tensor x = leaf({1, 2});
  Tensor h = x * 2.0;
  std::vector<double> seen;
  h.on_grad([&](const Tensor& g) { seen = values(g); });
  h.on_grad([](const Tensor& g) { return g * 10.0; });
  std::vector<double> accumulated;
  on_accumulated(x, [&](const Tensor& g) { accumulated = values(g); });
  sum(h * 3.0 + h).backward();
  CHECK(seen == V{4, 4});  // the sum of both uses
  CHECK(values(x.grad()) == V{80, 80});
  CHECK(accumulated == V{80, 80});
  sum(x).backward();
  CHECK(accumulated == V{81, 81});
  x.on_grad([](const Tensor&) { return ones({3}, {.dtype = f64}); });
  CHECK_THAT(message_of([&] { sum(x).backward(); }),
             Contains("returned shape [3] for a gradient of shape [2]"));
  CHECK_THAT(message_of([&] { x.detach().on_grad([](const Tensor&) {}); }), Contains("requires_grad"));
  CHECK_THAT(message_of([&] { on_accumulated(h, [](const Tensor&) {}); }), Contains("needs a leaf"));
}

TEST_CASE("a saved tensor that was changed is found, by name and version") {
  Tensor x = leaf({1, 2}), factor = tensor({3.0, 4.0}, {.dtype = f64});
  const Tensor y = x * factor;
  factor.add_(factor);
  const std::string message = message_of([&] { sum(y).backward(); });
  CHECK_THAT(message, Contains("\"mul\" saved its input b (version ") && Contains("since changed by add_") &&
                          Contains("clone()"));
  CHECK_FALSE(x.grad().defined());
  Tensor e = exp(x);
  {
    const NoGrad off;
    e.mul_(2);
  }
  CHECK_THAT(message_of([&] { sum(e).backward(); }),
             Contains("\"exp\" saved its result") && Contains("mul_"));
  Tensor through_view = tensor({3.0, 4.0}, {.dtype = f64});
  const Tensor p = x * through_view;
  through_view[1].fill_(0);  // a write through a view counts too
  CHECK_THAT(message_of([&] { sum(p).backward(); }), Contains("since changed by fill_"));
}

TEST_CASE("broadcast and promoted inputs receive gradients of their own shape and dtype") {
  Tensor row = leaf({1, 2, 3}, f32), column = tensor({1.0, 2.0}, {.dtype = f64}).reshape({2, 1}).requires_grad_();
  Tensor number = scalar(2, {.dtype = f16, .requires_grad = true});
  sum(row * column * number).backward();
  CHECK(row.grad().sizes() == Dims{3});
  CHECK(row.grad().dtype() == f32);
  CHECK(column.grad().sizes() == Dims{2, 1});
  CHECK(column.grad().dtype() == f64);
  CHECK(number.grad().sizes() == Dims{});
  CHECK(number.grad().dtype() == f16);
  CHECK(values(row.grad()) == V{6, 6, 6});
  CHECK(values(column.grad()) == V{12, 12});
  CHECK(number.grad().item() == 18);
}

TEST_CASE("a graph a million nodes deep goes back and is freed, and can be dropped") {
  constexpr int depth = 1000000;
  Tensor x = leaf({1}, f32);
  const std::int64_t before = memory_stats().allocated;
  {
    Tensor y = x * 1.0;
    for (int i = 1; i < depth; ++i) y = y + x;
    y.backward();
    CHECK(x.grad().item() == depth);
  }
  {
    Tensor y = x * 1.0;
    for (int i = 1; i < depth; ++i) y = tanh(y);
    y = {};  // dropped without backward
  }
  x.set_grad({});
  CHECK(memory_stats().allocated <= before);
}

TEST_CASE("threads may meet in one leaf") {
  Tensor w = leaf({1, 2, 3, 4});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&w] {
      for (int i = 0; i < 200; ++i) sum(w * 2.0 + w).backward();
    });
  }
  for (auto& t : threads) t.join();
  CHECK(values(w.grad()) == V(4, 3.0 * 4 * 200));
}

TEST_CASE("what saved tensors hold is freed by backward, node by node") {
  Tensor x = zeros({1 << 16}, {.requires_grad = true});
  const std::int64_t before = memory_stats().allocated;
  Tensor y = x;
  for (int i = 0; i < 8; ++i) y = tanh(y);
  const Tensor loss = sum(y);
  y = {};
  CHECK(memory_stats().allocated >= before + 8 * (4 << 16));
  loss.backward();
  CHECK(memory_stats().allocated <= before + (4 << 16) + 256);  // only x's gradient is left
}

TEST_CASE("gradients of shadows land in the f32 leaf") {
  Tensor w = random_tensor({4, 3}, 1).to(f32).requires_grad_();
  const Tensor x = random_tensor({5, 4}, 2).to(f32);
  const auto loss = [&] { return amp::autocast(bf16, [&] { return sum(matmul(x, w)) + sum(matmul(x, w)); }); };
  loss().backward();
  CHECK(w.grad().dtype() == f32);
  const Tensor g = grad(loss(), {w})[0];
  CHECK(g.dtype() == f32);
  CHECK(same_bits(g, w.grad()));
  Dtype seen = f64;
  w.on_grad([&](const Tensor& gradient) { seen = gradient.dtype(); });
  loss().backward();
  CHECK(seen == f32);
}

TEST_CASE("a steady step casts no weight, and a changed weight is cast again") {
  Tensor w = random_tensor({4, 4}, 1).to(f32).requires_grad_();
  const Tensor x = random_tensor({2, 4}, 2).to(bf16);
  const auto forward = [&] { return amp::autocast(bf16, [&] { return matmul(x, w); }); };
  const Tensor first = forward();
  const std::uint64_t casts = amp::cast_count();
  CHECK(same_bits(forward(), first));
  CHECK(amp::cast_count() == casts);
  {
    const NoGrad off;
    w.mul_(2);
  }
  CHECK(all_close(forward(), cast(first, f64) * 2.0));
  CHECK(amp::cast_count() == casts + 1);
}
