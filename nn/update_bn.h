// update_bn: recomputes the running statistics of batch norms for weights that never saw a batch, such as averaged ones
// (optim::Swa, optim::Ema). As torch.optim.swa_utils.update_bn: statistics are reset and become the plain mean over the
// batches of one pass.
//
//   const auto scope = swa.applied();
//   nn::update_bn(net, data::mnist().batch(128));    // in one pass, in training mode, without gradients
//   evaluate(net);
#pragma once

#include <memory>

#include "autograd/grad_mode.h"
#include "nn/functions.h"

namespace mantissa::nn {
namespace detail {

// While it exists, all norms of the module average the statistics of their batches, starting from reset ones, in
// training mode. The destructor restores the momenta and every Mode.
class AverageStatistics {
 public:
  explicit AverageStatistics(ModuleRef module);
  ~AverageStatistics();
  AverageStatistics(const AverageStatistics&) = delete;
  AverageStatistics& operator=(const AverageStatistics&) = delete;
  bool any() const;  // whether the module has a batch norm with running statistics

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

}  // namespace detail

// run(batch) for each batch of the pipeline, loader or range. Does nothing for a module without running statistics.
template <Module M, class Batches, class Run> void update_bn(M& module, Batches&& batches, const Run& run) {
  const detail::AverageStatistics averaging{ModuleRef(module)};
  if (!averaging.any()) return;
  const NoGrad no_grad;
  for (auto&& batch : batches) run(batch);
}
// Batches are tensors, or structs with the inputs in `image` (data::Batch).
template <Module M, class Batches> void update_bn(M& module, Batches&& batches) {
  update_bn(module, std::forward<Batches>(batches), [&](auto& batch) {
    if constexpr (requires { batch.image; }) module(batch.image);
    else module(batch);
  });
}

}  // namespace mantissa::nn
