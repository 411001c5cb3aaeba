// Adam and AdamW. Same results as torch.optim.Adam and torch.optim.AdamW (and their default
// weight decays: 0 and 0.01). Papers: see core/optim_formulas.h.
#pragma once

#include <array>

#include "optim/optimizer.h"

namespace mantissa::optim {

struct AdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;  // added to the gradient
  bool amsgrad = false;     // divide by the largest second moment so far
  bool maximize = false;
  bool decoupled_weight_decay = false;  // true: AdamW's decay, p -= lr * weight_decay * p
};

struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;  // decoupled: p -= lr * weight_decay * p
  bool amsgrad = false;
  bool maximize = false;
};

class Adam : public Optimizer {
 public:
  explicit Adam(Parameters parameters, const AdamOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const AdamOptions& options);
};

class AdamW : public Optimizer {
 public:
  explicit AdamW(Parameters parameters, const AdamWOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const AdamWOptions& options);
};

}  // namespace mantissa::optim
