// Rprop: resilient backpropagation (Riedmiller and Braun, 1993), for full-batch gradients: uses only their signs.
// Same results as torch.optim.Rprop.
#pragma once

#include <array>

#include "optim/optimizer.h"

namespace mantissa::optim {

struct RpropOptions {
  double lr = 1e-2;                           // initial step size
  std::array<double, 2> etas{0.5, 1.2};       // step size factors when the sign changes, and when it stays
  std::array<double, 2> step_sizes{1e-6, 50};  // minimum and maximum
  bool maximize = false;
};

class Rprop : public Optimizer {
 public:
  explicit Rprop(Parameters parameters, const RpropOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const RpropOptions& options);
};

}  // namespace mantissa::optim
