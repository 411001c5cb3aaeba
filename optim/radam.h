// RAdam: Adam that takes plain momentum steps until its second moment has seen enough (Liu et al., 2020).
// Same results as torch.optim.RAdam.
#pragma once

#include <array>

#include "optim/optimizer.h"

namespace mantissa::optim {

struct RAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  // false: added to the gradient; true: p -= lr * weight_decay * p
  bool maximize = false;
};

class RAdam : public Optimizer {
 public:
  explicit RAdam(Parameters parameters, const RAdamOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const RAdamOptions& options);
};

}  // namespace mantissa::optim
