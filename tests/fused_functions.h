// Functions for the tests of jit::fuse, with arguments whose shapes broadcast.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/operators.h"
#include "core/ops.h"
#include "core/ops_special.h"
#include "jit/fuse.h"
#include "nn/functions.h"
#include "tests/op_testing.h"

namespace mantissa::test {

struct FusedCase {
  std::string name;
  jit::ElementwiseFunction function;
  std::vector<Dims> shapes;
  bool smooth = true;         // gradients can be checked by finite differences
  bool all_floating = true;   // false: the last argument is bool
  bool several_uses = false;  // a broadcast argument is used more than once
  Dims result = {7, 130};

  jit::FusedFunction fused() const { return {function, name}; }
  std::vector<Tensor> leaves(Dtype dtype, Device device) const {
    std::vector<Tensor> x;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Tensor t = random_tensor(shapes[i], 11 + i, -2, 2).to(dtype);
      const bool mask = !all_floating && i + 1 == shapes.size();
      x.push_back(mask ? (t > 0.0).to(device) : t.to(device).requires_grad_());
    }
    return x;
  }
  Tensor weights(Dtype dtype, Device device) const { return random_tensor(result, 99, -1, 1).to(dtype).to(device); }
};

inline std::vector<FusedCase> fused_cases() {
  const Dims full = {7, 130};
  using X = std::span<const Tensor>;
  return {
      {"scale", [](X x) { return x[0] * 2.5 - 1; }, {full}},
      {"swiglu", [](X x) { return x[0] * x[1] * sigmoid(x[1]); }, {full, full}},
      {"bias and gelu", [](X x) { return gelu(x[0] + x[1]); }, {full, {130}}},
      {"rows and columns", [](X x) { return tanh(x[0] * x[1] + x[2]); }, {full, {7, 1}, {}}},
      {"parameters",
       [](X x) { return leaky_relu(x[0], 0.25) + softplus(x[0], 2, 5) + elu(x[1], 1.5); },
       {full, full},
       false},
      {"clamp and where", [](X x) { return where(x[0] > x[1], clamp(x[0], -0.5, 1), x[1] / 3); }, {full, full}, false},
      {"steps", [](X x) { return x[0] * sign(x[1]) + floor(x[1]); }, {full, full}, false},
      {"mask", [](X x) { return where(x[1], x[0] * x[0], x[0]); }, {full, full}, false, false},
      {"logic", [](X x) { return where((x[0] > 0.0) & ~x[1], x[0], 0.5 * x[0]); }, {full, full}, false, false},
      {"many",
       [](X x) {
         Tensor y = x[0];
         for (int i = 0; i < 12; ++i) y = sin(y) * x[1] + x[2] * 0.5;
         return y;
       },
       {full, {130}, {7, 1}},
       true,
       true,
       true},
      {"identity", [](X x) { return x[0]; }, {full}},
      {"one of two", [](X x) { return square(x[0]) + 0 * x[1]; }, {full, full}},
      {"powers", [](X x) { return pow(abs(x[0]) + 0.5, 1.5) / sqrt(abs(x[1]) + 1); }, {full, full}, false},
      {"no gradient", [](X x) { return x[0] > x[1]; }, {full, full}, false},
  };
}

}  // namespace mantissa::test
