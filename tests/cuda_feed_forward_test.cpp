// Two linear layers and the activation between them, which the second layer's product differentiates (find_activation
// in autograd/backward.cpp): bitwise equal to the same three where a hook wants to see the gradient between them, so
// that each runs by itself; in every dtype, on the CPU and on a GPU (or the shim); second derivatives; and the number
// of kernels in backward.
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

using Tensors = std::vector<Tensor>;
constexpr Activation every[] = {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh};

Tensor act(const Tensor& x, Activation a) {
  if (a == Activation::none) return x;
  return a == Activation::relu ? relu(x) : gelu(x, a == Activation::gelu ? "none" : "tanh");
}

Tensor seen(const Tensor& hidden) {
  if (hidden.requires_grad()) hidden.on_grad([](const Tensor&) {});
  return hidden;
}

std::vector<Device> equal_devices() {
  if (on_shim()) return {cpu, cuda};
  return {cpu};  // on a GPU the tuner may take another product for the one than for the other
}

// x, weight1, bias1, weight2, bias2, of which those in `wanted` require a gradient.
struct Inputs {
  Tensors t;
  Inputs(Device device, Dtype dtype, const Dims& sizes, bool has_bias, int wanted = 31) {
    manual_seed(3);
    const auto make = [&](const Dims& d) { return randn(d).to(dtype).to(device); };
    t = {make(sizes), make({72, sizes.back()}), has_bias ? make({72}) : Tensor(), make({24, 72}),
         has_bias ? make({24}) : Tensor()};
    for (std::size_t i = 0; i < 5; ++i) if (t[i].defined() && wanted >> i & 1) t[i].requires_grad_();
  }
  Tensor fused(Activation a) const { return feed_forward(t[0], t[1], t[2], a, t[3], t[4]); }
  Tensor apart(Activation a) const { return linear(seen(act(linear(t[0], t[1], t[2]), a)), t[3], t[4]); }
};

void check_same(const Tensor& a, const Tensor& b) {
  REQUIRE(a.defined() == b.defined());
  if (a.defined()) CHECK(same_bits(a.to(cpu), b.to(cpu)));
}
void compare(Device device, Dtype dtype, Activation a, const Dims& sizes, bool has_bias, int wanted = 31) {
  INFO(device << " " << name_of(dtype) << " activation " << static_cast<int>(a) << " x " << concat(sizes) << " bias "
              << has_bias << " wanted " << wanted);
  const Inputs one(device, dtype, sizes, has_bias, wanted), two(device, dtype, sizes, has_bias, wanted);
  const Tensor y = one.fused(a), z = two.apart(a);
  check_same(y, z);
  CHECK(y.requires_grad() == z.requires_grad());
  {
    const NoGrad no_grad;
    check_same(one.fused(a), z);
  }
  if (!y.requires_grad()) return;
  const Tensor g = randn(y.sizes()).to(dtype).to(device);
  for (int time = 0; time < 2; ++time) {  // the second one adds to what is there
    y.backward(g, true), z.backward(g, true);
    for (std::size_t i = 0; i < 5; ++i) {
      if (one.t[i].defined()) check_same(one.t[i].grad(), two.t[i].grad());
    }
  }
}

}  // namespace

TEST_CASE("feed_forward has the bits of the two linear layers") {
  for (const Device device : equal_devices()) {
    for (const Dtype dtype : {f64, f32, f16, bf16}) {
      for (const Activation a : every) {
        for (const bool has_bias : {false, true}) compare(device, dtype, a, {5, 7, 40}, has_bias);
      }
      compare(device, dtype, Activation::gelu_tanh, {40}, true);
      compare(device, dtype, Activation::gelu, {33, 37}, true);
      compare(device, dtype, Activation::relu, {0, 40}, true);
      compare(device, dtype, Activation::gelu_tanh, {3, 0}, true);
    }
  }
}

TEST_CASE("feed_forward gives gradients to whatever wants one, and to nothing else") {
  for (const Device device : equal_devices()) {
    for (int wanted = 0; wanted < 32; ++wanted) {
      compare(device, bf16, Activation::relu, {6, 40}, true, wanted);
      compare(device, bf16, Activation::gelu_tanh, {6, 40}, true, wanted);
    }
  }
}

TEST_CASE("feed_forward in a region computes what the layers do, with gradients in f32, and hooks see them") {
  for (const Device device : equal_devices()) {
    for (const Activation a : every) {
      for (const Dtype dtype : {f16, bf16}) {
        manual_seed(5);
        nn::LinearAct up(24, 32, a);
        nn::Linear down(32, 24);
        nn::to(up, device), nn::to(down, device);
        nn::Linear first = static_cast<const nn::Linear&>(up).clone(), second = down.clone();
        int calls = 0;
        down.weight.on_grad([&](const Tensor& g) { ++calls; return g * 2.0; });
        Tensor x = randn({9, 24}).to(device), again = x.clone();
        x.requires_grad_(), again.requires_grad_();
        const Tensor y = amp::autocast(dtype, [&] { return nn::feed_forward(up, down, x); });
        const Tensor z = amp::autocast(dtype, [&] { return second(seen(act(first(again), a))); });
        CHECK(y.dtype() == dtype);
        check_same(y, z);
        const Tensor g = randn(y.sizes()).to(device);
        sum(y.to(f32) * g).backward(), sum(z.to(f32) * g).backward();
        CHECK(calls == 1);
        check_same(x.grad(), again.grad());
        check_same(up.weight.grad(), first.weight.grad()), check_same(up.bias.grad(), first.bias.grad());
        check_same(down.weight.grad(), second.weight.grad() * 2.0), check_same(down.bias.grad(), second.bias.grad());
        CHECK(up.weight.grad().dtype() == f32);
      }
    }
  }
}

TEST_CASE("feed_forward has second derivatives, through both layers") {
  for (const Device device : equal_devices()) {
    for (const Activation a : {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
      const Inputs one(device, f64, {6, 40}, true), two(device, f64, {6, 40}, true);
      const auto second = [&](const Inputs& in, const Tensor& y) {
        const Tensor root = sum(square(y));
        const Tensors first = grad(std::span(&root, 1), in.t, {}, {.create_graph = true});
        Tensor total = zeros({}, {.device = device});
        for (const Tensor& g : first) total = total + sum(square(g)).to(f32);
        return grad(std::span<const Tensor>(&total, 1), in.t, {}, {});
      };
      const Tensors p = second(one, one.fused(a)), q = second(two, two.apart(a));
      // The sums have another order.
      for (std::size_t i = 0; i < p.size(); ++i) CHECK(allclose(p[i].to(cpu), q[i].to(cpu), 1e-12, 1e-9));
    }
  }
}

TEST_CASE("a region's own policies, observers and anomaly mode see the operators of feed_forward one by one") {
  manual_seed(6);
  const nn::LinearAct up(8, 8, Activation::gelu);
  const nn::Linear down(8, 8);
  const Tensor x = randn({2, 8});
  amp::Explain explain;
  amp::autocast(bf16, [&] { return nn::feed_forward(up, down, x); });
  REQUIRE(explain.decisions().size() == 3);
  CHECK(std::string(explain.decisions()[0].op) == "linear");
  CHECK(std::string(explain.decisions()[1].op) == "gelu");
  CHECK(std::string(explain.decisions()[2].op) == "linear");
}

TEST_CASE("on a GPU the hidden layer's gradient in halves leaves the product as it is, and has no kernel of its own") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  if (!on_shim()) { WARN("which kernels run is the tuner's choice: not tested on a GPU"); return; }
  for (const Activation a : {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
    const Inputs in(cuda, bf16, {64, 40}, true);
    cuda_backend::LaunchCounter counter;
    const Tensor y = in.fused(a);
    CHECK(counter.launches.size() == 1);
    CHECK(counter.products() == 2);
    const Tensor g = ones_like(y);
    counter.launches.clear();
    y.backward(g);
    CHECK(counter.launches.size() == 1);
    CHECK(counter.products() == 4);  // two of inputs, two of weights and their biases
  }
}
