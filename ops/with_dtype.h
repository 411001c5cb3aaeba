// Meaning of an operator's `dtype` argument: the input is cast before anything is computed, and the result has that
// dtype. Autocast does not touch such a call, because the caller has already decided.
#pragma once

#include <optional>

#include "amp/autocast.h"
#include "core/ops.h"

namespace mantissa {

template <class F> Tensor with_dtype(const Tensor& x, std::optional<Dtype> dtype, F&& f) {
  if (!dtype) return f(x);
  const amp::Autocast off(amp::disabled);
  return cast(f(cast(x, *dtype)), *dtype);  // the second cast is for integers, whose sums are i64
}

}  // namespace mantissa
