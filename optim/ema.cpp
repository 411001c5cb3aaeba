#include "optim/ema.h"

#include <algorithm>

#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "io/checkpoint.h"

namespace mantissa::optim {

WeightAverage::WeightAverage(const char* name, Parameters parameters)
    : name_(name), parameters_(std::move(parameters.tensors)) {
  check(!parameters_.empty(), name, ": needs at least one parameter");
  const NoGrad no_grad;
  for (const Tensor& p : parameters_) {
    check(p.defined() && p.is_floating(), name, ": parameters must be floating tensors");
    averages_.push_back(empty(p.sizes(), {.dtype = compute_dtype(p.dtype()), .device = p.device()}).copy_(p.detach()));
  }
  updates_ = zeros({}, {.dtype = i64, .device = parameters_[0].device()});
}

void WeightAverage::move(const Tensor& weight, const amp::StepResult& result) {
  const NoGrad no_grad;
  const Tensor& skip = result.found_inf();
  const auto write = [&](Tensor& to, const Tensor& next) {
    to.copy_(skip.defined() ? where(skip.to(to.device()), to, next) : next);
  };
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Tensor& average = averages_[i];
    const Tensor value = parameters_[i].detach().to(average.dtype()),
                 share = weight.to(average.dtype()).to(average.device());
    write(average, lerp(average, value, share));  // exactly the value for weight 1
  }
  write(updates_, updates_ + ones_like(updates_));
}

WeightAverage::Applied::Applied(const WeightAverage& average) : average_(average) {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < average.size(); ++i) {
    Tensor p = average.parameters_[i];
    own_.push_back(p.detach().clone());
    p.copy_(average.averages_[i]);
  }
}
WeightAverage::Applied::~Applied() {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < own_.size(); ++i) Tensor(average_.parameters_[i]).copy_(own_[i]);
}

NamedTensors WeightAverage::own_state() const {
  NamedTensors state{{"updates", updates_}};
  for (std::size_t i = 0; i < averages_.size(); ++i) state.emplace_back(concat("average.", i), averages_[i]);
  return state;
}
NamedTensors WeightAverage::state_dict() const {
  NamedTensors state = own_state();
  for (auto& [name, t] : state) t = empty_like(t).copy_(t);
  return state;
}
void WeightAverage::load_state_dict(const NamedTensors& state) {
  const std::string mismatch = io::describe_mismatch(own_state(), state);
  check(mismatch.empty(), name_, " load_state_dict: ", mismatch);
  for (auto& [name, t] : own_state())
    Tensor(t).copy_(std::ranges::find(state, name, &NamedTensors::value_type::first)->second);
}

Ema::Ema(Parameters parameters, const EmaOptions& options)
    : WeightAverage("Ema", std::move(parameters)), decay_(options.decay) {
  check(decay_ >= 0 && decay_ < 1, "Ema: decay must be at least 0 and below 1, got ", decay_);
}
void Ema::update(const amp::StepResult& result) {
  const Tensor usual = full({}, 1 - decay_, {.dtype = f64, .device = count().device()});
  move(where(eq(count(), Tensor(0)), ones_like(usual), usual), result);
}

void Swa::update(const amp::StepResult& result) {
  const Tensor next = count().to(f64) + 1;
  move(reciprocal(next), result);
}

}  // namespace mantissa::optim
