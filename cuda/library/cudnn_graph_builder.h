// A graph of cuDNN's operations, built one operation at a time (cuda/library/cudnn_graph.h runs it). Intermediate
// tensors have no memory. Next: cudnn.cpp for convolutions, cudnn_attention_graph.h.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cuda/library/cudnn_graph.h"

namespace mantissa::cuda_backend::cudnn {

class OperationGraph {
 public:
  using Node = cudnnBackendDescriptor_t;
  using Sizes = std::vector<std::int64_t>;
  std::vector<Descriptor> parts;  // in the order of creation
  std::vector<Node> operations;

  Node tensor(std::int64_t id, cudnnDataType_t type, const Sizes& sizes, const Sizes& strides, bool in_memory,
              bool by_value = false) {
    Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const bool is_virtual = !in_memory;
    t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
    t.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
    t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
    t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    t.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    t.finalize();
    return keep(std::move(t));
  }
  // An f32 in host memory, for tensors of `rank` dimensions.
  Node number(std::int64_t id, std::size_t rank = 4) {
    return tensor(id, CUDNN_DATA_FLOAT, Sizes(rank, 1), Sizes(rank, 1), true, true);
  }
  // y = mode(x), mode(x, b), or t ? x : b. axis: for row or column indices.
  Node pointwise(cudnnPointwiseMode_t mode, Node y, Node x, Node b = nullptr, Node t = nullptr,
                 std::int64_t axis = -1) {
    Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    if (axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
    how.finalize();
    Descriptor o(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    link(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(std::move(how)));
    link(o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) link(o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (t) link(o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    link(o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add(std::move(o));
    return y;
  }

  Node keep(Descriptor d) {
    parts.push_back(std::move(d));
    return parts.back().get();
  }
  static void link(Descriptor& to, cudnnBackendAttributeName_t name, Node d) {
    to.set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d);
  }
  void add(Descriptor o) {
    o.finalize();
    operations.push_back(keep(std::move(o)));
  }
};

// The engines for a graph, whose parts the result keeps.
inline Problem problem_for(OperationGraph graph, bool may_use_tensor_cores) {
  Problem p;
  find_engines(p, graph.operations, may_use_tensor_cores);
  for (Descriptor& d : graph.parts) p.keep.push_back(std::move(d));
  return p;
}

}  // namespace mantissa::cuda_backend::cudnn
