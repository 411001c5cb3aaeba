#include "nn/transformer.h"

#include <cmath>
#include <utility>

#include "nn/copy_fields.h"

namespace mantissa::nn {
namespace {

std::unique_ptr<LayerNorm> copy_of(const LayerNorm* norm) {
  return norm ? std::make_unique<LayerNorm>(norm->clone()) : nullptr;
}
LayerNorm norm_for(std::int64_t d_model, const TransformerOptions& o) {
  return LayerNorm(d_model, {.eps = o.layer_norm_eps, .bias = o.bias});
}
MultiheadAttention attention_for(std::int64_t d_model, std::int64_t nhead, const TransformerOptions& o) {
  return MultiheadAttention(d_model, nhead, {.dropout = o.dropout, .bias = o.bias, .batch_first = o.batch_first});
}
Tensor attend(const MultiheadAttention& a, const Tensor& x, const Tensor& memory, const Tensor& mask,
              const Tensor& padding, bool causal) {
  return a(x, memory, memory,
           {.key_padding_mask = padding, .need_weights = false, .attn_mask = mask, .is_causal = causal})
      .output;
}
// A chain of residual blocks: x + block(norm(x)), or norm(x + block(x)). Each addition is deferred to the following
// norm, which performs it in the same pass.
class Residual {
 public:
  Residual(const Tensor& x, bool norm_first) : x_(x), norm_first_(norm_first) {}
  template <class Block> Residual& then(const LayerNorm& norm, const Block& block) {
    if (!norm_first_) x_ = norm(x_, block(x_), NormDtype::of_sum).y;  // post-norm: y is the residual stream
    else delta_ = block(normalised(norm));
    return *this;
  }
  Tensor result() const { return delta_.defined() ? x_ + delta_ : x_; }

 private:
  Tensor normalised(const LayerNorm& norm) {
    auto [sum, y] = norm(x_, std::exchange(delta_, Tensor()));
    x_ = std::move(sum);
    return std::move(y);
  }

  Tensor x_, delta_;
  bool norm_first_;
};
template <class Layer> std::vector<Layer> copies_of(const Layer& layer, int count) {
  check(count >= 0, "a stack cannot have ", count, " layers");
  std::vector<Layer> layers;
  for (int i = 0; i < count; ++i) layers.push_back(layer.clone());
  return layers;
}
template <class Layer> std::vector<Layer> copies_of(const std::vector<Layer>& from) {
  std::vector<Layer> layers;
  for (const Layer& layer : from) layers.push_back(layer.clone());
  return layers;
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerOptions& o)
    : self_attn(attention_for(d_model, nhead, o)),
      linear1(d_model, o.dim_feedforward, {.bias = o.bias}), drop{.p = o.dropout},
      linear2(o.dim_feedforward, d_model, {.bias = o.bias}), norm1(norm_for(d_model, o)),
      norm2(norm_for(d_model, o)), dropout1{.p = o.dropout}, dropout2{.p = o.dropout}, activation(o.activation),
      norm_first(o.norm_first) {}
TransformerEncoderLayer::TransformerEncoderLayer(MultiheadAttention a, Linear l1, Linear l2, LayerNorm n1, LayerNorm n2)
    : self_attn(std::move(a)), linear1(std::move(l1)), linear2(std::move(l2)), norm1(std::move(n1)),
      norm2(std::move(n2)) {}

TransformerEncoderLayer TransformerEncoderLayer::clone() const {
  TransformerEncoderLayer c(self_attn.clone(), linear1.clone(), linear2.clone(), norm1.clone(), norm2.clone());
  c.drop = drop;
  c.dropout1 = dropout1;
  c.dropout2 = dropout2;
  c.activation = activation;
  c.norm_first = norm_first;
  return c;
}

Tensor TransformerEncoderLayer::operator()(const Tensor& src, const Call& call) const {
  const amp::InModule here(*this);
  const auto attention = [&](const Tensor& t) {
    return dropout1(attend(self_attn, t, t, call.src_mask, call.src_key_padding_mask, call.is_causal));
  };
  const auto feed_forward = [&](const Tensor& t) { return dropout2(activation.between(linear1, drop, linear2, t)); };
  return Residual(src, norm_first).then(norm1, attention).then(norm2, feed_forward).result();
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerOptions& o)
    : self_attn(attention_for(d_model, nhead, o)), multihead_attn(attention_for(d_model, nhead, o)),
      linear1(d_model, o.dim_feedforward, {.bias = o.bias}), drop{.p = o.dropout},
      linear2(o.dim_feedforward, d_model, {.bias = o.bias}), norm1(norm_for(d_model, o)), norm2(norm_for(d_model, o)),
      norm3(norm_for(d_model, o)), dropout1{.p = o.dropout}, dropout2{.p = o.dropout}, dropout3{.p = o.dropout},
      activation(o.activation), norm_first(o.norm_first) {}
TransformerDecoderLayer::TransformerDecoderLayer(MultiheadAttention a, MultiheadAttention m, Linear l1, Linear l2,
                                                 LayerNorm n1, LayerNorm n2, LayerNorm n3)
    : self_attn(std::move(a)), multihead_attn(std::move(m)), linear1(std::move(l1)), linear2(std::move(l2)),
      norm1(std::move(n1)), norm2(std::move(n2)), norm3(std::move(n3)) {}

TransformerDecoderLayer TransformerDecoderLayer::clone() const {
  TransformerDecoderLayer c(self_attn.clone(), multihead_attn.clone(), linear1.clone(), linear2.clone(), norm1.clone(),
                            norm2.clone(), norm3.clone());
  c.drop = drop;
  c.dropout1 = dropout1;
  c.dropout2 = dropout2;
  c.dropout3 = dropout3;
  c.activation = activation;
  c.norm_first = norm_first;
  return c;
}

Tensor TransformerDecoderLayer::operator()(const Tensor& tgt, const Tensor& memory, const Call& call) const {
  const amp::InModule here(*this);
  const auto self_attention = [&](const Tensor& t) {
    return dropout1(attend(self_attn, t, t, call.tgt_mask, call.tgt_key_padding_mask, call.tgt_is_causal));
  };
  const auto cross_attention = [&](const Tensor& t) {
    return dropout2(attend(multihead_attn, t, memory, call.memory_mask, call.memory_key_padding_mask, false));
  };
  const auto feed_forward = [&](const Tensor& t) { return dropout3(activation.between(linear1, drop, linear2, t)); };
  return Residual(tgt, norm_first)
      .then(norm1, self_attention)
      .then(norm2, cross_attention)
      .then(norm3, feed_forward)
      .result();
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, int num_layers)
    : layers(copies_of(layer, num_layers)) {}
TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, int num_layers, const LayerNorm& norm)
    : layers(copies_of(layer, num_layers)), norm(copy_of(&norm)) {}
Tensor TransformerEncoder::operator()(const Tensor& src, const TransformerEncoderLayer::Call& call) const {
  Tensor x = src;
  for (const TransformerEncoderLayer& layer : layers) x = layer(x, call);
  return norm ? (*norm)(x) : x;
}
TransformerEncoder TransformerEncoder::clone() const {
  TransformerEncoder c(layers.empty() ? TransformerEncoderLayer(1, 1) : layers[0].clone(), 0);
  c.layers = copies_of(layers);
  c.norm = copy_of(norm.get());
  return c;
}
TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer, int num_layers)
    : layers(copies_of(layer, num_layers)) {}
TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer, int num_layers, const LayerNorm& norm)
    : layers(copies_of(layer, num_layers)), norm(copy_of(&norm)) {}
Tensor TransformerDecoder::operator()(const Tensor& tgt, const Tensor& memory,
                                      const TransformerDecoderLayer::Call& call) const {
  Tensor x = tgt;
  for (const TransformerDecoderLayer& layer : layers) x = layer(x, memory, call);
  return norm ? (*norm)(x) : x;
}
TransformerDecoder TransformerDecoder::clone() const {
  TransformerDecoder c(layers.empty() ? TransformerDecoderLayer(1, 1) : layers[0].clone(), 0);
  c.layers = copies_of(layers);
  c.norm = copy_of(norm.get());
  return c;
}

Transformer::Transformer(std::int64_t d_model, std::int64_t nhead, Layers count, const TransformerOptions& o)
    : encoder(TransformerEncoderLayer(d_model, nhead, o), count.num_encoder_layers, norm_for(d_model, o)),
      decoder(TransformerDecoderLayer(d_model, nhead, o), count.num_decoder_layers, norm_for(d_model, o)) {
  for (const Tensor& p : parameters(*this)) if (p.dim() > 1) init::xavier_uniform_(p);
}
Tensor Transformer::operator()(const Tensor& src, const Tensor& tgt, const Call& call) const {
  const Tensor memory = encoder(src, {call.src_mask, call.src_key_padding_mask, call.src_is_causal});
  return decoder(
      tgt, memory,
      {call.tgt_mask, call.memory_mask, call.tgt_key_padding_mask, call.memory_key_padding_mask, call.tgt_is_causal});
}
Tensor Transformer::generate_square_subsequent_mask(std::int64_t size, TensorOptions o) {
  return triu(full({size, size}, -INFINITY, o), 1);
}

}  // namespace mantissa::nn
