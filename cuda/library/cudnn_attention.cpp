// Attention by cuDNN: the graph of operations that its fused kernels are recognised by: a product, the scale, a causal
// mask, softmax spelled out, the logarithm of its sum, and the second product. Forward only: cuDNN's backward kernels
// add with atomics, which we do not take (is_welcome). Source: NVIDIA cuDNN 9 documentation, "Operations and patterns:
// fused attention fprop".
#include "cuda/cudnn.h"

#if !defined(MANTISSA_HAS_CUDNN)

bool mantissa::cuda_backend::run_cudnn_attention(const AttentionProblem&, Device, int) { return false; }

#else

#include <list>

#include "cuda/library/cudnn_graph.h"

namespace mantissa::cuda_backend {
namespace {

using namespace cudnn;

enum Operand : std::int64_t { queries = 1, keys, values, result, log_sums, scale, nothing, first_between };

// A graph that grows by operations; tensors between them have no memory.
class Graph {
 public:
  std::vector<Descriptor> parts;                     // in the order in which they were made
  std::vector<cudnnBackendDescriptor_t> operations;

  cudnnBackendDescriptor_t keep(Descriptor d) {
    parts.push_back(std::move(d));
    return parts.back().get();
  }
  cudnnBackendDescriptor_t tensor(std::int64_t id, cudnnDataType_t type, const std::vector<std::int64_t>& sizes,
                                  const std::vector<std::int64_t>& strides, bool in_memory, bool by_value = false) {
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
  cudnnBackendDescriptor_t between(const std::vector<std::int64_t>& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    std::vector<std::int64_t> strides(sizes.size(), 1);
    for (std::size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
    return tensor(next_++, type, sizes, strides, false);
  }
  cudnnBackendDescriptor_t number(std::int64_t id) {
    return tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, true, true);
  }

  void multiply(cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t c) {
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
  // y = mode(x), mode(x, b), or t ? x : b. axis: of a row's or a column's index.
  void pointwise(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t y, cudnnBackendDescriptor_t x,
                 cudnnBackendDescriptor_t b = nullptr, cudnnBackendDescriptor_t t = nullptr, std::int64_t axis = -1) {
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
  }
  void reduce(cudnnReduceTensorOp_t how_to, cudnnBackendDescriptor_t y, cudnnBackendDescriptor_t x) {
    Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how_to);
    how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    how.finalize();
    Descriptor o(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    link(o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    link(o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    link(o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(std::move(how)));
    add(std::move(o));
  }

 private:
  static void link(Descriptor& to, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t d) {
    to.set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d);
  }
  void add(Descriptor o) {
    o.finalize();
    operations.push_back(keep(std::move(o)));
  }
  std::int64_t next_ = first_between;
};

Problem make_attention(const AttentionProblem& a) {
  const cudnnDataType_t type = type_of(a.dtype);
  const std::vector<std::int64_t> square{a.batch, a.heads, a.queries, a.keys}, rows{a.batch, a.heads, a.queries, 1};
  Graph g;
  const auto q =
      g.tensor(queries, type, {a.batch, a.heads, a.queries, a.width}, {a.q.batch, a.q.head, a.q.row, 1}, true);
  const auto k = g.tensor(keys, type, {a.batch, a.kv_heads, a.width, a.keys}, {a.k.batch, a.k.head, 1, a.k.row}, true);
  const auto v =
      g.tensor(values, type, {a.batch, a.kv_heads, a.keys, a.v_width}, {a.v.batch, a.v.head, a.v.row, 1}, true);
  const auto y =
      g.tensor(result, type, {a.batch, a.heads, a.queries, a.v_width}, {a.y.batch, a.y.head, a.y.row, 1}, true);
  const auto sums = g.tensor(log_sums, CUDNN_DATA_FLOAT, rows, {a.heads * a.queries, a.queries, 1, 1}, true);

  auto scores = g.between(square);
  const auto raw = scores;
  g.multiply(q, k, raw);
  scores = g.between(square);
  g.pointwise(CUDNN_POINTWISE_MUL, scores, raw, g.number(scale));
  if (a.causal) {
    const auto row = g.between(square, CUDNN_DATA_INT32), column = g.between(square, CUDNN_DATA_INT32);
    const auto seen = g.between(square, CUDNN_DATA_BOOLEAN), masked = g.between(square);
    g.pointwise(CUDNN_POINTWISE_GEN_INDEX, row, scores, nullptr, nullptr, 2);
    g.pointwise(CUDNN_POINTWISE_GEN_INDEX, column, scores, nullptr, nullptr, 3);
    g.pointwise(CUDNN_POINTWISE_CMP_GE, seen, row, column);
    g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, masked, scores, g.number(nothing), seen);
    scores = masked;
  }
  const auto top = g.between(rows), total = g.between(rows), log_total = g.between(rows);
  const auto lowered = g.between(square), raised = g.between(square), weights = g.between(square, type);
  g.reduce(CUDNN_REDUCE_TENSOR_MAX, top, scores);
  g.pointwise(CUDNN_POINTWISE_SUB, lowered, scores, top);
  g.pointwise(CUDNN_POINTWISE_EXP, raised, lowered);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, total, raised);
  g.pointwise(CUDNN_POINTWISE_LOG, log_total, total);
  g.pointwise(CUDNN_POINTWISE_ADD, sums, top, log_total);
  g.pointwise(CUDNN_POINTWISE_DIV, weights, raised, total);
  g.multiply(weights, v, y);

  Problem p;
  find_engines(p, g.operations, true);
  for (Descriptor& d : g.parts) p.keep.push_back(std::move(d));
  return p;
}

// What a Problem depends on.
std::vector<std::int64_t> key_of(const AttentionProblem& a) {
  std::vector<std::int64_t> key{static_cast<std::int64_t>(a.dtype),
                                a.batch,
                                a.heads,
                                a.kv_heads,
                                a.queries,
                                a.keys,
                                a.width,
                                a.v_width,
                                a.causal,
                                current_device()};
  for (const AttentionRows* r : {&a.q, &a.k, &a.v, &a.y}) key.insert(key.end(), {r->batch, r->head, r->row});
  return key;
}
Problem& find_problem(const AttentionProblem& a) {
  static thread_local std::map<std::vector<std::int64_t>, Problem> problems;
  const std::vector<std::int64_t> key = key_of(a);
  const auto at = problems.find(key);
  if (at != problems.end()) return at->second;
  Problem made;
  try {
    made = make_attention(a);
  } catch (const Refused&) {
  }
  return problems.emplace(key, std::move(made)).first->second;
}

// Whether every row begins at a multiple of `alignment` bytes. cuDNN proposes engines for others too, but they fetch whole
// 16 bytes.
bool has_aligned_rows(const AttentionRows& r) {
  return reinterpret_cast<std::uintptr_t>(r.data) % alignment == 0 && (r.batch | r.head | r.row) % (alignment / 2) == 0;
}

}  // namespace

bool run_cudnn_attention(const AttentionProblem& a, Device device, int index) {
  if (!is_half(a.dtype) || a.mask || a.dropout > 0) return false;
  for (const AttentionRows& r : {a.q, a.k, a.v, a.y}) {
    if (!has_aligned_rows(r)) return false;
  }
  Problem& p = find_problem(a);
  float factor = static_cast<float>(a.scale), hidden = -3e38f;  // finite: infinities would meet in a difference
  void* pointers[] = {a.q.data, a.k.data, a.v.data, a.y.data, a.lse, &factor, &hidden};
  const std::int64_t ids[] = {queries, keys, values, result, log_sums, scale, nothing};
  const std::size_t count = a.causal ? 7 : 6;
  return run_plan(p, index, std::span(pointers, count), std::span(ids, count), device);
}

}  // namespace mantissa::cuda_backend

#endif
