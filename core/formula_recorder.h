// Somebody who writes down which elementwise formulas this thread computes, beside their being computed: jit/trace.cpp.
#pragma once

#include <cstddef>
#include <span>

#include "core/tensor.h"

namespace mantissa::pointwise {

class FormulaRecorder {
 public:
  // y = formula(x...), computed in `compute`. `formula` is the struct of core/pointwise.h with this opcode, of so many
  // bytes. Called when y has been computed, as the others are or before.
  virtual void formula(int opcode, const void* formula, std::size_t bytes, Dtype compute, const View& y,
                       std::span<const View* const> x) = 0;
  virtual void copy(const View& y, const View& x) = 0;
  virtual void fill(const View& y, double value) = 0;
  virtual void add_in_place(const View& y, const View& x, double factor) = 0;  // y += factor * x
  virtual void mul_in_place(const View& y, const View& x) = 0;
  virtual void sum_to(const View& y, const View& x) = 0;  // of a gradient, over what broadcast

 protected:
  ~FormulaRecorder() = default;
};
inline constinit thread_local FormulaRecorder* formula_recorder = nullptr;

}  // namespace mantissa::pointwise
