#include "nn/update_bn.h"

#include <optional>
#include <utility>
#include <vector>

#include "nn/norm.h"

namespace mantissa::nn::detail {

struct AverageStatistics::Before final : Fields {
  std::vector<std::pair<BatchNorm*, std::optional<double>>> norms;
  std::vector<std::pair<Mode*, bool>> modes;

  template <class Norm> void add(const void* object, const void* type) {
    if (type != &amp::type_tag<Norm>) return;
    auto* norm = static_cast<Norm*>(const_cast<void*>(object));
    if (norm->running_mean.defined()) norms.emplace_back(norm, norm->options.momentum);
  }
  void module(const std::string&, const void* object, const void* type) override {
    add<BatchNorm1d>(object, type);
    add<BatchNorm2d>(object, type);
    add<BatchNorm3d>(object, type);
    add<BatchNormAct2d>(object, type);
  }
  void mode(Mode& m) override { modes.emplace_back(&m, m.training); }
};

AverageStatistics::AverageStatistics(ModuleRef module) : before_(std::make_unique<Before>()) {
  module.visit(*before_);
  const NoGrad no_grad;
  for (const auto& [norm, momentum] : before_->norms) {
    norm->running_mean.zero_();
    norm->running_var.fill_(1);
    norm->num_batches_tracked.zero_();
    norm->options.momentum.reset();
  }
  for (const auto& [mode, training] : before_->modes) mode->set_training(true);
}
AverageStatistics::~AverageStatistics() {
  for (const auto& [norm, momentum] : before_->norms) norm->options.momentum = momentum;
  for (const auto& [mode, training] : before_->modes) mode->set_training(training);
}
bool AverageStatistics::any() const { return !before_->norms.empty(); }

}  // namespace mantissa::nn::detail
