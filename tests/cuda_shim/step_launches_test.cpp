// What one training step launches, counted on a device that does nothing: of the samples' GPT and ResNet-18 in bf16,
// gradients clipped for the GPT, and of the benchmark's MLP and CNN in bf16, or f16 with a loss scale; with the
// optimizers of the samples. Products go the way they have on the shim, and so do convolutions, but for those of the
// CNN with a cuDNN. `step_launches_test "[list]"` prints every kernel by name.
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "cuda/launch.h"
#include "cuda/launches.h"
#include "mantissa.h"
#include "tests/cuda_shim/resnet_block.h"
#include "tests/cuda_shim/shim.h"
#include "tests/testing.h"

using namespace mantissa;

namespace {

struct GptBlock {  // of samples/gpt.cpp
  explicit GptBlock(std::int64_t width)
      : norm1(width, {.bias = false, .autocast_output = true}), query(width, width, {.bias = false}),
        key(width, width, {.bias = false}), value(width, width, {.bias = false}), out(width, width, {.bias = false}),
        norm2(width, {.bias = false}), up(width, 4 * width, Activation::gelu_tanh, {.bias = false}),
        down(4 * width, width, {.bias = false}) {}
  nn::LayerNorm norm1;
  nn::Linear query, key, value, out;
  nn::LayerNorm norm2;
  nn::LinearAct up;
  nn::Linear down;
  MANTISSA_FIELDS(norm1, query, key, value, out, norm2, up, down)

  Tensor attend(const Tensor& x) const {
    const auto by_head = [](const Tensor& y) { return y.reshape({y.size(0), y.size(1), 4, -1}).transpose(1, 2); };
    const Tensor q = rotary_embedding(by_head(query(x))), k = rotary_embedding(by_head(key(x))), v = by_head(value(x));
    return out(flatten(scaled_dot_product_attention(q, k, v, {}, {.is_causal = true}).transpose(1, 2), 2));
  }
  Tensor operator()(const Tensor& x) const {
    const auto [sum, y] = norm2(x, attend(norm1(x)));
    return sum + nn::feed_forward(up, down, y);
  }
};
struct Gpt {
  Gpt() {
    for (int i = 0; i < 4; ++i) blocks.emplace_back(128);
  }
  nn::Embedding token{65, 128};
  std::vector<GptBlock> blocks;
  nn::LayerNorm norm{128, {.bias = false, .autocast_output = true}};
  nn::Linear head{128, 65, {.bias = false}};
  MANTISSA_FIELDS(token, blocks, norm, head)
  Tensor operator()(const Tensor& tokens) const {
    Tensor x = token(tokens);
    for (const GptBlock& block : blocks) x = block(x);
    return head(norm(x));
  }
};

struct ResNet18 {
  ResNet18() {
    for (std::int64_t in = 64, stage = 0; stage < 4; ++stage) {
      const std::int64_t out = 64 << stage;
      blocks.emplace_back(in, out, stage > 0 ? 2 : 1);
      blocks.emplace_back(out, out, 1);
      in = out;
    }
  }
  nn::Conv2d conv1{3, 64, 3, {.padding = 1, .bias = false}};
  nn::BatchNormAct2d bn1{64};
  std::vector<test::ResNetBlock> blocks;
  nn::Linear linear{512, 10};
  MANTISSA_FIELDS(conv1, bn1, blocks, linear)
  Tensor operator()(const Tensor& image) const {
    Tensor x = bn1(conv1(image));
    for (const test::ResNetBlock& block : blocks) x = block(x);
    return linear(flatten(adaptive_avg_pool2d(x, {1, 1}), 1));
  }
};

struct Mlp {
  nn::LinearAct fc1{784, 256, Activation::relu}, fc2{256, 128, Activation::relu};
  nn::Linear fc3{128, 10};
  MANTISSA_FIELDS(fc1, fc2, fc3)
  Tensor operator()(const Tensor& x) const { return fc3(fc2(fc1(x))); }
};
struct MnistCnn {
  nn::ConvReLU2d conv1{1, 32, 3}, conv2{32, 64, 3};
  nn::LinearAct fc1{9216, 128, Activation::relu};
  nn::Linear fc2{128, 10};
  MANTISSA_FIELDS(conv1, conv2, fc1, fc2)
  Tensor operator()(const Tensor& image) const {
    return fc2(fc1(flatten(max_pool2d(conv2(conv1(image)), 2), 1)));
  }
};

Tensor on_device(const Dims& sizes, Dtype dtype) { return empty(sizes, {.dtype = dtype, .device = cuda}); }

// Calls that put work on the stream, by the names of their kernels; the parts of a step after each other.
struct Step {
  std::map<std::string, int> forward, backward, update;
  int total() const {
    int n = 0;
    for (const auto* part : {&forward, &backward, &update})
      for (const auto& [name, count] : *part) n += count;
    return n;
  }
  int of(const std::string& name) const {
    int n = 0;
    for (const auto* part : {&forward, &backward, &update}) n += part->contains(name) ? part->at(name) : 0;
    return n;
  }
};
std::map<std::string, int> launched(const std::function<void()>& f) {
  cuda_shim::CallCounter calls;
  cuda_backend::LaunchCounter launches;
  f();
  std::map<std::string, int> all = launches.launches;
  for (const char* name : {"cudaMemcpyAsync", "cudaMemsetAsync", "cublasLtMatmul", "cudnnBackendExecute"})
    if (calls.calls.contains(name)) all[name] = calls.calls.at(name);
  return all;
}
template <class Net>
Step step_of(const Net& net, optim::Optimizer& o, const std::function<Tensor()>& loss_of,
             std::optional<amp::ClipNorm> clip, Dtype region = bf16) {
  amp::GradScaler scaler({.enabled = region == f16});
  Step step;
  for (int i = 0; i < 3; ++i) {
    nn::zero_grad(net);
    Tensor loss;
    step.forward = launched([&] { loss = amp::autocast(region, loss_of); });
    step.backward = launched([&] { backward(scaler.scale(loss)); });
    step.update = launched([&] {
      if (clip) scaler.step(o, *clip);
      else scaler.step(o);
      scaler.update();
    });
  }
  return step;
}

Step step_of_gpt() {
  Gpt net;
  nn::to(net, cuda);
  optim::AdamW o(nn::parameters(net));
  const Tensor tokens = on_device({8, 128}, i64), target = on_device({8 * 128}, i64);
  return step_of(
      net, o, [&] { return cross_entropy(flatten(net(tokens), 0, 1), target); }, amp::ClipNorm{1});
}
Step step_of_resnet() {
  ResNet18 net;
  nn::to(net, cuda);
  nn::to(net, Layout::channels_last);
  optim::Sgd o(nn::parameters(net), {.lr = 0.1, .momentum = 0.9});
  const Tensor image = on_device({16, 3, 32, 32}, f32), label = on_device({16}, i64);
  return step_of(net, o, [&] { return cross_entropy(net(image), label); }, {});
}
template <class Net> Step step_on_mnist(const Dims& images, Dtype region) {
  Net net;
  nn::to(net, cuda);
  nn::to(net, Layout::channels_last);
  optim::Adam o(nn::parameters(net));
  const Tensor image = on_device(images, f32), label = on_device({128}, i64);
  return step_of(net, o, [&] { return cross_entropy(net(image), label); }, {}, region);
}
Step step_of_mlp(Dtype region) { return step_on_mnist<Mlp>({128, 784}, region); }
Step step_of_cnn(Dtype region) {
  cuda_shim::set_cudnn(true);
  const Step step = step_on_mnist<MnistCnn>({128, 1, 28, 28}, region);
  cuda_shim::set_cudnn(false);
  return step;
}
void print(const char* name, const Step& s) {
  std::printf("%s: %d\n", name, s.total());
  const auto part = [](const char* name, const std::map<std::string, int>& launches) {
    int n = 0;
    for (const auto& [kernel, count] : launches) n += count;
    std::printf("  %s %d:", name, n);
    for (const auto& [kernel, count] : launches) std::printf(" %s %d", kernel.c_str(), count);
    std::printf("\n");
  };
  part("forward", s.forward);
  part("backward", s.backward);
  part("update", s.update);
}

}  // namespace

TEST_CASE("a list of what a training step launches", "[.][list]") {
  cuda_shim::set_null_device(true);
  print("GPT", step_of_gpt());
  print("ResNet-18", step_of_resnet());
  for (const Dtype region : {bf16, f16}) {
    print(region == bf16 ? "MLP, bf16" : "MLP, f16", step_of_mlp(region));
    print(region == bf16 ? "CNN, bf16" : "CNN, f16", step_of_cnn(region));
  }
  cuda_shim::set_null_device(false);
}

TEST_CASE("a training step launches no more than it did") {
  cuda_shim::set_null_device(true);
  const Step gpt = step_of_gpt(), resnet = step_of_resnet();
  CHECK(gpt.total() <= 179);
  CHECK(resnet.total() <= 260);
  CHECK(step_of_mlp(bf16).total() <= 13);
  CHECK(step_of_mlp(f16).total() <= 20);
  CHECK(step_of_cnn(bf16).total() <= 28);
  CHECK(step_of_cnn(f16).total() <= 35);
  cuda_shim::set_null_device(false);
  for (const Step* s : {&gpt, &resnet}) CHECK(s->of("check_indices") == 0);
}

TEST_CASE("kernels of a captured step may come while the one before runs, if compiled for GPUs on which they wait") {
  cuda_shim::set_null_device(true);
  const Tensor x = on_device({8, 8}, f32);
  auto step = jit::capture([](const Tensor& y) { return exp(y) + y; });
  const auto early = [&](const Tensor& y) {
    cuda_shim::CallCounter counter;
    step(y);
    const auto at = counter.calls.find("a launch that may come early");
    return at == counter.calls.end() ? 0 : at->second;
  };
  CHECK(early(x) == 0);  // run as it is
  CHECK(early(x) == 2);  // recorded
  const Tensor second = on_device({16, 8}, f32), third = on_device({24, 8}, f32);
  cuda_shim::set_ptx_version(80);
  for (int i = 0; i < 2; ++i) CHECK(early(second) == 0);
  cuda_shim::set_ptx_version(90);
  cuda_backend::set_overlap(false);
  for (int i = 0; i < 2; ++i) CHECK(early(third) == 0);
  cuda_backend::set_overlap(true);
  cuda_shim::set_null_device(false);
}

TEST_CASE("in a captured step few bytes are copied and filled by kernels, many by the driver") {
  cuda_shim::set_null_device(true);
  const auto recorded = [](std::int64_t n) {
    auto step = jit::capture([](const Tensor& x) { return std::vector<Tensor>{x.clone(), zeros_like(x)}; });
    const Tensor x = on_device({n}, f32);
    step(x);
    return launched([&] { step(x); });
  };
  using Calls = std::map<std::string, int>;
  CHECK(recorded(1000) == Calls{{"copy", 2}, {"place_inputs", 1}});
  CHECK(recorded(1000000) == Calls{{"cudaMemcpyAsync", 1}, {"cudaMemsetAsync", 1}, {"place_inputs", 1}});
  cuda_shim::set_null_device(false);
}

TEST_CASE("one launch updates all averages of weights, and another counts the updates") {
  cuda_shim::set_null_device(true);
  std::vector<Tensor> weights;
  for (int i = 0; i < 20; ++i) weights.push_back(on_device({8, 8}, i % 2 == 0 ? f32 : bf16));
  optim::Ema average(weights);
  const amp::StepResult result(on_device({}, boolean), {});
  CHECK(launched([&] { average.update(result); }) ==
        std::map<std::string, int>{{"update_parameters", 1}, {"advance_parameters", 1}});
  cuda_shim::set_null_device(false);
}
