// Gradient clipping, in place, as torch.nn.utils.clip_grad_norm_ and clip_grad_value_. With a GradScaler call
// scaler.unscale_(optimizer) first, for every optimizer whose parameters are clipped (forgetting it is an error): the
// L2 norm is then taken from that pass, and clipping reads the gradients only if it has to change them.
#pragma once

#include "optim/optimizer.h"

namespace mantissa::optim {

struct ClipOptions {
  double norm_type = 2;            // 1, 2, ..., or infinity for the largest absolute value
  bool error_if_nonfinite = false; // true reads the norm back to the host
  // gradients still carry a GradScaler's scale: max_norm is multiplied by it
  bool scaled = false;
};
// Multiplies all gradients by min(1, max_norm / (norm + 1e-6)), where norm is that of all gradients taken as one
// vector. Returns the norm before clipping: f32, 0-d. Parameters without a gradient are skipped; a gradient shared by
// several parameters is clipped once per parameter.
Tensor clip_grad_norm_(const Parameters& parameters, double max_norm, const ClipOptions& options = {});
// The two steps separately, for gradients that are clipped together with others: the norm of tensors taken as one
// vector (f32, 0-d), and scaling by a given norm.
Tensor get_total_norm(const std::vector<Tensor>& tensors, const ClipOptions& options = {});
void clip_grads_with_norm_(const Parameters& parameters, double max_norm, const Tensor& total_norm);
// Clamps every gradient element to [-limit, limit].
void clip_grad_value_(const Parameters& parameters, double limit);

}  // namespace mantissa::optim
