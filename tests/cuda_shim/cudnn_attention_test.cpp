// What surrounds attention by cuDNN (cuda/attention.cu): masks become finite numbers to add, and queries that may look
// at nothing get zeros.
#include <cstdlib>
#include <iterator>
#include <limits>
#include <vector>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "core/accelerator.h"
#include "core/ops.h"
#include "tests/cuda_shim/shim.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Tensors = std::vector<Tensor>;

namespace {

struct Problem {
  Tensors in;  // query, key, value
  Tensor mask = {};
  AttentionOptions options = {};
};

// The result and the gradients of query, key and value: of halves by cuDNN, or in f64 by the CPU.
Tensors attend(const Problem& p, Device device, Dtype half) {
  Tensors x;
  for (const Tensor& t : p.in) x.push_back(cast(t.detach(), device.is_cpu() ? f64 : half).to(device).requires_grad_());
  const Tensor m = p.mask.defined() ? p.mask.to(device) : p.mask;
  const auto call = [&] { return scaled_dot_product_attention(x[0], x[1], x[2], m, p.options); };
  const Tensor y = device.is_cpu() ? call() : amp::autocast(half, call);
  const Tensor weights = cast(random_tensor(y.sizes(), 77), f32).to(device);
  Tensors all = grad({(cast(y, f32) * weights).sum()}, x);
  all.insert(all.begin(), y.detach());
  return all;
}
Tensors random_inputs(const Dims& q, const Dims& k, const Dims& v) {
  Tensors in;
  for (const Dims& sizes : {q, k, v}) in.push_back(cast(random_tensor(sizes, in.size()), bf16));
  return in;
}
void compare(const Tensors& found, const Tensors& expected) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("result " << i);
    CHECK(difference(cast(found[i].to(cpu), f64), cast(expected[i], f64), {0.03, 0.03}) == "");
  }
}
struct WithCudnn {  // for attention, too, where our own kernels come first
  WithCudnn() {
    setenv("MANTISSA_TUNER_SKIP", "own", 1);
    cuda_shim::set_cudnn(true);
  }
  ~WithCudnn() {
    unsetenv("MANTISSA_TUNER_SKIP");
    cuda_shim::set_cudnn(false);
  }
};

}  // namespace

TEST_CASE("attention by cuDNN: masks, and queries that may look at nothing") {
  const WithCudnn cudnn;
  const Tensors in = random_inputs({2, 2, 9, 16}, {2, 2, 9, 16}, {2, 2, 9, 16});
  const Tensor some = random_tensor({2, 1, 9, 9}, 5, 0, 1) > 0.4, row = reshape(arange(9), {9, 1});
  const Tensor shown = logical_and(some, row != Tensor(4));  // query 4 sees nothing
  const Tensor low = full({}, -std::numeric_limits<double>::infinity()), zero = zeros({});
  const Tensor masks[] = {{}, some, shown, where(shown, zero, low), where(shown, random_tensor({2, 1, 9, 9}, 6), low)};
  for (std::size_t k = 0; k < std::size(masks); ++k) {
    INFO("mask " << k);
    const Tensors found = attend({in, masks[k]}, cuda, bf16);
    compare(found, attend({in, masks[k]}, cpu, bf16));
    if (k >= 2) CHECK(equal(cast(found[0].to(cpu).select(2, 4), f32), zeros({2, 2, 16})));
  }
}

TEST_CASE("attention by cuDNN: both dtypes and plans, causal, grouped heads, other widths and lengths, packed rows") {
  const WithCudnn cudnn;
  const Tensor packed = cast(random_tensor({2, 10, 3, 2, 8}, 9), bf16);
  const auto part = [&](std::int64_t i) { return transpose(packed.select(2, i), 1, 2); };  // [2, 2, 10, 8], strided
  const Problem problems[] = {
      {random_inputs({2, 2, 9, 16}, {2, 2, 9, 16}, {2, 2, 9, 16}), {}, {.is_causal = true}},
      {random_inputs({1, 6, 7, 8}, {1, 2, 11, 8}, {1, 2, 11, 24}), {}, {.scale = 0.7, .enable_gqa = true}},
      {random_inputs({2, 4, 12, 8}, {2, 1, 12, 8}, {2, 1, 12, 8}), {}, {.is_causal = true, .enable_gqa = true}},
      {{part(0), part(1), part(2)}, {}, {.is_causal = true}},
      {random_inputs({2, 3, 5, 8}, {2, 3, 6, 8}, {2, 3, 6, 8}), random_tensor({3, 1, 6}, 4), {}},
  };
  for (const char* skipped : {"own", "own,cudnn 0"}) {
    setenv("MANTISSA_TUNER_SKIP", skipped, 1);
    for (const Problem& p : problems) {
      for (const Dtype half : {bf16, f16}) {
        INFO("problem " << &p - problems << " " << name_of(half) << " without " << skipped);
        const cuda_shim::CallCounter counter;
        const Tensors found = attend(p, cuda, half);
        CHECK(counter.calls.at("cudnnBackendExecute") == 2);
        compare(found, attend(p, cpu, half));
      }
    }
  }
}
