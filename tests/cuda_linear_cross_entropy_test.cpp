// linear_cross_entropy compared with linear and cross_entropy: accuracy in f16 and bf16, rare classes under a loss
// scaler, memory, which gradients are computed, captured steps; on the CPU and on a GPU (or the shim). Shapes, options
// and f64 gradients are covered by the registry's samples (ops/linear_cross_entropy.cpp) and by PyTorch's numbers
// (tests/golden/ops_loss.h).
#include "core/linear_cross_entropy.h"

#include "core/accelerator.h"
#include "core/allocator.h"
#include "cuda/launches.h"
#include "mantissa.h"
#include "tests/catch_compat.h"
#include "tests/devices.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

struct Inputs {
  Tensor x, weight, target, bias;
  Inputs(std::int64_t rows, std::int64_t in, std::int64_t classes, Dtype dtype = f32, Device device = cpu) {
    manual_seed(3);
    const auto make = [&](const Dims& sizes, double scale) { return (randn(sizes) * scale).to(dtype).to(device); };
    x = make({rows, in}, 1), weight = make({classes, in}, 0.3), bias = make({classes}, 0.5);
    target = randint(0, classes, {rows}).to(device);
  }
  void wanting() {
    for (Tensor* t : {&x, &weight, &bias}) t->requires_grad_();
  }
};
Tensor fused(const Inputs& i, const LinearCrossEntropyOptions& o = {}) {
  return linear_cross_entropy(i.x, i.weight, i.target, i.bias, o);
}
Tensor apart(const Inputs& i) { return cross_entropy(linear(i.x, i.weight, i.bias), i.target); }

double distance(const Tensor& a, const Tensor& b) {  // relative, of the whole tensors
  const Tensor x = a.detach().to(cpu).to(f64), y = b.detach().to(cpu).to(f64);
  return norm(x - y).item<double>() / norm(y).item<double>();
}

}  // namespace

TEST_CASE("gradients of linear_cross_entropy are as near to f64 as those of the two operators") {
  for (const Device device : devices()) {
    for (const Dtype dtype : {f32, bf16, f16}) {
      INFO(name_of(dtype));
      Inputs rounded(96, 64, 1000, dtype, device), exact(0, 1, 1, f64);
      exact.x = rounded.x.to(cpu).to(f64), exact.weight = rounded.weight.to(cpu).to(f64);
      exact.bias = rounded.bias.to(cpu).to(f64), exact.target = rounded.target.to(cpu);
      exact.wanting();
      const Tensor truth = apart(exact);
      truth.backward();
      rounded.wanting();
      const Tensor whole = apart(rounded);
      whole.backward();
      const Tensor by_two[] = {rounded.x.grad(), rounded.weight.grad(), rounded.bias.grad()};
      for (const std::int64_t chunk : {0, 32, 50}) {
        for (const Tensor& t : {rounded.x, rounded.weight, rounded.bias}) Tensor(t).set_grad({});
        const Tensor loss = fused(rounded, {.batch_chunk_size = chunk});
        loss.backward();
        CHECK(loss.dtype() == dtype);
        CHECK(distance(loss, truth) <= (is_half(dtype) ? 4e-3 : 1e-6));
        const Tensor got[] = {rounded.x.grad(), rounded.weight.grad(), rounded.bias.grad()};
        const Tensor right[] = {exact.x.grad(), exact.weight.grad(), exact.bias.grad()};
        for (int i = 0; i < 3; ++i) {
          INFO("gradient " << i << " chunk " << chunk);
          CHECK(distance(got[i], right[i]) <= 1.1 * distance(by_two[i], right[i]));
        }
      }
    }
  }
}

TEST_CASE("in f16 under a loss scaler no class is too rare for linear_cross_entropy") {
  for (const Device device : devices()) {
    // One likely class; every other has a probability of 2.5e-8, and all of them push x in the same direction.
    const std::int64_t rows = 32, in = 16, classes = 2048;
    Tensor logits = full({classes}, -18.5);
    logits.data<float>()[0] = 0;
    Inputs i(rows, in, classes, f32, device);
    i.bias = logits.to(device), i.weight = full({classes, in}, 8).to(device);
    i.weight.slice(0, 0, 1).fill_(0);
    i.x = (full({rows, in}, 1.0 / 128)).to(device), i.target = zeros({rows}, {.dtype = i64}).to(device);
    i.wanting();
    const double scale = 8;  // of 32 rows; 2048 would be that of 8192
    const auto gradient = [&](const auto& loss_of) {
      i.x.set_grad({}), i.weight.set_grad({});
      const Tensor loss = amp::autocast(f16, loss_of);
      CHECK(loss.dtype() == f32);
      (loss * scale).backward();
      return i.x.grad() / scale;
    };
    const auto rare = [](const Tensor& weight) { return weight.grad().slice(0, 1); };  // what all classes but one get
    Inputs exact = i;
    for (Tensor* t : {&exact.x, &exact.weight, &exact.bias}) *t = t->detach().to(cpu).to(f64);
    exact.target = i.target.to(cpu);
    exact.wanting();
    apart(exact).backward();
    const double two = distance(gradient([&] { return apart(i); }), exact.x.grad());
    const double rare_by_two = distance(rare(i.weight) / scale, rare(exact.weight));
    const double one = distance(gradient([&] { return fused(i); }), exact.x.grad());
    const double rare_by_one = distance(rare(i.weight) / scale, rare(exact.weight));
    CHECK(two > 0.5);   // the gradient of a logit is 8 / 32 * 2.5e-8: nothing in f16
    CHECK(one < 0.02);  // what rounding the logits to f16 leaves
    CHECK(rare_by_two > 0.5);
    CHECK(rare_by_one < 0.02);
  }
}

TEST_CASE("linear_cross_entropy holds the logits of one chunk, not of all rows") {
  for (const Device device : devices()) {
    for (const bool half : {false, true}) {
      const std::int64_t rows = 256, in = 8, classes = 2048, chunk = 32, mib = 1 << 20;
      // of a product, for the parts of split sums
      const std::int64_t workspace = device.is_cpu() || on_shim() ? 0 : 32 * mib;
      Inputs i(rows, in, classes, f32, device);
      i.wanting();
      const auto peak_of = [&](const auto& loss_of) {
        for (int k = 0; k < 2; ++k) {
          for (const Tensor& t : {i.x, i.weight, i.bias}) Tensor(t).set_grad({});
          reset_peak_memory_stats(device);
          const std::int64_t before = memory_stats(device).allocated;
          (half ? amp::autocast(bf16, loss_of) : loss_of()).backward();
          if (k == 1) return memory_stats(device).peak_allocated - before;
        }
        return std::int64_t{0};
      };
      const std::int64_t one = peak_of([&] { return fused(i, {.batch_chunk_size = chunk}); });
      const std::int64_t two = peak_of([&] { return apart(i); });
      const std::int64_t logits = rows * classes * (half ? 2 : 4);
      // A chunk of logits; gradients of weight, x and bias in f32 and again in the operands' dtype; copies of operands
      // in 16 bits; and packed operands of products.
      const std::int64_t kept =
          chunk * classes * (half ? 2 : 4) + 4 * (classes * in * 4) + 3 * (rows * in * 4) + mib / 4;
      INFO("peak " << one << ", of the two operators " << two << ", all logits " << logits);
      CHECK(one <= kept + workspace);
      CHECK(kept < logits);
      CHECK(two > logits);
      const NoGrad no_grad;  // and only losses where no gradient is wanted
      reset_peak_memory_stats(device);
      const std::int64_t before = memory_stats(device).allocated;
      (void)fused(i, {.reduction = Reduction::none, .batch_chunk_size = chunk});
      const std::int64_t of_losses = chunk * classes * 4 + classes * in * 4 + mib / 4 + workspace;
      CHECK(memory_stats(device).peak_allocated - before <= of_losses);
    }
  }
}

TEST_CASE("linear_cross_entropy computes the gradients that are wanted, and the same ones again") {
  for (const Device device : devices()) {
    Inputs all(20, 8, 50, f32, device);
    all.wanting();
    fused(all, {.batch_chunk_size = 8}).backward();
    const Tensor expected[] = {all.x.grad(), all.weight.grad(), all.bias.grad()};
    for (int only = 0; only < 3; ++only) {
      Inputs i(20, 8, 50, f32, device);
      Tensor* const inputs[] = {&i.x, &i.weight, &i.bias};
      inputs[only]->requires_grad_();
      const Tensor loss = fused(i, {.batch_chunk_size = 8});
      loss.backward({}, true);
      CHECK(same_bits(inputs[only]->grad().to(cpu), expected[only].to(cpu)));
      loss.backward(full({}, 2.0).to(device));  // what the forward pass left has not been scaled or given away
      CHECK(all_close(inputs[only]->grad().to(cpu), (expected[only] * 3.0).to(cpu)));
      CHECK_THROWS_WITH(loss.backward(), Catch::Matchers::Contains("linear_cross_entropy"));
    }
    const NoGrad no_grad;
    CHECK(all_close(fused(all, {.batch_chunk_size = 8}).to(cpu), apart(all).to(cpu)));
  }
}

TEST_CASE("the weight of an embedding may be the weight of linear_cross_entropy") {
  for (const Device device : devices()) {
    const auto gradient = [&](bool one) {
      manual_seed(4);
      nn::Embedding token(30, 8);
      nn::LinearCrossEntropyLoss loss(8, 30);
      nn::tie(loss.linear.weight, token.weight);
      nn::to(token, device);
      const Tensor text = randint(0, 30, {2, 6}).to(device), next = randint(0, 30, {2, 6}).to(device);
      const Tensor x = token(text);
      const Tensor value = one ? linear_cross_entropy(x, token.weight, next)
                               : cross_entropy(flatten(linear(x, token.weight), 0, 1), flatten(next));
      value.backward();
      return token.weight.grad().to(cpu);
    };
    CHECK(all_close(gradient(true), gradient(false), tolerance_for(f32, 12)));
  }
}

TEST_CASE("a mean over ignored targets alone has no gradient, as that of cross_entropy") {
  for (const Device device : devices()) {
    Inputs i(3, 4, 5, f32, device);
    i.target = full({3}, -100, {.dtype = i64}).to(device);
    i.wanting();
    const Tensor loss = fused(i);
    CHECK(std::isnan(loss.to(cpu).item()));
    loss.backward();
    CHECK(norm(i.weight.grad()).to(cpu).item() == 0);
    CHECK(norm(i.x.grad()).to(cpu).item() == 0);
  }
}

TEST_CASE("labels out of range are reported on a GPU when the host waits") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  Inputs i(4, 4, 5, f32, cuda);
  i.target = tensor({0, 1, 9, 2}).to(cuda);
  const char* const message = "label 9 at position 2 of the target is out of range for 5 classes";
  CHECK_THROWS_WITH(fused(i).to(cpu), Catch::Matchers::Contains(message));
}

TEST_CASE("on a GPU a chunk is three products and one pass over its logits") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  if (!on_shim()) { WARN("which kernels run is the tuner's choice: not tested on a GPU"); return; }
  Inputs i(128, 64, 256, bf16, cuda);
  i.bias = Tensor();
  i.x.requires_grad_(), i.weight.requires_grad_();
  cuda_backend::LaunchCounter counter;
  const Tensor loss = fused(i, {.batch_chunk_size = 64});
  CHECK(counter.products() == 6);
  CHECK(counter.of("linear_cross_entropy") == 2);
  CHECK(counter.launches.size() == 4);  // and the factors, and the sum of the losses
  counter.launches.clear();
  const Tensor g = ones_like(loss);
  loss.backward(g);
  CHECK(counter.products() == 0);
}

TEST_CASE("a step with linear_cross_entropy can be captured") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const auto train = [](bool captured) {
    manual_seed(11);
    nn::LinearCrossEntropyLoss head(8, 40, {.bias = true, .loss = {.label_smoothing = 0.1, .batch_chunk_size = 8}});
    nn::to(head, cuda);
    optim::AdamW opt(nn::parameters(head), {.lr = 1e-2});
    amp::GradScaler scaler({.init_scale = 4096, .growth_interval = 3});
    const auto body = [&](const Tensor& x, const Tensor& label) {
      const Tensor loss = amp::autocast(f16, [&] { return head(x, label); });
      backward(scaler.scale(loss));
      scaler.step(opt);
      scaler.update();
      nn::zero_grad(head);
      return loss;
    };
    auto step = jit::capture(body);
    std::vector<float> losses;
    for (int i = 0; i < 8; ++i) {
      const Tensor x = randn({20, 8}).to(cuda), label = randint(0, 40, {20}, {.dtype = i64}).to(cuda);
      losses.push_back((captured ? step(x, label) : body(x, label)).to(cpu).item());
    }
    return losses;
  };
  CHECK(train(true) == train(false));
}
