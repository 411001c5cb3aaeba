// ReduceLROnPlateau: lowers the learning rate when a metric has stopped getting better, as
// torch.optim.lr_scheduler.ReduceLROnPlateau. It reads the metric on the host.
//
//   optim::ReduceLROnPlateau schedule(opt, {.patience = 3});
//   ... schedule.step(validation_loss);   // once per epoch
#pragma once

#include "optim/optimizer.h"

namespace mantissa::optim {

struct PlateauOptions {
  bool maximize = false;     // PyTorch's mode "max": the metric should grow
  double factor = 0.1;       // of the rate, below 1
  int patience = 10;         // steps without improvement to tolerate before lr is reduced
  double threshold = 1e-4;   // how much better counts: a part of the best metric ...
  bool absolute_threshold = false;  // ... or an absolute difference: PyTorch's threshold_mode "abs"
  int cooldown = 0;          // steps after a reduction in which none is counted
  double min_lr = 0;
  double eps = 1e-8;         // smaller reductions are not made
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
