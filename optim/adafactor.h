// Adafactor (Shazeer and Stern, 2018): Adam's second moment of a matrix from its row and column means, and steps
// relative to the size of the parameter. Same numbers as torch.optim.Adafactor.
#pragma once

#include <optional>

#include "optim/optimizer.h"

namespace mantissa::optim {

struct AdafactorOptions {
  double lr = 1e-2;            // the largest relative step: step t uses min(lr, 1 / sqrt(t))
  double beta2_decay = -0.8;   // the second moment takes in t^beta2_decay of the new squares
  std::optional<double> eps1;  // the least root mean square of a gradient; by default the dtype's epsilon
  double eps2 = 1e-3;          // the least size a parameter is taken to have
  double d = 1;                // updates with a larger root mean square are scaled down to it
  double weight_decay = 0;     // decoupled: p -= lr * weight_decay * p
  bool maximize = false;
};

class Adafactor final : public Optimizer {
 public:
  // Of `memory` only master_weights: the state is small.
  explicit Adafactor(Parameters parameters, const AdafactorOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const AdafactorOptions& options);

 protected:
  std::optional<Dims> state_sizes(const Tensor& p, std::size_t k) const override;
  void update(Group& group, std::size_t i, const Tensor& gradient, const Keep& keep) override;
};

}  // namespace mantissa::optim
