// The interface between the loss scaler and optimizers: Steppable is implemented by optimizers, StepResult is the
// outcome of a step. Flags and sums stay on the device; only functions documented so read them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace mantissa::amp {

// Operations that an update applies to gradients while reading them, which saves a pass over memory.
struct ReadScaling {
  Tensor scale;         // f32, 0-d, on the gradients' device: divides them; undefined: no scaling
  Tensor norm;          // f32, 0-d, of the divided gradients: clips them to max_norm; undefined: no clipping
  double max_norm = 0;
};

class Steppable {  // implemented by optim::Optimizer
 public:
  Steppable() : identity_(next_identity()) {}
  Steppable(const Steppable&) : Steppable() {}
  Steppable& operator=(const Steppable&) { return *this; }
  virtual ~Steppable() = default;
  virtual std::vector<Tensor> parameters() const = 0;
  virtual std::string parameter_name(std::size_t i) const = 0;
  // One update, or no change at all if `skip` (bool, 0-d, on any device) is true. Undefined: false.
  virtual void step_unless(const Tensor& skip) = 0;
  // Whether step_scaled is supported. If not, the scaler divides gradients in memory before step_unless.
  virtual bool scales_while_reading() const { return false; }
  virtual void step_scaled(const Tensor& skip, const ReadScaling&) { step_unless(skip); }

  std::string type_name() const;  // "Adam": for error messages
  std::uint64_t identity() const { return identity_; }  // unique per object, unlike its address

 private:
  static std::uint64_t next_identity();
  std::uint64_t identity_;
};

// Result of one pass over all gradients of an optimizer, after unscaling.
struct GradientStats {
  double norm = 0;     // L2 norm of all gradients taken as one vector
  double largest = 0;  // largest magnitude of an element, ignoring NaN
  std::int64_t infs = 0, nans = 0;
  std::int64_t first_bad = -1;  // first parameter with inf or NaN in its gradient; -1: none
};

// Whether a step was skipped, and its gradient statistics. Pass it to Scheduler::step and Ema::update.
class StepResult {
 public:
  StepResult() = default;  // of a step that cannot be skipped
  StepResult(Tensor found_inf, std::vector<Tensor> summaries)
      : found_inf_(std::move(found_inf)), summaries_(std::move(summaries)) {}

  bool skipped() const { return found_inf_.defined() && found_inf_.item() != 0; }  // reads the device
  GradientStats gradients() const;                                                 // reads the device
  const Tensor& found_inf() const { return found_inf_; }  // bool, 0-d; undefined: not skipped

 private:
  Tensor found_inf_;
  std::vector<Tensor> summaries_;  // of the passes over the gradients: f64[5] each
};

}  // namespace mantissa::amp
