// SGD: stochastic gradient descent with momentum, Nesterov momentum and weight decay.
// Same results as torch.optim.SGD.
#pragma once

#include "optim/optimizer.h"

namespace mantissa::optim {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;      // 0: no momentum buffer is kept, and none can be switched on later
  double dampening = 0;
  double weight_decay = 0;  // added to the gradient: g + weight_decay * p
  bool nesterov = false;    // needs momentum and no dampening
  bool maximize = false;
};

class SGD : public Optimizer {
 public:
  explicit SGD(Parameters parameters, const SgdOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const SgdOptions& options);
};

using Sgd = SGD;  // in the style of the other names here
using SGDOptions = SgdOptions;

}  // namespace mantissa::optim
