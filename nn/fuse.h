// Folds a batch norm into the preceding layer, for inference: same results, without the norm. As torch.nn.utils.fusion;
// the batch norm must be in evaluation mode (nn::eval) and have running statistics.
//
//   nn::Conv2d fused = nn::fuse_conv_bn_eval(net.conv, net.norm);
#pragma once

#include <utility>

#include "nn/conv_other.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace mantissa::nn {

struct FusedWeights {
  Tensor weight, bias;  // dtypes as given; an absent bias gets the weight's dtype
};
// weight [channels, ...], or with transpose [in, channels / groups, ...]; all others [channels]. bias, bn_weight and
// bn_bias may be undefined.
FusedWeights fuse_conv_bn_weights(const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                                  const Tensor& running_var, double eps, const Tensor& bn_weight, const Tensor& bn_bias,
                                  bool transpose = false);
// weight [out, in]; the norm has `out` channels, or 1.
FusedWeights fuse_linear_bn_weights(const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                                    const Tensor& running_var, double eps, const Tensor& bn_weight,
                                    const Tensor& bn_bias);

namespace detail {
void check_fusible(const char* name, const BatchNorm& bn);
template <class L> L with_weights(const L& layer, const FusedWeights& w) {
  L fused = layer.clone();
  fused.weight = Param(w.weight);
  fused.bias = Param(w.bias);
  fused.weight.requires_grad_(layer.weight.requires_grad());
  fused.bias.requires_grad_(layer.bias.defined() ? layer.bias.requires_grad() : layer.weight.requires_grad());
  return fused;
}
template <class C> inline constexpr bool is_transposed = false;
template <int n> inline constexpr bool is_transposed<ConvTranspose<n>> = true;
}  // namespace detail

// A new layer that computes bn(conv(x)); the arguments are not modified. C is a Conv1d-3d or a ConvTranspose1d-3d.
template <class C> C fuse_conv_bn_eval(const C& conv, const BatchNorm& bn) {
  detail::check_fusible("fuse_conv_bn_eval", bn);
  return detail::with_weights(conv, fuse_conv_bn_weights(conv.weight, conv.bias, bn.running_mean, bn.running_var,
                                                         bn.options.eps, bn.weight, bn.bias, detail::is_transposed<C>));
}
// A new layer that computes bn(linear(x)) for x [N, in].
inline Linear fuse_linear_bn_eval(const Linear& linear, const BatchNorm& bn) {
  detail::check_fusible("fuse_linear_bn_eval", bn);
  return detail::with_weights(linear, fuse_linear_bn_weights(linear.weight, linear.bias, bn.running_mean,
                                                             bn.running_var, bn.options.eps, bn.weight, bn.bias));
}

}  // namespace mantissa::nn
