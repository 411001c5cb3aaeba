#include "nn/embedding_bag.h"

#include <algorithm>
#include <limits>

#include "autograd/grad_mode.h"
#include "core/context.h"
#include "core/recording.h"
#include "nn/embedding.h"
#include "ops/apply.h"

namespace mantissa {
MANTISSA_KERNEL(check_indices, const View& index, std::int64_t size)
MANTISSA_KERNEL(sum_bags, const View& y, const View& weight, const View& indices, const View& bounds, bool mean)
}  // namespace mantissa

namespace mantissa::nn {
namespace {

// Sums and means of bags on the CPU, when no gradient is recorded.
struct SumOfBags {
  static constexpr auto name = "embedding_bag";
  static constexpr const char* args[] = {"weight", "indices", "bounds"};
  static constexpr bool differentiable = false;
  bool mean = false;
  Spec infer(const Tensor& weight, const Tensor& indices, const Tensor& bounds) const {
    check(indices.dtype() == i64, "the indices must be i64, got ", indices.dtype());
    return like(weight, Dims{bounds.numel() - 1, weight.size(1)});
  }
  void run(const View& y, const View& weight, const View& indices, const View& bounds) const {
    kernels::check_indices(y.device, indices, weight.sizes[0]);
    kernels::sum_bags(y.device, y, weight, indices, bounds, mean);
  }
};

// The bag of every index, the number of bags, and each bag's size.
struct Bags {
  Tensor of_index;  // i64 [indices]
  std::int64_t count;
  Tensor sizes;  // i64 [count, 1], or one number for all; at least 1
};
// The start of each bag, then the end of the last one.
std::vector<std::int64_t> bounds_of(const Tensor& offsets, std::int64_t indices, bool include_last) {
  check(offsets.dim() == 1 && offsets.dtype() == i64, "EmbeddingBag: offsets must be i64 with 1 dimension, got ",
        offsets);
  check_may_read("EmbeddingBag", offsets, "the offsets say which indices make a bag");
  std::vector<std::int64_t> bounds = offsets.to_vector<std::int64_t>();
  check(!include_last || !bounds.empty(), "EmbeddingBag: include_last_offset needs at least one offset");
  check(bounds.empty() || bounds.front() == 0, "EmbeddingBag: the first offset must be 0, found ",
        bounds.empty() ? 0 : bounds.front());
  if (!include_last) bounds.push_back(indices);
  check(std::is_sorted(bounds.begin(), bounds.end()) && bounds.back() <= indices,
        "EmbeddingBag: offsets must not fall and not exceed the number of indices, ", indices);
  check(bounds.back() == indices, "EmbeddingBag: the last offset must be the number of indices, ", indices, ", found ",
        bounds.back());
  check(bounds.size() > 1 || indices == 0, "EmbeddingBag: ", indices, " indices belong to no bag");
  return bounds;
}
Bags bags_of(const Tensor& offsets, std::int64_t indices, bool include_last) {
  const std::vector<std::int64_t> bounds = bounds_of(offsets, indices, include_last);
  std::vector<std::int64_t> bag, sizes;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const std::int64_t size = bounds[i + 1] - bounds[i];
    bag.insert(bag.end(), static_cast<std::size_t>(size), static_cast<std::int64_t>(i));
    sizes.push_back(std::max<std::int64_t>(1, size));
  }
  const auto count = static_cast<std::int64_t>(sizes.size());
  return {from_data<std::int64_t>(bag, {indices}).to(offsets.device()), count,
          from_data<std::int64_t>(sizes, {count, 1}).to(offsets.device())};
}
Bags rows_of(const Tensor& indices) {
  const std::int64_t n = indices.size(0), each = indices.size(1);
  return {flatten(expand(unsqueeze(arange(n, {.dtype = i64, .device = indices.device()}), 1), {n, each})), n,
          Tensor(std::max<std::int64_t>(1, each))};
}

}  // namespace

EmbeddingBag::EmbeddingBag(std::int64_t count, std::int64_t dim, const EmbeddingBagOptions& o)
    : weight(empty({count, dim})), options(o) {
  check(!o.padding_idx || (*o.padding_idx >= -count && *o.padding_idx < count), "EmbeddingBag: padding_idx ",
        o.padding_idx.value_or(0), " is out of range for ", count, " rows");
  check(!o.scale_grad_by_freq || o.mode != BagMode::max, "EmbeddingBag: scale_grad_by_freq is not for mode max");
  init::normal_(weight);
  if (o.padding_idx) init::constant_(select(weight.detach(), 0, *o.padding_idx), 0);
}

Tensor EmbeddingBag::operator()(const Tensor& indices, const Tensor& offsets, const Tensor& per_sample_weights) const {
  check(indices.dim() == 1 || indices.dim() == 2,
        "EmbeddingBag: indices must be [N, bag], or [count] with offsets, got ", indices);
  check((indices.dim() == 1) == offsets.defined(),
        "EmbeddingBag: offsets belong to indices with 1 dimension, and only to them");
  if (options.max_norm) detail::renormalise_rows(weight, indices, *options.max_norm, options.norm_type);
  const Tensor flat = flatten(indices);
  const bool recorded = context().autocast.traced || (grad_enabled() && weight.requires_grad());
  if (options.mode != BagMode::max && !options.padding_idx && !per_sample_weights.defined() && !recorded &&
      weight.device().is_cpu()) {
    Tensor bounds;
    if (offsets.defined()) {
      const std::vector<std::int64_t> all = bounds_of(offsets, flat.numel(), options.include_last_offset);
      bounds = from_data(all, {static_cast<std::int64_t>(all.size())});
    } else {
      bounds = arange(indices.size(0) + 1, {.dtype = i64}) * Tensor(indices.size(1));
    }
    return apply(SumOfBags{options.mode == BagMode::mean}, contiguous(weight), contiguous(flat), bounds);
  }
  const Bags bags =
      indices.dim() == 2 ? rows_of(indices) : bags_of(offsets, indices.size(0), options.include_last_offset);
  Tensor rows = embedding(weight, flat, options.padding_idx);
  if (options.scale_grad_by_freq) rows = detail::scaled_by_frequency(rows, flat, weight.size(0));
  if (per_sample_weights.defined()) {
    check(options.mode == BagMode::sum, "EmbeddingBag: per_sample_weights need mode sum");
    check(per_sample_weights.sizes() == indices.sizes(), "EmbeddingBag: per_sample_weights ", per_sample_weights,
          " do not fit indices ", indices);
    rows = rows * reshape(per_sample_weights, {flat.numel(), 1});
  }
  Tensor bag = bags.of_index, sizes = bags.sizes;
  if (options.padding_idx) {
    const std::int64_t padding =
        *options.padding_idx < 0 ? *options.padding_idx + weight.size(0) : *options.padding_idx;
    const Tensor kept = flatten(nonzero(flat != static_cast<double>(padding)));
    rows = index_select(rows, 0, kept);
    bag = index_select(bag, 0, kept);
    sizes = unsqueeze(clamp_min(bincount(bag, {}, bags.count), 1), 1);
  }
  const Tensor none = zeros({bags.count, weight.size(1)}, {.dtype = rows.dtype(), .device = rows.device()});
  if (options.mode == BagMode::max) {
    const Tensor places = expand(unsqueeze(bag, 1), rows.sizes());
    return scatter_reduce(none, 0, places, rows, "amax", false);
  }
  const Tensor total = index_add(none, 0, bag, rows);
  if (options.mode == BagMode::sum) return total;
  return total / (sizes.dim() == 0 ? sizes : cast(sizes, total.dtype()));
}

}  // namespace mantissa::nn
