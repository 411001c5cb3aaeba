// Which scale every gradient carries. A scaler numbers the values its scale takes: an epoch begins whenever
// the scale may have changed. Each scaled loss tags the backward pass that starts from it with its epoch, each
// parameter's node keeps the tags of the gradients it has summed (autograd/hooks.h), and unscaling looks
// them up here: to divide by the scale that was really used, and to name both places in the program where
// gradients of different scales meet. Nothing of it reads the device unless two scales do meet.
#pragma once

#include <cstdint>
#include <deque>
#include <source_location>
#include <string>

#include "amp/step.h"

namespace mantissa::amp {

using CallSite = std::source_location;  // of the user's call: the default argument of the scaler's methods
std::string to_string(const CallSite& site);  // "train.cpp:88"

// Whether the gradient of a parameter still carries the scale of its loss: nobody has unscaled it or written to it
// since backward. For errors of those who need the true one.
bool carries_scale(const Tensor& parameter);

class ScaleLedger {
 public:
  struct Epoch {
    std::uint64_t number = 0;
    Tensor scale;                  // a copy: f32, 0-d; undefined while no loss was scaled
    CallSite began, scaled, scaled_last, unscaled;
    const char* began_by = "";     // the method at `began`; empty for the first epoch
  };

  ScaleLedger();
  ScaleLedger(const ScaleLedger&) : ScaleLedger() {}  // a copied scaler has gradients of its own
  ScaleLedger& operator=(const ScaleLedger&) = delete;

  // A loss is scaled at `site`: a copy of the scale, to multiply by. (A new one each time, so that a captured
  // iteration makes its own.)
  Tensor scaled_loss(const Tensor& scale, const CallSite& site);
  std::uint64_t scaled_tag() const { return tag(epochs_.back().number, false); }
  // The scale may have another value from now on.
  void scale_changed(const char* method, const CallSite& site);

  // The scale that the gradient of `parameter`, number i of the optimizer, carries; undefined: nothing is known, so the
  // current one. Throws when it is a sum over different scales, was unscaled already, or belongs to another scaler.
  Tensor scale_of(const Tensor& parameter, const Steppable& optimizer, std::size_t i) const;
  // Notes that the gradient was divided by its scale.
  void unscaled(const Tensor& parameter, const CallSite& site);
  // Throws when a scaled gradient has been added since.
  void check_still_unscaled(const Tensor& parameter, const Steppable& optimizer, std::size_t i) const;

 private:
  static constexpr std::size_t remembered = 64;  // epochs

  std::uint64_t tag(std::uint64_t epoch, bool unscaled) const {
    return scaler_ << 40 | epoch << 1 | std::uint64_t{unscaled};
  }
  const Epoch* find(std::uint64_t tag) const;

  std::uint64_t scaler_;        // a number of its own
  std::deque<Epoch> epochs_{1};  // the last ones
};

}  // namespace mantissa::amp
