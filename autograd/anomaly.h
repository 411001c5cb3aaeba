// NaN detection: inside `AnomalyMode guard;` every operator checks its result, and backward checks every gradient, so
// that the first NaN is reported with the operator that produced it and the chain of operators before it. Costs a pass
// over every result. Per thread. Follows torch.autograd.detect_anomaly.
//
//   AnomalyMode guard;
//   loss = net(x);   // throws `log(x: f32[3]): the result contains NaN; computed by leaf -> relu -> log`
//   backward(loss);  // throws `backward of "sqrt" gave NaN for its input 0 ...`
#pragma once

#include <span>
#include <string>

#include "core/context.h"
#include "core/tensor.h"

namespace mantissa {

class [[nodiscard]] AnomalyMode {
 public:
  explicit AnomalyMode(bool on = true) : before_(context().anomaly) { context().anomaly = on; }
  ~AnomalyMode() { context().anomaly = before_; }
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;

 private:
  bool before_;
};

namespace autograd {

bool has_nan(const Tensor& x);  // false for undefined and integer tensors
// "leaf -> linear -> relu": the last operators that led to `node`, following first inputs.
std::string forward_chain(const Node& node);
// Throws if an operator's result contains NaN.
void check_result(const Tensor& y, std::span<const Tensor* const> inputs);
// The error for a NaN in gradient `input` of path[0]; the rest of `path` leads back to the root.
[[noreturn]] void fail_nan_gradient(std::size_t input, std::span<const Node* const> path);

}  // namespace autograd
}  // namespace mantissa
