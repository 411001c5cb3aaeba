// What the loss scaler and an optimizer know of each other: Steppable is what the scaler needs,
// StepResult what a step leaves behind. Verdicts and sums stay on the device; only functions that say
// so read them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace mantissa::amp {

// What an update does to gradients while it reads them, so that memory is not passed over for it.
struct ReadScaling {
  Tensor scale;         // f32, 0-d, where the gradients are: they are divided by it; undefined: not
  Tensor norm;          // f32, 0-d, of the divided gradients: then they are clipped to max_norm; undefined: not
  double max_norm = 0;
};

class Steppable {  // optim::Optimizer is one
 public:
  Steppable() : identity_(next_identity()) {}
  Steppable(const Steppable&) : Steppable() {}
  Steppable& operator=(const Steppable&) { return *this; }
  virtual ~Steppable() = default;
  virtual std::vector<Tensor> parameters() const = 0;
  virtual std::string parameter_name(std::size_t i) const = 0;
  // One update, or no change at all when `skip` (bool, 0-d, on any device) holds true. Undefined: false.
  virtual void step_unless(const Tensor& skip) = 0;
  // Whether step_scaled works. Else the scaler divides gradients in memory before step_unless.
  virtual bool scales_while_reading() const { return false; }
  virtual void step_scaled(const Tensor& skip, const ReadScaling&) { step_unless(skip); }

  std::string type_name() const;  // "Adam": how errors name it
  std::uint64_t identity() const { return identity_; }  // of this object: an address may come again

 private:
  static std::uint64_t next_identity();
  std::uint64_t identity_;
};

// What one pass found in all gradients of an optimizer, after unscaling.
struct GradientStats {
  double norm = 0;     // of all of them seen as one vector
  double largest = 0;  // magnitude of an element; NaN is left out
  std::int64_t infs = 0, nans = 0;
  std::int64_t first_bad = -1;  // the first parameter with inf or NaN in its gradient; -1: none
};

// Whether a step was skipped, and what its gradients were. Give it to Scheduler::step and Ema::update.
class StepResult {
 public:
  StepResult() = default;  // of a step that nothing could skip
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
