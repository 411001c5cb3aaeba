// A graph of ONNX operators as plain data: what ops/onnx_trace.h records and io/onnx.h writes. Names of operators and
// attributes are those of the ONNX standard (onnx.ai/onnx/operators).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/dtype.h"
#include "core/tensor.h"

namespace mantissa {

using OnnxId = int;  // the number of a value in its graph; -1: an argument that is absent

struct OnnxAttribute {
  using Value = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<std::string>>;
  std::string name;
  Value value;

  OnnxAttribute(const char* n, std::int64_t v) : name(n), value(v) {}
  OnnxAttribute(const char* n, int v) : name(n), value(std::int64_t{v}) {}
  OnnxAttribute(const char* n, bool v) : name(n), value(std::int64_t{v}) {}
  OnnxAttribute(const char* n, double v) : name(n), value(v) {}  // written in f32, as ONNX has it
  OnnxAttribute(const char* n, const char* v) : name(n), value(std::string(v)) {}
  OnnxAttribute(const char* n, std::vector<std::int64_t> v) : name(n), value(std::move(v)) {}
  OnnxAttribute(const char* n, std::vector<std::string> v) : name(n), value(std::move(v)) {}
};

// The number that ONNX has for a dtype: TensorProto.DataType.
constexpr std::int64_t onnx_type(Dtype t) {
  constexpr int numbers[] = {11, 1, 10, 16, 7, 6, 2, 9};  // f64, f32, f16, bf16, i64, i32, u8, bool
  return numbers[static_cast<int>(t)];
}

// What goes into nodes and comes out of them.
struct OnnxValue {
  std::string name;  // of values inside the graph empty until names are given
  Dtype dtype = f32;
  Dims sizes;
  bool has_sizes = false;  // unknown where an operator of ours is several nodes
  Tensor constant;         // of a constant: an initialiser in the file
  std::string missing = {};  // of a result that cannot be exported: why
  bool is_parameter = false;
  bool is_fixed = false;  // a constant, or made of nothing but constants
};

struct OnnxNode {
  std::string type;  // "Conv"
  std::vector<OnnxId> inputs, outputs;
  std::vector<OnnxAttribute> attributes;
  std::string call;  // "conv2d(x: f32[1, 3, 8, 8], ...)": what it stands for, for messages
  std::string op;    // "conv2d"
};

// A size of an input or a result as the file says it: a number, or the name of a size that may be any.
struct OnnxSize {
  std::int64_t number = -1;
  std::string name;
};
struct OnnxPort {
  OnnxId value = -1;
  std::string name;
  std::vector<OnnxSize> sizes;
};

struct OnnxGraph {
  int opset = 17;
  std::vector<OnnxValue> values;
  std::vector<OnnxNode> nodes;  // each after those that make its inputs
  std::vector<OnnxPort> inputs, outputs;
};

}  // namespace mantissa
