// Tracks the scale that every gradient carries. A scaler numbers the successive values of its scale: an epoch begins
// whenever the scale may have changed. Each scaled loss tags the backward pass that starts from it with its epoch, each
// parameter's node keeps the tags of the gradients it has accumulated (autograd/hooks.h), and unscaling looks them up
// here: to divide by the scale that was actually used, and to name both places in the program where gradients of
// different scales meet. Reads the device only if two scales do meet.
#pragma once

#include <cstdint>
#include <deque>
#include <source_location>
#include <string>

#include "amp/step.h"

namespace mantissa::autograd { struct GradientTags; }

namespace mantissa::amp {

using CallSite = std::source_location;  // of the user's call, by default argument of the scaler's methods
std::string to_string(const CallSite& site);  // "train.cpp:88"

// Whether a parameter's gradient still carries the scale of its loss: neither unscaled nor written to since backward.
// For errors in functions that need the unscaled gradient.
bool carries_scale(const Tensor& parameter);
bool carries_scale(const autograd::GradientTags& tags);

class ScaleLedger {
 public:
  struct Epoch {
    std::uint64_t number = 0;
    Tensor scale;                  // a copy: f32, 0-d; undefined while no loss was scaled
    CallSite began, scaled, scaled_last, unscaled;
    const char* began_by = "";     // the method at `began`; empty for the first epoch
  };

  ScaleLedger();
  ScaleLedger(const ScaleLedger&) : ScaleLedger() {}  // a copied scaler tracks its own gradients
  ScaleLedger& operator=(const ScaleLedger&) = delete;

  // Records that a loss is scaled at `site`; returns a copy of the scale to multiply by. (A new copy each time, so that
  // a captured iteration makes its own.)
  Tensor scaled_loss(const Tensor& scale, const CallSite& site);
  std::uint64_t scaled_tag() const { return tag(epochs_.back().number, false); }
  // The scale may have changed: starts a new epoch.
  void scale_changed(const char* method, const CallSite& site);

  // The scale carried by the gradient of `parameter`, number i of the optimizer; undefined: unknown, so use the current
  // one. Throws if it is a sum over different scales, was already unscaled, or belongs to another scaler.
  Tensor scale_of(const Tensor& parameter, const Steppable& optimizer, std::size_t i) const;
  // Records that the gradient was divided by its scale.
  void unscaled(const Tensor& parameter, const CallSite& site);
  // Throws if a scaled gradient has been accumulated since.
  void check_still_unscaled(const Tensor& parameter, const Steppable& optimizer, std::size_t i) const;

 private:
  static constexpr std::size_t remembered = 64;  // epochs

  std::uint64_t tag(std::uint64_t epoch, bool unscaled) const {
    return scaler_ << 40 | epoch << 1 | std::uint64_t{unscaled};
  }
  const Epoch* find(std::uint64_t tag) const;

  std::uint64_t scaler_;        // unique identity
  std::deque<Epoch> epochs_{1};  // the most recent ones
};

}  // namespace mantissa::amp
