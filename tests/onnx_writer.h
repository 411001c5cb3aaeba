// Writes small ONNX files by hand, valid and invalid ones, for tests/onnx_model_test.cpp.
#pragma once

#include <string>
#include <vector>

#include "core/onnx_graph.h"
#include "core/tensor.h"
#include "io/protobuf.h"
#include "tests/temp_dir.h"

namespace mantissa::test::onnx_file {

using namespace io::protobuf;
using Names = std::vector<std::string>;

// A length-delimited field: a message, string or bytes.
inline std::string field(int number, const std::string& bytes) {
  std::string s;
  put_bytes(s, number, bytes);
  return s;
}
inline std::string field(int number, std::int64_t n) {
  std::string s;
  put_integer(s, number, n);
  return s;
}
inline std::string field(int number, int n) { return field(number, std::int64_t{n}); }

inline std::string attribute(const std::string& name, std::int64_t v) {
  return field(1, name) + field(3, v) + field(20, 2);
}
inline std::string attribute(const std::string& name, int v) { return attribute(name, std::int64_t{v}); }
inline std::string attribute(const std::string& name, float v) {
  std::string s = field(1, name);
  put_float(s, 2, v);
  return s + field(20, 1);
}
inline std::string attribute(const std::string& name, const std::string& v) {
  return field(1, name) + field(4, v) + field(20, 3);
}
inline std::string attribute(const std::string& name, const std::vector<std::int64_t>& v) {
  std::string s = field(1, name);
  for (const std::int64_t n : v) s += field(8, n);
  return s + field(20, 7);
}
inline std::string graph_attribute(const std::string& name, const std::string& graph) {
  return field(1, name) + field(6, graph) + field(20, 5);
}
inline std::string reference(const std::string& name, const std::string& to, int type) {
  return field(1, name) + field(21, to) + field(20, type);
}
// One field of a graph or function: a node, with attributes as above.
inline std::string node_fields(const std::string& type, const Names& inputs, const Names& outputs,
                               const Names& attributes, const std::string& domain) {
  std::string s;
  for (const std::string& x : inputs) s += field(1, x);
  for (const std::string& y : outputs) s += field(2, y);
  s += field(3, "the " + type) + field(4, type);
  for (const std::string& a : attributes) s += field(5, a);
  return domain.empty() ? s : s + field(7, domain);
}
inline std::string node(const std::string& type, const Names& inputs, const Names& outputs,
                        const Names& attributes = {}, const std::string& domain = "") {
  return field(1, node_fields(type, inputs, outputs, attributes, domain));
}
inline std::string tensor(const std::string& name, const Tensor& t) {
  std::string s;
  for (const std::int64_t n : t.sizes()) s += field(1, n);
  s += field(2, onnx_type(t.dtype())) + field(8, name);
  return s + field(9, std::string(static_cast<const char*>(t.raw_data()), static_cast<std::size_t>(t.nbytes())));
}
inline std::string initialiser(const std::string& name, const Tensor& t) { return field(5, tensor(name, t)); }
// Each size is a number or a name.
inline std::string port(const std::string& name, Dtype dtype, const Names& sizes) {
  std::string shape;
  for (const std::string& s : sizes)
    shape += field(1, s[0] >= '0' && s[0] <= '9' ? field(1, std::int64_t{std::stoi(s)}) : field(2, s));
  return field(1, name) + field(2, field(1, field(1, onnx_type(dtype)) + field(2, shape)));
}
inline std::string input(const std::string& name, Dtype dtype = f32, const Names& sizes = {"n"}) {
  return field(11, port(name, dtype, sizes));
}
inline std::string output(const std::string& name) {
  return field(12, field(1, name) + field(2, field(1, field(1, 1))));
}
inline std::string model(const std::string& graph, int opset = 17, const std::string& functions = "") {
  return field(1, 8) + field(8, field(1, "") + field(2, opset)) + field(7, graph) + functions;
}
inline std::string function(const std::string& domain, const std::string& name, const Names& inputs,
                            const Names& outputs, const std::vector<std::string>& node_messages) {
  std::string s = field(1, name);
  for (const std::string& x : inputs) s += field(4, x);
  for (const std::string& y : outputs) s += field(5, y);
  for (const std::string& n : node_messages) s += field(7, n);
  return field(25, s + field(10, domain));
}

}  // namespace mantissa::test::onnx_file
