#include "nn/fuse.h"

#include "autograd/grad_mode.h"

namespace mantissa::nn {
namespace {

// The weight scaled per output channel, and the resulting bias.
FusedWeights scaled(const Tensor& weight, const Tensor& shape_of_weight_scale, const Tensor& scale, const Tensor& bias,
                    const Tensor& running_mean, const Tensor& bn_bias, const Dims& channels) {
  const Tensor w = (weight.detach() * shape_of_weight_scale).to(weight.dtype());
  Tensor b = (bias.defined() ? bias.detach() - running_mean : -running_mean) * scale;
  if (bn_bias.defined()) b = b + bn_bias.detach();
  return {w, expand(b, channels).contiguous().to(bias.defined() ? bias.dtype() : weight.dtype())};
}
Tensor scale_of(const Tensor& running_var, double eps, const Tensor& bn_weight) {
  const Tensor inverse = rsqrt(running_var + eps);
  return bn_weight.defined() ? bn_weight.detach() * inverse : inverse;
}

}  // namespace

FusedWeights fuse_conv_bn_weights(const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                                  const Tensor& running_var, double eps, const Tensor& bn_weight, const Tensor& bn_bias,
                                  bool transpose) {
  const NoGrad no_grad;
  const std::int64_t channels = running_mean.numel(), own = weight.size(transpose ? 1 : 0);
  check(transpose ? own > 0 && channels % own == 0 && weight.size(0) % (channels / own) == 0 : own == channels,
        "fuse_conv_bn_weights: the batch norm has ", channels, " channels, the weight of the convolution is ", weight);
  const Tensor scale = scale_of(running_var, eps, bn_weight);
  Dims sizes = Dims::filled(weight.dim(), 1);
  if (!transpose) {
    sizes[0] = channels;
    return scaled(weight, reshape(scale, sizes), scale, bias, running_mean, bn_bias, {channels});
  }
  // Input channels of group g belong to the g-th part of the outputs.
  const std::int64_t groups = channels / own, in = weight.size(0);
  sizes[0] = in;
  sizes[1] = own;
  const Tensor of_pairs = expand(reshape(scale, {groups, 1, own}), {groups, in / groups, own});
  return scaled(weight, reshape(of_pairs, sizes), scale, bias, running_mean, bn_bias, {channels});
}

FusedWeights fuse_linear_bn_weights(const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                                    const Tensor& running_var, double eps, const Tensor& bn_weight,
                                    const Tensor& bn_bias) {
  const NoGrad no_grad;
  const std::int64_t channels = running_mean.numel(), out = weight.size(0);
  check(weight.dim() == 2 && (channels == out || channels == 1), "fuse_linear_bn_weights: the batch norm has ",
        channels, " channels, the weight of the linear layer is ", weight);
  const Tensor scale = scale_of(running_var, eps, bn_weight);
  return scaled(weight, unsqueeze(scale, 1), scale, bias, running_mean, bn_bias, {out});
}

void detail::check_fusible(const char* name, const BatchNorm& bn) {
  check(!bn.mode.training, name,
        ": the batch norm is in training, where it uses the statistics of a batch; call nn::eval on it first");
  check(bn.running_mean.defined() && bn.running_var.defined(), name, ": the batch norm has no running statistics");
}

}  // namespace mantissa::nn
