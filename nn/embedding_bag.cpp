#include "nn/embedding_bag.h"

#include <algorithm>

namespace mantissa::nn {
namespace {

// Where each bag begins, and at the end how many indices there are.
std::vector<std::int64_t> bounds_of(const Tensor& offsets, std::int64_t count) {
  check(offsets.dim() == 1 && offsets.dtype() == i64, "EmbeddingBag: offsets must be i64 with 1 dimension, got ", offsets);
  std::vector<std::int64_t> bounds = offsets.to_vector<std::int64_t>();
  check(bounds.empty() || bounds.front() == 0, "EmbeddingBag: the first offset must be 0, found ", bounds.empty() ? 0 : bounds.front());
  bounds.push_back(count);
  check(std::is_sorted(bounds.begin(), bounds.end()), "EmbeddingBag: offsets must not fall and not exceed the number of indices, ", count);
  return bounds;
}
Tensor reduced(const Tensor& rows, BagMode mode) {
  return mode == BagMode::sum ? sum(rows, {0}) : mode == BagMode::mean ? mean(rows, {0}) : amax(rows, {0});
}

}  // namespace

Tensor EmbeddingBag::operator()(const Tensor& indices, const Tensor& offsets, const Tensor& per_sample_weights) const {
  check(indices.dim() == 1 || indices.dim() == 2, "EmbeddingBag: indices must be [N, bag], or [count] with offsets, got ", indices);
  check((indices.dim() == 1) == offsets.defined(), "EmbeddingBag: offsets belong to indices with 1 dimension, and only to them");
  Tensor rows = embedding(weight, indices);
  if (per_sample_weights.defined()) {
    check(mode == BagMode::sum, "EmbeddingBag: per_sample_weights need mode sum");
    check(per_sample_weights.sizes() == indices.sizes(), "EmbeddingBag: per_sample_weights ", per_sample_weights, " do not fit indices ", indices);
    rows = rows * unsqueeze(per_sample_weights, -1);
  }
  if (indices.dim() == 2) {
    if (indices.size(1) == 0) return zeros({indices.size(0), weight.size(1)}, {.dtype = weight.dtype(), .device = weight.device()});
    return mode == BagMode::sum ? sum(rows, {1}) : mode == BagMode::mean ? mean(rows, {1}) : amax(rows, {1});
  }
  const std::vector<std::int64_t> bounds = bounds_of(offsets, indices.size(0));
  const Tensor empty_bag = zeros({weight.size(1)}, {.dtype = weight.dtype(), .device = weight.device()});
  std::vector<Tensor> bags;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    bags.push_back(bounds[i] == bounds[i + 1] ? empty_bag : reduced(slice(rows, 0, bounds[i], bounds[i + 1]), mode));
  }
  if (bags.empty()) return zeros({0, weight.size(1)}, {.dtype = weight.dtype(), .device = weight.device()});
  return stack(bags);
}

}  // namespace mantissa::nn
