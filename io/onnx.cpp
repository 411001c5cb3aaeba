#include "io/onnx.h"

#include <fmt/format.h>

#include <limits>
#include <set>

#include "core/error.h"
#include "core/version.h"
#include "io/file.h"
#include "io/protobuf.h"

namespace mantissa::io {
namespace {

using namespace protobuf;

// Field numbers of onnx.proto.
namespace model {
constexpr int ir_version = 1, producer = 2, producer_version = 3, graph = 7, opset = 8;
}
namespace opset_id {
constexpr int version = 2;
}
namespace graph_field {
constexpr int node = 1, name = 2, initializer = 5, input = 11, output = 12;
}
namespace node_field {
constexpr int input = 1, output = 2, name = 3, type = 4, attribute = 5;
}
namespace attribute {
constexpr int name = 1, f = 2, i = 3, s = 4, ints = 8, strings = 9, type = 20;
}
namespace attribute_type {
constexpr int of_float = 1, of_int = 2, of_string = 3, of_ints = 7, of_strings = 8;
}
namespace tensor_field {
constexpr int dims = 1, type = 2, name = 8, raw_data = 9;
}
namespace value_info {
constexpr int name = 1, type = 2;
}
namespace type_field {
constexpr int tensor = 1;
}
namespace tensor_type {
constexpr int element = 1, shape = 2;
}
namespace shape_field {
constexpr int dim = 1;
}
namespace dim_field {
constexpr int value = 1, param = 2;
}

std::string encode(const OnnxAttribute& a) {
  std::string s;
  put_bytes(s, attribute::name, a.name);
  int type = 0;
  if (const auto* i = std::get_if<std::int64_t>(&a.value)) {
    put_integer(s, attribute::i, *i);
    type = attribute_type::of_int;
  } else if (const auto* f = std::get_if<double>(&a.value)) {
    put_float(s, attribute::f, static_cast<float>(*f));
    type = attribute_type::of_float;
  } else if (const auto* text = std::get_if<std::string>(&a.value)) {
    put_bytes(s, attribute::s, *text);
    type = attribute_type::of_string;
  } else if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&a.value)) {
    for (const std::int64_t n : *ints) put_integer(s, attribute::ints, n);
    type = attribute_type::of_ints;
  } else {
    for (const std::string& t : std::get<std::vector<std::string>>(a.value)) put_bytes(s, attribute::strings, t);
    type = attribute_type::of_strings;
  }
  put_integer(s, attribute::type, type);
  return s;
}

std::string encode(const OnnxPort& port, Dtype dtype) {
  std::string shape, tensor, type, s;
  for (const OnnxSize& size : port.sizes) {
    std::string dim;
    if (size.name.empty()) put_integer(dim, dim_field::value, size.number);
    else put_bytes(dim, dim_field::param, size.name);
    put_bytes(shape, shape_field::dim, dim);
  }
  put_integer(tensor, tensor_type::element, onnx_type(dtype));
  put_bytes(tensor, tensor_type::shape, shape);
  put_bytes(type, type_field::tensor, tensor);
  put_bytes(s, value_info::name, port.name);
  put_bytes(s, value_info::type, type);
  return s;
}

int ir_version(int opset) { return opset <= 18 ? 8 : opset <= 20 ? 9 : 10; }

}  // namespace

void write_onnx(const std::string& path, const OnnxGraph& graph) {
  const auto value = [&](OnnxId id) -> const OnnxValue& { return graph.values.at(static_cast<std::size_t>(id)); };
  std::string g;
  put_bytes(g, graph_field::name, "net");
  std::set<OnnxId> constants;
  int number = 0;
  for (const OnnxNode& n : graph.nodes) {
    std::string s;
    for (const OnnxId id : n.inputs) {
      put_bytes(s, node_field::input, id < 0 ? "" : value(id).name);
      if (id >= 0 && value(id).constant.defined()) constants.insert(id);
    }
    for (const OnnxId id : n.outputs) put_bytes(s, node_field::output, value(id).name);
    put_bytes(s, node_field::name, fmt::format("{}_{}", n.type, number++));
    put_bytes(s, node_field::type, n.type);
    for (const OnnxAttribute& a : n.attributes) put_bytes(s, node_field::attribute, encode(a));
    put_bytes(g, graph_field::node, s);
  }
  for (const OnnxPort& p : graph.inputs) put_bytes(g, graph_field::input, encode(p, value(p.value).dtype));
  for (const OnnxPort& p : graph.outputs) put_bytes(g, graph_field::output, encode(p, value(p.value).dtype));
  std::int64_t nbytes = static_cast<std::int64_t>(g.size());
  for (const OnnxId id : constants) nbytes += value(id).constant.nbytes() + 256;
  check(nbytes < std::numeric_limits<std::int32_t>::max(), path, ": an ONNX file cannot hold ", nbytes,
        " bytes of constants, a protocol buffer ends at 2 GiB; save the net in halves");
  g.reserve(static_cast<std::size_t>(nbytes));
  for (const OnnxId id : constants) {
    const Tensor& t = value(id).constant;
    std::string head;
    for (const std::int64_t n : t.sizes()) put_integer(head, tensor_field::dims, n);
    put_integer(head, tensor_field::type, onnx_type(t.dtype()));
    put_bytes(head, tensor_field::name, value(id).name);
    put_length(head, tensor_field::raw_data, static_cast<std::size_t>(t.nbytes()));
    put_length(g, graph_field::initializer, head.size() + static_cast<std::size_t>(t.nbytes()));
    g += head;
    if (t.nbytes() > 0) g.append(static_cast<const char*>(t.raw_data()), static_cast<std::size_t>(t.nbytes()));
  }
  std::string opset, s;
  put_bytes(opset, 1, "");  // the domain of the standard operators
  put_integer(opset, opset_id::version, graph.opset);
  put_integer(s, model::ir_version, ir_version(graph.opset));
  put_bytes(s, model::producer, "Mantissa");
  put_bytes(s, model::producer_version,
            fmt::format("{}.{}.{}", MANTISSA_VERSION_MAJOR, MANTISSA_VERSION_MINOR, MANTISSA_VERSION_PATCH));
  put_bytes(s, model::opset, opset);
  put_length(s, model::graph, g.size());
  AtomicFile file(path);
  file.write(s);
  file.write(g);
  file.commit();
}

}  // namespace mantissa::io
