// TransformerEncoderLayer and TransformerDecoderLayer (Vaswani et al., 2017), stacks of them, and the whole
// Transformer, with torch.nn's names, defaults and results. src and memory [S, N, E], tgt [T, N, E] (with batch_first
// [N, S, E] and [N, T, E]); the result has the shape of src, or of tgt. Masks: see nn::MultiheadAttention.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nn/attention.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace mantissa::nn {

enum class FeedForward { relu, gelu };

// The activation between linear1 and linear2: relu or gelu by name, FeedForward::gelu or Activation::gelu (also
// gelu_tanh), which are fused with the linear layers; or any function: .activation = silu.
class FeedForwardActivation {
 public:
  FeedForwardActivation(FeedForward f = FeedForward::relu)
      : known_(f == FeedForward::gelu ? Activation::gelu : Activation::relu) {}
  FeedForwardActivation(Activation a) : known_(a) {
    check(a != Activation::none, "a transformer's activation is Activation::relu, gelu or gelu_tanh, got none");
  }
  template <std::convertible_to<std::string_view> Name>
  FeedForwardActivation(const Name& name) : FeedForwardActivation(of_name(name)) {}
  template <class F>
    requires std::is_invocable_r_v<Tensor, F, const Tensor&>
  FeedForwardActivation(F f) : function_(std::move(f)) {}
  // l2(drop(activation(l1(x))))
  Tensor between(const Linear& l1, const Dropout& drop, const Linear& l2, const Tensor& x) const {
    return l2(drop(function_ ? function_(l1(x)) : linear(x, l1.weight, l1.bias, known_)));
  }

 private:
  static FeedForward of_name(std::string_view name) {
    check(name == "relu" || name == "gelu", "a transformer's activation is \"relu\", \"gelu\" or a function, got \"",
          name, "\"");
    return name == "gelu" ? FeedForward::gelu : FeedForward::relu;
  }
  Activation known_ = Activation::none;
  std::function<Tensor(const Tensor&)> function_;
};

struct TransformerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  FeedForwardActivation activation = FeedForward::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;  // x [N, T, E] instead of [T, N, E]
  bool norm_first = false;   // normalise before each block instead of after
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
  FeedForwardActivation activation;
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
  FeedForwardActivation activation;
  bool norm_first = false;
  MANTISSA_FIELDS(self_attn, multihead_attn, linear1, drop, linear2, norm1, norm2, norm3, dropout1, dropout2, dropout3)
  TransformerDecoderLayer clone() const;

 private:
  TransformerDecoderLayer(MultiheadAttention a, MultiheadAttention m, Linear l1, Linear l2, LayerNorm n1,
      LayerNorm n2, LayerNorm n3);
};

// A stack of independent copies of `layer`, with equal initial weights as in PyTorch; then a copy of `norm`, if given.
struct TransformerEncoder {
  TransformerEncoder(const TransformerEncoderLayer& layer, int num_layers);
  TransformerEncoder(const TransformerEncoderLayer& layer, int num_layers, const LayerNorm& norm);
  Tensor operator()(const Tensor& src, const TransformerEncoderLayer::Call& call) const;
  Tensor operator()(const Tensor& src) const { return (*this)(src, TransformerEncoderLayer::Call()); }
  std::vector<TransformerEncoderLayer> layers;
  std::unique_ptr<LayerNorm> norm;
  MANTISSA_FIELDS(layers, norm)
  TransformerEncoder clone() const;
};
struct TransformerDecoder {
  TransformerDecoder(const TransformerDecoderLayer& layer, int num_layers);
  TransformerDecoder(const TransformerDecoderLayer& layer, int num_layers, const LayerNorm& norm);
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const TransformerDecoderLayer::Call& call) const;
  Tensor operator()(const Tensor& tgt, const Tensor& memory) const {
    return (*this)(tgt, memory, TransformerDecoderLayer::Call());
  }
  std::vector<TransformerDecoderLayer> layers;
  std::unique_ptr<LayerNorm> norm;
  MANTISSA_FIELDS(layers, norm)
  TransformerDecoder clone() const;
};

// Encoder and decoder, each with a final norm; weights are initialised with xavier_uniform_.
struct Transformer {
  struct Layers { int num_encoder_layers = 6, num_decoder_layers = 6; };
  struct Call {
    Tensor src_mask = {}, tgt_mask = {}, memory_mask = {};
    Tensor src_key_padding_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
    bool src_is_causal = false, tgt_is_causal = false;
  };
  Transformer(std::int64_t d_model, std::int64_t nhead, Layers layers, const TransformerOptions& o = {});
  Transformer(std::int64_t d_model, std::int64_t nhead, int encoder_layers, int decoder_layers,
              const TransformerOptions& o = {})
      : Transformer(d_model, nhead, Layers{encoder_layers, decoder_layers}, o) {}
  explicit Transformer(std::int64_t d_model = 512, std::int64_t nhead = 8) : Transformer(d_model, nhead, Layers()) {}
  Tensor operator()(const Tensor& src, const Tensor& tgt, const Call& call) const;
  Tensor operator()(const Tensor& src, const Tensor& tgt) const { return (*this)(src, tgt, Call()); }
  // [size, size]: -inf above the diagonal, 0 elsewhere.
  static Tensor generate_square_subsequent_mask(std::int64_t size, TensorOptions = {});

  TransformerEncoder encoder;
  TransformerDecoder decoder;
  MANTISSA_FIELDS(encoder, decoder)
  Transformer clone() const { return Transformer(encoder.clone(), decoder.clone()); }

 private:
  Transformer(TransformerEncoder e, TransformerDecoder d) : encoder(std::move(e)), decoder(std::move(d)) {}
};

}  // namespace mantissa::nn
