#include "nn/drop_block.h"

#include <algorithm>
#include <cmath>

#include "autograd/grad_mode.h"
#include "core/operators.h"

namespace mantissa::nn {
namespace {

// The factor for x; undefined when nothing is dropped. Block centres are sampled where a whole block fits, with the
// probability for which non-overlapping blocks would cover a fraction p of x (as in the paper), and dilated to blocks
// by max pooling.
Tensor factor(const char* name, int n, const Tensor& x, double p, std::int64_t block_size, double eps, bool training) {
  check(x.defined() && x.dim() == n + 2 && x.is_floating(), name, ": x must be floating ",
        n == 2 ? "[N, C, H, W]" : "[N, C, D, H, W]", ", got ", x);
  check(p >= 0 && p <= 1, name, ": p must lie in [0, 1], got ", p);
  check(block_size >= 1, name, ": block_size must be positive, got ", block_size);
  if (!training || p == 0 || x.numel() == 0) return {};
  std::int64_t block = block_size;
  for (int d = 2; d < x.dim(); ++d) block = std::min(block, x.size(d));
  check(block % 2 == 1, name, ": block_size must be odd, got ", block_size, block < block_size ? ", cut to " : "",
        block < block_size ? std::to_string(block) : "", " for ", x);
  const NoGrad no_grad;
  Dims places = x.sizes(), borders;
  double share = p;
  for (int d = 2; d < x.dim(); ++d) {
    places[d] -= block - 1;
    share *= static_cast<double>(x.size(d)) / static_cast<double>(block * places[d]);
    borders.push_back(block / 2);
    borders.push_back(block / 2);
  }
  const Tensor middles = bernoulli(full(places, std::min(share, 1.0), {.dtype = f32, .device = x.device()}));
  const int k = static_cast<int>(block);
  const Tensor dropped =
      n == 2 ? max_pool2d(pad(middles, borders), k, {.stride = 1, .padding = k / 2})
             : max_pool3d(pad(middles, borders), k, {.stride = 1, .padding = k / 2});
  const Tensor kept = 1 - dropped;
  return (kept * (static_cast<double>(kept.numel()) / (sum(kept) + eps))).to(x.dtype());
}

}  // namespace

Tensor drop_block2d(const Tensor& x, double p, std::int64_t block_size, double eps, bool training) {
  const Tensor by = factor("drop_block2d", 2, x, p, block_size, eps, training);
  return by.defined() ? x * by : x;
}
Tensor drop_block3d(const Tensor& x, double p, std::int64_t block_size, double eps, bool training) {
  const Tensor by = factor("drop_block3d", 3, x, p, block_size, eps, training);
  return by.defined() ? x * by : x;
}

}  // namespace mantissa::nn
