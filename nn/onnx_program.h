// An ONNX graph compiled for execution: the implementation of nn::OnnxModel (nn/onnx_model.h). Names are resolved,
// functions inlined, and attributes read and checked once, at loading; what remains is a list of steps, each a function
// of tensors.
//
// An operator is a function from its node to such a step, registered in a table of nn/onnx_*_ops.cpp:
//
//   {"Softsign", 1, 1, each<softsign>},
//   {"CumSum", 2, 2, [](Node& n) -> Run {
//      const bool exclusive = n.i("exclusive", 0), reverse = n.i("reverse", 0);
//      return [=](const Inputs& x) -> Tensors { ... };
//    }},
//
// An attribute that no operator reads is an error, so nothing in a file is silently ignored.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/ops.h"
#include "io/onnx_file.h"

namespace mantissa::nn::onnx {

using Tensors = std::vector<Tensor>;
using Integers = std::vector<std::int64_t>;

// The arguments of a step: its node's inputs, and the outer values that its subgraphs capture.
struct Inputs {
  std::span<const Tensor> all;
  Device device;  // where to compute: the device of the first input that is not on the host
  bool training = false;

  bool has(int i) const {
    return static_cast<std::size_t>(i) < all.size() && all[static_cast<std::size_t>(i)].defined();
  }
  int count() const { return static_cast<int>(all.size()); }
  // Sizes and other small integers are computed on the host, and copied to the device when combined with activations.
  Tensor operator[](int i) const {
    const Tensor& t = all[static_cast<std::size_t>(i)];
    return !t.defined() || t.device() == device ? t : t.to(device);
  }
  Tensors list() const;            // all inputs
  Integers integers(int i) const;  // input i's values, on the host
  double number(int i) const;
  std::int64_t integer(int i) const;
};
using Run = std::function<Tensors(const Inputs&)>;

class Program;
class Builder;

// Integers that are an attribute in old opsets and an input in newer ones, or absent.
struct Setting {
  std::optional<Integers> fixed;
  int input = -1;
  std::optional<Integers> operator()(const Inputs& x) const {
    return fixed ? fixed : x.has(input) ? std::optional(x.integers(input)) : std::nullopt;
  }
};

// A node while it is compiled.
class Node {
 public:
  // `values`: indices of its inputs, negative for absent ones.
  Node(const io::OnnxFileNode& node, int opset, Builder& builder, std::vector<int> values)
      : opset(opset), node_(node), builder_(builder), values_(std::move(values)) {}

  const int opset;
  bool is_plain = true;  // see Program::Step::type
  int inputs() const { return static_cast<int>(values_.size()); }
  int outputs() const { return static_cast<int>(node_.outputs.size()); }
  bool has_input(int i) const { return i < inputs() && values_[static_cast<std::size_t>(i)] >= 0; }
  bool wants(int i) const { return i < outputs() && !node_.outputs[static_cast<std::size_t>(i)].empty(); }

  // Attributes by name and type; without a default they are required.
  bool has(const char* name) { return find(name, io::OnnxFileAttribute::none); }
  std::int64_t i(const char* name, std::optional<std::int64_t> otherwise = {});
  int axis(const char* name, std::optional<std::int64_t> otherwise = {});  // between -8 and 8
  double f(const char* name, std::optional<double> otherwise = {});
  std::string s(const char* name, const char* otherwise);
  std::optional<Integers> integers(const char* name);
  std::optional<std::vector<double>> numbers(const char* name);
  std::vector<std::string> texts(const char* name);
  std::optional<Tensor> tensor(const char* name);
  std::optional<Dtype> dtype(const char* name);
  Setting setting(const char* name, int input);  // attribute `name`, or else input `input`
  // The subgraph in an attribute. Outer values that it captures become additional inputs of this node, starting at
  // index `captured`.
  struct Body {
    std::shared_ptr<const Program> program;
    int captured = 0, captures = 0;
    Tensors operator()(const Tensors& inputs, const Inputs& x) const;
  };
  Body body(const char* name, int inputs, int outputs);

  void ignore(const char* name) { find(name, io::OnnxFileAttribute::none); }
  template <class... Parts> [[noreturn]] void refuse(const Parts&... why) const { fail(why...); }
  void check_all_read() const;

 private:
  friend class Builder;
  const io::OnnxFileAttribute* find(const char* name, io::OnnxFileAttribute::Kind kind);
  const io::OnnxFileNode& node_;
  Builder& builder_;
  std::vector<int> values_;
  std::set<std::string, std::less<>> read_;
  std::vector<int> captured_;  // values captured from the enclosing graph
};

struct Operator {
  const char* type;
  int least, most;  // number of inputs; the first `least` are required
  Run (*make)(Node&);
  int outputs = 1;  // maximum
};
inline constexpr int any_number = 1 << 30;
std::span<const Operator> math_operators();       // nn/onnx_math_ops.cpp
std::span<const Operator> shape_operators();      // nn/onnx_shape_ops.cpp
std::span<const Operator> layer_operators();      // nn/onnx_layer_ops.cpp
std::span<const Operator> recurrent_operators();  // nn/onnx_recurrent_ops.cpp
std::span<const Operator> control_operators();    // nn/onnx_control_ops.cpp
std::span<const Operator> detection_operators();  // nn/onnx_detection_ops.cpp

// --- one-line definitions of operators ---
template <Tensor (*f)(const Tensor&)> Run each(Node&) {
  return [](const Inputs& x) -> Tensors { return {f(x[0])}; };
}
template <Tensor (*f)(const Tensor&, const Tensor&)> Run pair(Node& n) {
  if (n.opset < 7) n.ignore("broadcast");  // with an axis it is rejected
  return [](const Inputs& x) -> Tensors { return {f(x[0], x[1])}; };
}
inline Tensor like(const Tensor& x, const Tensor& y) { return cast(y, x.dtype()); }
// y i64; negative indices are counted from the end of a dimension of `size` elements.
Tensor from_start(const Tensor& index, std::int64_t size);

// A value of the file that belongs to the net's state.
struct State {
  enum Kind { parameter, buffer, constant };
  std::string name;
  Tensor value;
  Kind kind = constant;
};

class Program {
 public:
  // `captured`: for the net's top-level graph, the values of its State, in that order.
  Tensors run(std::span<const Tensor> inputs, std::span<const Tensor> captured, bool training) const;

  struct Step {
    std::string name;  // for error messages
    std::string type;  // of the node, if it has no attributes that nn/onnx_fuse.cpp would have to know
    Run run;
    std::vector<int> inputs, outputs;
    std::vector<int> last;  // values not needed after this step
  };
  int size = 0;  // number of values
  std::vector<int> inputs, captures, outputs;
  std::vector<Step> steps;
};

// Fuses patterns of several steps into one (nn/onnx_fuse.cpp). `state`: the values that exist from the start.
void fuse(Program& program, const std::map<int, Tensor>& state);

// The program of a file's graph, and its state. Throws one error that lists all unsupported nodes.
std::shared_ptr<const Program> build(const io::OnnxFile& file, std::vector<State>& state);

}  // namespace mantissa::nn::onnx
