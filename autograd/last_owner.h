// Memory that its last owner may write over. Backward gives every gradient, and (where the graph is not kept) every
// saved tensor, to the rule that uses it last: the rule's parameters are then the only handles, unless somebody else -
// the user, a hook, another node - holds the tensor too. Reference counts tell. A rule that gives up what it was given
// says so by apply_over (ops/apply.h), and its result takes that memory instead of new one: a gradient takes the place
// of the logits, of an activation, of the gradient before it. Values that anybody can see never change.
#pragma once

#include "core/tensor.h"

namespace mantissa::autograd {

// Whether the handle `t` is the only one to its elements.
inline bool is_only_handle(const Tensor& t) { return t.ref()->unique() && t.storage()->unique(); }
// The same of memory that nobody else can know of: lent by somebody, or ever written to in place, it counts as held by
// others (core/storage.cpp).
inline bool held_alone(const Tensor& t) { return is_only_handle(t) && t.storage()->version() == 0; }
// Whether a result like `sizes`, `dtype` and `strides` may be written over `t`, which the caller gives up: held alone,
// of the same form, and all of its storage. Never while gradients are recorded, since they may save it.
bool may_write_over(const Tensor& t, const Dims& sizes, const Dims& strides, Dtype dtype, Device device);

}  // namespace mantissa::autograd
