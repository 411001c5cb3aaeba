// Records the operators that this thread runs as a graph of ONNX operators, for exporting a model (nn/onnx.h). A value
// is identified by its memory: storage, offset, sizes and strides; memory that no traced operator wrote is a constant.
// Operators composed of others are recorded as those.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "amp/observe.h"
#include "core/context.h"
#include "ops/onnx.h"

namespace mantissa {

// For functions whose number of steps depends on the values of x, which a graph cannot express: throws during an
// export, unless x is a constant of it.
void check_may_look(const char* function, const Tensor& x);
// Whether x depends on inputs of a model being exported; if so, only operators may be applied to it, no direct kernels.
bool is_traced(const Tensor& x);

// Active in this thread from construction to destruction; traces cannot be nested.
class OnnxTrace final : public amp::Observer {
 public:
  explicit OnnxTrace(int opset);
  ~OnnxTrace() override;

  OnnxId add_input(const Tensor& t);
  OnnxId add_parameter(const Tensor& t, const std::string& name);  // or a buffer
  // The value that a tensor holds; a new constant if it is unknown.
  OnnxId value_of(const Tensor& t);
  // Whether the tensor is an input of the net or made from one.
  bool depends_on_inputs(const Tensor& t) const;
  const OnnxGraph& graph() const { return graph_; }

  // Ignores operator calls, but being an observer makes fused code run its operators one by one.
  void begin(const amp::OperatorCall&) override {}
  void end(const Tensor&) override {}

 private:
  friend class OnnxCall;
  struct Known {
    Dims sizes, strides;
    Dtype dtype;
    std::uint32_t version;
    OnnxId id;
    std::string call;
  };
  const Known* find(const Tensor& t) const;
  void know(const Tensor& t, OnnxId id, std::string call);
  OnnxId add_constant(const Tensor& t);
  std::string place(std::span<const Tensor* const> x);

  OnnxGraph graph_;
  std::unordered_multimap<const void*, Known> known_;
  std::unordered_set<const Storage*> computed_;  // storages of the inputs and of tensors computed from them
  std::string layer_, place_;                    // the layer whose parameter was used last; place() of this call
  std::vector<Tensor> kept_;                     // keeps tensors alive, so that their memory is not reused
  AutocastState before_;
};

}  // namespace mantissa
