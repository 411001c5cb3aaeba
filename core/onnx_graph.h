// A graph of ONNX operators as plain data: recorded by ops/onnx_trace.h, written by io/onnx.h. Names of operators and
// attributes are those of the ONNX standard (onnx.ai/onnx/operators).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/dtype.h"
#include "core/tensor.h"

namespace mantissa {

using OnnxId = int;  // index of a value in its graph; -1: absent argument

struct OnnxAttribute {
  using Value = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<std::string>>;
  std::string name;
  Value value;

  OnnxAttribute(const char* n, std::int64_t v) : name(n), value(v) {}
  OnnxAttribute(const char* n, int v) : name(n), value(std::int64_t{v}) {}
  OnnxAttribute(const char* n, bool v) : name(n), value(std::int64_t{v}) {}
  OnnxAttribute(const char* n, double v) : name(n), value(v) {}  // written in f32, as ONNX requires
  OnnxAttribute(const char* n, const char* v) : name(n), value(std::string(v)) {}
  OnnxAttribute(const char* n, std::vector<std::int64_t> v) : name(n), value(std::move(v)) {}
  OnnxAttribute(const char* n, std::vector<std::string> v) : name(n), value(std::move(v)) {}
};

// ONNX's number for a dtype: TensorProto.DataType.
constexpr std::int64_t onnx_type(Dtype t) {
  constexpr int numbers[] = {11, 1, 10, 16, 7, 6, 2, 9};  // f64, f32, f16, bf16, i64, i32, u8, bool
  return numbers[static_cast<int>(t)];
}

// An input or output of a node.
struct OnnxValue {
  std::string name;  // empty for values inside the graph until names are assigned
  Dtype dtype = f32;
  Dims sizes;
  bool has_sizes = false;  // unknown if one of our operators is exported as several nodes
  Tensor constant;         // of a constant: an initialiser in the file
  std::string missing = {};  // why this result cannot be exported; else empty
  bool is_parameter = false;
  bool is_fixed = false;  // a constant, or computed from constants only
};

struct OnnxNode {
  std::string type;  // "Conv"
  std::vector<OnnxId> inputs, outputs;
  std::vector<OnnxAttribute> attributes;
  std::string call;  // the call it was exported from, for messages
  std::string op;    // "conv2d"
};

// A size of an input or a result as written to the file: a number, or the name of a dynamic size.
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
  std::vector<OnnxNode> nodes;  // topologically sorted
  std::vector<OnnxPort> inputs, outputs;
};

}  // namespace mantissa
