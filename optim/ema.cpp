#include "optim/ema.h"

#include "autograd/grad_mode.h"
#include "core/ops.h"

namespace mantissa::optim {

Ema::Ema(Parameters parameters, const EmaOptions& options) : parameters_(std::move(parameters.tensors)), decay_(options.decay) {
  check(decay_ >= 0 && decay_ < 1, "Ema: decay must be at least 0 and below 1, got ", decay_);
  const NoGrad no_grad;
  for (const Tensor& p : parameters_) {
    check(p.defined() && p.is_floating(), "Ema: parameters must be floating tensors");
    averages_.push_back(empty(p.sizes(), {.dtype = p.dtype() == f64 ? f64 : f32, .device = p.device()}).copy_(p.detach()));
  }
}

void Ema::update(const amp::StepResult& result) {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Tensor& average = averages_[i];
    Tensor next = average + (parameters_[i].detach().to(average.dtype()) - average) * (1 - decay_);
    if (result.found_inf().defined()) next = where(result.found_inf(), average, next);
    average.copy_(next);
  }
}

Ema::Applied::Applied(const Ema& ema) : ema_(ema) {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < ema.size(); ++i) {
    Tensor p = ema.parameters_[i];
    own_.push_back(p.detach().clone());
    p.copy_(ema.averages_[i]);
  }
}

Ema::Applied::~Applied() {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < own_.size(); ++i) Tensor(ema_.parameters_[i]).copy_(own_[i]);
}

}  // namespace mantissa::optim
