// The networks of the benchmark with their optimizers, as a user of Mantissa would write them. bench/models.py has the
// same ones in PyTorch, under the same names of parameters. No dropout: losses of both sides must agree.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <mantissa/mantissa.h>

namespace bench {

using namespace mantissa;

struct Workload {
  std::shared_ptr<void> owner;  // of the network
  std::function<Tensor(const Tensor&)> forward;
  std::function<void(bool)> train;  // or evaluate
  nn::ModuleRef module;
  std::unique_ptr<optim::Optimizer> optimizer = {};
  double clip = 0;  // the largest norm of all gradients; 0: not clipped
};

// name: mlp, cnn, lenet, simple, resnet18, gpt, gpt2, vit. The optimizer is made after the network has been moved.
// precision: of the operators that autocast lowers. For bf16 on a GPU the weights of convolutions are channels-last.
Workload make_workload(const std::string& name, Device device, Dtype precision = f32);

// Mean cross-entropy of class logits [N, C], or of those of each place [N, T, C], and labels [N] or [N, T].
Tensor loss_of(const Tensor& logits, const Tensor& labels);

}  // namespace bench
