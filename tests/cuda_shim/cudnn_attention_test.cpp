// What surrounds attention by cuDNN (cuda/attention.cu): masks become finite numbers to add, and queries that may look
// at nothing get zeros. Under the shim our own kernels stand in for cuDNN's and are given those numbers.
#include <cstdlib>
#include <iterator>
#include <limits>
#include <vector>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "core/accelerator.h"
#include "core/ops.h"
#include "tests/cuda_shim/cudnn.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Tensors = std::vector<Tensor>;

namespace {

// The result and the gradients of query, key and value.
Tensors attend(const Tensors& in, const Tensor& mask, Device device) {
  Tensors x;
  for (const Tensor& t : in) x.push_back(cast(t.detach(), device.is_cpu() ? f64 : bf16).to(device).requires_grad_());
  const Tensor m = mask.defined() ? mask.to(device) : mask;
  const auto call = [&] { return scaled_dot_product_attention(x[0], x[1], x[2], m); };
  const Tensor y = device.is_cpu() ? call() : amp::autocast(bf16, call);
  Tensors all = grad({cast(y, f32).sum()}, x);
  all.insert(all.begin(), y.detach());
  return all;
}

}  // namespace

TEST_CASE("attention by cuDNN: masks, and queries that may look at nothing") {
  setenv("MANTISSA_TUNER_SKIP", "own", 1);
  cuda_shim::stand_in_for_cudnn_attention(true);
  Tensors in;
  for (std::uint64_t i = 0; i < 3; ++i) in.push_back(cast(random_tensor({2, 2, 9, 16}, i), bf16));
  const Tensor some = random_tensor({2, 1, 9, 9}, 5, 0, 1) > 0.4, row = reshape(arange(9), {9, 1});
  const Tensor shown = logical_and(some, row != Tensor(4));  // query 4 sees nothing
  const Tensor low = full({}, -std::numeric_limits<double>::infinity()), zero = zeros({});
  const Tensor masks[] = {{}, some, shown, where(shown, zero, low), where(shown, random_tensor({2, 1, 9, 9}, 6), low)};
  for (std::size_t k = 0; k < std::size(masks); ++k) {
    INFO("mask " << k);
    const Tensors found = attend(in, masks[k], cuda), expected = attend(in, masks[k], cpu);
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO("result " << i);
      CHECK(difference(cast(found[i].to(cpu), f32), expected[i], {0.03, 0.03}) == "");
    }
    if (k >= 2) CHECK(equal(cast(found[0].to(cpu).select(2, 4), f32), zeros({2, 2, 16})));
  }
  cuda_shim::stand_in_for_cudnn_attention(false);
}
