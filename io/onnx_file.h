// What an .onnx file says, as plain data: io/onnx_file.cpp reads it, nn/onnx_program.cpp makes a net of it. Every byte
// of a file may be hostile. What is not valid, larger than the file, or nested without end is one FormatError; names of
// operators and the shape of the graph are looked at by who builds it.
//
// Tensors may lie in files of their own beside the model (torch.onnx.export writes them so). Such a file must be in the
// model's folder or below: a place like "../secret" or "/etc/secret" is refused. Dtypes that we lack are widened as
// io/file_dtype.h says (int8 gives i32); strings, complex numbers and floats of 8 bits or less are refused.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/onnx_graph.h"
#include "core/tensor.h"

namespace mantissa::io {

struct OnnxFileGraph;

struct OnnxFileAttribute {
  enum Kind { none, real, integer, text, tensor, graph, reals, integers, texts, other };
  std::string name;
  std::string refers_to;  // in the body of a function: the attribute of its caller that this is
  Kind kind = none;
  double number = 0;
  std::int64_t whole = 0;
  std::string letters;
  Tensor value;
  std::shared_ptr<const OnnxFileGraph> body;
  std::vector<double> numbers;
  std::vector<std::int64_t> wholes;
  std::vector<std::string> strings;
};

struct OnnxFileNode {
  std::string name, type, domain;            // the domain of the standard's operators is ""
  std::vector<std::string> inputs, outputs;  // "": absent
  std::vector<OnnxFileAttribute> attributes;
};

struct OnnxFilePort {
  std::string name;
  bool is_tensor = false, has_dtype = false, has_sizes = false;
  Dtype dtype = f32;  // as it would be loaded
  std::vector<OnnxSize> sizes;
};

struct OnnxFileGraph {
  std::vector<OnnxFileNode> nodes;
  std::vector<std::pair<std::string, Tensor>> initialisers;
  std::vector<OnnxFilePort> inputs, outputs;
};

struct OnnxFileFunction {
  std::string name, domain;
  int opset = 0;  // of the standard's operators in its body
  std::vector<std::string> inputs, outputs;
  std::vector<OnnxFileAttribute> defaults;
  std::vector<OnnxFileNode> nodes;
};

struct OnnxFile {
  std::string path;
  int opset = 0;
  OnnxFileGraph graph;
  std::vector<OnnxFileFunction> functions;
};

OnnxFile read_onnx(const std::string& path);

// A file with one TensorProto, as the standard's examples have them.
Tensor read_onnx_tensor(const std::string& path);

// The dtype as which a TensorProto.DataType is loaded, or null with what it is called in `name`.
const Dtype* find_onnx_dtype(std::int64_t type, std::string* name = nullptr);

}  // namespace mantissa::io
