// Reuse of memory by its last owner. Backward passes every gradient, and (if the graph is not retained) every saved
// tensor, to the last rule that uses it by value: the rule's parameters are then the only handles, unless someone else
// (the user, a hook, another node) holds the tensor too, as reference counts tell. A rule gives up its argument by
// apply_over (ops/apply.h), whose result is then written over it instead of into new memory: over the logits, an
// activation, the previous gradient. Values that anyone else can see never change.
#pragma once

#include "core/tensor.h"

namespace mantissa::autograd {

// Whether the handle `t` is the only one to its elements.
inline bool is_only_handle(const Tensor& t) { return t.ref()->unique() && t.storage()->unique(); }
// The same, and nobody else can know of the memory: storage that is borrowed, or was ever written to in place, counts
// as shared (core/storage.cpp).
inline bool held_alone(const Tensor& t) { return is_only_handle(t) && t.storage()->version() == 0; }
// Whether a result of these sizes, dtype and strides may be written over `t`, which the caller gives up: t must be held
// alone, have the same form, and cover all of its storage. Never while gradients are recorded, since they may save it.
bool may_write_over(const Tensor& t, const Dims& sizes, const Dims& strides, Dtype dtype, Device device);

}  // namespace mantissa::autograd
