#include "nn/norm.h"

#include "nn/sync_batch_norm.h"
#include "ops/batch_norm.h"

namespace mantissa::nn {

Tensor BatchNorm::normalise(const Tensor& x, bool relu, const Tensor& z) const {
  const bool training = mode.training || !running_mean.defined();
  double momentum = options.momentum.value_or(0);
  Tensor batches;  // which the kernel counts, unless the number is needed before, or the kernel is another one
  if (mode.training) batches = num_batches_tracked;
  if (batches.defined() && (!options.momentum || mode.group)) {
    batches.add_(Tensor(1.0));
    if (!options.momentum) momentum = 1 / batches.item<double>();
    batches = {};
  }
  if (mode.training && mode.group) {
    Tensor y = detail::sync_batch_norm(*mode.group, x, weight, bias, running_mean, running_var, momentum, options.eps);
    if (z.defined()) y = y + z;
    return relu ? mantissa::relu(y) : y;
  }
  return counted_batch_norm(x, weight, bias, running_mean, running_var, batches, training, momentum, options.eps, relu,
                            z);
}

}  // namespace mantissa::nn
