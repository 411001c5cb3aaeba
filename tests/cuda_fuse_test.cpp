// jit::fuse on the CUDA device compared with the same functions on the CPU in f64: results and gradients, every dtype,
// broadcasting and strides, inside a captured step. Under the CPU shim the C++ compiler compiles the code that NVRTC
// compiles for a GPU.
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "jit/capture.h"
#include "tests/devices.h"
#include "tests/fused_functions.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

// y and the gradients of floating inputs.
std::vector<Tensor> run(const FusedCase& c, const jit::ElementwiseFunction& f, const std::vector<Tensor>& values,
                        bool strided) {
  std::vector<Tensor> leaves, x;
  for (const Tensor& v : values) {
    leaves.push_back(v.is_floating() ? v.detach().clone().requires_grad_() : v);
    x.push_back(strided && v.dim() == 2 ? leaves.back().t().contiguous().t() : leaves.back());
  }
  const Tensor y = f(x);
  std::vector<Tensor> all{y.detach()};
  if (!y.requires_grad()) return all;
  backward(sum(y * c.weights(y.dtype(), y.device())));
  for (const Tensor& t : leaves)
    if (t.is_floating()) all.push_back(t.grad().defined() ? t.grad() : zeros_like(t.detach()));
  return all;
}

}  // namespace

TEST_CASE("fused functions and their gradients on every device") {
  for (const Device device : devices()) {
    for (const FusedCase& c : fused_cases()) {
      const jit::FusedFunction fused = c.fused();
      for (const Dtype dtype : {f32, bf16, f16, f64}) {
        if (dtype == f64 && !device.is_cpu() && c.name != "swiglu" && c.name != "parameters")
          continue;  // compiled apart, by a slow compiler
        for (const bool strided : {false, true}) {
          INFO(c.name << " " << name_of(dtype) << " on " << concat(device) << (strided ? ", strided" : ""));
          std::vector<Tensor> here, wide;
          for (const Tensor& t : c.leaves(dtype, cpu)) {
            here.push_back(t.detach().to(device));
            wide.push_back(t.dtype() == boolean ? t : t.detach().to(f64));
          }
          const std::vector<Tensor> found = run(
                                        c, [&](std::span<const Tensor> x) { return fused.call(x); }, here, strided),
                                    expected = run(c, c.function, wide, false);
          REQUIRE(found.size() == expected.size());
          for (std::size_t k = 0; k < found.size(); ++k) {
            INFO((k == 0 ? "result" : "gradient ") << k);
            const Tensor a = found[k].detach().to(cpu).to(f64), b = expected[k].to(f64);
            if (expected[k].dtype() == boolean) {
              CHECK(same_bits(a, b));
              continue;
            }
            const double scale = max(abs(b)).item(), tolerance = dtype == f64   ? 1e-12
                                                                 : dtype == f32 ? 2e-5
                                                                 : dtype == f16 ? 4e-3
                                                                                : 3e-2;
            CHECK(max(abs(a - b)).item() <= tolerance * std::max(scale, 1.0));
          }
        }
      }
    }
  }
}

TEST_CASE("channels-last images, empty tensors and scalars") {
  const auto f = jit::fuse([](Tensor x, Tensor y) { return relu(x) * 2 + y; });
  for (const Device device : devices()) {
    const Tensor x = random_tensor({2, 16, 5, 4}, 1, -1, 1).to(device),
                 b = random_tensor({16, 1, 1}, 2, -1, 1).to(device);
    const Tensor y = f(channels_last(x), b);
    CHECK(y.layout() == Layout::channels_last);
    CHECK(same_bits(contiguous(y).to(cpu), f(x, b).to(cpu)));
    CHECK(f(zeros({0, 3}, {.device = device}), zeros({3}, {.device = device})).sizes() == Dims{0, 3});
    CHECK(f(scalar(3, {.device = device}), scalar(1, {.device = device})).item() == 7);
    CHECK(same_bits(f(2, x).to(cpu), (x + 4).to(cpu)));  // a number of the host
  }
}

TEST_CASE("gradients that are constants, and each gradient alone") {
  const auto rounded = jit::fuse([](Tensor x) { return round(x); });
  const auto signed_by = jit::fuse([](Tensor x, Tensor w) { return x * sign(w); });
  for (const Device device : devices()) {
    const auto fresh = [&](std::uint64_t stream) { return cast(random_tensor({3, 40}, stream), f32).to(device); };
    Tensor x = fresh(1).requires_grad_(), w = fresh(2).requires_grad_();
    const Tensor y = fresh(1), v = fresh(2);
    backward(sum(rounded(x)));
    CHECK(sum(abs(x.grad())).item() == 0);
    x.set_grad({});
    backward(sum(signed_by(x, v)));
    CHECK(same_bits(x.grad().to(cpu), sign(v).to(cpu)));
    backward(sum(signed_by(y, w)));
    CHECK(sum(abs(w.grad())).item() == 0);
  }
}

TEST_CASE("a captured step contains fused functions") {
  const auto f = jit::fuse([](Tensor x, Tensor w) { return tanh(x * w) * 0.5; });
  for (const Device device : devices()) {
    Tensor w = random_tensor({64}, 3, -1, 1).to(device).requires_grad_();
    const auto step = [&](Tensor x) {
      const Tensor loss = sum(f(x, w));
      backward(loss);
      const Tensor g = w.grad().clone();
      w.set_grad({});
      return std::vector{loss, g};
    };
    auto captured = jit::capture(step);
    for (int i = 0; i < 4; ++i) {
      const Tensor x = random_tensor({32, 64}, 5 + static_cast<std::uint64_t>(i), -1, 1).to(device);
      const std::vector<Tensor> a = step(x), b = captured(x);
      for (std::size_t k = 0; k < 2; ++k) CHECK(same_bits(a[k].detach().to(cpu), b[k].detach().to(cpu)));
    }
  }
}
