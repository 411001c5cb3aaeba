#include "optim/schedule.h"

#include <cmath>
#include <numbers>

#include "io/checkpoint.h"

namespace mantissa::optim {

double StepLR::lr_at(double base, std::int64_t step) const {
  check(step_size >= 1, "StepLR: step_size must be at least 1, got ", step_size);
  return base * std::pow(gamma, static_cast<double>(step / step_size));
}

double LinearLR::lr_at(double base, std::int64_t step) const {
  check(total_iters >= 1, "LinearLR: total_iters must be at least 1, got ", total_iters);
  const double part = step >= total_iters ? 1 : static_cast<double>(step) / static_cast<double>(total_iters);
  return base * (start_factor + (end_factor - start_factor) * part);
}

double CosineAnnealingLR::lr_at(double base, std::int64_t step) const {
  check(t_max >= 1, "CosineAnnealingLR: t_max must be at least 1, got ", t_max);
  const double angle = std::numbers::pi * static_cast<double>(step) / static_cast<double>(t_max);
  return eta_min + (base - eta_min) * (1 + std::cos(angle)) / 2;
}

namespace {

// The cycle as phases that end at (fractional) step numbers; `at` interpolates between corner values.
struct Phase {
  double end, from, to;
};
double one_cycle(const OneCycleLR& s, std::int64_t step, double low, double high, double last) {
  check(s.total_steps >= 1, "OneCycleLR: total_steps must be at least 1, got ", s.total_steps);
  check(s.pct_start >= 0 && s.pct_start <= 1, "OneCycleLR: pct_start must be in [0, 1], got ", s.pct_start);
  check(step < s.total_steps, "OneCycleLR: step ", step, " is beyond total_steps ", s.total_steps);
  const double total = static_cast<double>(s.total_steps), top = s.pct_start * total - 1;
  const Phase two[] = {{top, low, high}, {total - 1, high, last}};
  const Phase three[] = {{top, low, high}, {2 * s.pct_start * total - 2, high, low}, {total - 1, low, last}};
  const std::span<const Phase> phases = s.three_phase ? std::span<const Phase>(three) : std::span<const Phase>(two);
  double begin = 0;
  const auto now = static_cast<double>(step);
  for (const Phase& p : phases) {
    if (now > p.end && &p != &phases.back()) {
      begin = p.end;
      continue;
    }
    const double part = p.end == begin ? 1 : (now - begin) / (p.end - begin);
    if (s.linear) return p.from + (p.to - p.from) * part;
    return p.to + (p.from - p.to) / 2 * (1 + std::cos(std::numbers::pi * part));
  }
  return last;
}

}  // namespace

double OneCycleLR::lr_at(double, std::int64_t step) const {
  const double initial = max_lr / div_factor;
  return one_cycle(*this, step, initial, max_lr, initial / final_div_factor);
}
std::optional<double> OneCycleLR::momentum_at(std::int64_t step) const {
  if (!cycle_momentum) return {};
  return one_cycle(*this, step, max_momentum, base_momentum, max_momentum);
}

std::size_t SequentialLR::phase_at(std::int64_t step, std::int64_t* local) const {
  check(!schedules.empty() && milestones.size() + 1 == schedules.size(), "SequentialLR: ",
        static_cast<unsigned long>(schedules.size()), " schedules need one milestone fewer, got ",
        static_cast<unsigned long>(milestones.size()));
  std::size_t i = 0;
  while (i < milestones.size() && step >= milestones[i]) ++i;
  *local = i == 0 ? step : step - milestones[i - 1];
  return i;
}
double SequentialLR::lr_at(double base, std::int64_t step) const {
  std::int64_t local = 0;
  return schedules[phase_at(step, &local)].lr_at(base, local);
}
std::optional<double> SequentialLR::momentum_at(std::int64_t step) const {
  std::int64_t local = 0;
  return schedules[phase_at(step, &local)].momentum_at(local);
}

Scheduler::Scheduler(Optimizer& optimizer, Schedule schedule) : optimizer_(&optimizer), schedule_(std::move(schedule)) {
  for (int g = 0; g < optimizer.groups(); ++g) base_.push_back(optimizer.lr(g));
  set_step(0);
}

void Scheduler::set_step(std::int64_t step) {
  check(step >= 0, "Scheduler: the step must not be negative, got ", step);
  const std::optional<double> momentum = schedule_.momentum_at(step);
  const char* name = optimizer_->has("beta1") ? "beta1" : "momentum";
  for (int g = 0; g < optimizer_->groups(); ++g) {
    optimizer_->set_lr(schedule_.lr_at(base_[static_cast<std::size_t>(g)], step), g);
    if (momentum) optimizer_->set(name, *momentum, g);
  }
  step_ = step;
}

NamedTensors Scheduler::state_dict() const {
  return {{"step", scalar(static_cast<double>(step_), {.dtype = i64})},
          {"base_lr", from_data<double>(base_, {static_cast<std::int64_t>(base_.size())})}};
}
void Scheduler::load_state_dict(const NamedTensors& state) {
  const std::string mismatch = io::describe_mismatch(state_dict(), state);
  check(mismatch.empty(), "Scheduler load_state_dict: ", mismatch);
  const bool step_first = state[0].first == "step";
  base_ = state[step_first ? 1 : 0].second.to_vector<double>();
  set_step(state[step_first ? 0 : 1].second.item<std::int64_t>());
}

}  // namespace mantissa::optim
