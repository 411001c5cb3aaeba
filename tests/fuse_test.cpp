// jit::fuse on the CPU: bitwise equal to the separate operators in f32 and f64, rounded once in f16 and bf16, gradients
// of every order, and its errors. tests/cuda_fuse_test.cpp runs the same functions on a GPU.
#include "tests/fused_functions.h"

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "autograd/gradcheck.h"
#include "autograd/grad_mode.h"
#include "core/formula_recorder.h"
#include "core/operators.h"
#include "core/parallel.h"
#include "nn/activation.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;

TEST_CASE("a fused function has the bits of its operators, forward and backward, in f32 and f64") {
  for (const FusedCase& c : fused_cases()) {
    for (const Dtype dtype : {f32, f64}) {
      for (const bool strided : {false, true}) {
        INFO(c.name << " " << name_of(dtype) << (strided ? ", strided" : ""));
        const auto both = [&](const jit::ElementwiseFunction& f) {
          const std::vector<Tensor> leaves = c.leaves(dtype, cpu);
          std::vector<Tensor> x = leaves;
          if (strided)
            for (Tensor& t : x)
              if (t.dim() == 2) t = t.t().contiguous().t();
          const Tensor y = f(x);
          std::vector<Tensor> all{y.detach()};
          if (!y.requires_grad()) return all;
          backward(sum(y * c.weights(y.dtype(), cpu)));
          for (const Tensor& t : leaves) all.push_back(t.is_floating() && t.grad().defined() ? t.grad() : Tensor());
          return all;
        };
        const jit::FusedFunction fused = c.fused();
        const std::vector<Tensor> found = both([&](std::span<const Tensor> x) { return fused.call(x); }),
                                  expected = both(c.function);
        REQUIRE(found.size() == expected.size());
        for (std::size_t k = 0; k < found.size(); ++k) {
          INFO((k == 0 ? "result" : "gradient ") << k);
          if (!expected[k].defined()) continue;  // where operators give nothing, zeros are as good
          REQUIRE(found[k].dtype() == expected[k].dtype());
          // A broadcast argument with several uses: the sum of the totals is rounded differently from the total of the
          // sums.
          if (c.several_uses && found[k].sizes() != c.result)
            CHECK(max(abs(found[k] - expected[k])).item() <=
                  (dtype == f64 ? 1e-9 : 2e-4) * max(abs(expected[k])).item());
          else CHECK(same_bits(found[k], expected[k]));
        }
      }
    }
  }
}

TEST_CASE("in halves nothing is rounded in between") {
  for (const FusedCase& c : fused_cases()) {
    if (!c.all_floating) continue;
    for (const Dtype dtype : {f16, bf16}) {
      INFO(c.name << " " << name_of(dtype));
      std::vector<Tensor> x = c.leaves(dtype, cpu), wide;
      for (Tensor& t : x) wide.push_back(t.detach().to(f32));
      const NoGrad off;
      const Tensor y = c.fused().call(x);
      CHECK(same_bits(y, c.function(wide).to(y.dtype())));
    }
  }
}

TEST_CASE("gradients of a fused function agree with differences, second ones too") {
  for (const FusedCase& c : fused_cases()) {
    if (!c.smooth) continue;
    INFO(c.name);
    const jit::FusedFunction fused = c.fused();
    const TensorFunction function = [&](const std::vector<Tensor>& x) { return std::vector{fused.call(x)}; };
    gradcheck(function, c.leaves(f64, cpu));
    gradgradcheck(function, c.leaves(f64, cpu));
  }
}

TEST_CASE("an argument made from another one counts each path once in second derivatives") {
  const auto f = jit::fuse([](Tensor a, Tensor b) { return a * a * b; });
  const Tensor x = tensor({1.5, -0.5}, {.dtype = f64, .requires_grad = true});
  const Tensor y = f(x, 2 * x);  // 2 x^3
  const Tensor first = grad(sum(y), {x}, {.create_graph = true})[0];
  CHECK(allclose(first.detach(), 6 * x.detach() * x.detach()));
  CHECK(allclose(grad(sum(first), {x})[0], 12 * x.detach()));
}

TEST_CASE("a tensor that is two arguments counts each of them once in second derivatives") {
  const auto f = jit::fuse([](Tensor a, Tensor b) { return a * a * b; });
  const Tensor x = tensor({1.5, -0.5}, {.dtype = f64, .requires_grad = true});
  CHECK(allclose(grad(sum(f(x, x)), {x})[0], 3 * x.detach() * x.detach()));
  const Tensor first = grad(sum(f(x, x)), {x}, {.create_graph = true})[0];
  CHECK(allclose(first.detach(), 3 * x.detach() * x.detach()));
  CHECK(allclose(grad(sum(first), {x})[0], 6 * x.detach()));
}

TEST_CASE("one trace serves all shapes; dtypes and autocast have their own") {
  int calls = 0;
  const auto f = jit::fuse([&](Tensor x) {
    ++calls;
    return exp(x) * 2;
  });
  f(rand({3}));
  const int first = calls;
  for (const Dims& sizes : {Dims{4, 5}, Dims{}, Dims{0, 3}, Dims{70000}}) CHECK(f(rand(sizes)).sizes() == sizes);
  CHECK(calls == first);
  CHECK(f.traces() == 1);
  CHECK(f(rand({2}).to(bf16)).dtype() == bf16);
  const Tensor y = amp::autocast(bf16, [&] { return f(rand({2}).to(bf16)); });
  CHECK(y.dtype() == f32);  // exp is one of autocast's f32 operators
  CHECK(f.traces() == 3);
}

TEST_CASE("a scalar of another dtype leaves the result in halves, and gets its own gradient") {
  const auto function = [](Tensor x, Tensor s) { return x * exp(s) + s; };
  const auto f = jit::fuse(function);
  Tensor s = scalar(0.5, {.requires_grad = true}), t = scalar(0.5, {.requires_grad = true});
  const Tensor x = random_tensor({300}, 1, -1, 1);
  const Tensor y = f(x.to(bf16), s);
  REQUIRE(y.dtype() == bf16);
  CHECK(function(x.to(bf16), s).dtype() == bf16);
  CHECK(f(x.to(bf16), s.reshape({1})).dtype() == f32);  // with a dimension it counts
  backward(sum(f(x, s)));
  backward(sum(function(x, t)));
  CHECK(std::abs(s.grad().item() - t.grad().item()) <= 2e-4 * std::abs(t.grad().item()));
  backward(sum(f(x.to(bf16), s)));
  CHECK(std::abs(s.grad().item() - 2 * t.grad().item()) <= 5e-2 * std::abs(t.grad().item()));
}

TEST_CASE("C++ numbers as arguments") {
  const auto f = jit::fuse([](Tensor x, Tensor factor) { return x * factor; });
  for (const Dtype dtype : {f64, f32, bf16}) {
    const Tensor x = random_tensor({30}, 1, -1, 1).to(dtype);
    CHECK(same_bits(f(x, 2.5), x * 2.5));
    CHECK(same_bits(f(x, 3), x * 3));
  }
  CHECK(f.traces() == 3);
}

TEST_CASE("an argument that the function does not look at has no say in the result's shape") {
  const auto f = jit::fuse([](Tensor a, [[maybe_unused]] Tensor b, Tensor c) { return a * c; });
  CHECK(f(rand({2, 1}), rand({7, 5}), rand({3})).sizes() == Dims{2, 3});
}

TEST_CASE("the same bits with any number of threads") {
  const auto f = jit::fuse([](Tensor x, Tensor b) { return gelu(x + b) * sigmoid(x); });
  const Tensor x = random_tensor({512, 300}, 1, -3, 3), b = random_tensor({300}, 2, -1, 1);
  const int before = num_threads();
  set_num_threads(1);
  const Tensor one = f(x, b);
  set_num_threads(4);
  CHECK(same_bits(f(x, b), one));
  set_num_threads(before);
}

TEST_CASE("modules, fused functions and bool arguments inside a fused function") {
  const nn::LeakyReLU leaky(0.25);
  const auto inner = jit::fuse([&](Tensor x) { return leaky(x) * 3; }, "inner");
  const auto outer =
      jit::fuse([&](Tensor x, Tensor keep) { return where(keep, inner(x), x.to(f64).to(f32)); }, "outer");
  const Tensor x = tensor({-2.0, 4.0, -8.0}), keep = x > -4.0;
  CHECK(same_bits(outer(x, keep), tensor({-1.5, 12.0, -8.0})));
}

TEST_CASE("what jit::fuse refuses, and how it says so") {
  const Tensor x = rand({2, 3}), other = rand({1});
  const auto says = [&](auto f, const std::string& text) {
    const std::string message = message_of([&] { jit::fuse(f, "mine")(x); });
    INFO(message);
    CHECK(message.find(text) != std::string::npos);
    CHECK(message.starts_with("mine: "));
    CHECK(pointwise::formula_recorder == nullptr);
  };
  says([](Tensor a) { return softmax(a, 0); }, "it calls softmax, which is not elementwise");
  says([](Tensor a) { return a - mean(a); }, "which is not elementwise");
  says([](Tensor a) { return a.reshape({-1, 1}); }, "it calls reshape, which is not elementwise");
  says([&](Tensor a) { return a + other; }, "a tensor that is neither an argument nor a C++ number");
  says([](Tensor a) { return a.item() > 0 ? a : -a; }, "tried by jit::fuse on tensors of 5 elements");
  says([](Tensor a) { return a * static_cast<double>(a.numel()); }, "must compute every element alike");
  says([](Tensor a) { return (a > 0).to(i64); }, "casts to i64");
  says([](Tensor a) { return a + a.to(bf16); }, "nothing is rounded inside a fused function: cast before it or after");
  says([](Tensor a) { return dropout(a, 0.5); }, "which is not elementwise");
  says([](Tensor) { return Tensor(); }, "undefined");

  const auto add = jit::fuse([](Tensor a, Tensor b) { return a + b; }, "add_up");
  const std::string shapes = message_of([&] { add(x, rand({4})); });
  CHECK(shapes.find("add_up: fused(x0: f32[2, 3], x1: f32[4]): sizes [2, 3] and [4] do not broadcast") !=
        std::string::npos);
  CHECK(message_of([&] { add(x, Tensor()); }).find("undefined") != std::string::npos);
  CHECK(message_of([&] { add(x, arange(3)); }).find("takes floating and bool tensors") != std::string::npos);
  CHECK(same_bits(add(x, x), 2 * x));  // and goes on
}
