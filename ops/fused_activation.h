// What linear layers and convolutions share whose kernels apply an activation: autograd records them as the two
// operators, so that gradients, second derivatives and saved tensors are theirs.
#pragma once

#include "core/activation.h"
#include "core/tensor.h"

namespace mantissa {

// The activation as an operator of its own; x for Activation::none.
Tensor apply_activation(const Tensor& x, Activation activation);
// g times the activation's derivative, from what it saves: relu's result, gelu's input.
Tensor activation_gradient(const Tensor& g, const Tensor& saved, Activation activation);
// Gives y = activation(before), which a kernel has computed, the node that the activation's operator would have given
// it. `before` carries the node of the operator before it. For relu it may have y's elements.
void record_activation(Activation activation, const Tensor& before, const Tensor& y);
// Whether the operators must run individually: in anomaly mode, in a region with its own policies, for an observer.
bool activation_runs_apart();

}  // namespace mantissa
