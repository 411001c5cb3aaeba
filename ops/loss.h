// Helpers shared by the losses made of other operators (ops/elementwise_loss.cpp, ops/distance_loss.cpp). The fused
// losses are in ops/loss.cpp.
#pragma once

#include "ops/compose.h"

namespace mantissa {

inline Tensor reduced_loss(const Tensor& each, Reduction reduction) {
  if (reduction == Reduction::none) return each;
  return reduction == Reduction::mean ? mean(each) : sum(each);
}
inline void check_floating_pair(const Tensor& x, const Tensor& target) {
  check(x.is_floating() && target.is_floating(), "needs floating dtypes; convert with to(f32)");
}
inline void check_same_shape(const Tensor& x, const Tensor& target) {
  check(x.sizes() == target.sizes(), "target has shape ", target.sizes(), ", expected ", x.sizes());
}
// target may broadcast to x, as the mean in mse_loss(x, mean). x may not: [N, 1] with a target [N] would give N * N
// losses.
inline void check_broadcasts_to(const Tensor& x, const Tensor& target) {
  check(broadcast(x.sizes(), target.sizes()) == x.sizes(), "target has shape ", target.sizes(),
        ", which does not broadcast to x's ", x.sizes(), "; reshape one of them");
}

// cross_entropy with class probabilities as target (ops/soft_loss.cpp).
Tensor cross_entropy_soft(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options,
                          const Tensor& weight);

// Samples for a distance between x and target that has a field `reduction`.
template <class Op> void distance_samples(Samples& s, Op op) {
  for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
    op.reduction = r;
    composed(s, {s.randn({4, 3}), s.randn({4, 3})}, op);
  }
  composed(s, {s.randn({4, 3}), s.randn({3})}, op);
  composed(s, {s.randn({}), s.randn({})}, op);
  composed_error(s, {s.randn({2}), s.randn({3})}, op, "sizes [2] and [3] do not broadcast");
  composed_error(s, {s.randn({4, 1}), s.randn({4})}, op,
                 "target has shape [4], which does not broadcast to x's [4, 1]");
  composed_error(s, {s.integers({2}, 0, 3), s.randn({2})}, op, "needs floating dtypes");
}

}  // namespace mantissa
