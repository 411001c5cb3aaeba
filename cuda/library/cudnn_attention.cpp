// Attention by cuDNN: plans for the graphs of cuda/library/cudnn_attention_graph.h, forward and backward, and their
// execution. Engines that add with atomics are rejected (is_welcome).
#include "cuda/cudnn.h"

#if !defined(MANTISSA_HAS_CUDNN)

bool mantissa::cuda_backend::run_cudnn_attention(const AttentionProblem&, const AttentionBias&, bool, Device, int) {
  return false;
}

#else

#include "cuda/library/cudnn_attention_graph.h"

namespace mantissa::cuda_backend {
namespace {

using namespace cudnn;

Problem make_attention(const AttentionProblem& a, const AttentionBias& b, bool backward) {
  return problem_for(backward ? backward_graph(a, b) : forward_graph(a, b), true);
}

// The parameters of a Problem.
std::vector<std::int64_t> key_of(const AttentionProblem& a, const AttentionBias& b, bool backward) {
  std::vector<std::int64_t> key{static_cast<std::int64_t>(a.dtype),
                                backward,
                                a.batch,
                                a.heads,
                                a.kv_heads,
                                a.queries,
                                a.keys,
                                a.width,
                                a.v_width,
                                a.causal,
                                b.data != nullptr,
                                current_device()};
  if (b.data) key.insert(key.end(), b.sizes, b.sizes + 4);
  for (const AttentionRows* r : {&a.q, &a.k, &a.v, &a.y}) key.insert(key.end(), {r->batch, r->head, r->row});
  if (!backward) return key;
  for (const AttentionRows* r : {&a.dy, &a.dq, &a.dk, &a.dv}) key.insert(key.end(), {r->batch, r->head, r->row});
  return key;
}
Problem* problem_of(const AttentionProblem& a, const AttentionBias& b, bool backward) {
  static thread_local ThreadState<std::map<std::vector<std::int64_t>, Problem>> problems;
  return find_problem(*problems, key_of(a, b, backward), [&] { return make_attention(a, b, backward); });
}

// Whether every row begins at a multiple of `alignment` bytes. cuDNN proposes engines for other rows too, but these
// still read 16 bytes at a time.
bool has_aligned_rows(const AttentionRows& r) {
  return reinterpret_cast<std::uintptr_t>(r.data) % alignment == 0 && (r.batch | r.head | r.row) % (alignment / 2) == 0;
}

}  // namespace

bool run_cudnn_attention(const AttentionProblem& a, const AttentionBias& b, bool backward, Device device, int index) {
  if (!is_half(a.dtype) || !a.rounds_weights || a.dropout > 0 || (a.mask && !b.data)) return false;
  for (const AttentionRows* r : {&a.q, &a.k, &a.v, &a.y}) {
    if (!has_aligned_rows(*r)) return false;
  }
  for (const AttentionRows* r : {&a.dy, &a.dq, &a.dk, &a.dv}) {
    if (backward && !has_aligned_rows(*r)) return false;
  }
  Problem* const p = problem_of(a, b, backward);
  float factor = static_cast<float>(a.scale), most_hidden = -3e38f, unit = 1;
  std::vector<void*> pointers{a.q.data, a.k.data, a.v.data, a.y.data, a.lse, &factor};
  std::vector<std::int64_t> ids{queries, keys, values, result, log_sums, scale};
  const auto add = [&](std::int64_t id, void* pointer) {
    ids.push_back(id);
    pointers.push_back(pointer);
  };
  if (a.causal) add(hidden, &most_hidden);
  if (b.data) add(bias, b.data);
  if (backward) {
    add(d_result, a.dy.data);
    add(d_queries, a.dq.data);
    add(d_keys, a.dk.data);
    add(d_values, a.dv.data);
    add(deltas, a.delta);
    add(one, &unit);
  }
  return run_plan(p, index, pointers, ids, device);
}

}  // namespace mantissa::cuda_backend

#endif
