// update_bn: running statistics of batch norms for weights that no batch has seen, such as averages (optim::Swa,
// optim::Ema). As torch.optim.swa_utils.update_bn: statistics start anew and become the plain mean over the batches of
// one pass.
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

// While it lives all norms of the module take the plain mean of what they see, from none on, and the module is in
// training. Then the momenta and every Mode are what they were.
class AverageStatistics {
 public:
  explicit AverageStatistics(ModuleRef module);
  ~AverageStatistics();
  AverageStatistics(const AverageStatistics&) = delete;
  AverageStatistics& operator=(const AverageStatistics&) = delete;
  bool any() const;  // has the module a batch norm with running statistics?

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

}  // namespace detail

// run(batch) for each batch of the pipeline, loader or range. A module without running statistics is not run at all.
template <Module M, class Batches, class Run> void update_bn(M& module, Batches&& batches, const Run& run) {
  const detail::AverageStatistics averaging{ModuleRef(module)};
  if (!averaging.any()) return;
  const NoGrad no_grad;
  for (auto&& batch : batches) run(batch);
}
// Batches are tensors, or have their inputs as `image` (data::Batch).
template <Module M, class Batches> void update_bn(M& module, Batches&& batches) {
  update_bn(module, std::forward<Batches>(batches), [&](auto& batch) {
    if constexpr (requires { batch.image; }) module(batch.image);
    else module(batch);
  });
}

}  // namespace mantissa::nn
