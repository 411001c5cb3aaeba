// Tensors and parameters made by a formula, which a few lines of Python make as well, and the comparison with the
// numbers that PyTorch printed for them.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "nn/param.h"
#include "tests/testing.h"

namespace mantissa::test {

inline constexpr Tolerance printed{1e-10, 1e-11};  // the numbers have twelve decimals
using Names = std::vector<std::string>;

// sin(start), sin(start + 1), ...
inline Tensor ramp(const Dims& sizes, double start = 0) {
  Tensor t = Tensor::allocate(sizes, f64);
  for (std::int64_t i = 0; i < t.numel(); ++i) t.data<double>()[i] = std::sin(start + static_cast<double>(i));
  return t;
}
// Sets parameter i of a module to half of ramp(10 i).
template <class M> M filled(M module) {
  nn::to(module, f64);
  const NoGrad no_grad;
  double start = 0;
  for (Tensor p : nn::parameters(module)) {
    p.copy_(ramp(p.sizes(), start) * 0.5);
    start += 10;
  }
  return module;
}
inline void check_golden(const Tensor& got, const std::vector<double>& expected) {
  CHECK(difference(cast(flatten(got), f64), from_data(expected, {static_cast<std::int64_t>(expected.size())}),
                   printed) == "");
}
inline Names names_of(nn::ModuleRef module) {
  Names names;
  for (const auto& entry : nn::state_dict(module)) names.push_back(entry.first);
  return names;
}

}  // namespace mantissa::test
