// TransformerEncoderLayer and TransformerDecoderLayer (Vaswani et al., 2017) and stacks of them, with
// the names, defaults and results of torch.nn's. Masks are those of nn::MultiheadAttention.
#pragma once

#include <vector>

#include "nn/attention.h"
#include "nn/dropout.h"
#include "nn/norm.h"

namespace mantissa::nn {

enum class FeedForward { relu, gelu };
struct TransformerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  FeedForward activation = FeedForward::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;  // x [N, T, E] instead of [T, N, E]
  bool norm_first = false;   // normalise before each block instead of after it
  bool bias = true;
};

struct TransformerEncoderLayer {
  struct Call {
    Tensor src_mask = {}, src_key_padding_mask = {};
    bool is_causal = false;
  };
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerOptions& o = {});
  Tensor operator()(const Tensor& src, const Call& call) const;
  Tensor operator()(const Tensor& src) const { return (*this)(src, Call()); }

  MultiheadAttention self_attn;
  Linear linear1;
  Dropout drop;
  Linear linear2;
  LayerNorm norm1, norm2;
  Dropout dropout1, dropout2;
  FeedForward activation = FeedForward::relu;
  bool norm_first = false;
  MANTISSA_FIELDS(self_attn, linear1, drop, linear2, norm1, norm2, dropout1, dropout2)
  TransformerEncoderLayer clone() const;

 private:
  TransformerEncoderLayer(MultiheadAttention a, Linear l1, Linear l2, LayerNorm n1, LayerNorm n2);
};

struct TransformerDecoderLayer {
  struct Call {
    Tensor tgt_mask = {}, memory_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
    bool tgt_is_causal = false;
  };
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerOptions& o = {});
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const Call& call) const;
  Tensor operator()(const Tensor& tgt, const Tensor& memory) const { return (*this)(tgt, memory, Call()); }

  MultiheadAttention self_attn, multihead_attn;
  Linear linear1;
  Dropout drop;
  Linear linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout1, dropout2, dropout3;
  FeedForward activation = FeedForward::relu;
  bool norm_first = false;
  MANTISSA_FIELDS(self_attn, multihead_attn, linear1, drop, linear2, norm1, norm2, norm3, dropout1, dropout2, dropout3)
  TransformerDecoderLayer clone() const;

 private:
  TransformerDecoderLayer(MultiheadAttention a, MultiheadAttention m, Linear l1, Linear l2, LayerNorm n1, LayerNorm n2, LayerNorm n3);
};

// Independent copies of `layer`, one after the other, as in PyTorch.
struct TransformerEncoder {
  TransformerEncoder(const TransformerEncoderLayer& layer, int num_layers);
  Tensor operator()(const Tensor& src, const TransformerEncoderLayer::Call& call) const;
  Tensor operator()(const Tensor& src) const { return (*this)(src, TransformerEncoderLayer::Call()); }
  std::vector<TransformerEncoderLayer> layers;
  MANTISSA_FIELDS(layers)
  TransformerEncoder clone() const;
};
struct TransformerDecoder {
  TransformerDecoder(const TransformerDecoderLayer& layer, int num_layers);
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const TransformerDecoderLayer::Call& call) const;
  Tensor operator()(const Tensor& tgt, const Tensor& memory) const { return (*this)(tgt, memory, TransformerDecoderLayer::Call()); }
  std::vector<TransformerDecoderLayer> layers;
  MANTISSA_FIELDS(layers)
  TransformerDecoder clone() const;
};

}  // namespace mantissa::nn
