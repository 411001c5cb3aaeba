// Adafactor (Shazeer and Stern, 2018): Adam with a matrix's second moment factored into row and column means, and step
// sizes relative to the parameter's magnitude. Same results as torch.optim.Adafactor.
#pragma once

#include <optional>

#include "optim/optimizer.h"

namespace mantissa::optim {

struct AdafactorOptions {
  double lr = 1e-2;            // maximum relative step size: step t uses min(lr, 1 / sqrt(t))
  double beta2_decay = -0.8;   // step t mixes the new squares into the second moment with weight t^beta2_decay
  std::optional<double> eps1;  // lower bound of a gradient's RMS; default: the dtype's epsilon
  double eps2 = 1e-3;          // lower bound of a parameter's RMS
  double d = 1;                // updates with a larger RMS are scaled down to it
  double weight_decay = 0;     // decoupled: p -= lr * weight_decay * p
  bool maximize = false;
};

class Adafactor final : public Optimizer {
 public:
  // Of `memory` only master_weights is used: the state is small.
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
