// Writes down, as a graph of ONNX operators, which operators this thread runs: those of a net that is exported
// (nn/onnx.h). A value is what lies in memory: storage, place, sizes and strides; whatever is found there that no
// operator was seen to write is a constant. Operators that are functions of others are seen as these.
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

// For operators that go on for as long as the values of x say, which a file cannot: refuses a net that is exported,
// unless x is a constant of it.
void check_may_look(const char* function, const Tensor& x);
// Whether x depends on inputs of a net that is exported: what is made of it must be made of operators.
bool is_traced(const Tensor& x);

// From construction to destruction, in this thread; not inside another.
class OnnxTrace final : public amp::Observer {
 public:
  explicit OnnxTrace(int opset);
  ~OnnxTrace() override;

  OnnxId add_input(const Tensor& t);
  OnnxId add_parameter(const Tensor& t, const std::string& name);  // or a buffer
  // The value that a tensor holds; a new constant when none is known.
  OnnxId value_of(const Tensor& t);
  // Whether the tensor is an input of the net or made from one.
  bool depends_on_inputs(const Tensor& t) const;
  const OnnxGraph& graph() const { return graph_; }

  // Nobody is told of operators: what runs one by one where somebody looks does so here.
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
  std::unordered_set<const Storage*> computed_;  // storages of inputs and of what depends on them
  std::string layer_, place_;                    // the layer that a parameter was used of last; place() of this call
  std::vector<Tensor> kept_;                     // so that nothing else gets their memory
  AutocastState before_;
};

}  // namespace mantissa
