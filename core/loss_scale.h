// The state of a dynamic loss scale and the rule by which it reacts to a verdict, written once for
// CPU and device kernels. Both structs lie in device memory, so that no step has to ask the host.
// The meaning of every setting is documented for users in amp/scale_policy.h; the kernel is
// update_loss_scale (core/multi_tensor.h).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"

namespace mantissa {

struct ScaleRule {
  double growth = 2, backoff = 0.5;
  double min = 0, max = HUGE_VAL;
  std::int64_t interval = 2000;      // clean iterations in a row before the scale grows
  std::int64_t hysteresis = 1;       // the overflow with this number makes the scale back off ...
  bool clean_forgives = true;        // ... counted anew after a clean iteration, else only after growth
  double tolerance = 0;              // ... if this part of the iterations since the last change overflowed
  bool fixed = false;                // the scale never changes
};

struct ScaleCounters {  // the first five decide, and are saved; the others are for reports
  std::int64_t clean = 0;                 // iterations without overflow in a row: PyTorch's growth tracker
  std::int64_t forgiven = 0;              // overflows that hysteresis has let pass
  std::int64_t iterations = 0, overflows = 0;  // since the scale last changed
  std::int64_t at_floor = 0;              // backoffs in a row that the minimum prevented
  std::int64_t updates = 0, skipped = 0;  // since the start
  std::int64_t forward_failures = 0;      // of these, with a loss that was itself inf or NaN
  std::int64_t last_skipped = 0;          // 1 when the last iteration was skipped

  // A loss that is not finite says nothing about the scale: only the counts change.
  MANTISSA_HD void advance(float& scale, const ScaleRule& rule, bool overflow, bool forward_failed) {
    ++updates;
    last_skipped = overflow || forward_failed;
    skipped += last_skipped;
    if (forward_failed) {
      ++forward_failures;
      return;
    }
    ++iterations;
    if (overflow) back_off(scale, rule);
    else grow(scale, rule);
  }

 private:
  MANTISSA_HD void changed(float& scale, float to) {
    scale = to;
    iterations = overflows = 0;
  }
  MANTISSA_HD void back_off(float& scale, const ScaleRule& rule) {
    clean = 0;
    ++overflows;
    if (rule.fixed) return;
    if (forgiven + 1 < rule.hysteresis) {
      ++forgiven;
      return;
    }
    if (static_cast<double>(overflows) < rule.tolerance * static_cast<double>(iterations)) return;
    if (static_cast<double>(scale) <= rule.min) {
      ++at_floor;
      return;
    }
    const double lower = static_cast<double>(scale) * rule.backoff;
    changed(scale, static_cast<float>(lower < rule.min ? rule.min : lower));
  }
  MANTISSA_HD void grow(float& scale, const ScaleRule& rule) {
    at_floor = 0;
    if (rule.clean_forgives) forgiven = 0;
    if (++clean < rule.interval) return;  // not ==: the interval may have been lowered meanwhile
    clean = forgiven = 0;
    const float grown = static_cast<float>(static_cast<double>(scale) * rule.growth);
    if (rule.fixed || !std::isfinite(grown)) return;
    const float top = static_cast<double>(grown) > rule.max ? static_cast<float>(rule.max) : grown;
    if (top > scale) changed(scale, top);
  }
};

// What one pass over the gradients of an optimizer found. Doubles, so that it can be a tensor.
struct GradientSummary {
  double square_sum = 0;   // of the unscaled gradients
  double largest = 0;      // magnitude; NaN elements are left out
  double infs = 0, nans = 0;
  double first_bad = -1;   // GradientView::index of the first gradient with one of these, -1: none
};

// The last overflows, oldest overwritten first.
struct OverflowRecord {
  std::int64_t update = 0;           // which iteration, counted from 1
  std::int64_t optimizer = -1;       // number given by the scaler; -1: the loss itself was not finite
  std::int64_t parameter = -1;
  std::int64_t infs = 0, nans = 0;   // elements, over all gradients of the optimizer
  double scale = 0;                  // the gradients had been scaled by
};
struct ScalerState {
  static constexpr int capacity = 32;
  ScaleCounters counters;
  std::int64_t recorded = 0;         // since the start; record k is in overflows[k % capacity]
  OverflowRecord overflows[capacity];

  MANTISSA_HD void record(const OverflowRecord& r) { overflows[recorded++ % capacity] = r; }
};

}  // namespace mantissa
