#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "io/checkpoint.h"

namespace mantissa::optim {

std::size_t SequentialLR::phase_at(std::int64_t step, std::int64_t* local) const {
  check(!schedules.empty() && milestones.size() + 1 == schedules.size(), "SequentialLR: ", schedules.size(),
        " schedules need one milestone fewer, got ", milestones.size());
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

double ChainedScheduler::lr_at(double base, std::int64_t step) const {
  check(!schedules.empty(), "ChainedScheduler: needs at least one schedule");
  for (const Schedule& s : schedules) base = s.lr_at(base, step);
  return base;
}
std::optional<double> ChainedScheduler::momentum_at(std::int64_t step) const {
  std::optional<double> momentum;
  for (const Schedule& s : schedules) {
    if (const auto m = s.momentum_at(step)) momentum = m;
  }
  return momentum;
}

Scheduler::Scheduler(Optimizer& optimizer, std::vector<Schedule> schedules)
    : optimizer_(&optimizer), schedules_(std::move(schedules)) {
  const auto count = static_cast<int>(schedules_.size());
  check(count == 1 || count == optimizer.groups(), "Scheduler: ", count, " schedules for ", optimizer.groups(),
        " groups of parameters; give one for all or one each");
  for (int g = 0; g < optimizer.groups(); ++g) base_.push_back(optimizer.lr(g));
  set_step(0);
}

std::vector<double> Scheduler::bases() const {
  const auto groups = static_cast<std::size_t>(optimizer_->groups());
  check(base_.size() == groups || schedules_.size() == 1, "Scheduler: the optimizer has got ", groups,
        " groups since the scheduler was made for ", base_.size(), ", with a schedule for each; make a new one");
  std::vector<double> all = base_;
  while (all.size() < groups) all.push_back(optimizer_->lr(static_cast<int>(all.size())));
  return all;
}

std::vector<double> Scheduler::changed_bases() const {
  std::vector<double> base = bases();
  for (std::size_t g = 0; g < written_.size(); ++g) {
    const double now = optimizer_->lr(static_cast<int>(g)), own = written_[g];
    // From 0, or to it, no factor tells the way back.
    if (now != 0 && own != 0 && std::abs(now - own) > 1e-12 * std::abs(own)) base[g] *= now / own;
  }
  return base;
}

void Scheduler::step() { go_to(step_ + 1, changed_bases()); }
void Scheduler::set_step(std::int64_t step) { go_to(step, bases()); }

void Scheduler::go_to(std::int64_t step, const std::vector<double>& base) {
  check(step >= 0, "Scheduler: the step must not be negative, got ", step);
  const char* name = optimizer_->has("beta1") ? "beta1" : "momentum";
  struct Values {
    double lr;
    std::optional<double> momentum;
  };
  std::vector<Values> values;  // read all of them first: an error changes nothing
  for (std::size_t g = 0; g < base.size(); ++g) {
    const Schedule& s = schedules_[schedules_.size() == 1 ? 0 : g];
    values.push_back({s.lr_at(base[g], step), s.momentum_at(step)});
    check(
        !values[g].momentum || optimizer_->has(name),
        "Scheduler: the schedule cycles the momentum, but the optimizer has neither momentum nor betas; set "
        "cycle_momentum to false");
  }
  for (std::size_t g = 0; g < base.size(); ++g) {
    optimizer_->set_lr(values[g].lr, static_cast<int>(g));
    if (values[g].momentum) optimizer_->set(name, *values[g].momentum, static_cast<int>(g));
  }
  base_ = base;
  step_ = step;
  written_ = get_last_lr();
}

std::vector<double> Scheduler::get_last_lr() const {
  std::vector<double> rates;
  for (int g = 0; g < optimizer_->groups(); ++g) rates.push_back(optimizer_->lr(g));
  return rates;
}

// What step() compares, and not only what it would find: with several schedulers, or a rate that was changed since, a
// resumed run then has the bits of one without a break.
NamedTensors Scheduler::state_dict() const {
  const auto vector = [](const std::vector<double>& x) {
    return from_data<double>(x, {static_cast<std::int64_t>(x.size())});
  };
  std::vector<double> written = written_;
  const std::vector<double> now = get_last_lr();
  written.insert(written.end(), now.begin() + static_cast<std::ptrdiff_t>(written.size()), now.end());  // new groups
  return {{"step", scalar(static_cast<double>(step_), {.dtype = i64})},
          {"base_lr", vector(bases())},
          {"written_lr", vector(written)},
          {"lr", vector(now)}};
}
void Scheduler::load_state_dict(const NamedTensors& state) {
  NamedTensors own = state_dict();
  const auto find = [&](const char* name) { return std::ranges::find(state, name, &NamedTensors::value_type::first); };
  const bool is_whole = find("lr") != state.end() || find("written_lr") != state.end();
  if (!is_whole) own.resize(2);
  const std::string mismatch = io::describe_mismatch(own, state);
  check(mismatch.empty(), "Scheduler load_state_dict: ", mismatch);
  std::vector<double> written, now;
  if (is_whole) written = find("written_lr")->second.to_vector<double>(), now = find("lr")->second.to_vector<double>();
  for (const double lr : now)
    check(std::isfinite(lr) && lr >= 0, "Scheduler load_state_dict: ", lr, " is no learning rate");
  go_to(find("step")->second.item<std::int64_t>(), find("base_lr")->second.to_vector<double>());
  for (std::size_t g = 0; g < now.size(); ++g) optimizer_->set_lr(now[g], static_cast<int>(g));
  if (is_whole) written_ = written;
}

}  // namespace mantissa::optim
