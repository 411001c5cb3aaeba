// Adagrad (Duchi et al., 2011). Same results as torch.optim.Adagrad.
#pragma once

#include "optim/optimizer.h"

namespace mantissa::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;      // step t has learning rate lr / (1 + (t - 1) * lr_decay)
  double weight_decay = 0;  // added to the gradient
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
};

class Adagrad : public Optimizer {
 public:
  explicit Adagrad(Parameters parameters, const AdagradOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const AdagradOptions& options);
};

}  // namespace mantissa::optim
