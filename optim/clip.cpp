#include "optim/clip.h"

#include <cmath>

#include "amp/gradient_pass.h"
#include "autograd/grad_mode.h"
#include "core/multi_tensor.h"

namespace mantissa::optim {
namespace {

// Flat views of all gradients; a strided one through a dense copy that finish() writes back.
struct Gradients {
  explicit Gradients(const Parameters& parameters) {
    for (const Tensor& p : parameters.tensors) {
      Tensor g = p.grad();
      if (!g.defined()) continue;
      if (tensors.empty()) device = g.device();
      check(g.device() == device, "gradient clipping: gradients are on ", device, " and ", g.device());
      Tensor dense = g.is_contiguous() ? g : empty_like(g).copy_(g);
      views.push_back({dense.raw_data(), dense.numel(), dense.dtype()});
      tensors.emplace_back(std::move(g), std::move(dense));
    }
  }
  std::span<const GradientView> span() const { return views; }
  std::vector<Tensor> originals() const {
    std::vector<Tensor> list;
    for (const auto& entry : tensors) list.push_back(entry.first);
    return list;
  }
  void finish() {
    for (auto& [gradient, dense] : tensors) {
      if (gradient.is_same(dense)) gradient.storage()->written_by("gradient clipping");
      else gradient.copy_(dense);
    }
  }

  Device device;
  std::vector<GradientView> views;
  std::vector<std::pair<Tensor, Tensor>> tensors;
};

}  // namespace

Tensor clip_grad_norm_(const Parameters& parameters, double max_norm, const ClipOptions& options) {
  check(max_norm >= 0, "clip_grad_norm_: max_norm must not be negative, got ", max_norm);
  check(options.norm_type > 0, "clip_grad_norm_: norm_type must be positive, got ", options.norm_type);
  const NoGrad no_grad;
  Gradients gradients(parameters);
  if (gradients.views.empty()) return zeros({});
  Tensor norm = options.norm_type == 2 ? amp::known_norm(gradients.originals()) : Tensor();
  if (!norm.defined()) {
    norm = zeros({}, {.device = gradients.device});
    kernels::gradient_norm(gradients.device, gradients.span(), options.norm_type, norm.data<float>());
  }
  check(!options.error_if_nonfinite || std::isfinite(norm.item()), "clip_grad_norm_: the norm of the gradients is ",
        options.error_if_nonfinite ? norm.item() : 0, "; nothing was clipped");
  kernels::scale_gradients(gradients.device, gradients.span(), norm.data<float>(), max_norm);
  gradients.finish();
  return norm;
}

void clip_grad_value_(const Parameters& parameters, double limit) {
  check(limit >= 0, "clip_grad_value_: the limit must not be negative, got ", limit);
  const NoGrad no_grad;
  Gradients gradients(parameters);
  if (gradients.views.empty()) return;
  kernels::clamp_gradients(gradients.device, gradients.span(), limit);
  gradients.finish();
}

}  // namespace mantissa::optim
