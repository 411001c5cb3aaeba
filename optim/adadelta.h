// Adadelta (Zeiler, 2012). Same results as torch.optim.Adadelta.
#pragma once

#include "optim/optimizer.h"

namespace mantissa::optim {

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;         // decay rate of both running means of squares
  double eps = 1e-6;
  double weight_decay = 0;  // added to the gradient
  bool maximize = false;
};

class Adadelta : public Optimizer {
 public:
  explicit Adadelta(Parameters parameters, const AdadeltaOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const AdadeltaOptions& options);
};

}  // namespace mantissa::optim
