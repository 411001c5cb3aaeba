// Parameters that take part in training but that nobody updates or saves: those of a member that a class with a
// constructor forgot in MANTISSA_FIELDS, which no compiler can see (nn/fields.h). Each nn::Param is unlisted when it is
// made, until a function over modules or an optimizer sees it; an optimizer's first step names those with gradients.
#pragma once

#include <string>

#include "core/tensor.h"

namespace mantissa::autograd {

void note_unlisted(const Tensor& parameter);
void note_listed(const Tensor& parameter);
// The shapes of unlisted parameters that have a gradient, "[64, 10], [10]"; "" where there are none.
std::string unlisted_with_gradients();

}  // namespace mantissa::autograd
