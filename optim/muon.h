// Muon (Jordan et al., 2024): momentum whose update is approximately orthogonalised by a few Newton-Schulz steps
// (matrix products only). For the weight matrices of hidden layers; use another optimizer such as AdamW for biases,
// norms, embeddings and the last layer. Same results as torch.optim.Muon.
#pragma once

#include <array>

#include "optim/optimizer.h"

namespace mantissa::optim {

enum class AdjustLr {
  original,           // lr * sqrt(max(1, rows / columns))
  match_rms_adamw,    // lr * 0.2 * sqrt(max(rows, columns)): use AdamW's learning rates (Liu et al., 2025)
  spectral_unclamped  // lr * sqrt(rows / columns) (Bernstein, 2025)
};
struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;  // decoupled: p -= lr * weight_decay * p
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients{3.4445, -4.7750, 2.0315};  // of the quintic polynomial of a step
  double eps = 1e-7;  // lower bound of the norm that the update is divided by
  int ns_steps = 5;   // fewer than 100
  AdjustLr adjust_lr_fn = AdjustLr::original;
  Dtype ns_dtype = bf16;  // for the Newton-Schulz steps: bf16 as in PyTorch, f16, f32 or f64
};

class Muon final : public Optimizer {
 public:
  explicit Muon(Parameters parameters, const MuonOptions& options = {}, const MemoryOptions& memory = {})
      : Optimizer(memory) {
    add_group(std::move(parameters), options);
  }
  void add_group(Parameters parameters, const MuonOptions& options);  // matrices only

 protected:
  void update(Group& group, std::size_t i, const Tensor& gradient, const Keep& keep) override;
};

}  // namespace mantissa::optim
