// NAdam: Adam with Nesterov momentum (Dozat, 2016). Same results as torch.optim.NAdam.
#pragma once

#include <array>

#include "optim/optimizer.h"

namespace mantissa::optim {

struct NAdamOptions {
  double lr = 2e-3;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;  // false: added to the gradient; true: p -= lr * weight_decay * p
  bool maximize = false;
};

class NAdam : public Optimizer {
 public:
  explicit NAdam(Parameters parameters, const NAdamOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const NAdamOptions& options);
};

}  // namespace mantissa::optim
