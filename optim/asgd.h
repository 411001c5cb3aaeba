// ASGD: averaged stochastic gradient descent (Polyak and Juditsky, 1992). Same results as torch.optim.ASGD; the
// averages are the states "ax" of state_dict().
#pragma once

#include "optim/optimizer.h"

namespace mantissa::optim {

struct ASGDOptions {
  double lr = 1e-2;
  double lambd = 1e-4;      // decay of the learning rate, and of the parameters
  double alpha = 0.75;      // exponent of the learning rate's decay
  double t0 = 1e6;          // step at which averaging starts
  double weight_decay = 0;  // added to the gradient
  bool maximize = false;
};

class ASGD : public Optimizer {
 public:
  explicit ASGD(Parameters parameters, const ASGDOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const ASGDOptions& options);
};

}  // namespace mantissa::optim
