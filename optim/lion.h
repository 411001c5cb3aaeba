// Lion (Chen et al., "Symbolic discovery of optimization algorithms", 2023), with the paper's defaults: the sign of an
// interpolation of momentum and gradient. Needs a third to a tenth of Adam's learning rate.
#pragma once

#include <array>

#include "optim/optimizer.h"

namespace mantissa::optim {

struct LionOptions {
  double lr = 1e-4;
  std::array<double, 2> betas{0.9, 0.99};  // of the interpolation, of the momentum
  double weight_decay = 0;                 // decoupled: p -= lr * weight_decay * p
  bool maximize = false;
};

class Lion : public Optimizer {
 public:
  explicit Lion(Parameters parameters, const LionOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const LionOptions& options);
};

}  // namespace mantissa::optim
