// Interface for recording the elementwise formulas that this thread computes, while they are computed: jit/trace.cpp.
#pragma once

#include <cstddef>
#include <span>

#include "core/tensor.h"

namespace mantissa::pointwise {

class FormulaRecorder {
 public:
  // y = formula(x...), computed in `compute`. `formula` points to the struct of core/pointwise.h with this opcode, of
  // `bytes` bytes. Called after y has been computed (the others: after or before).
  virtual void formula(int opcode, const void* formula, std::size_t bytes, Dtype compute, const View& y,
                       std::span<const View* const> x) = 0;
  virtual void copy(const View& y, const View& x) = 0;
  virtual void fill(const View& y, double value) = 0;
  virtual void add_in_place(const View& y, const View& x, double factor) = 0;  // y += factor * x
  virtual void mul_in_place(const View& y, const View& x) = 0;
  virtual void sum_to(const View& y, const View& x) = 0;  // sums a gradient over broadcast dims

 protected:
  ~FormulaRecorder() = default;
};
inline constinit thread_local FormulaRecorder* formula_recorder = nullptr;

}  // namespace mantissa::pointwise
