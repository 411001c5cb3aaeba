// NoGrad guard: nothing is recorded in its scope. EnableGrad undoes it inside. Per thread.
#pragma once

#include "core/context.h"

namespace mantissa {

class GradMode {
 public:
  explicit GradMode(bool on) : before_(context().grad_enabled) { context().grad_enabled = on; }
  ~GradMode() { context().grad_enabled = before_; }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};
struct [[nodiscard]] NoGrad : GradMode { NoGrad() : GradMode(false) {} };
struct [[nodiscard]] EnableGrad : GradMode { EnableGrad() : GradMode(true) {} };
inline bool grad_enabled() { return context().grad_enabled; }

}  // namespace mantissa
