// Adamax: Adam with the infinity norm for the second moment (Kingma and Ba, 2015).
// Same results as torch.optim.Adamax.
#pragma once

#include <array>

#include "optim/optimizer.h"

namespace mantissa::optim {

struct AdamaxOptions {
  double lr = 2e-3;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;  // added to the gradient
  bool maximize = false;
};

class Adamax : public Optimizer {
 public:
  explicit Adamax(Parameters parameters, const AdamaxOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const AdamaxOptions& options);
};

}  // namespace mantissa::optim
