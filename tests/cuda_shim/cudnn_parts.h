// What the files of the shim's cuDNN share: descriptors (cudnn.cpp) and the execution of their graphs
// (cudnn_graph.cpp).
#pragma once

#include <cudnn.h>

#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace cuda_shim::cudnn {

struct Refusal : std::runtime_error {
  Refusal(cudnnStatus_t s, const std::string& why) : std::runtime_error(why), status(s) {}
  cudnnStatus_t status;
};
[[noreturn]] inline void refuse(cudnnStatus_t status, const std::string& why) { throw Refusal(status, why); }

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool is_final = false;
  struct Attribute {
    cudnnBackendAttributeType_t type;
    std::vector<char> bytes;
  };
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;

  bool has(cudnnBackendAttributeName_t name) const { return attributes.contains(name); }
  template <class T> std::vector<T> all(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t wanted) const {
    const auto at = attributes.find(name);
    if (at == attributes.end()) refuse(CUDNN_STATUS_BAD_PARAM, "attribute " + std::to_string(name) + " is missing");
    const Attribute& a = at->second;
    if (a.type != wanted || a.bytes.size() % sizeof(T) != 0)
      refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "attribute " + std::to_string(name) + " has another type");
    std::vector<T> values(a.bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), a.bytes.data(), a.bytes.size());
    return values;
  }
  template <class T> T one(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t wanted) const {
    const std::vector<T> values = all<T>(name, wanted);
    if (values.size() != 1) refuse(CUDNN_STATUS_BAD_PARAM, "attribute " + std::to_string(name) + " is not one value");
    return values[0];
  }
  std::vector<std::int64_t> numbers(cudnnBackendAttributeName_t name) const {
    return all<std::int64_t>(name, CUDNN_TYPE_INT64);
  }
  const Descriptor& part(cudnnBackendAttributeName_t name) const;
  std::vector<const Descriptor*> parts(cudnnBackendAttributeName_t name) const;
};

// A descriptor that exists and is of this type.
Descriptor& find(cudnnBackendDescriptor_t d);
Descriptor& find(cudnnBackendDescriptor_t d, cudnnBackendDescriptorType_t type);

struct Tensor {
  std::int64_t id;
  cudnnDataType_t type;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t alignment;
  bool is_virtual, is_number;  // a number is passed by the host, when the graph is executed
  friend bool operator==(const Tensor&, const Tensor&) = default;
};
// A graph that is complete: where each tensor lies is not known yet.
struct Operation {
  const Descriptor* what;
  std::vector<Tensor> inputs;  // x, w or dy of convolutions; a, b; x, b, t
  Tensor output;
};
using Graph = std::vector<Operation>;       // in an order in which they can be computed
Graph read_graph(const Descriptor& graph);  // refuses what is not one

// Where a tensor lies, and what it is if it is a number.
struct Place {
  void* at = nullptr;
  double number = 0;
};
// Sums are f64 and rounded to the type of each tensor, between two operations too. tf32: f32 operands of
// convolutions are rounded first.
void execute(const Graph& graph, const std::map<std::int64_t, Place>& places, bool tf32);
// Fills what the graph computes with NaN.
void spoil(const Graph& graph, const std::map<std::int64_t, Place>& places);

}  // namespace cuda_shim::cudnn
