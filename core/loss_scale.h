// The state of a dynamic loss scale and the rule for updating it, shared by CPU and device kernels. Both structs are in
// device memory, so that no step has to wait for the host. All settings are documented for users in amp/scale_policy.h;
// the kernel is update_loss_scale (core/multi_tensor.h).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"

namespace mantissa {

struct ScaleRule {
  double growth = 2, backoff = 0.5;
  double min = 0, max = HUGE_VAL;
  std::int64_t interval = 2000;      // consecutive clean iterations before the scale grows
  std::int64_t hysteresis = 1;       // number of overflows until the scale backs off ...
  bool clean_forgives = true;        // ... counted anew after a clean iteration, else only after growth
  double tolerance = 0;              // ... if this fraction of the iterations since the last change overflowed
  bool fixed = false;                // the scale never changes
};

struct ScaleCounters {  // the first five determine the scale and are saved; the others are for reports
  std::int64_t clean = 0;                 // consecutive iterations without overflow: PyTorch's growth tracker
  std::int64_t forgiven = 0;              // overflows tolerated by hysteresis
  std::int64_t iterations = 0, overflows = 0;  // since the scale last changed
  std::int64_t at_floor = 0;              // consecutive backoffs that the minimum prevented
  std::int64_t updates = 0, skipped = 0;  // since the start
  std::int64_t forward_failures = 0;      // skipped ones whose loss was itself inf or NaN
  std::int64_t last_skipped = 0;          // 1 when the last iteration was skipped
  double burst = 0;                       // the smallest scale that overflowed since the last clean iteration
  double scale_now = 0;                   // scale after the last advance()

  // `used` is the scale of this iteration's gradients: the current one, unless optimizer steps lag behind the forward
  // passes. A loss that is not finite says nothing about the scale: only the counters change.
  MANTISSA_HD void advance(float& scale, const ScaleRule& rule, bool overflow, bool forward_failed, double used) {
    ++updates;
    last_skipped = overflow || forward_failed;
    skipped += last_skipped;
    if (forward_failed) ++forward_failures;
    else if (overflow) after_overflow(scale, rule, used);
    else after_clean(scale, rule, used);
    scale_now = static_cast<double>(scale);
  }

 private:
  // If optimizer steps lag behind, gradients made at the old scale still overflow after the backoff and back it off
  // again, too far. The first clean iteration whose scale is higher than the present one, but below every scale that
  // overflowed (`burst`), restores that scale.
  MANTISSA_HD void after_overflow(float& scale, const ScaleRule& rule, double used) {
    if (burst == 0 || used < burst) burst = used;
    ++iterations;
    back_off(scale, rule);
  }
  MANTISSA_HD void after_clean(float& scale, const ScaleRule& rule, double used) {
    ++iterations;
    if (used <= static_cast<double>(scale)) burst = 0;
    else if (used < burst && !rule.fixed) changed(scale, static_cast<float>(used));
    grow(scale, rule);
  }
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

// What one pass over the gradients of an optimizer found. All doubles, so that it can be stored as a tensor.
struct GradientSummary {
  double square_sum = 0;   // of the unscaled gradients
  double largest = 0;      // absolute value; ignores NaN elements
  double infs = 0, nans = 0;
  double first_bad = -1;   // GradientView::index of the first gradient with inf or NaN; -1: none
};

// The last overflows in a ring buffer.
struct OverflowRecord {
  std::int64_t update = 0;           // which iteration, counted from 1
  std::int64_t optimizer = -1;       // assigned by the scaler; -1: the loss itself was not finite
  std::int64_t parameter = -1;
  std::int64_t infs = 0, nans = 0;   // element counts, over all gradients of the optimizer
  double scale = 0;                  // by which the gradients had been scaled
};
// What one optimizer's gradients say about the scale.
struct Verdict {
  const bool* found_inf = nullptr;
  const GradientSummary* summary = nullptr;
  std::int64_t optimizer = 0;    // for reports
  const float* scale = nullptr;  // scale of these gradients; null: the current one
};
struct ScalerState {
  static constexpr int capacity = 32;
  ScaleCounters counters;
  double square_sum = 0, largest = 0;  // of the last iteration's gradients: square_sum may be inf or NaN
  std::int64_t recorded = 0;           // since the start; record k is in overflows[k % capacity]
  OverflowRecord overflows[capacity];

  MANTISSA_HD void record(const OverflowRecord& r) { overflows[recorded++ % capacity] = r; }

  // One iteration: records overflows, combines the verdicts by or, and updates the scale by the rule.
  MANTISSA_HD void iterate(float& scale, const Verdict* verdicts, std::int64_t count, bool forward_failed,
                           const ScaleRule& rule) {
    const std::int64_t update = counters.updates + 1;
    const double current = static_cast<double>(scale);
    OverflowRecord r;
    r.update = update;
    r.scale = current;
    if (forward_failed) record(r);
    bool overflow = false;
    double bad_used = 0, good_used = 0;  // the smallest scale that overflowed, and the smallest that was clean
    square_sum = largest = 0;
    for (std::int64_t k = 0; k < count; ++k) {
      const Verdict& v = verdicts[k];
      const GradientSummary& s = *v.summary;
      const double used = v.scale ? static_cast<double>(*v.scale) : current;
      double& smallest = *v.found_inf ? bad_used : good_used;
      if (smallest == 0 || used < smallest) smallest = used;
      overflow = overflow || *v.found_inf;
      square_sum += s.square_sum;
      if (s.largest > largest) largest = s.largest;
      if (forward_failed || s.first_bad < 0) continue;
      r.optimizer = v.optimizer;
      r.parameter = static_cast<std::int64_t>(s.first_bad);
      r.infs = static_cast<std::int64_t>(s.infs);
      r.nans = static_cast<std::int64_t>(s.nans);
      r.scale = used;
      record(r);
    }
    counters.advance(scale, rule, overflow, forward_failed, overflow ? bad_used : good_used);
  }
};

}  // namespace mantissa
