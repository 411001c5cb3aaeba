// What linear layers and convolutions share whose kernels apply an activation: autograd records them as the two
// operators, so that gradients, second derivatives and saved tensors are theirs.
#pragma once

#include "autograd/rule.h"
#include "core/activation.h"
#include "core/ops.h"

namespace mantissa {

// The activation as an operator of its own; x for Activation::none.
Tensor apply_activation(const Tensor& x, Activation activation);
// g times the activation's derivative, from what it saves: relu's result, gelu's input.
Tensor activation_gradient(const Tensor& g, const Tensor& saved, Activation activation);
// For the rule of an operator that takes maxima y of its input: scatter(g) is the gradient of that input, and the
// result that before the activation that made it, if one did. Where relu cut off a maximum, y is zero: fewer elements
// than those of the input.
template <class F>
Tensor through_maximum(const autograd::SavedActivation& made, const Tensor& y, const Tensor& g, const F& scatter) {
  if (made.kind == Activation::relu && y.defined() && y.dtype() == g.dtype()) {
    const bool turns = y.layout() == Layout::channels_last && g.layout() != y.layout();  // faster than mixed layouts
    return scatter(activation_gradient(turns ? channels_last(g) : g, y, Activation::relu));
  }
  const Tensor dx = scatter(g);
  return made.kind == Activation::none ? dx : activation_gradient(dx, made.saved, made.kind);
}
// Gives y = activation(before), which a kernel has computed, the node that the activation's operator would have given
// it. `before` carries the node of the operator before it. For relu it may have y's elements.
void record_activation(Activation activation, const Tensor& before, const Tensor& y);
// Whether the operators must run individually: in anomaly mode, in a region with its own policies, for an observer.
bool activation_runs_apart();

}  // namespace mantissa
