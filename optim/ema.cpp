#include "optim/ema.h"

#include <algorithm>

#include "autograd/grad_mode.h"
#include "core/memory_order.h"
#include "core/multi_tensor.h"
#include "core/ops.h"
#include "core/optim_formulas.h"
#include "core/profile.h"
#include "io/checkpoint.h"

namespace mantissa::optim {

WeightAverage::WeightAverage(const char* name, Parameters parameters, double decay)
    : name_(name), parameters_(std::move(parameters.tensors)) {
  check(!parameters_.empty(), name, ": needs at least one parameter");
  const NoGrad no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    check(p.defined() && p.is_floating(), name, ": parameters must be floating tensors");
    averages_.push_back(
        Tensor::allocate(p.sizes(), compute_dtype(p.dtype()), p.device(), p.layout()).copy_(p.detach()));
    auto group = std::ranges::find(groups_, p.device(), [](const Group& g) { return g.hyper.device(); });
    if (group == groups_.end()) {
      groups_.push_back({full({1}, decay, {.dtype = f64, .device = p.device()}), {}, {}});
      group = groups_.end() - 1;
    }
    group->members.push_back(i);
  }
  for (Group& g : groups_)
    g.steps = zeros({static_cast<std::int64_t>(g.members.size())}, {.dtype = i64, .device = g.hyper.device()});
}

void WeightAverage::update_all(const amp::StepResult& result) {
  const NoGrad no_grad;
  for (const Group& g : groups_) {
    const ProfileRange range(ProfileKind::library, name_, &g.hyper);
    const Device device = g.hyper.device();
    const Tensor skip = result.found_inf().defined() ? result.found_inf().to(device) : Tensor();
    std::vector<ParameterView> views;
    std::vector<Tensor> values;  // keep what the views point to alive
    for (std::size_t k = 0; k < g.members.size(); ++k) {
      const Tensor& average = averages_[g.members[k]];
      values.push_back(dense(parameters_[g.members[k]].detach().to(device), average.layout()));
      views.push_back({.value = average.raw_data(), .gradient = values.back().raw_data(),
                       .step = g.steps.data<std::int64_t>() + k, .numel = average.numel(), .dtype = average.dtype(),
                       .gradient_dtype = values.back().dtype()});
    }
    kernels::optimizer_step(device, optim_formulas::number_of<optim_formulas::WeightAverage>, g.hyper.data<double>(),
                            skip.defined() ? skip.data<bool>() : nullptr, GradientReading{},
                            std::span<const ParameterView>(views));
    for (const std::size_t i : g.members) averages_[i].storage()->written_by(name_);
  }
}

std::int64_t WeightAverage::updates() const { return groups_[0].steps.select(0, 0).item<std::int64_t>(); }

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
  NamedTensors state{{"updates", groups_[0].steps.select(0, 0)}};
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
  for (Group& g : groups_) g.steps.fill_(static_cast<double>(updates()));  // so far only of the first parameter
}

Ema::Ema(Parameters parameters, const EmaOptions& options)
    : WeightAverage("Ema", std::move(parameters), options.decay) {
  check(options.decay >= 0 && options.decay < 1, "Ema: decay must be at least 0 and below 1, got ", options.decay);
}

}  // namespace mantissa::optim
