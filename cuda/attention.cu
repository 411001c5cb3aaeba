// Chooses the arithmetic of an attention, and sums dy * y for its backward pass.
#include "cuda/attention.h"

#include "cuda/launch.cuh"
#include "cuda/reduce.cuh"
#include "cuda/vec.cuh"

namespace mantissa::cuda_backend {
namespace attention {

using RunHalf = void(const AttentionProblem&, bool backward);
RunHalf run_f16_32, run_f16_64, run_f16_128, run_f16_256, run_bf16_32, run_bf16_64, run_bf16_128, run_bf16_256;
void run_f32(const AttentionProblem& p, int width, bool backward);
void run_f64(const AttentionProblem& p, int width, bool backward);

namespace {

void run(const AttentionProblem& p, bool backward) {
  const int width = std::max(p.width, p.v_width);
  check(width <= most_attention_width, "internal error: attention with heads of ", width, " elements");
  if (p.dtype == f64) return run_f64(p, width, backward);
  if (p.dtype == f32) return run_f32(p, width, backward);
  static constexpr RunHalf* ways[2][4] = {{run_f16_32, run_f16_64, run_f16_128, run_f16_256},
                                          {run_bf16_32, run_bf16_64, run_bf16_128, run_bf16_256}};
  ways[p.dtype == bf16][width <= 32 ? 0 : width <= 64 ? 1 : width <= 128 ? 2 : 3](p, backward);
}

// A warp for each query.
template <class C> __global__ void attention_delta_kernel(AttentionProblem p) {
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

}  // namespace
}  // namespace attention

void attention_forward(const AttentionProblem& p) { attention::run(p, false); }

void attention_backward(const AttentionProblem& p) {
  const std::int64_t rows = p.batch * p.heads * p.queries, blocks = (rows + 7) / 8;
  check(blocks <= 0x7fffffff, "internal error: ", rows, " rows do not fit into one launch");
  visit_compute(p.dtype, [&]<class C>() {
    const Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(32, 8)};
    launch("attention_delta", attention::attention_delta_kernel<C>, grid, p);
  });
  attention::run(p, true);
}

}  // namespace mantissa::cuda_backend
