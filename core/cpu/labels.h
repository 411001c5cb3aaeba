// Shared by the kernels of classification losses (core/cpu/loss.cpp, core/cpu/linear_cross_entropy.cpp).
#pragma once

#include "core/cpu/rows.h"
#include "core/error.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

inline void check_labels(const std::int64_t* label, std::int64_t rows, std::int64_t classes, std::int64_t ignore) {
  for (std::int64_t r = 0; r < rows; ++r) {
    check((label[r] >= 0 && label[r] < classes) || label[r] == ignore, "label ", label[r], " at position ", r,
          " of the target is out of range for ", classes, " classes");
  }
}

template <class C> C sum_of_class_weights(const C* weight, std::int64_t classes) {
  return weight ? fold_run<Sum>(classes, weight) : static_cast<C>(classes);
}

// Total weight of the labels.
template <class C>
C sum_of_label_weights(const std::int64_t* label, std::int64_t rows, const C* weight, std::int64_t ignore) {
  const Tensor weights = Tensor::allocate({rows}, dtype_of<C>);
  C* w = static_cast<C*>(weights.raw_data());
  for (std::int64_t r = 0; r < rows; ++r) w[r] = label[r] == ignore ? C(0) : weight ? weight[label[r]] : C(1);
  return fold_run<Sum>(rows, static_cast<const C*>(w));
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
