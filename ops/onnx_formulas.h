// ONNX translations of the elementwise formulas in core/pointwise.h: a table by name, in ops/onnx_formulas.cpp.
#pragma once

#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "ops/onnx.h"

namespace mantissa {

// `attributes`: those of the formula, in the order of its struct. `common`: the dtype that the inputs are promoted to.
// Does nothing for a formula that is not in the table.
void formula_for_onnx(OnnxCall& c, const char* name, std::span<const double> attributes, Dtype common);

template <class F> void formula_for_onnx(OnnxCall& c, const F& f, Dtype common) {
  double attributes[4] = {};  // all formula attributes are doubles
  if constexpr (!std::is_empty_v<F>) {
    static_assert(sizeof(F) % sizeof(double) == 0 && sizeof(F) <= sizeof attributes);
    std::memcpy(attributes, static_cast<const void*>(&f), sizeof(F));
  }
  formula_for_onnx(c, F::name, attributes, common);
}

}  // namespace mantissa
