// A whole training step on the CUDA device: the same network, data and seed as on the CPU give the same losses, a
// repeated run gives the same bits, and no step reads a tensor back to the host.
#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "core/host_reads.h"
#include "core/random.h"
#include "mantissa.h"
#include "tests/testing.h"

using namespace mantissa;

namespace {

struct SmallNet {
  nn::Conv2d conv{1, 4, 3, {.padding = 1}};
  nn::BatchNorm2d norm{4};
  nn::Linear hidden{4 * 4 * 4, 16}, out{16, 5};
  Tensor operator()(const Tensor& x) {
    const Tensor features = max_pool2d(relu(norm(conv(x))), {2});
    return out(dropout(gelu(hidden(flatten(features, 1))), 0.1));
  }
  MANTISSA_FIELDS(conv, norm, hidden, out)
};

struct Outcome {
  std::vector<double> losses;
  std::vector<Tensor> weights;
};
Outcome train(Device device, Dtype dtype, int steps) {
  manual_seed(3);
  SmallNet net;
  nn::to(net, device);
  optim::AdamW optimizer(nn::parameters(net), {.lr = 1e-2, .weight_decay = 0.01});
  amp::GradScaler scaler({.enabled = dtype == f16});
  const Tensor image = cast(test::random_tensor({6, 1, 8, 8}, 4), f32).to(device);
  const Tensor label = from_data<std::int64_t>(std::vector<std::int64_t>{0, 1, 2, 3, 4, 0}, {6}).to(device);
  Outcome outcome;
  std::vector<Tensor> losses;
  std::uint64_t reads = 0;
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const Tensor loss = amp::autocast(dtype, [&] { return cross_entropy(net(image), label); });
    backward(scaler.scale(loss));
    scaler.unscale_(optimizer);
    optim::clip_grad_norm_(nn::parameters(net), 1.0);
    scaler.step(optimizer);
    scaler.update();
    losses.push_back(loss.detach());
    if (step == 0) reads = host_reads();  // the first step may set things up
  }
  if (device.is_cuda()) CHECK(host_reads() == reads);
  for (const Tensor& loss : losses) outcome.losses.push_back(loss.item());
  for (const Tensor& p : nn::parameters(net)) outcome.weights.push_back(p.detach().to(cpu));
  return outcome;
}

}  // namespace

TEST_CASE("a network trains on cuda as on the cpu, bit for bit the same every time, without reading back") {
  if (!cuda_is_available()) {
    WARN("no GPU: nothing was tested");
    return;
  }
  for (const auto& [dtype, tolerance] : {std::pair{f32, 2e-3}, std::pair{bf16, 6e-2}, std::pair{f16, 2e-2}}) {
    INFO(name_of(dtype));
    const Outcome here = train(cpu, dtype, 6), there = train(cuda, dtype, 6), again = train(cuda, dtype, 6);
    CHECK(there.losses == again.losses);
    for (std::size_t i = 0; i < there.weights.size(); ++i) CHECK(test::same_bits(there.weights[i], again.weights[i]));
    CHECK(there.losses.back() < there.losses.front());
    for (std::size_t i = 0; i < here.losses.size(); ++i)
      CHECK(std::abs(here.losses[i] - there.losses[i]) <= tolerance * (1 + std::abs(here.losses[i])));
  }
}

TEST_CASE("writing in place what lies on another device is refused") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  Tensor here = zeros({2}), there = zeros({2}, {.device = cuda});
  CHECK_THAT(test::message_of([&] { here.add_(there); }), Catch::Matchers::Contains("move them together"));
  CHECK_THAT(test::message_of([&] { there.mul_(here); }), Catch::Matchers::Contains("move them together"));
  there.add_(Tensor(2.0)).mul_(ones({1}) * 3.0);  // a number of the host may come along
  CHECK(there.to(cpu).to_vector<float>() == std::vector<float>{6, 6});
}
