// NoGrad guard: nothing is recorded in its scope. EnableGrad inside it reverts that. Per thread. InferenceMode is a
// NoGrad that EnableGrad cannot revert: for serving and evaluation, where code that enables gradients by itself must
// not start recording. Tensors created there are ordinary constants afterwards (PyTorch forbids their use in training;
// here nothing depends on it).
#pragma once

#include "core/context.h"

namespace mantissa {

class GradMode {
 public:
  explicit GradMode(bool on) : before_(context().grad_enabled) { context().grad_enabled = on && !context().inference; }
  ~GradMode() { context().grad_enabled = before_; }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};
struct [[nodiscard]] NoGrad : GradMode { NoGrad() : GradMode(false) {} };
struct [[nodiscard]] EnableGrad : GradMode { EnableGrad() : GradMode(true) {} };

class [[nodiscard]] InferenceMode {
 public:
  explicit InferenceMode(bool on = true) : before_(context()) {
    context().inference = on;
    if (on) context().grad_enabled = false;
  }
  ~InferenceMode() {
    context().inference = before_.inference;
    context().grad_enabled = before_.grad_enabled;
  }
  InferenceMode(const InferenceMode&) = delete;
  InferenceMode& operator=(const InferenceMode&) = delete;

 private:
  Context before_;
};
inline bool inference_mode_enabled() { return context().inference; }
inline bool grad_enabled() { return context().grad_enabled; }

}  // namespace mantissa
