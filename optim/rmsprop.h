// RMSprop (Hinton, 2012), plain, with momentum, or centered. Same results as torch.optim.RMSprop.
#pragma once

#include "optim/optimizer.h"

namespace mantissa::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;      // decay rate of the running mean of squares
  double eps = 1e-8;        // added to the root
  double weight_decay = 0;  // added to the gradient
  double momentum = 0;      // 0: no momentum buffer is kept, and none can be switched on later
  bool centered = false;    // divide by the standard deviation: one more state
  bool maximize = false;
};

class RMSprop : public Optimizer {
 public:
  explicit RMSprop(Parameters parameters, const RMSpropOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const RMSpropOptions& options);
};

}  // namespace mantissa::optim
