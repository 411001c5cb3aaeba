// The attention kernels of core/attention.h: maps views of any rank to one problem, selects the arithmetic for its
// dtype and head size, and computes the sums of dy * y for the backward pass.
#include "core/attention.h"

#include <string>
#include <vector>

#include "cuda/attention.h"
#include "cuda/cudnn.h"
#include "cuda/rows.cuh"
#include "cuda/tuner.h"

namespace mantissa::cuda_backend {
namespace flash {

using RunHalf = void(const AttentionProblem&, bool backward);
RunHalf run_f16_32, run_f16_64, run_f16_128, run_f16_256, run_bf16_32, run_bf16_64, run_bf16_128, run_bf16_256;
RunHalf run_exact_f16_32, run_exact_f16_64, run_exact_f16_128, run_exact_f16_256;
RunHalf run_exact_bf16_32, run_exact_bf16_64, run_exact_bf16_128, run_exact_bf16_256;
void run_f32(const AttentionProblem& p, int width, bool backward);
void run_f64(const AttentionProblem& p, int width, bool backward);

namespace {

// What cuDNN is given for a key that is hidden, and at least for one that is not: finite, because it would subtract
// infinities, also when multiplied by log2(e). A key is hidden if our own kernels hide it, whose scores are in base 2.
inline constexpr float hidden = -2e38f, least_shown = -1.9e38f;

void run(const AttentionProblem& p, bool backward) {
  const int width = std::max(p.width, p.v_width);
  check(width <= most_cuda_attention_width(p.dtype), "internal error: attention with heads of ", width, " elements");
  if (p.dtype == f64) return run_f64(p, width, backward);
  if (p.dtype == f32) return run_f32(p, width, backward);
  static constexpr RunHalf* ways[2][2][4] = {
      {{run_exact_f16_32, run_exact_f16_64, run_exact_f16_128, run_exact_f16_256},
       {run_exact_bf16_32, run_exact_bf16_64, run_exact_bf16_128, run_exact_bf16_256}},
      {{run_f16_32, run_f16_64, run_f16_128, run_f16_256}, {run_bf16_32, run_bf16_64, run_bf16_128, run_bf16_256}}};
  ways[p.rounds_weights][p.dtype == bf16][width <= 32 ? 0 : width <= 64 ? 1 : width <= 128 ? 2 : 3](p, backward);
}

// Converts a mask to the additive form that cuDNN takes.
__global__ void attention_bias_kernel(AttentionProblem p, AttentionBias b) {
  wait_for_previous_kernel();
  const std::int64_t n = b.sizes[0] * b.sizes[1] * b.sizes[2] * b.sizes[3];
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    std::int64_t rest = i, at = 0;
    for (int d = 3; d >= 0; --d) {
      at += rest % b.sizes[d] * p.mask_strides[d];
      rest /= b.sizes[d];
    }
    const float added = p.mask_dtype == boolean ? (static_cast<const bool*>(p.mask)[at] ? 0 : -__builtin_huge_valf())
                                                : load_element<float>(p.mask, p.mask_dtype, at);
    const bool hides = added * static_cast<float>(log2_e) == -__builtin_huge_valf();
    b.data[i] = hides ? hidden : added < least_shown ? least_shown : added;
  }
}
// One warp per query: a fully masked query gets zeros and an infinite lse, as in our own kernels.
__global__ void attention_blind_kernel(AttentionProblem p) {
  wait_for_previous_kernel();
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= p.batch * p.heads * p.queries) return;
  float* lse = static_cast<float*>(p.lse) + row;
  const bool blind = *lse < hidden / 2 + least_shown / 2;  // their sum is no f32
  __syncwarp();
  if (!blind) return;
  const std::int64_t query = row % p.queries, head = row / p.queries % p.heads, batch = row / (p.queries * p.heads);
  const std::int64_t first = batch * p.y.batch + head * p.y.head + query * p.y.row;
  for (int i = static_cast<int>(threadIdx.x); i < p.v_width; i += 32) store_element(p.y.data, p.dtype, first + i, 0.0f);
  if (threadIdx.x == 0) *lse = __builtin_huge_valf();
}

// One warp per query.
template <class C> __global__ void attention_delta_kernel(AttentionProblem p) {
  wait_for_previous_kernel();
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= p.batch * p.heads * p.queries) return;
  const std::int64_t query = row % p.queries, head = row / p.queries % p.heads, batch = row / (p.queries * p.heads);
  const auto first = [&](const AttentionRows& r) { return batch * r.batch + head * r.head + query * r.row; };
  const std::int64_t dy = first(p.dy), y = first(p.y);
  C sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < p.v_width; i += 32) {
    sum += load_element<C>(p.dy.data, p.dtype, dy + i) * load_element<C>(p.y.data, p.dtype, y + i);
  }
  sum = fold_warp<Sum>(sum);
  if (threadIdx.x == 0) static_cast<C*>(p.delta)[row] = sum;
}

Grid warp_for_each_query(const AttentionProblem& p) {
  const std::int64_t rows = p.batch * p.heads * p.queries, blocks = (rows + 7) / 8;
  check(blocks <= 0x7fffffff, "internal error: ", rows, " rows do not fit into one launch");
  return {dim3(static_cast<unsigned>(blocks)), dim3(32, 8)};
}

}  // namespace
}  // namespace flash

void attention_forward(const AttentionProblem& p) { flash::run(p, false); }

void attention_backward(const AttentionProblem& p) {
  if (is_half(p.dtype) && !p.rounds_weights) return flash::run(p, true);
  const Grid grid = flash::warp_for_each_query(p);
  visit_compute(p.dtype, [&]<class C>() { launch("attention_delta", flash::attention_delta_kernel<C>, grid, p); });
  flash::run(p, true);
}

namespace {

// Views [..., heads, length, width] as [batch, heads, length, width] without a copy; false if the strides do not allow
// it.
bool fold(const View& v, bool dense_rows, View* folded) {
  const int rank = v.dim();
  *folded = v;
  folded->sizes = {1, 1, v.sizes[rank - 2], v.sizes[rank - 1]};
  folded->strides = {0, 0, v.strides[rank - 2], v.strides[rank - 1]};
  if (rank > 2) folded->sizes[1] = v.sizes[rank - 3], folded->strides[1] = v.strides[rank - 3];
  for (int d = rank - 4; d >= 0; --d) {
    if (v.sizes[d] == 1) continue;
    if (folded->sizes[0] == 1) folded->strides[0] = v.strides[d];
    else if (v.strides[d] != folded->strides[0] * folded->sizes[0]) return false;
    folded->sizes[0] *= v.sizes[d];
  }
  return !dense_rows || folded->sizes[3] == 1 || folded->strides[3] == 1;
}
// Such a view of an operand, or of a copy of it.
class Folded {
 public:
  explicit Folded(const View& v, bool dense_rows = true) {
    if (!v || fold(v, dense_rows, &view)) return;
    copy_ = Tensor::allocate(v.sizes, v.dtype, v.device);
    copy(copy_.view(), v);
    (void)fold(copy_.view(), dense_rows, &view);
  }
  AttentionRows rows() const { return {view.data, view.strides[0], view.strides[1], view.strides[2]}; }
  View view;

 private:
  Tensor copy_;
};
// The same for a result; finish() copies back if it was a copy.
class FoldedResult {
 public:
  explicit FoldedResult(const View& v) : target_(v) {
    if (fold(v, true, &view_)) return;
    copy_ = Tensor::allocate(v.sizes, v.dtype, v.device);
    (void)fold(copy_.view(), true, &view_);
  }
  AttentionRows rows() const { return {view_.data, view_.strides[0], view_.strides[1], view_.strides[2]}; }
  const View& view() const { return view_; }
  void finish() const { if (copy_.defined()) copy(target_, copy_.view()); }

 private:
  View view_, target_;
  Tensor copy_;
};

AttentionProblem problem_of(const Folded& q, const Folded& k, const Folded& v, const Folded& mask,
                            const AttentionSettings& s) {
  AttentionProblem p;
  p.dtype = q.view.dtype;
  p.batch = q.view.sizes[0], p.heads = q.view.sizes[1], p.kv_heads = k.view.sizes[1];
  p.queries = q.view.sizes[2], p.keys = k.view.sizes[2];
  p.width = static_cast<int>(q.view.sizes[3]), p.v_width = static_cast<int>(v.view.sizes[3]);
  p.q = q.rows(), p.k = k.rows(), p.v = v.rows();
  if (mask.view) {
    p.mask = mask.view.data, p.mask_dtype = mask.view.dtype;
    for (int d = 0; d < 4; ++d) p.mask_strides[d] = mask.view.strides[d];
  }
  p.causal = s.causal, p.scale = s.scale, p.dropout = s.dropout_p;
  p.rounds_weights = s.may_round_weights;
  p.random = random_position(s.seed, s.offset);
  return p;
}

std::string key_of(const AttentionProblem& p) {
  return concat("attention ", p.dtype, " ", p.batch, "x", p.heads, "/", p.kv_heads, "x", p.queries, "x", p.keys, " ",
                p.width, " ", p.v_width, p.causal ? " causal" : "", p.rounds_weights ? "" : " exact",
                p.mask ? " mask" : "", p.dropout > 0 ? " dropout" : "", " rows ", p.q.row, " ", p.k.row, " ", p.v.row);
}

// The problem's mask in cuDNN's form.
struct BiasOf {
  BiasOf(const AttentionProblem& p, Device device) {
    if (!p.mask) return;
    const std::int64_t all[] = {p.batch, p.heads, p.queries, p.keys};
    for (int d = 0; d < 4; ++d) bias.sizes[d] = d == 3 || p.mask_strides[d] != 0 ? all[d] : 1;
    memory = Tensor::allocate({bias.sizes[0], bias.sizes[1], bias.sizes[2], bias.sizes[3]}, f32, device);
    bias.data = static_cast<float*>(memory.view().data);
    launch("attention_bias", flash::attention_bias_kernel, grid_for(memory.numel()), p, bias);
  }
  AttentionBias bias;
  Tensor memory;
};
// Way 0 is our own kernels: the default without timing, and the reference for cuDNN's plans, which are the other ways.
// cuDNN rounds weights, and its dropout uses other random numbers than ours.
bool run_way(std::size_t way, const AttentionProblem& p, bool backward, Device device) {
  if (way == 0) return backward ? attention_backward(p) : attention_forward(p), true;
  const BiasOf mask(p, device);
  if (!run_cudnn_attention(p, mask.bias, backward, device, static_cast<int>(way) - 1)) return false;
  if (p.mask && !backward) launch("attention_blind", flash::attention_blind_kernel, flash::warp_for_each_query(p), p);
  return true;
}
std::vector<Way> ways_for(const AttentionProblem& p, bool backward, Device device) {
  std::vector<Way> ways{{"own", [&p, backward, device] { return run_way(0, p, backward, device); }}};
  if (!is_half(p.dtype) || !p.rounds_weights || p.dropout > 0) return ways;
  for (std::size_t plan = 0; plan < most_cudnn_attention_plans; ++plan) {
    ways.push_back({concat("cudnn ", static_cast<int>(plan)),
                    [&p, backward, device, plan] { return run_way(plan + 1, p, backward, device); }});
  }
  return ways;
}

// The same information as key_of, as numbers.
KeyNumbers<13> numbers_of(const AttentionProblem& p, bool backward) {
  return {p.batch, p.heads, p.kv_heads, p.queries, p.keys, p.width, p.v_width, p.q.row, p.k.row, p.v.row,
          current_device(), static_cast<std::int64_t>(p.dtype),
          std::int64_t{backward} | std::int64_t{p.causal} << 1 | std::int64_t{p.rounds_weights} << 2 |
              std::int64_t{p.mask != nullptr} << 3 | std::int64_t{p.dropout > 0} << 4};
}
void run(const AttentionProblem& p, bool backward, std::span<const View> results, Device device) {
  static thread_local Settled<13, std::size_t> settled;
  const KeyNumbers<13> numbers = numbers_of(p, backward);
  if (const auto at = settled.find(numbers); at != settled.end() && run_way(at->second, p, backward, device)) return;
  const Choice choice =
      run_fastest((backward ? "backward of " : "") + key_of(p), ways_for(p, backward, device), {results});
  if (choice.settled) settled.insert_or_assign(numbers, choice.way);
}

}  // namespace

void attention(const View& y, const View& log_sum, const View& query, const View& key, const View& value,
               const View& mask, const AttentionSettings& settings) {
  const Folded q(query), k(key), v(value), m(mask, false);
  const FoldedResult out(y);
  AttentionProblem p = problem_of(q, k, v, m, settings);
  p.y = out.rows(), p.lse = log_sum.data;
  const View results[] = {out.view(), log_sum};
  run(p, false, results, y.device);
  out.finish();
}

void attention_backward(const View& d_query, const View& d_key, const View& d_value, const View& g, const View& query,
                        const View& key, const View& value, const View& mask, const View& y, const View& log_sum,
                        const AttentionSettings& settings) {
  const Folded q(query), k(key), v(value), m(mask, false), gradient(g), result(y);
  const FoldedResult dq(d_query), dk(d_key), dv(d_value);
  AttentionProblem p = problem_of(q, k, v, m, settings);
  const Tensor delta = Tensor::allocate({p.batch, p.heads, p.queries}, log_sum.dtype, query.device);
  p.y = result.rows(), p.dy = gradient.rows(), p.dq = dq.rows(), p.dk = dk.rows(), p.dv = dv.rows();
  p.lse = log_sum.data, p.delta = delta.view().data;
  const View results[] = {dq.view(), dk.view(), dv.view()};
  run(p, true, results, query.device);
  dq.finish();
  dk.finish();
  dv.finish();
}

}  // namespace mantissa::cuda_backend
