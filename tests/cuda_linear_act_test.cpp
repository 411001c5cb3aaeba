// nn::LinearAct and linear(..., activation): bitwise equal to a linear layer followed by its activation, in every
// dtype, under autocast, with and without gradients, on the CPU and on a GPU (or the shim).
#include "core/accelerator.h"
#include "core/fused_ops.h"
#include "cuda/launches.h"
#include "mantissa.h"
#include "tests/catch_compat.h"
#include "tests/devices.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

Tensor act(const Tensor& x, Activation a) {
  if (a == Activation::none) return x;
  return a == Activation::relu ? relu(x) : gelu(x, a == Activation::gelu ? "none" : "tanh");
}
constexpr Activation every[] = {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh};

struct Inputs {
  Tensor x, weight, bias;
  Inputs(Device device, Dtype dtype, bool has_bias) {
    manual_seed(3);
    const auto make = [&](const Dims& sizes) { return randn(sizes).to(dtype).to(device).requires_grad_(); };
    x = make({5, 7, 40}), weight = make({72, 40});
    if (has_bias) bias = make({72});
  }
  std::vector<Tensor> gradients() const {
    std::vector<Tensor> g{x.grad(), weight.grad()};
    if (bias.defined()) g.push_back(bias.grad());
    return g;
  }
};

void compare(Device device, Dtype dtype, Activation a, bool has_bias) {
  INFO(name_of(dtype) << " activation " << static_cast<int>(a) << " bias " << has_bias);
  const Inputs fused(device, dtype, has_bias), apart(device, dtype, has_bias);
  const Tensor y = linear(fused.x, fused.weight, fused.bias, a), z = act(linear(apart.x, apart.weight, apart.bias), a);
  CHECK(same_bits(y.to(cpu), z.to(cpu)));
  const NoGrad no_grad;
  CHECK(same_bits(linear(fused.x, fused.weight, fused.bias, a).to(cpu), z.to(cpu)));
  const Tensor g = randn(y.sizes()).to(dtype).to(device);
  y.backward(g), z.backward(g);
  const std::vector<Tensor> one = fused.gradients(), two = apart.gradients();
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i].to(cpu), two[i].to(cpu)));
}

}  // namespace

TEST_CASE("a linear layer with an activation has the bits of the two operators") {
  for (const Device device : {cpu, cuda}) {
    if (device == cuda && !cuda_is_available()) continue;
    if (device == cuda && !on_shim()) continue;  // the tuner may take another product for the one than for the other
    for (const Dtype dtype : {f64, f32, f16, bf16}) {
      for (const Activation a : every) {
        for (const bool has_bias : {false, true}) compare(device, dtype, a, has_bias);
      }
    }
  }
}

TEST_CASE("LinearAct in a region computes what Linear and the activation do, with gradients in f32") {
  for (const Activation a : every) {
    for (const Dtype dtype : {f16, bf16}) {
      manual_seed(5);
      nn::LinearAct fused(24, 32, a);
      nn::Linear apart = static_cast<const nn::Linear&>(fused).clone();
      const Tensor x = randn({9, 24});
      const Tensor y = amp::autocast(dtype, [&] { return fused(x); }),
                   z = amp::autocast(dtype, [&] { return act(apart(x), a); });
      CHECK(y.dtype() == dtype);
      CHECK(same_bits(y, z));
      sum(y.to(f32)).backward(), sum(z.to(f32)).backward();
      CHECK(fused.weight.grad().dtype() == f32);
      CHECK(same_bits(fused.weight.grad(), apart.weight.grad()));
      CHECK(same_bits(fused.bias.grad(), apart.bias.grad()));
    }
  }
}

TEST_CASE("a region's own policies and observers see linear and its activation as two operators") {
  manual_seed(6);
  const nn::LinearAct up(8, 8, Activation::gelu);
  const Tensor x = randn({2, 8});
  const auto policies = amp::Policies().set("gelu", CastPolicy::f32);
  CHECK(amp::autocast({.dtype = bf16, .policies = policies}, [&] { return up(x); }).dtype() == f32);
  amp::Explain explain;
  amp::autocast(bf16, [&] { return up(x); });
  REQUIRE(explain.decisions().size() == 2);
  CHECK(std::string(explain.decisions()[0].op) == "linear");
  CHECK(std::string(explain.decisions()[1].op) == "gelu");
}

TEST_CASE("gelu keeps what it was applied to only while a gradient is recorded, relu never") {
  manual_seed(7);
  const Tensor x = randn({4, 16}), weight = randn({8, 16}).requires_grad_();
  const Tensor second = [&] {  // a second derivative passes through the product
    const Tensor y = linear(x, weight, {}, Activation::gelu);
    const Tensor g = grad(sum(y), {weight}, {.create_graph = true})[0];
    return grad(sum(square(g)), {weight})[0];
  }();
  const Tensor expected = [&] {
    const Tensor g = grad(sum(gelu(linear(x, weight))), {weight}, {.create_graph = true})[0];
    return grad(sum(square(g)), {weight})[0];
  }();
  CHECK(same_bits(second, expected));
}

TEST_CASE("on a GPU halves need no kernel for the activation, and none that reads the gradient again for the bias") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  if (!on_shim()) { WARN("which kernels run is the tuner's choice: not tested on a GPU"); return; }
  for (const Activation a : {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
    const Inputs in(cuda, bf16, true);
    cuda_backend::LaunchCounter counter;
    const Tensor y = linear(in.x, in.weight, in.bias, a);
    CHECK(counter.launches.size() == 1);
    CHECK(counter.products() == 1);
    const Tensor g = ones_like(y);
    counter.launches.clear();
    y.backward(g);
    CHECK(counter.products() == 2);
    CHECK(counter.of("pointwise") == 1);  // the activation's gradient
    CHECK(counter.of("reduce_sum") == 0);
  }
}

TEST_CASE("LinearAct has the names and parameters of Linear") {
  nn::LinearAct l(3, 4, Activation::relu, {.bias = false});
  CHECK(nn::state_dict(l).size() == 1);
  CHECK(nn::named_parameters(l)[0].first == "weight");
  const nn::LinearAct copy = l.clone();
  CHECK(same_bits(copy(full({1, 3}, 2.0)), l(full({1, 3}, 2.0))));
}
