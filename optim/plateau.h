// ReduceLROnPlateau: lowers the learning rate when a metric stops improving, as
// torch.optim.lr_scheduler.ReduceLROnPlateau. Reads the metric on the host.
//
//   optim::ReduceLROnPlateau schedule(opt, {.patience = 3});
//   ... schedule.step(validation_loss);   // once per epoch
#pragma once

#include "optim/optimizer.h"

namespace mantissa::optim {

struct PlateauOptions {
  bool maximize = false;     // PyTorch's mode "max": higher is better
  double factor = 0.1;       // multiplies the learning rate; below 1
  int patience = 10;         // steps without improvement to tolerate before lr is reduced
  double threshold = 1e-4;   // minimum improvement, relative to the best metric ...
  bool absolute_threshold = false;  // ... or absolute: PyTorch's threshold_mode "abs"
  int cooldown = 0;          // steps after a reduction during which bad steps are not counted
  double min_lr = 0;
  double eps = 1e-8;         // smaller reductions are skipped
};

class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options = {});

  void step(double metric);
  void step(const Tensor& metric) { step(metric.item<double>()); }  // reads the device
  double lr(int group = 0) const { return optimizer_->lr(group); }
  double best() const { return best_; }
  std::int64_t current_step() const { return last_epoch_; }

  // "best", "num_bad_epochs", "cooldown_counter" and "last_epoch"; the rates are in the optimizer's state.
  NamedTensors state_dict() const;
  void load_state_dict(const NamedTensors& state);

 private:
  Optimizer* optimizer_;
  PlateauOptions options_;
  double best_;
  std::int64_t bad_ = 0, cooldown_ = 0, last_epoch_ = 0;
};

}  // namespace mantissa::optim
