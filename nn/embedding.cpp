#include "nn/embedding.h"

#include "autograd/grad_mode.h"

namespace mantissa::nn {
namespace detail {

void renormalise_rows(const Tensor& weight, const Tensor& indices, double max_norm, double norm_type) {
  check(max_norm > 0, "Embedding: max_norm must be positive, got ", max_norm);
  const NoGrad no_grad;
  const Tensor used = unique(indices).values;
  if (used.numel() == 0) return;
  const Tensor rows = embedding(weight.detach(), used), length = norm(rows, norm_type, {1}, true);
  const Tensor scale = where(length > max_norm, Tensor(max_norm) / (length + 1e-7), ones_like(length));
  Tensor handle = weight;
  handle.copy_(index_copy(weight.detach(), 0, used, rows * scale));
}
Tensor scaled_by_frequency(const Tensor& rows, const Tensor& indices, std::int64_t count) {
  const Tensor each = cast(
      reshape(index_select(bincount(flatten(indices), {}, count), 0, flatten(indices)), indices.sizes()), rows.dtype());
  const Tensor share = unsqueeze(reciprocal(each), -1);
  return rows.detach() + (rows - rows.detach()) * share;  // the values of rows, with their gradient scaled by share
}

}  // namespace detail

Embedding::Embedding(std::int64_t count, std::int64_t dim, const EmbeddingOptions& o)
    : weight(empty({count, dim})), options(o) {
  check(!o.padding_idx || (*o.padding_idx >= -count && *o.padding_idx < count), "Embedding: padding_idx ",
        o.padding_idx.value_or(0), " is out of range for ", count, " rows");
  init::normal_(weight);
  if (o.padding_idx) init::constant_(select(weight.detach(), 0, *o.padding_idx), 0);
}
Embedding Embedding::from_pretrained(const Tensor& weight, bool freeze, const EmbeddingOptions& o) {
  check(weight.dim() == 2, "Embedding: the weight must be [count, dim], got ", weight);
  Embedding e;
  e.weight = Param(weight);
  if (freeze) e.weight.requires_grad_(false);
  e.options = o;
  return e;
}
Tensor Embedding::operator()(const Tensor& indices) const {
  if (options.max_norm) detail::renormalise_rows(weight, indices, *options.max_norm, options.norm_type);
  const Tensor rows = embedding(weight, indices, options.padding_idx);
  return options.scale_grad_by_freq ? detail::scaled_by_frequency(rows, indices, weight.size(0)) : rows;
}
Embedding Embedding::clone() const {
  Embedding c;
  c.weight = nn::clone(weight);
  c.options = options;
  return c;
}

}  // namespace mantissa::nn
