// Parameters that take part in training but are not updated or saved: members that a class with a constructor omitted
// from MANTISSA_FIELDS, which no compiler can detect (nn/fields.h). Each nn::Param is unlisted when created, until a
// function over modules or an optimizer visits it; an optimizer's first step reports those with gradients.
#pragma once

#include <string>

#include "core/tensor.h"

namespace mantissa::autograd {

void note_unlisted(const Tensor& parameter);
void note_listed(const Tensor& parameter);
// The shapes of unlisted parameters that have a gradient, "[64, 10], [10]"; "" if there are none.
std::string unlisted_with_gradients();

}  // namespace mantissa::autograd
