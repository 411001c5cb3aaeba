// Memory of a training step of a miniature GPT-2, in bytes as counted by the allocator: after forward exactly what the
// gradients need, and during backward little more. In bf16 autocast, on the CUDA device.
#include <cstdio>

#include <mantissa/mantissa.h>

#include "core/accelerator.h"
#include "core/allocator.h"
#include "tests/devices.h"

using namespace mantissa;

namespace {

constexpr std::int64_t batch = 2, length = 128, width = 128, heads = 2, layers = 3, vocabulary = 4096;

struct Block {  // as in bench/workloads.cpp
  nn::LayerNorm norm1{width}, norm2{width};
  nn::Linear qkv{width, 3 * width}, out{width, width}, up{width, 4 * width}, down{4 * width, width};
  MANTISSA_FIELDS(norm1, norm2, qkv, out, up, down)

  Tensor attend(const Tensor& x) const {
    const Tensor all = qkv(x);
    const auto part = [&](int i) {
      return narrow(all, 2, i * width, width).reshape({batch, length, heads, width / heads}).transpose(1, 2);
    };
    const Tensor y = scaled_dot_product_attention(part(0), part(1), part(2), {}, {.is_causal = true});
    return out(flatten(y.transpose(1, 2), 2));
  }
  Tensor operator()(Tensor x) const {
    x = x + attend(norm1(x));
    return x + down(gelu(up(norm2(x)), "tanh"));
  }
};
struct Gpt2 {
  Gpt2() : blocks(layers) {}
  nn::Embedding token{vocabulary, width}, position{length, width};
  std::vector<Block> blocks;
  nn::LayerNorm norm{width};
  MANTISSA_FIELDS(token, position, blocks, norm)
  Tensor operator()(const Tensor& tokens) const {
    Tensor x = token(tokens) + position.weight;
    for (const Block& block : blocks) x = block(x);
    return linear(norm(x), token.weight);
  }
};

struct Bytes {
  std::int64_t forward, forward_peak, backward_peak, step_peak, reserved;  // the first three beyond what lasts
};
// One step in its steady state. `wide`: as if logits were cast to f32, and referenced by the program during backward.
Bytes measure(bool wide) {
  manual_seed(1);
  Gpt2 net;
  nn::to(net, cuda);
  optim::AdamW optimizer(nn::parameters(net), {.lr = 1e-3});
  const Tensor tokens = randint(0, vocabulary, {batch, length}).to(cuda);
  const Tensor labels = randint(0, vocabulary, {batch * length}).to(cuda);
  Bytes found{};
  empty_cache(cuda);
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    reset_peak_memory_stats(cuda);
    const std::int64_t before = memory_stats(cuda).allocated;
    Tensor held;
    const Tensor loss = amp::autocast(bf16, [&] {
      Tensor logits = flatten(net(tokens), 0, 1);
      if (wide) held = logits = cast(logits, f32);
      return cross_entropy(logits, labels);
    });
    const MemoryStats forward = memory_stats(cuda);
    reset_peak_memory_stats(cuda);
    backward(loss);
    const MemoryStats backward = memory_stats(cuda);
    optimizer.step();
    const MemoryStats all = memory_stats(cuda);
    found = {forward.allocated - before, forward.peak_allocated - before, backward.peak_allocated - before,
             std::max(forward.peak_allocated, all.peak_allocated), all.reserved};
  }
  return found;
}

}  // namespace

TEST_CASE("a training step of a language model keeps what its gradients need, and no wide logits") {
  if (!cuda_is_available()) {
    WARN("no GPU: nothing was tested");
    return;
  }
  // What is allocated does not depend on what kernels compute: they need not run.
  if (test::on_shim()) cuda_shim::set_null_device(true);
  const Bytes now = measure(false), wide = measure(true);
  if (test::on_shim()) cuda_shim::set_null_device(false);
  const auto print = [](const char* what, const Bytes& b) {
    std::printf("%s: after forward %ld, peak of forward %ld, of backward %ld; step in all %ld, reserved %ld bytes\n",
                what, b.forward, b.forward_peak, b.backward_peak, b.step_peak, b.reserved);
  };
  print("logits in bf16, overwritten", now);
  print("logits in f32, held        ", wide);
  constexpr std::int64_t rows = batch * length, logits = rows * vocabulary;  // elements
  // Per token and layer, in bytes per feature: the inputs of two norms in f32 (8) and their results in bf16 (4), q, k
  // and v (6), the result of attention (2), the input of gelu and its result (16).
  const std::int64_t kept = layers * rows * width * 36 + rows * width * 6;  // and those of the last norm
  CHECK(now.forward >= kept + 2 * logits);
  CHECK(now.forward <= (kept + 2 * logits) * 103 / 100);
  // Backward begins by overwriting the logits with their gradient; then it needs the gradients of the head's operands,
  // the weight's in f32.
  // On a GPU a product may take as much for the parts of split sums.
  const std::int64_t scratch = test::on_shim() ? 1 << 16 : 32 << 20;
  CHECK(now.backward_peak <= now.forward + 4 * vocabulary * width + 6 * rows * width + scratch);
  CHECK(wide.backward_peak + (1 << 16) >= now.forward + 8 * logits);
}
