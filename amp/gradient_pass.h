// One pass over an optimizer's gradients: each is read once, divided by the scale, tested for inf and NaN, and
// accumulated into the norm, the largest magnitude and the counts of inf and NaN. The quotients are written in place,
// or left to the optimizer to recompute (`write` false). While the result exists and no gradient is modified, clipping
// takes the norm from here without reading the gradients.
#pragma once

#include <span>

#include "amp/step.h"

namespace mantissa::amp {

struct NumberedGradient {
  Tensor gradient;
  std::int64_t parameter;  // its index in the optimizer
};

class GradientPass {
 public:
  // All gradients and `scale` (f32, 0-d) are on one device. `before` (bool, 0-d, optional): whether something was not
  // finite before; found_inf() then tells that, too.
  GradientPass(std::span<const NumberedGradient> gradients, Tensor scale, bool write = true, const Tensor& before = {});
  ~GradientPass();
  GradientPass(const GradientPass&) = delete;
  GradientPass& operator=(const GradientPass&) = delete;

  bool empty() const { return gradients_.empty(); }         // no parameter has a gradient
  const Tensor& found_inf() const { return found_inf_; }    // bool, 0-d: a gradient is not finite
  const Tensor& scale() const { return scale_; }
  const Tensor& summary() const { return summary_; }        // the fields of GradientSummary: f64[5]
  const Tensor& norm() const { return norm_; }              // f32, 0-d: of the unscaled gradients as one vector
  // Whether `gradients` starts with this pass's gradients, unmodified since.
  bool is_start_of(std::span<const Tensor> gradients) const;
  std::size_t size() const { return gradients_.size(); }
  bool wrote() const { return write_; }
  // Clips the gradients (already written) as part of a vector with this norm (f32, 0-d, on their device).
  void clip(const Tensor& norm, double max_norm);

 private:
  friend Tensor known_norm(std::span<const Tensor> gradients);

  std::vector<Tensor> gradients_;
  std::vector<std::uint32_t> versions_;  // empty: nothing was written
  bool write_;
  Tensor scale_, found_inf_, summary_, norm_;
  GradientPass* next_ = nullptr;  // linked list of live passes
};

// The norm (f32, 0-d) of the gradients of several passes, from their summaries, which are on one device.
Tensor joint_norm(std::span<const Tensor> summaries);
// The L2 norm (f32, 0-d) of gradients taken as one vector, if they are those of live passes, in order, and unmodified
// since; else undefined.
Tensor known_norm(std::span<const Tensor> gradients);

// The current state of an optimizer's gradients, for debugging at any time. Reads the device.
struct GradientReport {
  std::string parameter;
  std::int64_t infs = 0, nans = 0;
  double norm = 0, largest = 0;  // of the finite elements
};
// One entry per gradient that is not finite; empty if all are finite.
std::vector<GradientReport> check_gradients(const Steppable& optimizer);

}  // namespace mantissa::amp
