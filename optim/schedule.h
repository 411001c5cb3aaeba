// Applies learning-rate schedules (optim/schedules.h) to an optimizer, and combines them:
//
//   optim::Scheduler schedule(opt, optim::CosineAnnealingLR{.t_max = 1000});
//   ... opt.step(); schedule.step();           // or schedule.step(scaler.step(opt))
//
// Any callable step -> factor is a schedule too: Scheduler(opt, [](auto step) { return ...; }).
// For a rate that follows a metric: optim/plateau.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "optim/optimizer.h"
#include "optim/schedules.h"

namespace mantissa::optim {

// Type-erased schedule. A handle to an immutable value: copying is cheap.
class Schedule {
 public:
  template <class S> requires requires(const S& s) { s.lr_at(1.0, std::int64_t{0}); }
  Schedule(S schedule) : self_(std::make_shared<Of<S>>(std::move(schedule))) {}
  template <class F> requires requires(const F& f) { static_cast<double>(f(std::int64_t{0})); }
  Schedule(F factor) : self_(std::make_shared<OfFactor<F>>(std::move(factor))) {}

  double lr_at(double base, std::int64_t step) const { return self_->lr_at(base, step); }
  std::optional<double> momentum_at(std::int64_t step) const { return self_->momentum_at(step); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual double lr_at(double base, std::int64_t step) const = 0;
    virtual std::optional<double> momentum_at(std::int64_t) const { return {}; }
  };
  template <class S> struct Of final : Base {
    explicit Of(S s) : schedule(std::move(s)) {}
    double lr_at(double base, std::int64_t step) const override { return schedule.lr_at(base, step); }
    std::optional<double> momentum_at(std::int64_t step) const override {
      if constexpr (requires { schedule.momentum_at(step); }) return schedule.momentum_at(step);
      else return {};
    }
    S schedule;
  };
  template <class F> struct OfFactor final : Base {
    explicit OfFactor(F f) : factor(std::move(f)) {}
    double lr_at(double base, std::int64_t step) const override { return base * factor(step); }
    F factor;
  };
  std::shared_ptr<const Base> self_;
};

// Schedules in sequence: schedule i runs from milestones[i - 1] on, with steps counted from there.
struct SequentialLR {
  std::vector<Schedule> schedules;
  std::vector<std::int64_t> milestones;  // one fewer, increasing
  double lr_at(double base, std::int64_t step) const;
  std::optional<double> momentum_at(std::int64_t step) const;

 private:
  std::size_t phase_at(std::int64_t step, std::int64_t* local) const;
};

// Schedules applied on top of each other, each to the learning rate that the previous one returns: for multiplicative
// schedules (all but the cyclic ones, which ignore their base) the product, as PyTorch's ChainedScheduler.
struct ChainedScheduler {
  std::vector<Schedule> schedules;
  double lr_at(double base, std::int64_t step) const;
  std::optional<double> momentum_at(std::int64_t step) const;  // of the last one that has one
};

class Scheduler {
 public:
  // Sets the learning rate of step 0 immediately. The optimizer's current rates are the bases. One schedule for all
  // groups, or one per group. A group added later follows the common schedule from the next step on, with its rate at
  // that time as base.
  Scheduler(Optimizer& optimizer, Schedule schedule)
      : Scheduler(optimizer, std::vector<Schedule>{std::move(schedule)}) {}
  Scheduler(Optimizer& optimizer, std::vector<Schedule> schedules);

  // A rate that was changed from outside since (by another scheduler, ReduceLROnPlateau or set_lr) stays changed, by
  // the same factor: schedulers multiply, as PyTorch's do. A rate of 0 is no factor: the next step leaves it.
  void step();
  // Advances only if the step was executed. Reads found_inf from the device.
  void step(const amp::StepResult& result) { if (!result.skipped()) step(); }
  // Goes to any step, with the rates that the schedule gives for it.
  void set_step(std::int64_t step);
  std::int64_t current_step() const { return step_; }
  double lr(int group = 0) const { return optimizer_->lr(group); }
  std::vector<double> get_last_lr() const;  // of all groups

  NamedTensors state_dict() const;  // "step", "base_lr", "written_lr" and "lr"; once it was the first two alone
  void load_state_dict(const NamedTensors& state);

 private:
  std::vector<double> bases() const;          // including those of new groups
  std::vector<double> changed_bases() const;  // as step() describes
  void go_to(std::int64_t step, const std::vector<double>& base);

  Optimizer* optimizer_;
  std::vector<Schedule> schedules_;  // one, or one per group
  std::vector<double> base_, written_;  // of each group: the rate of the schedule's start, and the last one set
  std::int64_t step_ = 0;
};

}  // namespace mantissa::optim
