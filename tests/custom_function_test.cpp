// User-defined functions under autocast: amp::custom_fwd for code that must run in one dtype, apply_function for
// hand-written gradients, with one result or several. Next: ops/function.h.
#include <array>
#include <map>
#include <thread>

#include "amp/custom.h"
#include "autograd/backward.h"
#include "autograd/gradcheck.h"
#include "autograd/hooks.h"
#include "core/ops.h"
#include "ops/function.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::Autocast;
using Catch::Matchers::Contains;

namespace {

Tensor input(const Dims& sizes, std::uint64_t stream, Dtype dtype = f32) {
  return random_tensor(sizes, stream).to(dtype);
}

struct Seen {
  bool enabled = false;
  Dtype region = f32;
};
Seen look() { return {amp::is_enabled(), amp::capture().dtype_on(cpu)}; }

struct MyMm {  // matmul, in the region of the call
  static constexpr auto name = "my_mm";
  Seen* forward_saw;
  Seen* backward_saw;
  Tensor forward(Saved& saved, const Tensor& a, const Tensor& b) const {
    *forward_saw = look();
    saved.save({a, b});
    return matmul(a, b);
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    *backward_saw = look();
    return {matmul(g, saved[1].t()), matmul(saved[0].t(), g)};
  }
};

struct F32Mm {  // a scaled sum of products, in f32 wherever it is called
  static constexpr auto name = "f32_mm";
  static constexpr Dtype cast_inputs = f32;
  double scale = 1;
  Tensor forward(Saved& saved, const Tensor& a, const std::vector<Tensor>& b, double factor) const {
    CHECK(!amp::is_enabled());
    std::vector<Tensor> all{a};
    Tensor y;
    for (const Tensor& one : b) {
      CHECK(one.dtype() == a.dtype());
      y = y.defined() ? y + matmul(a, one) : matmul(a, one);
      all.push_back(one);
    }
    saved.save(all);
    return y * (scale * factor);
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    CHECK(!amp::is_enabled());
    std::vector<Tensor> gradients(saved.size());
    for (std::size_t i = 1; i < saved.size(); ++i) {
      const Tensor to_a = matmul(g, saved[i].t());
      gradients[0] = gradients[0].defined() ? gradients[0] + to_a : to_a;
      gradients[i] = matmul(saved[0].t(), g);
    }
    for (Tensor& t : gradients) t = t * (2 * scale);
    return gradients;
  }
};

}  // namespace

TEST_CASE("A50: a function without a cast sees the region of its call, forward and backward", "[amp]") {
  for (const bool enabled : {true, false}) {
    for (Dtype region : {f16, bf16}) {
      Seen forward, backward_saw;
      Tensor a = input({3, 4}, 1).requires_grad_(), b = input({4, 2}, 2).requires_grad_();
      Tensor y;
      {
        const Autocast scope(amp::AutocastOptions{.dtype = region, .enabled = enabled});
        y = apply_function(MyMm{&forward, &backward_saw}, a, b);
      }
      CHECK(y.dtype() == (enabled ? region : f32));
      CHECK(forward.enabled == enabled);
      const auto run = [&] { amp::autocast(region == f16 ? bf16 : f16, [&] { backward(y, ones_like(y)); }); };
      std::thread(run).join();  // another region, on another thread
      CHECK(backward_saw.enabled == enabled);
      CHECK(!amp::is_enabled());
      if (enabled) {
        CHECK(forward.region == region);
        CHECK(backward_saw.region == region);
      }
      CHECK(a.grad().dtype() == f32);
      CHECK(b.grad().dtype() == f32);
      const Tensor expected =
          enabled ? matmul(a.detach().to(region), b.detach().to(region)) : matmul(a.detach(), b.detach());
      CHECK(same_bits(y.detach(), expected));
    }
  }
}

TEST_CASE("A49: cast_inputs casts in a region, with autocast off inside, and does nothing outside", "[amp]") {
  const Tensor x = input({3, 4}, 1, f16), w1 = input({4, 4}, 2).requires_grad_(),
               w2 = input({4, 4}, 3).requires_grad_();
  const Tensor expected = (matmul(x.to(f32), w1.detach()) + matmul(x.to(f32), w2.detach())) * 6.0;
  Tensor y;
  {
    const Autocast region(f16);
    y = apply_function(F32Mm{.scale = 3}, x, std::vector<Tensor>{w1, w2}, 2.0);
    CHECK(amp::is_enabled());
  }
  CHECK(y.dtype() == f32);
  CHECK(same_bits(y.detach(), expected));
  backward(y, ones_like(y));
  const Tensor g = matmul(x.to(f32).t(), ones({3, 4})) * 6.0;
  CHECK(same_bits(w1.grad(), g));
  CHECK(same_bits(w2.grad(), g));
  // Outside regions: the inputs' dtypes.
  const Tensor z = apply_function(F32Mm{}, x, std::vector<Tensor>{w1.detach().to(f16)}, 1.0);
  CHECK(z.dtype() == f16);
}

TEST_CASE("A49: custom_fwd reaches into containers; f64, integers and other values stay", "[amp]") {
  using Nested = std::map<std::string, std::pair<Tensor, std::vector<std::optional<Tensor>>>>;
  const Tensor x = input({2}, 1, f16), w = input({2}, 2).requires_grad_(), d = input({2}, 3, f64), i = arange(2);
  int calls = 0;
  Dtype expected = f32;
  const auto f = amp::custom_fwd(
      f32, [&](const Tensor& a, const Nested& nested, const std::array<Tensor, 2>& pair, std::string text, int n) {
        ++calls;
        CHECK(!amp::is_enabled());
        const auto& [b, list] = nested.at("k");
        CHECK(a.dtype() == expected);
        CHECK(b.dtype() == expected);
        CHECK(list[0]->dtype() == expected);
        CHECK(!list[1].has_value());
        CHECK(pair[0].dtype() == f64);
        CHECK(pair[1].dtype() == i64);
        CHECK(text == "text");
        return a * n + b;
      });
  const Nested nested{{"k", {x, {x, std::nullopt}}}};
  Tensor y;
  {
    const Autocast region(f16);
    y = f(w.to(f16), nested, std::array<Tensor, 2>{d, i}, std::string("text"), 3);
    CHECK(amp::is_enabled());
    const Autocast gpu_only(amp::disabled);
    const Autocast gpu(cuda, f16);  // tensors of the CPU are of no region there
    expected = f16;
    const auto g = amp::custom_fwd(f32, [](const Tensor& t) { return t; });
    CHECK(g(x).dtype() == f16);
  }
  CHECK(y.dtype() == f32);
  backward(y, ones_like(y));
  CHECK(same_bits(w.grad(), full({2}, 3)));
  CHECK(f(x, nested, std::array<Tensor, 2>{d, i}, std::string("text"), 3).dtype() == f16);
  CHECK(calls == 2);
  CHECK_THAT(message_of([] { amp::custom_fwd(i64, [](const Tensor& t) { return t; }); }), Contains("floating dtype"));
}

namespace {
struct Cube {
  static constexpr auto name = "cube";
  Tensor forward(Saved& saved, const Tensor& x) const {
    saved.save({x});
    return x * x * x;
  }
  Tensor backward(const Saved& saved, const Tensor& g) const { return g * 3.0 * saved[0] * saved[0]; }
};
struct Wrong : Cube {
  static constexpr auto name = "wrong";
  int what = 0;
  std::vector<Tensor> backward(const Saved& saved, const Tensor& /*g*/) const {
    if (what == 0) return {};
    if (what == 1) return {ones({7})};
    return {saved[3]};
  }
};
}  // namespace

TEST_CASE("functions of one's own: double backward, NoGrad, reuse, and errors that name them", "[amp]") {
  Tensor x = tensor({1.5, -2}).requires_grad_();
  const Tensor g = grad(apply_function(Cube{}, x).sum(), {x}, {.create_graph = true})[0];
  CHECK(same_bits(g.detach(), tensor({6.75, 12})));
  CHECK(same_bits(grad(g.sum(), {x})[0], tensor({9, -12}, {.dtype = f32})));
  {
    const NoGrad no_grad;
    CHECK(!apply_function(Cube{}, x).requires_grad());
  }
  CHECK(!apply_function(Cube{}, x.detach()).requires_grad());
  const Tensor y = apply_function(Cube{}, x).sum();
  backward(y);
  CHECK_THAT(message_of([&] { backward(y); }),
             Contains("second time") || Contains("twice") || Contains("retain_graph"));
  const char* expected[] = {"wrong: backward gave 0 gradients for 1", "wrong: gradient 0 has shape [7]",
                            "wrong: saved tensor 3 does not exist"};
  for (int what : {0, 1, 2}) {
    Wrong w;
    w.what = what;
    CHECK_THAT(message_of([&] { backward(apply_function(w, x).sum()); }), Contains(expected[what]));
  }
  Tensor changed = tensor({1.5, -2}).requires_grad_();
  const Tensor z = apply_function(Cube{}, changed).sum();
  {
    const NoGrad no_grad;
    changed.fill_(1);
  }
  CHECK_THAT(message_of([&] { backward(z); }), Contains("cube") && Contains("fill_"));
}

namespace {

struct SinCos {
  static constexpr auto name = "sin_cos";
  std::vector<Tensor> forward(Saved& saved, const Tensor& x) const {
    saved.save({x});
    return {sin(x), cos(x)};
  }
  std::vector<Tensor> backward(const Saved& saved, const std::vector<Tensor>& g) const {
    return {g[0] * cos(saved[0]) - g[1] * sin(saved[0])};
  }
};
// Quotients, remainders (without a gradient), and results that are undefined or not floating.
struct Divide {
  static constexpr auto name = "divide";
  static constexpr bool materialize_grads = false;
  std::vector<bool>*reached, *needs;
  std::vector<Tensor> forward(Saved& saved, const Tensor& x, const Tensor& y) const {
    saved.save({x, y});
    saved.mark_non_differentiable({1});
    return {x / y, fmod(x, y), Tensor(), cast(x / y, i64), x};
  }
  std::vector<Tensor> backward(const Saved& saved, const std::vector<Tensor>& g) const {
    for (const Tensor& t : g) reached->push_back(t.defined());
    for (std::size_t i : {0u, 1u}) needs->push_back(saved.needs_input_grad(i));
    Tensor to_x = g[4];
    if (g[0].defined()) to_x = to_x.defined() ? to_x + g[0] / saved[1] : g[0] / saved[1];
    return {to_x, saved.needs_input_grad(1) && g[0].defined() ? -g[0] * saved[0] / square(saved[1]) : Tensor()};
  }
};
struct Once : SinCos {
  static constexpr auto name = "once";
  static constexpr bool once_differentiable = true;
};
struct TooFew : SinCos {
  static constexpr auto name = "too_few";
  std::vector<Tensor> forward(Saved& saved, const Tensor& x) const {
    saved.mark_non_differentiable({2});
    return SinCos::forward(saved, x);
  }
};
Tensor angles() { return tensor({0.3, -1.2, 2.0}).to(f64).requires_grad_(); }

}  // namespace

TEST_CASE("functions with several results: gradients of one, of all, of some more than once", "[function]") {
  gradcheck([](const std::vector<Tensor>& x) { return apply_function(SinCos{}, x[0])[0]; }, {angles()});
  gradcheck([](const std::vector<Tensor>& x) { return apply_function(SinCos{}, x[0])[1]; }, {angles()});
  const auto all = [](const std::vector<Tensor>& x) {
    const std::vector<Tensor> y = apply_function(SinCos{}, x[0] * 2.0);
    return y[0] * y[1] + square(y[0]) * x[0];
  };
  gradcheck(all, {angles()});
  gradgradcheck(all, {angles()});
  // the third derivative of sin is -cos
  const Tensor x = angles();
  Tensor y = apply_function(SinCos{}, x)[0];
  for (int i = 0; i < 3; ++i) y = grad(y.sum(), {x}, {.create_graph = true})[0];
  CHECK(difference(y.detach(), -cos(x.detach()), {1e-12, 1e-12}) == "");
  // as roots, with incoming gradients; and as an input of grad()
  const std::vector<Tensor> both = apply_function(SinCos{}, x);
  const Tensor v = tensor({1, 2, 3}).to(f64);
  backward(both, std::vector<Tensor>{v, -v});
  CHECK(difference(x.grad(), (v * (cos(x) + sin(x))).detach(), {1e-12, 1e-12}) == "");
  const std::vector<Tensor> again = apply_function(SinCos{}, x);
  CHECK(same_bits(grad((again[0] * again[1]).sum(), {again[1]})[0].detach(), again[0].detach()));
}

TEST_CASE("functions with several results: passes do not see each other's gradients", "[function]") {
  const Tensor x = angles();
  const std::vector<Tensor> y = apply_function(SinCos{}, x);
  const auto of = [&](int k) {
    const std::vector<Tensor> roots{y[static_cast<std::size_t>(k)]}, inputs{x}, ones{ones_like(x)};
    return grad(roots, inputs, ones, {.retain_graph = true})[0];
  };
  const Tensor first = of(0), second = of(1);
  CHECK(difference(first, cos(x).detach(), {1e-12, 1e-12}) == "");
  CHECK(difference(second, -sin(x).detach(), {1e-12, 1e-12}) == "");
  std::vector<std::thread> threads;
  std::vector<int> wrong(2);
  for (int k : {0, 1})
    threads.emplace_back([&, k] {
      for (int i = 0; i < 200; ++i) wrong[static_cast<std::size_t>(k)] += !same_bits(of(k), k == 0 ? first : second);
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == std::vector<int>{0, 0});
  // A nested backward pass over the same function, between a result and the function.
  const Tensor outer = apply_function(SinCos{}, x)[0];
  Tensor inside;
  const Tensor doubled = outer * 2.0;
  doubled.on_grad([&](const Tensor&) {
    inside = of(1);
    return Tensor();
  });
  const Tensor mixed = grad((y[0] + doubled).sum(), {x}, {.retain_graph = true})[0];
  CHECK(difference(inside, -sin(x).detach(), {1e-12, 1e-12}) == "");
  CHECK(difference(mixed, 3.0 * cos(x).detach(), {1e-12, 1e-12}) == "");
  backward(y[0].sum());
  CHECK_THAT(message_of([&] { backward(y[1].sum()); }), Contains("sin_cos") && Contains("retain_graph"));
}

TEST_CASE("functions with several results: some without a gradient, some that nothing reaches", "[function]") {
  std::vector<bool> reached, needs;
  const Tensor x = angles(), y = tensor({0.7, 0.9, -1.1}).to(f64);
  const std::vector<Tensor> r = apply_function(Divide{&reached, &needs}, x, y);
  CHECK(r[0].requires_grad());
  CHECK(!r[1].requires_grad());
  CHECK(!r[2].defined());
  CHECK(!r[3].requires_grad());
  CHECK(r[4].requires_grad());
  CHECK(!r[4].is_leaf());
  backward((r[0] * r[1]).sum());
  CHECK(reached == std::vector<bool>{true, false, false, false, false});
  CHECK(needs == std::vector<bool>{true, false});
  CHECK(difference(x.grad(), r[1] / y, {1e-12, 1e-12}) == "");
  const std::vector<Tensor> plain = apply_function(Divide{&reached, &needs}, x.detach(), y);
  CHECK(!plain[0].requires_grad());
  {
    const NoGrad no_grad;
    CHECK(!apply_function(SinCos{}, x)[1].requires_grad());
  }
  CHECK_THAT(message_of([&] { apply_function(TooFew{}, x); }), Contains("too_few: result 2 does not exist"));
}

TEST_CASE("once_differentiable: a gradient of the gradient is an error, not a wrong number", "[function]") {
  const Tensor x = angles();
  const std::vector<Tensor> y = apply_function(Once{}, x);
  const Tensor g = grad((y[0] + y[1]).sum(), {x}, {.create_graph = true})[0];
  CHECK(difference(g.detach(), (cos(x) - sin(x)).detach(), {1e-12, 1e-12}) == "");
  CHECK(g.requires_grad());
  CHECK_THAT(message_of([&] { grad(g.sum(), {x}); }), Contains("once: is once_differentiable"));
  CHECK_THAT(message_of([&] { backward((g * x).sum()); }), Contains("once: is once_differentiable"));
}
