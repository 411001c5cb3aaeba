#include "optim/clip.h"

#include <cmath>

#include "amp/gradient_pass.h"
#include "amp/scale_ledger.h"
#include "autograd/grad_mode.h"
#include "core/memory_order.h"
#include "core/multi_tensor.h"
#include "core/profile.h"
#include "core/recording.h"

namespace mantissa::optim {
namespace {

// Flat views of all gradients; one with gaps through a dense copy that finish() writes back.
struct Gradients {
  explicit Gradients(const Parameters& parameters) {
    for (const Tensor& p : parameters.tensors) add(p.grad());
  }
  void add(Tensor g) {
    if (!g.defined()) return;
    if (tensors.empty()) device = g.device();
    check(g.device() == device, "gradient clipping: gradients are on ", device, " and ", g.device());
    Tensor flat = dense(g, g.layout());
    views.push_back({flat.raw_data(), flat.numel(), flat.dtype()});
    tensors.emplace_back(std::move(g), std::move(flat));
  }
  std::span<const GradientView> span() const { return views; }
  std::vector<Tensor> originals() const {
    std::vector<Tensor> list;
    for (const auto& entry : tensors) list.push_back(entry.first);
    return list;
  }
  void finish() {
    for (auto& [gradient, flat] : tensors) {
      if (gradient.is_same(flat)) gradient.storage()->written_by("gradient clipping");
      else gradient.copy_(flat);
    }
  }

  Device device;
  std::vector<GradientView> views;
  std::vector<std::pair<Tensor, Tensor>> tensors;
};

void check_max_norm(const char* function, double max_norm) {
  check(max_norm >= 0, function, ": max_norm must not be negative, got ", max_norm);
}

// Gradients of a scaled loss would be clipped to nearly nothing. With an infinite limit they are only read.
void check_unscaled(const char* function, const Parameters& parameters, double limit) {
  if (std::isinf(limit)) return;
  for (std::size_t i = 0; i < parameters.tensors.size(); ++i) {
    if (!amp::carries_scale(parameters.tensors[i])) continue;
    fail(function, ": the gradient of ", parameter_label(parameters.names[i], i),
         " is still multiplied by the scale of a GradScaler; call scaler.unscale_(optimizer) first, or clip in "
         "scaler.step(optimizer, amp::ClipNorm{1})");
  }
}

Tensor norm_of(const char* function, const Gradients& gradients, const ClipOptions& options) {
  check(options.norm_type > 0, function, ": norm_type must be positive, got ", options.norm_type);
  if (gradients.views.empty()) return zeros({});
  Tensor norm = options.norm_type == 2 ? amp::known_norm(gradients.originals()) : Tensor();
  if (!norm.defined()) {
    norm = empty({}, {.device = gradients.device});
    kernels::gradient_norm(gradients.device, gradients.span(), options.norm_type, norm.data<float>());
  }
  if (options.error_if_nonfinite) check_may_read(function, norm, "error_if_nonfinite looks at the norm");
  if (options.error_if_nonfinite && !std::isfinite(norm.item())) {
    fail(function, ": the norm of the gradients is ", norm.item(), "; nothing was clipped");
  }
  return norm;
}

// The tensor whose device the profiler uses for timing.
const Tensor* first_of(const Parameters& parameters) {
  return parameters.tensors.empty() ? nullptr : &parameters.tensors.front();
}

}  // namespace

Tensor clip_grad_norm_(const Parameters& parameters, double max_norm, const ClipOptions& options) {
  check_max_norm("clip_grad_norm_", max_norm);
  if (!options.scaled) check_unscaled("clip_grad_norm_", parameters, max_norm);
  const ProfileRange range(ProfileKind::library, "clip_grad_norm_", first_of(parameters));
  const NoGrad no_grad;
  Gradients gradients(parameters);
  const Tensor norm = norm_of("clip_grad_norm_", gradients, options);
  if (gradients.views.empty()) return norm;
  kernels::scale_gradients(gradients.device, gradients.span(), norm.data<float>(), max_norm);
  gradients.finish();
  return norm;
}

Tensor get_total_norm(const std::vector<Tensor>& tensors, const ClipOptions& options) {
  const NoGrad no_grad;
  Gradients gradients(Parameters(std::vector<Tensor>{}));
  for (const Tensor& t : tensors) {
    check(t.defined() && t.is_floating(), "get_total_norm: needs floating tensors, got ", t);
    gradients.add(t.detach());
  }
  return norm_of("get_total_norm", gradients, options);
}

void clip_grads_with_norm_(const Parameters& parameters, double max_norm, const Tensor& total_norm) {
  check_max_norm("clip_grads_with_norm_", max_norm);
  check(total_norm.defined() && total_norm.numel() == 1 && total_norm.is_floating(),
        "clip_grads_with_norm_: total_norm must be a floating tensor of "
        "one element, got ",
        total_norm);
  const ProfileRange range(ProfileKind::library, "clip_grads_with_norm_", first_of(parameters));
  const NoGrad no_grad;
  Gradients gradients(parameters);
  if (gradients.views.empty()) return;
  const Tensor norm = empty({}, {.device = gradients.device}).copy_(total_norm.detach().reshape({}));
  kernels::scale_gradients(gradients.device, gradients.span(), norm.data<float>(), max_norm);
  gradients.finish();
}

void clip_grad_value_(const Parameters& parameters, double limit) {
  check(limit >= 0, "clip_grad_value_: the limit must not be negative, got ", limit);
  check_unscaled("clip_grad_value_", parameters, limit);
  const ProfileRange range(ProfileKind::library, "clip_grad_value_", first_of(parameters));
  const NoGrad no_grad;
  Gradients gradients(parameters);
  if (gradients.views.empty()) return;
  kernels::clamp_gradients(gradients.device, gradients.span(), limit);
  gradients.finish();
}

}  // namespace mantissa::optim
