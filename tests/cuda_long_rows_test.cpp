// Softmax and cross entropy over rows longer than a block holds in registers, and reductions over columns, on the CUDA
// device, compared with f64 on the CPU. (The registry's samples in cuda_registry_test are short.)
#include <algorithm>
#include <functional>

#include "core/accelerator.h"
#include "core/linear_cross_entropy.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

using Function = std::function<Tensor(const Tensor&)>;

// The result and the gradient of the input.
Tensors differentiated(const Function& f, const Tensor& input, Device device, Dtype dtype) {
  const Tensor x = cast(input.detach(), dtype).to(device).requires_grad_(), y = f(x);
  const Tensor v = cast(cast(random_tensor(y.sizes(), 9), input.dtype()), y.dtype()).to(device);
  return {y.detach(), grad(Tensors{y}, Tensors{x}, Tensors{v})[0]};
}

void compare(const char* name, const Function& f, const Dims& sizes, std::initializer_list<Dtype> dtypes) {
  for (const Dtype dtype : dtypes) {
    INFO(name << " of " << concat(dtype, sizes));
    const Tensor input = cast(random_tensor(sizes, 1) * 3.0, dtype);
    const Tensors found = differentiated(f, input, cuda, dtype), expected = differentiated(f, input, cpu, f64);
    for (std::size_t k = 0; k < found.size(); ++k) {
      INFO((k == 0 ? "result" : "gradient"));
      Tolerance t = tolerance_for(dtype, static_cast<double>(sizes.back()));
      // Elements of a gradient near zero are differences of larger ones; results are as exact as they are everywhere.
      const double of_largest = t.rtol * max(abs(expected[k])).item<double>();
      t.atol = k == 0 ? std::min(t.atol, of_largest) : of_largest;
      CHECK(difference(found[k], expected[k], t) == "");
    }
    const Tensors again = differentiated(f, input, cuda, dtype);
    for (std::size_t k = 0; k < found.size(); ++k) CHECK(same_bits(found[k].to(cpu), again[k].to(cpu)));
  }
}

bool nothing_to_test() {
  if (!cuda_is_available()) WARN("no GPU: nothing was tested");
  return !cuda_is_available();
}

Tensor labels(std::int64_t rows, std::int64_t classes, Device device) {
  std::vector<std::int64_t> y;
  for (std::int64_t i = 0; i < rows; ++i) y.push_back(i == 1 ? -100 : (7919 * i + classes - 1) % classes);
  return from_data(y, {rows}).to(device);
}

}  // namespace

TEST_CASE("softmax and cross entropy of rows longer than a block holds") {
  if (nothing_to_test()) return;
  for (const std::int64_t n : {3001, 16392}) {  // single elements, whole packs; of f64 both are single elements
    compare("softmax", [](const Tensor& x) { return softmax(x, -1); }, {3, n}, {f32, bf16, f64});
    compare("log_softmax", [](const Tensor& x) { return log_softmax(x, -1); }, {3, n}, {f32, f16, f64});
    for (const double smoothing : {0.0, 0.1}) {
      compare(
          "cross_entropy",
          [=](const Tensor& x) { return cross_entropy(x, labels(4, n, x.device()), {.label_smoothing = smoothing}); },
          {4, n}, {f32, bf16, f64});
    }
  }
}

TEST_CASE("a linear layer and cross entropy in one, of many classes") {
  if (nothing_to_test()) return;
  for (const std::int64_t classes : {3001, 16392}) {
    const Tensor weight = random_tensor({classes, 8}, 4);
    compare("linear_cross_entropy",
            [&](const Tensor& x) {
              return linear_cross_entropy(x, cast(weight, x.dtype()).to(x.device()), labels(5, classes, x.device()));
            },
            {5, 8}, {f32, f64});
  }
}

TEST_CASE("reductions over columns") {
  if (nothing_to_test()) return;
  for (const Dims& sizes : {Dims{300, 40}, Dims{2, 700, 17}}) {
    const std::int64_t d = sizes.rank() - 2;
    compare("amax", [=](const Tensor& x) { return amax(x, {d}); }, sizes, {f32, f64});
    compare("amin", [=](const Tensor& x) { return amin(x, {d}); }, sizes, {f32, f64});
    compare("var", [=](const Tensor& x) { return var(x, {d}); }, sizes, {f32, f64});
    compare("sum", [=](const Tensor& x) { return sum(x, {d}); }, sizes, {f32, bf16, f64});
    compare("prod", [=](const Tensor& x) { return prod(x * 0.01 + 1.0, {d}); }, sizes, {f32, f64});
    const Tensor whole = randint(-9, 9, sizes), one = randint(1, 3, sizes) * 2 - 3;
    const auto same = [](const Function& f, const Tensor& x) { CHECK(equal(f(x.to(cuda)).to(cpu), f(x))); };
    same([=](const Tensor& x) { return sum(x, {d}); }, whole);
    same([=](const Tensor& x) { return amax(x, {d}); }, whole);
    same([=](const Tensor& x) { return amin(x, {d}); }, whole);
    same([=](const Tensor& x) { return prod(x, {d}); }, one);
    same([](const Tensor& x) { return amin(x, {0, 1}); }, randint(-900, 900, {40, 50}));
    same([](const Tensor& x) { return prod(flatten(x), {0}); }, one);
  }
}
