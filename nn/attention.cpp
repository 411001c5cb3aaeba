#include "nn/attention.h"

#include <cmath>

#include "amp/casts.h"
#include "nn/copy_fields.h"

namespace mantissa::nn {
namespace {

// Converts a mask of either kind to an additive one in `dtype`. Integer masks are rejected as ambiguous.
Tensor as_scores(const char* name, const Tensor& mask, Dtype dtype) {
  check(mask.dtype() == boolean || mask.is_floating(), "MultiheadAttention: ", name,
        " must be bool, true where attention is not allowed, or "
        "floating, got ",
        mask, "; of one that is 1 where tokens are, pass mask == 0");
  if (mask.dtype() != boolean) return cast(mask, dtype);
  return masked_fill(zeros(mask.sizes(), {.dtype = dtype, .device = mask.device()}), mask, -INFINITY);
}
// Combines both masks into one that broadcasts to [N, heads, L, S]; undefined if there is none.
Tensor joined_mask(const AttentionCall& call, std::int64_t batch, std::int64_t heads, std::int64_t queries,
                   std::int64_t keys, Dtype dtype, Device device) {
  Tensor mask;
  if (call.attn_mask.defined()) {
    const Dims flat{queries, keys}, each{batch * heads, queries, keys};
    check(call.attn_mask.sizes() == flat || call.attn_mask.sizes() == each, "MultiheadAttention: attn_mask must be ",
          flat, " or ", each, ", got ", call.attn_mask);
    mask = as_scores("attn_mask", call.attn_mask, dtype);
    if (mask.dim() == 3) mask = reshape(mask, {batch, heads, queries, keys});
  }
  if (call.is_causal) {
    check(!mask.defined(), "MultiheadAttention: is_causal and attn_mask exclude each other");
    const TensorOptions there{.dtype = i64, .device = device};
    mask = as_scores("attn_mask", arange(queries, there).unsqueeze(1) < arange(keys, there), dtype);
  }
  if (!call.key_padding_mask.defined()) return mask;
  check(call.key_padding_mask.sizes() == Dims{batch, keys}, "MultiheadAttention: key_padding_mask must be ",
        Dims{batch, keys}, ", got ", call.key_padding_mask);
  const Tensor padding = reshape(as_scores("key_padding_mask", call.key_padding_mask, dtype), {batch, 1, 1, keys});
  return mask.defined() ? mask + padding : padding;
}
Tensor attention_weights(const Tensor& q, const Tensor& k, const Tensor& mask) {
  Tensor scores = matmul(q * (1 / std::sqrt(static_cast<double>(q.size(-1)))), transpose(k));
  if (!mask.defined() || scores.numel() == 0) return softmax(scores, -1);
  scores = scores + mask;
  const Tensor blind = amax(scores.detach(), {-1}, true) == -INFINITY;
  return where(blind, Tensor(0.0), softmax(where(blind, Tensor(0.0), scores), -1));
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       const MultiheadAttentionOptions& o)
    : out_proj(embed_dim, embed_dim, {.bias = o.bias}), embed_dim(embed_dim), num_heads(num_heads), dropout(o.dropout),
      batch_first(o.batch_first), add_zero_attn(o.add_zero_attn) {
  check(num_heads >= 1 && embed_dim % num_heads == 0, "MultiheadAttention: embed_dim ", embed_dim,
        " does not divide into ", num_heads, " heads");
  const std::int64_t kdim = o.kdim > 0 ? o.kdim : embed_dim, vdim = o.vdim > 0 ? o.vdim : embed_dim;
  if (kdim == embed_dim && vdim == embed_dim) {
    in_proj_weight = Param(empty({3 * embed_dim, embed_dim}));
  } else {
    q_proj_weight = Param(empty({embed_dim, embed_dim}));
    k_proj_weight = Param(empty({embed_dim, kdim}));
    v_proj_weight = Param(empty({embed_dim, vdim}));
  }
  for (const Param* w : {&in_proj_weight, &q_proj_weight, &k_proj_weight, &v_proj_weight}) {
    if (w->defined()) init::xavier_uniform_(*w);
  }
  if (o.add_bias_kv) {
    for (Param* b : {&bias_k, &bias_v}) init::xavier_normal_(*b = Param(empty({1, 1, embed_dim})));
  }
  if (!o.bias) return;
  in_proj_bias = Param(zeros({3 * embed_dim}));
  init::constant_(out_proj.bias, 0);
}

MultiheadAttention MultiheadAttention::clone() const {
  MultiheadAttention c(out_proj.clone());
  c.embed_dim = embed_dim;
  c.num_heads = num_heads;
  c.dropout = dropout;
  c.batch_first = batch_first;
  c.add_zero_attn = add_zero_attn;
  copy_fields(*this, c);
  return c;
}

// x [N, L, *] to [N, heads, L, E / heads]; part 0, 1, 2 for query, key, value.
Tensor MultiheadAttention::project(const Tensor& x, int part) const {
  const Param* separate[] = {&q_proj_weight, &k_proj_weight, &v_proj_weight};
  const std::int64_t from = part * embed_dim;
  // Cast before slicing: a region caches the cast of a parameter, but not of a slice.
  const auto part_of = [&](const Tensor& all) { return slice(amp::lowered(all), 0, from, from + embed_dim); };
  const Tensor weight = in_proj_weight.defined() ? part_of(in_proj_weight) : Tensor(*separate[part]);
  const Tensor bias = in_proj_bias.defined() ? part_of(in_proj_bias) : Tensor();
  const Tensor y = linear(x, weight, bias);
  return permute(reshape(y, {x.size(0), x.size(1), num_heads, embed_dim / num_heads}), {0, 2, 1, 3});
}

// x [N, heads, S, E / heads] with the learned row and the zero row appended, if any.
Tensor MultiheadAttention::with_extra_rows(const Tensor& x, const Param& bias) const {
  std::vector<Tensor> parts{x};
  const Dims row{x.size(0), num_heads, 1, embed_dim / num_heads};
  if (bias.defined())
    parts.push_back(expand(reshape(cast(bias, x.dtype()), {1, num_heads, 1, embed_dim / num_heads}), row));
  if (add_zero_attn) parts.push_back(zeros(row, {.dtype = x.dtype(), .device = x.device()}));
  return parts.size() == 1 ? x : cat(parts, 2);
}

AttentionResult MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                               const AttentionCall& given) const {
  const amp::InModule here(*this);
  const bool batched = query.dim() == 3;
  check(query.dim() == key.dim() && key.dim() == value.dim() && (batched || query.dim() == 2),
        "MultiheadAttention: query, key and value must all have 3 dimensions, or 2 without a batch; got ", query, ", ",
        key, ", ", value);
  check(query.size(-1) == embed_dim, "MultiheadAttention: query must end in embed_dim ", embed_dim, ", got ", query);
  AttentionCall call = given;
  if (!batched && call.key_padding_mask.defined()) call.key_padding_mask = unsqueeze(call.key_padding_mask, 0);
  const auto batch_major = [&](const Tensor& x) {
    return !batched ? unsqueeze(x, 0) : batch_first ? x : transpose(x, 0, 1);
  };
  const Tensor q = project(batch_major(query), 0);
  Tensor k = project(batch_major(key), 1), v = project(batch_major(value), 2);
  check(k.size(0) == q.size(0) && v.size(0) == q.size(0) && k.size(2) == v.size(2), "MultiheadAttention: query ", query,
        ", key ", key, " and value ", value, " differ in batch or length",
        !batched      ? ""
        : batch_first ? "; they are read as [batch, length, embed]"
                      : "; they are read as [length, batch, embed], with batch_first as [batch, length, embed]");
  Tensor mask = joined_mask(call, q.size(0), num_heads, q.size(2), k.size(2), q.dtype(), q.device());
  const std::int64_t extra = (bias_k.defined() ? 1 : 0) + (add_zero_attn ? 1 : 0);
  if (extra > 0) {
    k = with_extra_rows(k, bias_k);
    v = with_extra_rows(v, bias_v);
    if (mask.defined()) mask = pad(mask, {0, extra});  // the appended rows are visible to every query
  }
  const double p = mode.training ? dropout : 0;
  AttentionResult result;
  Tensor mixed;
  if (call.need_weights) {
    const Tensor weights = mantissa::dropout(attention_weights(q, k, mask), p);
    mixed = matmul(weights, v);
    result.weights = call.average_attn_weights ? mean(weights, {1}) : weights;
    if (!batched) result.weights = squeeze(result.weights, 0);
  } else {
    mixed = scaled_dot_product_attention(q, k, v, mask, {.dropout_p = p});
  }
  const Tensor y = out_proj(reshape(permute(mixed, {0, 2, 1, 3}), {q.size(0), q.size(2), embed_dim}));
  result.output = !batched ? squeeze(y, 0) : batch_first ? y : transpose(y, 0, 1);
  return result;
}

}  // namespace mantissa::nn
