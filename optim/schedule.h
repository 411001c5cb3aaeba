// Learning-rate schedules: plain values with a closed form lr_at(base, step), where base is the
// optimizer's learning rate and step counts from 0. Values equal those of torch.optim.lr_scheduler
// (OneCycleLR ignores base, as there). A Scheduler applies one to an optimizer:
//
//   optim::Scheduler schedule(opt, optim::CosineAnnealingLR{.t_max = 1000});
//   ... opt.step(); schedule.step();           // or schedule.step(scaler.step(opt))
//
// Any callable step -> factor is a schedule too: Scheduler(opt, [](auto step) { return ...; }).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "optim/optimizer.h"

namespace mantissa::optim {

struct StepLR {  // times gamma every step_size steps
  std::int64_t step_size = 1;
  double gamma = 0.1;
  double lr_at(double base, std::int64_t step) const;
};
struct LinearLR {  // warm-up: from start_factor * base to end_factor * base in total_iters steps
  double start_factor = 1.0 / 3, end_factor = 1;
  std::int64_t total_iters = 5;
  double lr_at(double base, std::int64_t step) const;
};
struct CosineAnnealingLR {  // half a cosine from base to eta_min in t_max steps, and back
  std::int64_t t_max = 1;
  double eta_min = 0;
  double lr_at(double base, std::int64_t step) const;
};
struct OneCycleLR {  // Smith and Topin, 2019. A step at or beyond total_steps is an error
  double max_lr = 1e-2;
  std::int64_t total_steps = 1;
  double pct_start = 0.3;  // the part of the cycle that raises the rate
  bool linear = false;     // else cosine
  bool cycle_momentum = true;  // momentum, or Adam's beta1, runs against the rate
  double base_momentum = 0.85, max_momentum = 0.95;
  double div_factor = 25, final_div_factor = 1e4;
  bool three_phase = false;
  double lr_at(double base, std::int64_t step) const;
  std::optional<double> momentum_at(std::int64_t step) const;
};

// Any of them. A handle to an immutable value: copying is cheap.
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

// One schedule after another: number i runs from milestones[i - 1] on, and counts its steps from there.
struct SequentialLR {
  std::vector<Schedule> schedules;
  std::vector<std::int64_t> milestones;  // one fewer, increasing
  double lr_at(double base, std::int64_t step) const;
  std::optional<double> momentum_at(std::int64_t step) const;

 private:
  std::size_t phase_at(std::int64_t step, std::int64_t* local) const;
};

class Scheduler {
 public:
  // Sets the rate of step 0 at once. The optimizer's present rates are the bases.
  Scheduler(Optimizer& optimizer, Schedule schedule);

  void step() { set_step(step_ + 1); }
  // Advances only if the step was executed. Reads the verdict from the device.
  void step(const amp::StepResult& result) { if (!result.skipped()) step(); }
  void set_step(std::int64_t step);
  std::int64_t current_step() const { return step_; }
  double lr(int group = 0) const { return optimizer_->lr(group); }

  NamedTensors state_dict() const;  // "step" and "base_lr"
  void load_state_dict(const NamedTensors& state);

 private:
  Optimizer* optimizer_;
  Schedule schedule_;
  std::vector<double> base_;
  std::int64_t step_ = 0;
};

}  // namespace mantissa::optim
