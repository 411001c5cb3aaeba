// Where a rule puts a gradient that a kernel can add to what is there: a weight's, whose product has beta = 1. The
// gradient of a parameter is then in the parameter's dtype at once, f32 also where the operator read a shadow in
// halves, and that of a second micro-batch needs no memory and no pass. A rule asks for `Into<i>` (autograd/rule.h):
//
//   [](Grad g, In<0> a, Into<1> b) {
//     if (b.is_plain(g.dtype())) return matmul(transpose(a), g);   // no leaf, or the backward pass is recorded
//     autograd::Place place(b, {a.size(1), g.size(1)}, g.device());
//     kernels::gemm(g.device(), place.view(), transpose(a).view(), g.view(), {}, {}, place.adds());
//     return place.done();
//   }
//
// It goes straight to the leaf in backward(), unless that records or hunts NaN, and where the leaf has no hooks; else
// (in grad(), say) it is returned, and the engine takes it there. It is added in place where nobody else holds the
// leaf's gradient: then no operand of the kernel is the same memory.
#pragma once

#include <optional>

#include "autograd/node.h"

namespace mantissa::autograd {

class Place {
 public:
  // For a gradient of these sizes. Without `may_add` in memory of its own in any case. It locks the leaf it adds to: a
  // rule that has two places makes that of the weight first.
  Place(const Destination& to, const Dims& sizes, Device device, bool may_add = true);

  bool adds() const { return update_.has_value(); }  // the kernel adds to view(); else it writes all of it
  View view() const { return (adds() ? to_.leaf->grad : own_).view(); }
  // Once it is written: what the rule returns. Undefined where the leaf has it.
  Tensor done();

 private:
  Destination to_;
  Tensor own_;
  std::optional<LeafNode::Update> update_;
};

}  // namespace mantissa::autograd
