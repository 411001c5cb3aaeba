// Networks of convolutions keep one layout on the device: no image is rearranged in a training step,
// only contiguous weights are. On the shim, where convolutions are always unfolded: the library's would make other
// copies of the first layer's input.
#include "amp/autocast.h"
#include "core/random.h"
#include "cuda/launches.h"
#include "mantissa.h"
#include "tests/cuda_shim/resnet_block.h"
#include "tests/testing.h"

using namespace mantissa;
using cuda_backend::LaunchCounter;

namespace {

struct ResNet {
  nn::Conv2d conv1{3, 16, 3, {.padding = 1, .bias = false}};
  nn::BatchNormAct2d bn1{16};
  test::ResNetBlock first{16, 16, 1}, second{16, 32, 2};
  nn::Linear linear{32, 10};
  MANTISSA_FIELDS(conv1, bn1, first, second, linear)
  Tensor operator()(const Tensor& image) const {
    return linear(flatten(adaptive_avg_pool2d(second(first(bn1(conv1(image)))), {1, 1}), 1));
  }
};
struct SimpleCnn {
  nn::Conv2d conv1{3, 16, 3, {.padding = 1}}, conv2{16, 32, 3, {.padding = 1}};
  nn::Linear fc{32 * 2 * 2, 10};
  MANTISSA_FIELDS(conv1, conv2, fc)
  Tensor operator()(const Tensor& image) const {
    const Tensor x = max_pool2d(relu(conv1(image)), 2);
    return fc(flatten(max_pool2d(relu(conv2(x)), 2), 1));
  }
};

struct Counts { int forward, backward; };
template <class Net> Counts rearranged_in_step(Dtype dtype, Layout weights = Layout::contiguous) {
  manual_seed(2);
  Net net;
  nn::to(net, cuda);
  nn::to(net, weights);
  const Tensor image = randn({4, 3, 8, 8}).to(cuda);
  const Tensor label = from_data<std::int64_t>(std::vector<std::int64_t>{0, 1, 2, 3}, {4}).to(cuda);
  Counts counts{};
  for (int step = 0; step < 2; ++step) {
    LaunchCounter forward;
    const Tensor loss = amp::autocast(dtype, [&] { return cross_entropy(net(image), label); });
    counts.forward = forward.of("rearrange");
    LaunchCounter backward;
    loss.backward();
    counts.backward = backward.of("rearrange");
    for (const Tensor& p : nn::parameters(net)) Tensor(p).set_grad({});
  }
  return counts;
}

}  // namespace

TEST_CASE("a residual network rearranges no image, only the weights of kernels larger than a pixel") {
  for (const Dtype dtype : {f16, bf16}) {
    INFO(name_of(dtype));
    const Counts n = rearranged_in_step<ResNet>(dtype);
    CHECK(n.forward == 5);       // the weights of five convolutions, 3 x 3
    CHECK(n.backward == 4 + 5);  // those of four input gradients, and five weight gradients
  }
}

TEST_CASE("a residual network with channels-last weights rearranges nothing") {
  for (const Dtype dtype : {f16, bf16}) {
    INFO(name_of(dtype));
    const Counts n = rearranged_in_step<ResNet>(dtype, Layout::channels_last);
    CHECK(n.forward == 0);
    CHECK(n.backward == 0);
  }
}

TEST_CASE("a network that flattens images rearranges those, and their gradient") {
  Counts n = rearranged_in_step<SimpleCnn>(bf16);
  CHECK(n.forward == 2 + 1);
  CHECK(n.backward == 1 + 2 + 1);
  n = rearranged_in_step<SimpleCnn>(bf16, Layout::channels_last);
  CHECK(n.forward == 1);
  CHECK(n.backward == 1);
}

TEST_CASE("in f32 images stay contiguous") {
  const Counts n = rearranged_in_step<ResNet>(f32);
  CHECK(n.forward == 0);
  CHECK(n.backward == 0);
}
