#include "nn/embedding_bag.h"

#include "core/kernel.h"
#include "core/ops_special.h"
#include "nn/embedding.h"
#include "ops/index.h"
#include "ops/named.h"

namespace mantissa {
MANTISSA_KERNEL(check_offsets, const View& offsets, std::int64_t indices)
}

namespace mantissa::nn {
namespace {

// Where each bag begins, then where the last one ends.
Tensor bag_offsets(const Tensor& indices, const Tensor& offsets, bool include_last) {
  const TensorOptions o{.dtype = i64, .device = indices.device()};
  if (indices.dim() == 2) return arange(indices.size(0) + 1, o) * Tensor(indices.size(1));
  check(offsets.dim() == 1 && offsets.dtype() == i64, "EmbeddingBag: offsets must be i64 with 1 dimension, got ",
        offsets);
  check(!include_last || offsets.numel() > 0, "EmbeddingBag: include_last_offset needs at least one offset");
  return include_last ? offsets : cat({offsets, full({1}, static_cast<double>(indices.numel()), o)}, 0);
}

Tensor largest_of_bags(const Tensor& weight, const Tensor& indices, const Tensor& bounds,
                       std::optional<std::int64_t> padding_idx) {
  const std::int64_t n = indices.numel(), count = bounds.numel() - 1;
  check(count > 0 || n == 0, "EmbeddingBag: ", n, " indices belong to no bag");
  named("EmbeddingBag", indices, [&] { kernels::check_offsets(bounds.device(), bounds.view(), n); });
  const Tensor numbers = arange(n, {.dtype = i64, .device = bounds.device()});
  Tensor rows = embedding(weight, indices, padding_idx), bag = searchsorted(bounds, numbers, true) - Tensor(1);
  if (padding_idx) {
    const auto padding = static_cast<double>(padding_row(padding_idx, weight.size(0)));
    const Tensor kept = flatten(nonzero(indices != padding));
    rows = index_select(rows, 0, kept);
    bag = index_select(bag, 0, kept);
  }
  const Tensor none = zeros({count, weight.size(1)}, {.dtype = rows.dtype(), .device = rows.device()});
  return scatter_reduce(none, 0, expand(unsqueeze(bag, 1), rows.sizes()), rows, "amax", false);
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
  check(!per_sample_weights.defined() || options.mode == BagMode::sum,
        "EmbeddingBag: per_sample_weights need mode sum");
  check(!per_sample_weights.defined() || per_sample_weights.sizes() == indices.sizes(),
        "EmbeddingBag: per_sample_weights ", per_sample_weights, " do not fit indices ", indices);
  const Tensor flat = flatten(indices), bounds = bag_offsets(indices, offsets, options.include_last_offset);
  if (options.mode == BagMode::max) return largest_of_bags(weight, flat, bounds, options.padding_idx);
  Tensor table = weight;
  if (options.scale_grad_by_freq) {
    const Tensor uses = clamp_min(bincount(flat, {}, weight.size(0)), 1);
    const Tensor constant = weight.detach();
    table = constant + (weight - constant) / unsqueeze(cast(uses, weight.dtype()), 1);
  }
  return embedding_bag(table, flat, bounds, options.mode == BagMode::mean,
                       per_sample_weights.defined() ? flatten(per_sample_weights) : Tensor(), options.padding_idx);
}

}  // namespace mantissa::nn
