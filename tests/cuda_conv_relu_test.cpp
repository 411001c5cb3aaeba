// conv2d_relu, conv3d_relu and their modules: what a convolution and relu compute, and the gradient that a convolution
// computes before the relu that made its input (find_activation in autograd/backward.cpp); in every dtype, on the CPU
// and on a GPU (or the shim; tests/cuda_shim/cudnn_conv_test.cpp has cuDNN's part).
#include <cmath>

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

std::vector<Device> equal_devices() {
  if (on_shim()) return {cpu, cuda};
  return {cpu};  // on a GPU the tuner may take another implementation for the one than for the other
}
// A hook wants to see the gradient, so that relu is differentiated by itself.
Tensor seen(const Tensor& t) {
  if (t.requires_grad()) t.on_grad([](const Tensor&) {});
  return t;
}

// x, and weight and bias of two convolutions.
Tensors inputs(Device device, Dtype dtype, bool volumes, bool has_bias) {
  manual_seed(3);
  const auto make = [&](const Dims& d) { return randn(d).to(dtype).to(device).requires_grad_(); };
  const Dims x = volumes ? Dims{2, 3, 3, 4, 5} : Dims{2, 3, 6, 5};
  const Dims one = volumes ? Dims{8, 3, 2, 3, 3} : Dims{8, 3, 3, 3};
  const Dims two = volumes ? Dims{4, 8, 1, 1, 1} : Dims{4, 8, 1, 1};
  return {make(x), make(one), has_bias ? make({8}) : Tensor(), make(two), has_bias ? make({4}) : Tensor()};
}
Tensor convolve(bool volumes, const Tensor& x, const Tensor& w, const Tensor& b) {
  return volumes ? conv3d(x, w, b, {.padding = 1}) : conv2d(x, w, b, {.padding = 1});
}
Tensor convolve_relu(bool volumes, const Tensor& x, const Tensor& w, const Tensor& b) {
  return volumes ? conv3d_relu(x, w, b, {.padding = 1}) : conv2d_relu(x, w, b, {.padding = 1});
}
void check_same(const Tensor& a, const Tensor& b) {
  REQUIRE(a.defined() == b.defined());
  if (a.defined()) CHECK(same_bits(a.to(cpu), b.to(cpu)));
}

}  // namespace

TEST_CASE("convolutions with relu compute what the operators do, forward and backward") {
  for (const Device device : equal_devices()) {
    for (const Dtype dtype : {f64, f32, f16, bf16}) {
      for (const bool volumes : {false, true}) {
        for (const bool has_bias : {false, true}) {
          INFO(device << " " << name_of(dtype) << (volumes ? " volumes" : " images") << " bias " << has_bias);
          const Tensors p = inputs(device, dtype, volumes, has_bias), q = inputs(device, dtype, volumes, has_bias);
          const Tensor hidden = convolve_relu(volumes, p[0], p[1], p[2]);
          const Tensor y = convolve_relu(volumes, hidden, p[3], p[4]);
          const Tensor apart = seen(relu(convolve(volumes, q[0], q[1], q[2])));
          const Tensor z = relu(convolve(volumes, apart, q[3], q[4]));
          check_same(hidden, apart);
          check_same(y, z);
          {
            const NoGrad no_grad;
            check_same(convolve_relu(volumes, p[0], p[1], p[2]), apart);
          }
          const Tensor g = randn(y.sizes()).to(dtype).to(device);
          for (int time = 0; time < 2; ++time) {  // the second one adds to what is there
            y.backward(g, true), z.backward(g, true);
            for (std::size_t i = 0; i < p.size(); ++i)
              if (p[i].defined()) check_same(p[i].grad(), q[i].grad());
          }
        }
      }
    }
  }
}

TEST_CASE("a convolution also differentiates gelu and a relu that is an operator of its own") {
  for (const Device device : equal_devices()) {
    for (const bool is_relu : {true, false}) {
      const auto act = [&](const Tensor& t) { return is_relu ? relu(t) : gelu(t); };
      const Tensors p = inputs(device, f32, false, true), q = inputs(device, f32, false, true);
      const Tensor y = conv2d(act(p[0]), p[1], p[2]), z = conv2d(seen(act(q[0])), q[1], q[2]);
      y.backward(ones_like(y)), z.backward(ones_like(z));
      for (std::size_t i = 0; i < 3; ++i) check_same(p[i].grad(), q[i].grad());
    }
  }
}

TEST_CASE("relu after a convolution lets NaN pass, and so does the gradient where it was") {
  for (const Device device : equal_devices()) {
    for (const Dtype dtype : {f32, f16}) {
      const Tensor x = full({1, 1, 2, 2}, NAN).to(dtype).to(device).requires_grad_();
      const Tensor w = ones({1, 1, 1, 1}).to(dtype).to(device);
      const Tensor y = conv2d(conv2d_relu(x, w), w);
      CHECK(std::isnan(y.sum().item<float>()));
      y.backward(ones_like(y));
      CHECK(x.grad().sum().item<float>() == 4);
    }
  }
}

TEST_CASE("convolutions with relu have second derivatives") {
  for (const Device device : equal_devices()) {
    for (const bool volumes : {false, true}) {
      const auto second = [&](const Tensors& in, const Tensor& y) {
        const Tensor root = sum(square(y));
        const Tensors first = grad(std::span(&root, 1), in, {}, {.create_graph = true});
        Tensor total = zeros({}, {.dtype = f64, .device = device});
        for (const Tensor& g : first) total = total + sum(square(g));
        return grad(std::span<const Tensor>(&total, 1), in, {}, {});
      };
      const Tensors p = inputs(device, f64, volumes, true), q = inputs(device, f64, volumes, true);
      const Tensor y = convolve(volumes, convolve_relu(volumes, p[0], p[1], p[2]), p[3], p[4]);
      const Tensor z = convolve(volumes, relu(convolve(volumes, q[0], q[1], q[2])), q[3], q[4]);
      const Tensors found = second(p, y), expected = second(q, z);
      for (std::size_t i = 0; i < p.size(); ++i) CHECK(allclose(found[i].to(cpu), expected[i].to(cpu), 1e-12, 1e-9));
    }
  }
}

TEST_CASE("ConvReLU2d and ConvReLU3d are Conv2d and Conv3d with the same parameters, also under autocast") {
  manual_seed(4);
  const nn::Conv2d plane(3, 8, 3, {.padding = 1, .padding_mode = "reflect"});
  const nn::Conv3d volume(3, 8, {1, 3, 3}, {.stride = {1, 2, 2}, .bias = false});
  nn::ConvReLU2d plane_relu(3, 8, 3, {.padding = 1, .padding_mode = "reflect"});
  nn::ConvReLU3d volume_relu(3, 8, {1, 3, 3}, {.stride = {1, 2, 2}, .bias = false});
  nn::load_state_dict(plane_relu, nn::state_dict(plane));
  nn::load_state_dict(volume_relu, nn::state_dict(volume));
  const Tensor x = randn({2, 3, 6, 6}), v = randn({2, 3, 2, 6, 6});
  for (const Dtype region : {f32, f16, bf16}) {
    amp::autocast({.dtype = region, .enabled = region != f32}, [&] {
      CHECK(same_bits(plane_relu(x), relu(plane(x))));
      CHECK(same_bits(volume_relu.clone()(v), relu(volume(v))));
    });
  }
  CHECK(same_bits(conv2d_relu(x[0], plane.weight), conv2d_relu(x, plane.weight)[0]));
  CHECK_THROWS_WITH(plane_relu(randn({2, 4, 6, 6})), Catch::Contains("x has 4 channels, weight expects 3"));

  amp::Explain explain;
  amp::autocast(bf16, [&] { return nn::ConvReLU2d(3, 2, 1)(x); });
  REQUIRE(explain.decisions().size() == 2);
  CHECK(std::string(explain.decisions()[0].op) == "conv2d");
  CHECK(std::string(explain.decisions()[1].op) == "relu");
}
