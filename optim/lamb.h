// LAMB (You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020): Adam's direction
// rescaled per parameter to length lr * |p|. As in the paper (algorithm 2, phi(x) = x), also with weight decay 0; the
// ratio is 1 if the parameter or direction is all zeros. Clip gradients with optim/clip.h if desired.
#pragma once

#include <array>

#include "optim/optimizer.h"

namespace mantissa::optim {

struct LAMBOptions {
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-6;
  double weight_decay = 0.01;   // part of the direction, hence of its length
  bool bias_correction = true;
  bool maximize = false;
};

class LAMB : public Optimizer {
 public:
  explicit LAMB(Parameters parameters, const LAMBOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const LAMBOptions& options);
};

}  // namespace mantissa::optim
