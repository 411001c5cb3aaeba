// Attention as a graph of cuDNN operations, in the form that its fused kernels recognize: products, the scale, the bias
// added to scores, a causal mask, softmax, and for backward the chains that lead to dv, dk and dq. Dropout is not
// included: cuDNN uses Philox too, but its kernels number the random values in their own way, so neither our own
// kernels nor the CPU could reproduce which weights were dropped; its other form needs the whole random mask in memory.
// Sources: NVIDIA cuDNN 9 documentation, "Operations and patterns: fused attention"; the graphs that NVIDIA's
// cudnn-frontend builds (include/cudnn_frontend/node/scaled_dot_product_flash_attention.h).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cuda/attention.h"
#include "cuda/library/cudnn_graph_builder.h"

namespace mantissa::cuda_backend::cudnn {

// Ids of tensors in memory; `first_between` is the first id of intermediate tensors.
enum AttentionOperand : std::int64_t {
  queries = 1, keys, values, result, log_sums, scale, hidden, bias, d_result, d_queries, d_keys, d_values, deltas, one,
  first_between
};

class AttentionGraph : public OperationGraph {
 public:
  // A tensor [batch, heads, length, width] of rows; transposed: with the last two dimensions swapped, without a copy.
  Node rows(std::int64_t id, cudnnDataType_t type, const AttentionRows& r, const Sizes& n, bool transposed = false) {
    if (transposed) return tensor(id, type, {n[0], n[1], n[3], n[2]}, {r.batch, r.head, 1, r.row}, true);
    return tensor(id, type, n, {r.batch, r.head, r.row, 1}, true);
  }
  static Sizes dense(const Sizes& sizes) {
    Sizes strides(sizes.size(), 1);
    for (std::size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
    return strides;
  }
  Node between(const Sizes& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return tensor(next_++, type, sizes, dense(sizes), false);
  }

  void multiply(Node a, Node b, Node c) {
    Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    how.finalize();
    Descriptor o(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    link(o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    link(o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    link(o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    link(o, CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(std::move(how)));
    add(std::move(o));
  }
  Node reduce(cudnnReduceTensorOp_t how_to, Node y, Node x) {
    Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how_to);
    how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    how.finalize();
    Descriptor o(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    link(o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    link(o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    link(o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(std::move(how)));
    add(std::move(o));
    return y;
  }
  Node reshape(Node y, Node x) {
    Descriptor o(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    link(o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    link(o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add(std::move(o));
    return y;
  }
  // x with its last two dimensions swapped, as the left operand of a product.
  Node turned(Node x, const Sizes& sizes, cudnnDataType_t type) {
    Sizes strides = dense(sizes), to = sizes;
    std::swap(strides[2], strides[3]);
    std::swap(to[2], to[3]);
    return reshape(tensor(next_++, type, to, strides, false), x);
  }

 private:
  std::int64_t next_ = first_between;
};

namespace attention_parts {

using Node = AttentionGraph::Node;
using Sizes = AttentionGraph::Sizes;

inline Sizes square(const AttentionProblem& a) { return {a.batch, a.heads, a.queries, a.keys}; }
inline Sizes column(const AttentionProblem& a) { return {a.batch, a.heads, a.queries, 1}; }
inline Node column_in_memory(AttentionGraph& g, const AttentionProblem& a, std::int64_t id) {
  return g.tensor(id, CUDNN_DATA_FLOAT, column(a), {a.heads * a.queries, a.queries, 1, 1}, true);
}

// scale * q k^T + bias.
inline Node scores(AttentionGraph& g, const AttentionProblem& a, const AttentionBias& b, Node q, Node k_turned) {
  const Node raw = g.between(square(a));
  g.multiply(q, k_turned, raw);
  Node s = g.pointwise(CUDNN_POINTWISE_MUL, g.between(square(a)), raw, g.number(scale));
  if (b.data) {
    const Sizes sizes(b.sizes, b.sizes + 4);
    const Node added = g.tensor(bias, CUDNN_DATA_FLOAT, sizes, AttentionGraph::dense(sizes), true);
    s = g.pointwise(CUDNN_POINTWISE_ADD, g.between(square(a)), s, added);
  }
  return s;
}
// Scores beyond the diagonal become `hidden`, which is finite: infinities would be subtracted from each other.
inline Node masked(AttentionGraph& g, const AttentionProblem& a, Node s) {
  if (!a.causal) return s;
  const Node row = g.between(square(a), CUDNN_DATA_INT32), column = g.between(square(a), CUDNN_DATA_INT32);
  const Node seen = g.between(square(a), CUDNN_DATA_BOOLEAN);
  g.pointwise(CUDNN_POINTWISE_GEN_INDEX, row, s, nullptr, nullptr, 2);
  g.pointwise(CUDNN_POINTWISE_GEN_INDEX, column, s, nullptr, nullptr, 3);
  g.pointwise(CUDNN_POINTWISE_CMP_GE, seen, row, column);
  return g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, g.between(square(a)), s, g.number(hidden), seen);
}

}  // namespace attention_parts

inline AttentionGraph forward_graph(const AttentionProblem& a, const AttentionBias& b) {
  using namespace attention_parts;
  const cudnnDataType_t type = type_of(a.dtype);
  AttentionGraph g;
  const Node q = g.rows(queries, type, a.q, {a.batch, a.heads, a.queries, a.width});
  const Node k = g.rows(keys, type, a.k, {a.batch, a.kv_heads, a.keys, a.width}, true);
  const Node v = g.rows(values, type, a.v, {a.batch, a.kv_heads, a.keys, a.v_width});
  const Node y = g.rows(result, type, a.y, {a.batch, a.heads, a.queries, a.v_width});
  const Node sums = column_in_memory(g, a, log_sums);

  const Node s = masked(g, a, scores(g, a, b, q, k));
  const Node top = g.reduce(CUDNN_REDUCE_TENSOR_MAX, g.between(column(a)), s);
  const Node lowered = g.pointwise(CUDNN_POINTWISE_SUB, g.between(square(a)), s, top);
  const Node raised = g.pointwise(CUDNN_POINTWISE_EXP, g.between(square(a)), lowered);
  const Node total = g.reduce(CUDNN_REDUCE_TENSOR_ADD, g.between(column(a)), raised);
  const Node log_total = g.pointwise(CUDNN_POINTWISE_LOG, g.between(column(a)), total);
  g.pointwise(CUDNN_POINTWISE_ADD, sums, top, log_total);
  g.multiply(g.pointwise(CUDNN_POINTWISE_DIV, g.between(square(a), type), raised, total), v, y);
  return g;
}

// dq is a separate product instead of sums with atomics: cuDNN's deterministic form.
inline AttentionGraph backward_graph(const AttentionProblem& a, const AttentionBias& b) {
  using namespace attention_parts;
  const cudnnDataType_t type = type_of(a.dtype);
  const Sizes q_sizes{a.batch, a.heads, a.queries, a.width}, k_sizes{a.batch, a.kv_heads, a.keys, a.width};
  const Sizes v_sizes{a.batch, a.kv_heads, a.keys, a.v_width}, y_sizes{a.batch, a.heads, a.queries, a.v_width};
  AttentionGraph g;
  const Node q = g.rows(queries, type, a.q, q_sizes), dq = g.rows(d_queries, type, a.dq, q_sizes);
  const Node k_turned = g.rows(keys, type, a.k, k_sizes, true), dk = g.rows(d_keys, type, a.dk, k_sizes);
  const Node v_turned = g.rows(values, type, a.v, v_sizes, true), dv = g.rows(d_values, type, a.dv, v_sizes);
  const Node y = g.rows(result, type, a.y, y_sizes), dy = g.rows(d_result, type, a.dy, y_sizes);
  const Node sums = column_in_memory(g, a, log_sums), delta = column_in_memory(g, a, deltas);

  const Node dy_y = g.pointwise(CUDNN_POINTWISE_MUL, g.between(y_sizes), dy, y);
  const Node row_sums = g.reduce(CUDNN_REDUCE_TENSOR_ADD, g.between(column(a)), dy_y);
  g.pointwise(CUDNN_POINTWISE_MUL, delta, row_sums, g.number(one));  // the place of dropout's factor

  const Node lowered = g.pointwise(CUDNN_POINTWISE_SUB, g.between(square(a)), scores(g, a, b, q, k_turned), sums);
  const Node weights = g.pointwise(CUDNN_POINTWISE_EXP, g.between(square(a)), masked(g, a, lowered));

  // A product whose sums over the query heads that share a head of k and v are written to `to`.
  const auto gather = [&](Node left, Node right, std::int64_t width, Node to) {
    if (a.heads == a.kv_heads) return g.multiply(left, right, to);
    const Node whole = g.between({a.batch, a.heads, a.keys, width}, type);
    g.multiply(left, right, whole);
    g.reduce(CUDNN_REDUCE_TENSOR_ADD, to, whole);
  };
  gather(g.turned(weights, square(a), type), dy, a.v_width, dv);

  const Node d_weights = g.between(square(a));
  g.multiply(dy, v_turned, d_weights);
  Node d_scores = g.pointwise(CUDNN_POINTWISE_SUB, g.between(square(a)), d_weights, delta);
  d_scores = g.pointwise(CUDNN_POINTWISE_MUL, g.between(square(a)), d_scores, weights);
  d_scores = g.pointwise(CUDNN_POINTWISE_MUL, g.between(square(a)), d_scores, g.number(scale));
  gather(g.turned(d_scores, square(a), type), q, a.width, dk);

  const Node k = g.tensor(first_between + 1000, type, k_sizes, {a.k.batch, a.k.head, a.k.row, 1}, false);
  g.multiply(d_scores, g.reshape(k, k_turned), dq);
  return g;
}

}  // namespace mantissa::cuda_backend::cudnn
