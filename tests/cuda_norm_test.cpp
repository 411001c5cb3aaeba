// Norms of rows of every length on the CUDA device, compared with f64 on the CPU: rows handled by a warp or a block,
// held in registers or read again, in whole packs or single elements. (The registry's samples in cuda_registry_test are
// short.)
#include <functional>

#include "core/accelerator.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

using Norm = std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)>;

// The result, and the gradients of x, weight and bias.
Tensors differentiated(const Norm& norm, const Tensors& inputs, Device device, Dtype dtype) {
  Tensors x;
  for (const Tensor& t : inputs) x.push_back(cast(t.detach(), dtype).to(device).requires_grad_());
  const Tensor y = norm(x[0], x[1], x[2]);
  const Tensor v = cast(cast(random_tensor(y.sizes(), 9), inputs[0].dtype()), y.dtype()).to(device);
  Tensors all = grad(Tensors{y}, x, Tensors{v}, {.allow_unused = true});
  all.push_back(y.detach());
  return all;
}

void compare(const Norm& norm, const Dims& sizes, const Dims& parameter, std::initializer_list<Dtype> dtypes) {
  for (const Dtype dtype : dtypes) {
    INFO(concat(dtype, sizes));
    // A mean far from zero, which must not cost the statistics precision.
    const Tensors inputs{cast(random_tensor(sizes, 1) + 3.0, dtype), cast(random_tensor(parameter, 2), dtype),
                         cast(random_tensor(parameter, 3), dtype)};
    const Tensors found = differentiated(norm, inputs, cuda, dtype), expected = differentiated(norm, inputs, cpu, f64);
    const double bound = dtype == f64 ? 1e-9 : dtype == f32 ? 2e-3 : dtype == f16 ? 1e-2 : 1e-1;
    for (std::size_t k = 0; k < found.size(); ++k) {
      INFO("result " << k);
      REQUIRE(found[k].defined() == expected[k].defined());
      if (found[k].defined()) CHECK(difference(found[k], expected[k], {bound, bound}) == "");
    }
    const Tensors again = differentiated(norm, inputs, cuda, dtype);
    for (std::size_t k = 0; k < found.size(); ++k)
      if (found[k].defined()) CHECK(same_bits(found[k].to(cpu), again[k].to(cpu)));
  }
}

const Norm layer = [](const Tensor& x, const Tensor& w, const Tensor& b) { return layer_norm(x, {x.size(-1)}, w, b); };
const Norm rms = [](const Tensor& x, const Tensor& w, const Tensor&) { return rms_norm(x, {x.size(-1)}, w, 1e-5); };
Norm group(std::int64_t groups) {
  return [=](const Tensor& x, const Tensor& w, const Tensor& b) { return group_norm(x, groups, w, b); };
}

bool nothing_to_test() {
  if (!cuda_is_available()) WARN("no GPU: nothing was tested");
  return !cuda_is_available();
}

}  // namespace

TEST_CASE("layer norm and RMS norm of rows of every length") {
  if (nothing_to_test()) return;
  struct Case {
    std::int64_t rows, n;
  };
  const Case cases[] = {{100, 8},  {70, 61},   {70, 512},  {20, 520},  {20, 1001}, {10, 1500},
                        {9, 8200}, {5, 12288}, {5, 12296}, {40, 1540}, {3, 16400}};
  for (const Case& c : cases) {
    for (const Norm& norm : {layer, rms}) compare(norm, {c.rows, c.n}, {c.n}, {f32, bf16});
  }
  for (const Norm& norm : {layer, rms}) compare(norm, {20, 700}, {700}, {f64, f16});
  for (const Norm& norm : {layer, rms}) compare(norm, {3, 3000}, {3000}, {f64});
  for (const Norm& norm : {layer, rms}) compare(norm, {20, 1201}, {1201}, {f64});
}

TEST_CASE("group norm of planes of every size") {
  if (nothing_to_test()) return;
  struct Case {
    Dims sizes;
    std::int64_t groups;
  };
  const Case cases[] = {{{3, 8, 4, 4}, 2},      // rows of a warp, packs
                        {{2, 64, 3, 3}, 2},     // rows of a block, single elements, many channels
                        {{2, 4, 24, 24}, 2},    // a warp for a channel
                        {{2, 6, 7, 7}, 6},      // instance norm
                        {{1, 4, 96, 96}, 2},    // rows that are read again, a block for a channel
                        {{1, 64, 17, 17}, 2}};  // the same, a warp for a channel
  for (const Case& c : cases) compare(group(c.groups), c.sizes, {c.sizes[1]}, {f32, bf16});
  compare(group(3), {2, 6, 5, 9}, {6}, {f64, f16});
  compare(group(2), {1, 4, 40, 40}, {4}, {f64});
}

TEST_CASE("batch norm's statistics keep their digits where the mean is far larger than the deviation") {
  if (nothing_to_test()) return;
  manual_seed(5);
  const Dims shapes[] = {{16, 8, 20, 20}, {40, 3, 31, 7}, {2, 5, 9000}, {3000, 24}, {700, 5}};
  for (const Dims& sizes : shapes) {
    for (const bool last : {false, true}) {
      if (last && sizes.rank() != 4) continue;
      for (const double far : {1e3, 1e5}) {
        INFO(concat(sizes) << (last ? ", channels last" : "") << ", mean " << far);
        Tensor x = randn(sizes) + far;
        if (last) x = channels_last(x);
        const auto running = [&](const Tensor& from) {
          Tensor mean = zeros({sizes[1]}, {.dtype = from.dtype()}).to(from.device()), variance = mean.clone();
          batch_norm(from, {}, {}, mean, variance, true, 1.0);
          return std::pair(mean.to(cpu).to(f64), variance.to(cpu).to(f64));
        };
        const auto [mean, variance] = running(x.to(cuda));
        const auto [exact_mean, exact_variance] = running(x.to(f64));
        CHECK(max(abs(mean / exact_mean - 1.0)).item() < 2.5e-7);  // of which half an ulp is 6e-8
        CHECK(max(abs(variance / exact_variance - 1.0)).item() < 3e-6);
      }
    }
  }
}
