// Tools built on the engine: checkpoint, anomaly mode, gradcheck, and user-defined operators.
#include <cmath>

#include "amp/autocast.h"
#include "autograd/anomaly.h"
#include "autograd/backward.h"
#include "autograd/checkpoint.h"
#include "autograd/grad_mode.h"
#include "autograd/gradcheck.h"
#include "autograd/hooks.h"
#include "core/allocator.h"
#include "core/random.h"
#include "ops/apply.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using Tensors = std::vector<Tensor>;

// An operator as a user writes it: x * |x|, with a fused rule.
struct SignedSquare {
  static constexpr auto name = "signed_square";
  static constexpr const char* args[] = {"x"};
  double factor = 1;

  Spec infer(const Tensor& x) const {
    check(x.dtype() == f64, "this example is for f64");
    return like(x);
  }
  void run(const View& y, const View& x) const {
    check(x.is_contiguous(), "this example needs a contiguous input");
    const double* in = x.as<const double>();
    for (std::int64_t i = 0; i < x.numel(); ++i) y.as<double>()[i] = factor * in[i] * std::abs(in[i]);
  }
  static constexpr auto vjp() {
    return rules([](const SignedSquare& op, Grad g, In<0> x) { return g * abs(x) * (2 * op.factor); });
  }
};
struct WrongSquare : SignedSquare {
  static constexpr auto name = "wrong_square";
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> x) { return g * abs(x); });  // forgets the 2
  }
};

TEST_CASE("an operator of a user runs, differentiates and complains like ours") {
  Tensor x = tensor({1.5, -2.0}, {.dtype = f64, .requires_grad = true});
  sum(apply(SignedSquare{.factor = 3}, x)).backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{9, 12});
  gradcheck([](const Tensors& in) { return Tensors{apply(SignedSquare{.factor = 3}, in[0])}; }, {x});
  gradgradcheck([](const Tensors& in) { return Tensors{apply(SignedSquare{.factor = 3}, in[0])}; }, {x});
  CHECK_THAT(message_of([] { apply(SignedSquare{}, zeros({2})); }),
             Contains("signed_square(x: f32[2]): this example is for f64"));
}

TEST_CASE("gradcheck finds a wrong gradient and says where") {
  Tensor x = tensor({1.5, -2.0}, {.dtype = f64, .requires_grad = true});
  const auto wrong = [](const Tensors& in) { return Tensors{apply(WrongSquare{}, in[0])}; };
  CHECK_THAT(message_of([&] { gradcheck(wrong, {x}); }),
             Contains("d result 0 element 0 / d input 0 element 0: analytic 1.5, numeric 3"));
  CHECK_THAT(message_of([&] { gradcheck(wrong, {x}, {.full_jacobian = 0}); }),
             Contains("random direction 0 of input 0"));
  CHECK(x.to_vector<double>() == std::vector<double>{1.5, -2.0});  // put back
}

TEST_CASE("gradcheck refuses what it cannot check") {
  const auto square_of = [](const Tensors& in) { return Tensors{square(in[0])}; };
  CHECK_THAT(message_of([&] { gradcheck(square_of, {ones({2}, {.requires_grad = true})}); }),
             Contains("input 0 is f32[2]; differences need f64"));
  CHECK_THAT(message_of([&] { gradcheck(square_of, {ones({2}, {.dtype = f64})}); }),
             Contains("no input has requires_grad"));
  Tensor x = ones({2}, {.dtype = f64, .requires_grad = true});
  Tensor many = ones({128}, {.dtype = f64, .requires_grad = true});
  CHECK_THAT(message_of([&] { gradcheck([](const Tensors& in) { return Tensors{dropout(in[0], 0.5)}; }, {many}); }),
             Contains("two calls of the function differ"));
  CHECK_THAT(message_of([&] { gradcheck([](const Tensors& in) { return Tensors{in[0].detach()}; }, {x}); }),
             Contains("no result requires a gradient"));
  Tensor repeated = ones({1}, {.dtype = f64}).expand({3}).detach().requires_grad_();
  CHECK_THAT(message_of([&] { gradcheck(square_of, {repeated}); }), Contains("stride 0"));
}

TEST_CASE("gradcheck takes strided inputs, several results and unused inputs") {
  Tensor x = random_tensor({4, 3}, 1).t().detach().requires_grad_(), y = random_tensor({3, 4}, 2).requires_grad_();
  Tensor unused = random_tensor({2}, 3).requires_grad_();
  const auto f = [](const Tensors& in) { return Tensors{in[0] * in[1], sum(tanh(in[0])), in[1].detach()}; };
  gradcheck(f, {x, y, unused});
  gradgradcheck(f, {x, y, unused});
  gradcheck(f, {x, y, unused}, {.full_jacobian = 0});
}

TEST_CASE("numbers take part in differentiation as constants") {
  Tensor x = random_tensor({5}, 1, 0.5, 2).requires_grad_();
  const auto f = [](const Tensors& in) {
    return Tensors{pow(in[0], 3.0) - 2.0 / in[0], maximum(in[0], Tensor(1.0)) * 0.5};
  };
  gradcheck(f, {x});
  gradgradcheck(f, {x});
  Tensor zero = tensor({0.0, -2.0}, {.dtype = f64, .requires_grad = true});
  sum(pow(zero, 2.0)).backward();
  CHECK(all_close(zero.grad(), tensor({0.0, -4.0}, {.dtype = f64})));
}

namespace {
struct Block {  // two layers with dropout between
  Tensor w1 = random_tensor({6, 8}, 11).to(f32).requires_grad_(),
         w2 = random_tensor({8, 5}, 12).to(f32).requires_grad_();
  Tensor operator()(const Tensor& x) const { return matmul(dropout(gelu(matmul(x, w1)), 0.4), w2); }
};
}  // namespace

TEST_CASE("checkpoint gives bitwise the gradients of the plain computation, with dropout and autocast") {
  const bool mixed = GENERATE(false, true);
  const Block block;
  const Tensor x0 = random_tensor({7, 6}, 13).to(f32);
  const auto gradients_of = [&](bool use_checkpoint) {
    manual_seed(5);
    Tensor x = x0.clone().requires_grad_();
    Tensor y;
    {
      const amp::Autocast scope(mixed ? bf16 : f32);
      const Tensor h = x * 2.0;  // not a leaf
      y = use_checkpoint ? checkpoint(block, h) : block(h);
      y = tanh(dropout(y, 0.5));
    }
    const Tensor after = rand({3});
    std::vector<Tensor> g = grad(sum(cast(y, f32)), {x, block.w1, block.w2}, {.retain_graph = true});
    sum(cast(y, f32)).backward();
    CHECK(same_bits(x.grad(), g[0]));
    g.push_back(after);
    g.push_back(rand({3}));  // replaying leaves the generator where it was
    return g;
  };
  const auto plain = gradients_of(false), replayed = gradients_of(true);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    INFO("tensor " << i);
    CHECK(same_bits(plain[i], replayed[i]));
  }
}

TEST_CASE("checkpoint: captured parameters alone, nesting, second derivatives, and nothing to differentiate") {
  Tensor w = random_tensor({3}, 1).requires_grad_();
  const Tensor data = random_tensor({3}, 2);
  const auto layer = [&w](const Tensor& x) { return tanh(x * w); };
  sum(checkpoint(layer, data)).backward();
  CHECK(all_close(w.grad(), (1.0 - square(tanh(data * w.detach()))) * data));

  const auto nested = [&](const Tensors& in) {
    const auto inner = [](const Tensor& x) { return exp(x) * x; };
    return Tensors{
        checkpoint([=, factor = in[1]](const Tensor& x) { return sum(checkpoint(inner, x * factor)); }, in[0])};
  };
  Tensor a = random_tensor({4}, 3).requires_grad_(), b = random_tensor({4}, 4).requires_grad_();
  gradcheck(nested, {a, b});
  gradgradcheck(nested, {a, b});

  CHECK_FALSE(checkpoint([](const Tensor& x) { return x * 2.0; }, data).requires_grad());
  const NoGrad off;
  CHECK_FALSE(checkpoint(layer, data).requires_grad());
}

TEST_CASE("checkpoint: what its input was computed from may be used inside again, and hooks run once") {
  const Tensor data = random_tensor({3, 4}, 1);
  const auto gradients = [&](bool use_checkpoint, bool recorded) {
    Tensor w = random_tensor({4, 4}, 2).requires_grad_();
    int calls = 0;
    w.on_grad([&](const Tensor&) { ++calls; });
    const Tensor h = tanh(linear(data, w)), deeper = sigmoid(h);
    h.on_grad([](const Tensor& g) { return g * 2.0; });
    // w and h again: a tied weight, a skip
    const auto block = [w, h](const Tensor& x) { return gelu(linear(x * h, w)); };
    const Tensor loss = sum(square(use_checkpoint ? checkpoint(block, deeper) : block(deeper)));
    const Tensor by_grad = grad(loss, {w}, {.retain_graph = true})[0];
    backward(loss, {}, {.create_graph = recorded});
    CHECK(calls == 2);
    CHECK(all_close(by_grad, w.grad().detach()));
    Tensor g = w.grad().detach();
    w.set_grad({});
    return g;
  };
  for (const bool recorded : {false, true}) CHECK(all_close(gradients(true, recorded), gradients(false, recorded)));
}

TEST_CASE("checkpoint keeps only its inputs, and names misuse") {
  Tensor x = zeros({1 << 16}, {.requires_grad = true});
  const std::int64_t before = memory_stats().allocated;
  const auto chain = [](const Tensor& in) {
    Tensor y = in;
    for (int i = 0; i < 8; ++i) y = tanh(y);
    return sum(y);
  };
  const Tensor y = checkpoint(chain, x);
  CHECK(memory_stats().allocated <= before + 256);
  y.backward();
  CHECK_THAT(message_of([&] { y.backward(); }), Contains("\"checkpoint\" twice"));

  Tensor factor = ones({2});
  Tensor p = ones({2}, {.requires_grad = true});
  const Tensor z = checkpoint([](const Tensor& a, const Tensor& b) { return sum(a * b); }, p, factor);
  factor.add_(factor);
  CHECK_THAT(message_of([&] { z.backward(); }),
             Contains("\"checkpoint\" saved its input") && Contains("since changed by add_"));
  bool again = false;
  const Tensor unsteady = checkpoint([&](const Tensor& a) { return std::exchange(again, true) ? sum(a) : a * 2.0; }, p);
  CHECK_THAT(message_of([&] { unsteady.backward(ones({2})); }), Contains("when it ran again"));
}

TEST_CASE("anomaly mode names the operator that made the first NaN and the way to it") {
  Tensor x = tensor({1.0, -1.0}, {.requires_grad = true});
  {
    const AnomalyMode guard;
    const std::string message = message_of([&] { sum(log(x * 2.0)).backward(); });
    CHECK_THAT(message,
               Contains("log(x: f32[2]): the result contains NaN") && Contains("leaf -> mul -> log"));
    CHECK_THAT(message_of([&] { exp(tensor({std::nan("")})); }), Contains("an input already does"));
  }
  // sqrt'(0) = inf and inf * 0 = NaN, in backward only.
  Tensor z = tensor({0.0}, {.requires_grad = true});
  const AnomalyMode guard;
  const Tensor y = sum(sqrt(z * 3.0) * 0.0);
  const std::string message = message_of([&] { y.backward(); });
  CHECK_THAT(message, Contains("backward of \"sqrt\" gave NaN for its input 0") &&
                          Contains("backward came by sum -> mul -> sqrt") &&
                          Contains("forward by leaf -> mul -> sqrt"));
}

TEST_CASE("anomaly mode is a scope, and lets finite computations and masked NaN pass") {
  {
    const AnomalyMode guard;
    Tensor x = random_tensor({3, 4}, 1).requires_grad_();
    sum(softmax(x, 1) * x).backward();
    Tensor base = tensor({0.0, 2.0}, {.requires_grad = true});
    sum(pow(base, 2.0)).backward();  // the rule passes through 0 * log 0
    const AnomalyMode off(false);
    CHECK(std::isnan(log(tensor({-1.0})).item()));
  }
  CHECK(std::isnan(log(tensor({-1.0})).item()));
}
