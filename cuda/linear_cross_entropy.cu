// Cross entropy over a chunk of logits, which is overwritten by its own gradient: the kernels of linear_cross_entropy
// besides its products. A row is read once if it fits into a block's registers (16384 classes); longer ones are read
// twice, the second time from the L2 cache, since few rows are in flight at a time. The host reads nothing back.
#include "core/linear_cross_entropy_kernels.h"
#include "cuda/rows.cuh"

namespace mantissa::cuda_backend {
namespace {

// One block, so that sums have a fixed order. An out-of-range label is recorded and does not count.
template <class C>
__global__ void find_factors(C* factors, const std::int64_t* target, const C* weight, std::int64_t rows, int classes,
                             std::int64_t ignore, bool narrow, bool mean, Note* note) {
  wait_for_previous_kernel();
  __shared__ C scratch[32];
  C total = 0, all = 0, largest = 0;
  for (std::int64_t r = threadIdx.x; r < rows; r += blockDim.x) {
    const std::int64_t label = target[r];
    if (label == ignore) continue;
    if (label >= 0 && label < classes) total += weight ? weight[label] : C(1);
    else note_out_of_range(note, 1, label, classes, r);
  }
  for (int j = static_cast<int>(threadIdx.x); weight && j < classes; j += static_cast<int>(blockDim.x)) {
    all += weight[j];
    largest = Max{}(largest, std::abs(weight[j]));
  }
  total = fold_block<Sum>(total, scratch);
  all = fold_block<Sum>(all, scratch);
  largest = fold_block<Max>(largest, scratch);
  if (threadIdx.x != 0) return;
  if (!weight) largest = C(1);
  const C divisor = mean ? total : C(1), inverse = divisor == C(0) ? C(0) : C(1) / divisor;
  const C power = largest > C(0) ? std::exp2(C(14) - std::ceil(std::log2(largest))) : C(1);
  factors[0] = total;
  factors[1] = weight ? all : C(classes);
  factors[2] = narrow ? power : inverse;
  factors[3] = narrow ? inverse / power : C(1);
}

template <class C, int width, int held>
__global__ void __launch_bounds__(most_row_threads)
loss_rows(C* losses, RowOperand x, const std::int64_t* target, const C* weight, const C* factors, std::int64_t rows,
          RowShape shape, std::int64_t ignore, C smoothing, bool gradient) {
  wait_for_previous_kernel();
  __shared__ C scratch[32];
  const int n = shape.n;
  const std::int64_t at = this_row();
  if (at >= rows) return;
  const std::int64_t label = target[at];
  if (label == ignore || label < 0 || label >= n) {
    const C zeros[width] = {};
    if (threadIdx.x == 0) losses[at] = 0;
    for (int j = static_cast<int>(threadIdx.x) * width; gradient && j < n; j += static_cast<int>(blockDim.x) * width) {
      store_slot(x, at * n + j, zeros);
    }
    return;
  }
  const C chosen = load_element<C>(x.data, x.dtype, at * n + label);  // before any thread overwrites it
  if (blockDim.x == 32) __syncwarp();
  else __syncthreads();
  Row<C, width, held, 1> row({x}, at, shape);
  const typename Row<C, width, held, 1>::Exponentials e = row.exponentials(scratch);
  const C largest = e.largest, log_sum = std::log(e.sum), share = smoothing / C(n), unit = factors[2];
  const C on_label = (C(1) - smoothing) * (weight ? weight[label] : C(1));
  C costs = 0;  // the label-smoothing cost, without the log-sum-exp
  if (smoothing > C(0)) {
    row.each([&](const Quads& j, const C (&v)[1][width]) {
      for (int k = 0; k < width; ++k) costs += (weight ? weight[j[k]] : C(1)) * (largest - v[0][k]);
    });
    costs = row.template folded<Sum>(costs, scratch);
  }
  if (threadIdx.x == 0) {
    C loss = on_label * ((largest - chosen) + log_sum);
    if (smoothing > C(0)) loss += share * (costs + factors[1] * log_sum);
    losses[at] = loss;
  }
  if (!gradient) return;
  const C on_power = (on_label + share * factors[1]) * unit / e.sum, on_class = share * unit;
  row.each([&](const Quads& j, const C (&v)[1][width]) {
    const int place = index_in_slot<width>(j, label);
    C out[width];
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const C w = smoothing > C(0) && weight ? weight[j[k]] : C(1);
      out[k] = std::exp(v[0][k] - largest) * on_power - w * on_class;
      if (k == place) out[k] -= on_label * unit;
    }
    store_slot(x, row.start + j, out);
  });
}

template <class C>
__global__ void sum_losses(RowOperand loss, const C* losses, const C* factors, std::int64_t rows, bool mean) {
  wait_for_previous_kernel();
  __shared__ C scratch[32];
  C sum = 0;
  for (std::int64_t r = threadIdx.x; r < rows; r += blockDim.x) sum += losses[r];
  sum = fold_block<Sum>(sum, scratch);
  if (threadIdx.x == 0) store_element(loss.data, loss.dtype, 0, mean ? sum / factors[0] : sum);
}

constexpr Grid one_block() { return {dim3(1), dim3(512)}; }

}  // namespace

void linear_cross_entropy_factors(const View& factors, const View& target, const View& weight, std::int64_t classes,
                                  bool narrow, const CrossEntropyOptions& o) {
  visit_compute(factors.dtype, [&]<class C>() {
    launch("linear_cross_entropy_factors", find_factors<C>, one_block(), factors.as<C>(), target.as<std::int64_t>(),
           weight.as<C>(), target.numel(), classes, o.ignore_index, narrow, o.reduction == Reduction::mean, note());
  });
}

void linear_cross_entropy_rows(const View& losses, const View& logits, const View& target, const View& weight,
                               const View& factors, bool gradient, const CrossEntropyOptions& o) {
  const std::int64_t rows = target.numel(), classes = logits.size(1);
  const RowPlan plan = plan_rows(classes, {logits}, factors.dtype);
  visit_rows(factors.dtype, plan, [&]<class C, int width, int held>() {
    launch("linear_cross_entropy", loss_rows<C, width, held>, grid_of(plan, rows), losses.as<C>(), operand(logits),
           target.as<std::int64_t>(), weight.as<C>(), factors.as<C>(), rows, plan.shape(classes), o.ignore_index,
           o.label_smoothing, gradient);
  });
}

void linear_cross_entropy_loss(const View& loss, const View& losses, const View& factors, Reduction reduction) {
  visit_compute(losses.dtype, [&]<class C>() {
    launch("linear_cross_entropy_loss", sum_losses<C>, one_block(), operand(loss), losses.as<C>(), factors.as<C>(),
           losses.numel(), reduction == Reduction::mean);
  });
}

}  // namespace mantissa::cuda_backend
