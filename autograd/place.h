// Lets a rule write or accumulate a weight's gradient directly into the parameter's .grad (a product with beta = 1): in
// the parameter's dtype, f32 also if the operator read an f16 or bf16 shadow, and without memory or another pass for a
// second micro-batch. A rule asks for it by a parameter `Into<i>` (autograd/rule.h):
//
//   [](Grad g, In<0> a, Into<1> b) {
//     if (b.is_plain(g.dtype())) return matmul(transpose(a), g);   // no leaf, or the backward pass is recorded
//     autograd::Place place(b, {a.size(1), g.size(1)}, g.device());
//     kernels::gemm(g.device(), place.view(), transpose(a).view(), g.view(), {}, {}, place.adds());
//     return place.done();
//   }
//
// backward() allows it unless the pass is recorded, anomaly mode is on or the leaf has hooks; otherwise, and in grad(),
// the rule returns the gradient and the engine accumulates it. The rule accumulates in place only if no other handle
// shares the leaf's gradient, so that no operand of the kernel aliases it.
#pragma once

#include <optional>

#include "autograd/node.h"

namespace mantissa::autograd {

class Place {
 public:
  // For a gradient of these sizes, in the leaf's layout. Without `may_add`, always in separate memory. Locks the leaf
  // it adds to: a rule with two places must create that of the weight first.
  Place(const Destination& to, const Dims& sizes, Device device, bool may_add = true);

  bool adds() const { return update_.has_value(); }  // the kernel adds to view(); else it writes all of it
  View view() const { return (adds() ? to_.leaf->grad : own_).view(); }
  // After writing: what the rule returns. Undefined if the leaf holds the gradient.
  Tensor done();

 private:
  Destination to_;
  Tensor own_;
  std::optional<LeafNode::Update> update_;
};

}  // namespace mantissa::autograd
