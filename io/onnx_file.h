// The contents of an .onnx file as plain data: read by io/onnx_file.cpp, compiled by nn/onnx_program.cpp. Files are
// untrusted: anything invalid, larger than the file, or nested too deeply is a FormatError; operator names and the
// graph structure are checked by the compiler.
//
// Tensors may be stored in external files beside the model (as torch.onnx.export does). These must be in the model's
// folder or below: a path like "../secret" or "/etc/secret" is rejected. Unsupported dtypes are widened as in
// io/file_dtype.h (int8 gives i32); strings, complex numbers and floats of 8 bits or less are rejected.
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
  std::string refers_to;  // in a function body: the name of the caller's attribute that this refers to
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
  std::string name, type, domain;            // domain: "" for standard operators
  std::vector<std::string> inputs, outputs;  // "": absent
  std::vector<OnnxFileAttribute> attributes;
};

struct OnnxFilePort {
  std::string name;
  bool is_tensor = false, has_dtype = false, has_sizes = false;
  Dtype dtype = f32;  // dtype when loaded
  std::vector<OnnxSize> sizes;
};

struct OnnxFileGraph {
  std::vector<OnnxFileNode> nodes;
  std::vector<std::pair<std::string, Tensor>> initialisers;
  std::vector<OnnxFilePort> inputs, outputs;
};

struct OnnxFileFunction {
  std::string name, domain;
  int opset = 0;  // of the standard operators in its body
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

// A file with a single TensorProto, as in the ONNX standard's test data.
Tensor read_onnx_tensor(const std::string& path);

// The dtype that a TensorProto.DataType is loaded as, or null with its name in `name`.
const Dtype* find_onnx_dtype(std::int64_t type, std::string* name = nullptr);

}  // namespace mantissa::io
