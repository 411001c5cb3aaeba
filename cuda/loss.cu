// Class losses and their gradients. A row of logits is read once forward (maximum, log-sum-exp, loss) and once
// backward. Out-of-range labels are recorded; the host throws the error when it next waits.
#include "core/kernel.h"
#include "core/ops.h"
#include "cuda/fold_apart.cuh"
#include "cuda/rows.cuh"

namespace mantissa {
MANTISSA_KERNEL(cross_entropy, const View& loss, const View& largest, const View& log_sum, const View& total,
                const View& x, const View& target, const View& weight, const CrossEntropyOptions& options)
MANTISSA_KERNEL(cross_entropy_backward, const View& dx, const View& g, const View& x, const View& target,
                const View& weight, const View& largest, const View& log_sum, const View& total,
                const CrossEntropyOptions& options)
MANTISSA_KERNEL(nll_loss, const View& loss, const View& total, const View& x, const View& target,
                const View& weight, const NllOptions& options)
MANTISSA_KERNEL(nll_loss_backward, const View& dx, const View& g, const View& target, const View& weight,
                const View& total, const NllOptions& options)
MANTISSA_KERNEL(mse_loss, const View& y, const View& a, const View& b, Reduction reduction)
}  // namespace mantissa

namespace mantissa::cuda_backend {
namespace {

int class_dim(const View& x) { return x.dim() > 1 ? 1 : 0; }

// Targets, class weights, and the handling of rows with an ignored or invalid label.
struct Labels {
  RowOperand target, weight;
  std::int64_t ignore;
  int classes;
  Note* note;

  // The label of row r, or -1 if the row does not count. One of the row's threads `reports` an invalid one.
  __device__ std::int64_t at(std::int64_t r, bool reports) const {
    const std::int64_t label = load_element<std::int64_t>(target.data, target.dtype, r);
    if (label == ignore) return -1;
    if (label >= 0 && label < classes) return label;
    if (reports) note_out_of_range(note, 1, label, classes, r);
    return -1;
  }
  template <class C> __device__ C weight_of(std::int64_t label) const {
    return label < 0 ? C(0) : weight.data ? load_element<C>(weight.data, weight.dtype, label) : C(1);
  }
};

// loss = (1 - s) * w[label] * (log_sum_exp - x[label]) + s / classes * sum(w *
// (log_sum_exp - x)), s the label smoothing.
template <class C, int width, int held>
__global__ void __launch_bounds__(most_row_threads)
    cross_entropy_rows(C* losses, C* weights, C* maxima, C* log_sums, RowOperand x, Labels labels, std::int64_t rows,
                       C smoothing) {
  wait_for_previous_kernel();
  __shared__ C scratch[32];
  const std::int64_t at = this_row();
  if (at >= rows) return;
  const int n = labels.classes;
  Row<C, width, held, 1> row({x}, at, n);
  const typename Row<C, width, held, 1>::Exponentials e = row.exponentials(scratch);
  const C largest = e.largest, log_sum = std::log(e.sum);
  C all = 0;
  if (smoothing > C(0)) {
    row.each([&](const Quads& j, const C (&v)[1][width]) {
      for (int k = 0; k < width; ++k) {
        const C cost = (largest - v[0][k]) + log_sum;
        all += labels.weight.data ? load_element<C>(labels.weight.data, labels.weight.dtype, j[k]) * cost : cost;
      }
    });
    all = blockDim.x == 32 ? fold_warp<Sum>(all) : fold_block<Sum>(all, scratch);
  }
  if (threadIdx.x != 0) return;
  const std::int64_t label = labels.at(at, true);
  const C w = labels.template weight_of<C>(label);
  C value = 0;
  if (label >= 0)
    value = (C(1) - smoothing) * w * ((largest - load_element<C>(x.data, x.dtype, at * n + label)) + log_sum) +
            smoothing / C(n) * all;
  losses[at] = value;
  weights[at] = w;
  maxima[at] = largest;
  log_sums[at] = log_sum;
}

template <class C> __global__ void nll_rows(C* losses, C* weights, RowOperand x, Labels labels, std::int64_t rows) {
  wait_for_previous_kernel();
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= rows) return;
  const std::int64_t label = load_element<std::int64_t>(labels.target.data, labels.target.dtype, at);
  const bool counts = label != labels.ignore, valid = label >= 0 && label < labels.classes;
  if (counts && !valid) note_out_of_range(labels.note, 1, label, labels.classes, at);
  const C w = counts && valid ? labels.template weight_of<C>(label) : C(0);
  losses[at] = counts && valid ? -w * load_element<C>(x.data, x.dtype, at * labels.classes + label) : C(0);
  weights[at] = w;
}

// Reduces the losses of all rows into the result: unchanged, summed, or divided by the sum of label weights. One block,
// so that the order of the sum is fixed.
template <class C>
__global__ void reduce_losses(RowOperand loss, C* total, const C* losses, const C* weights, std::int64_t rows,
                              Reduction reduction) {
  wait_for_previous_kernel();
  __shared__ C scratch[32];
  const auto sum_of = [&](const C* each) {
    return fold_block<Sum>(
        fold_apart<Sum, C>(threadIdx.x, rows, blockDim.x, [=](std::int64_t i) { return each[i]; }), scratch);
  };
  const C sum = sum_of(losses), weight = sum_of(weights);
  if (threadIdx.x != 0) return;
  *total = weight;
  if (reduction != Reduction::none)
    store_element(loss.data, loss.dtype, 0, reduction == Reduction::mean ? sum / weight : sum);
}

// Few classes and rows, as of a classifier's batch, not in f64: a thread for each row and one block for all of them, so
// that no other launch has to reduce the losses.
inline constexpr int most_small_classes = 32, most_small_rows = 512;
__global__ void __launch_bounds__(most_small_rows)
    cross_entropy_small(RowOperand loss, float* total, float* maxima, float* log_sums, RowOperand x, Labels labels,
                        int rows, float smoothing, Reduction reduction) {
  wait_for_previous_kernel();
  __shared__ float scratch[32];
  const int r = static_cast<int>(threadIdx.x), n = labels.classes;
  float value = 0, w = 0;
  if (r < rows) {
    const auto logit = [&](int j) { return load_element<float>(x.data, x.dtype, std::int64_t{r} * n + j); };
    float largest = logit(0), sum = 0, all = 0;
    for (int j = 1; j < n; ++j) largest = Max{}(largest, logit(j));
    for (int j = 0; j < n; ++j) sum += std::exp(logit(j) - largest);
    const float log_sum = std::log(sum);
    for (int j = 0; smoothing > 0 && j < n; ++j) {
      const float cost = (largest - logit(j)) + log_sum;
      all += labels.weight.data ? load_element<float>(labels.weight.data, labels.weight.dtype, j) * cost : cost;
    }
    const std::int64_t label = labels.at(r, true);
    w = labels.weight_of<float>(label);
    if (label >= 0)
      value = (1 - smoothing) * w * ((largest - logit(static_cast<int>(label))) + log_sum) +
              smoothing / static_cast<float>(n) * all;
    maxima[r] = largest;
    log_sums[r] = log_sum;
    if (reduction == Reduction::none) store_element(loss.data, loss.dtype, r, value);
  }
  const float losses = fold_block<Sum>(value, scratch), weights = fold_block<Sum>(w, scratch);
  if (threadIdx.x != 0) return;
  *total = weights;
  if (reduction != Reduction::none)
    store_element(loss.data, loss.dtype, 0, reduction == Reduction::mean ? losses / weights : losses);
}

// The factor of the gradient of row r's loss.
template <class C>
__device__ inline C row_gradient(const RowOperand& g, std::int64_t r, const C* total, Reduction reduction) {
  const C v = load_element<C>(g.data, g.dtype, reduction == Reduction::none ? r : 0);
  return reduction == Reduction::mean ? v / *total : v;
}

template <class C, int width>
__global__ void __launch_bounds__(most_row_threads)
    cross_entropy_backward_rows(RowOperand dx, RowOperand g, RowOperand x, Labels labels, const C* maxima,
                                const C* log_sums, const C* total, const C* all_weights, std::int64_t rows, C smoothing,
                                Reduction reduction, bool interleaves) {
  wait_for_previous_kernel();
  const std::int64_t at = this_row();
  if (at >= rows) return;
  const int n = labels.classes;
  const std::int64_t label = load_element<std::int64_t>(labels.target.data, labels.target.dtype, at);
  const bool counts = label != labels.ignore && label >= 0 && label < n;
  const C from_row = counts ? row_gradient(g, at, total, reduction) : C(0), share = smoothing / C(n);
  const C on_label = counts ? (C(1) - smoothing) * labels.template weight_of<C>(label) * from_row : C(0);
  const C on_softmax = on_label + share * (all_weights ? *all_weights : C(n)) * from_row, on_class = share * from_row;
  const C largest = maxima[at], log_sum = log_sums[at];
  Row<C, width, 0, 1> row({x}, at, {n, interleaves});
  const bool weighted = smoothing > C(0) && labels.weight.data;
  row.each([&](const Quads& j, const C (&v)[1][width]) {
    const int place = counts ? index_in_slot<width>(j, label) : -1;
    C out[width];
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const C w = weighted ? load_element<C>(labels.weight.data, labels.weight.dtype, j[k]) : C(1);
      out[k] = counts ? std::exp((v[0][k] - largest) - log_sum) * on_softmax - w * on_class : C(0);
      if (k == place) out[k] -= on_label;
    }
    store_slot(dx, row.start + j, out);
  });
}

template <class C> __global__ void sum_class_weights(C* sum, RowOperand weight, int classes) {
  wait_for_previous_kernel();
  __shared__ C scratch[32];
  C mine = 0;
  for (int i = static_cast<int>(threadIdx.x); i < classes; i += static_cast<int>(blockDim.x)) {
    mine += load_element<C>(weight.data, weight.dtype, i);
  }
  mine = fold_block<Sum>(mine, scratch);
  if (threadIdx.x == 0) *sum = mine;
}

template <class C>
__global__ void nll_backward_rows(RowOperand dx, RowOperand g, Labels labels, const C* total, std::int64_t rows,
                                  Reduction reduction) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, at = i / labels.classes;
  if (at >= rows) return;
  const std::int64_t label = load_element<std::int64_t>(labels.target.data, labels.target.dtype, at);
  const bool here = label != labels.ignore && label == i % labels.classes;
  store_element(dx.data, dx.dtype, i,
                here ? -labels.template weight_of<C>(label) * row_gradient(g, at, total, reduction) : C(0));
}

// --- mean squared error ---
constexpr int mse_blocks = 256;
template <class C> __global__ void mse_sums(C* partial, RowOperand a, RowOperand b, std::int64_t n) {
  wait_for_previous_kernel();
  __shared__ C scratch[32];
  C sum = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const C d = load_element<C>(a.data, a.dtype, i) - load_element<C>(b.data, b.dtype, i);
    sum += d * d;
  }
  sum = fold_block<Sum>(sum, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
template <class C> __global__ void mse_total(RowOperand y, const C* partial, C divisor) {
  wait_for_previous_kernel();
  __shared__ C scratch[32];
  const C sum = fold_block<Sum>(partial[threadIdx.x], scratch);
  if (threadIdx.x == 0) store_element(y.data, y.dtype, 0, sum / divisor);
}
template <class C> __global__ void mse_each(RowOperand y, RowOperand a, RowOperand b, std::int64_t n) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const C d = load_element<C>(a.data, a.dtype, i) - load_element<C>(b.data, b.dtype, i);
  store_element(y.data, y.dtype, i, d * d);
}

Labels labels_of(const View& target, const View& weight, std::int64_t ignore, std::int64_t classes) {
  check(classes <= longest_row, "a GPU can process at most ", longest_row, " classes, not ", classes);
  return {operand(target), operand(weight), ignore, static_cast<int>(classes), note()};
}
template <class C> C* data_of(const Tensor& t) { return static_cast<C*>(t.view().data); }

// `each` [rows]: the losses in the compute dtype, followed by the weights.
template <class C>
void finish_losses(const View& loss, const View& total, const Tensor& each, std::int64_t rows, Reduction reduction) {
  launch("reduce_losses", reduce_losses<C>, Grid{dim3(1), dim3(512)}, operand(loss), total.as<C>(), data_of<C>(each),
         data_of<C>(each) + rows, rows, reduction);
  if (reduction != Reduction::none) return;
  View losses = each.view();
  losses.sizes = loss.sizes;
  losses.strides = contiguous_strides(loss.sizes);
  copy(loss, losses);
}

}  // namespace

void cross_entropy(const View& loss, const View& largest, const View& log_sum, const View& total, const View& x,
                   const View& target, const View& weight, const CrossEntropyOptions& o) {
  const std::int64_t classes = x.sizes[class_dim(x)], rows = target.numel();
  const DenseInput in(moved_to_last(x, class_dim(x))), w(weight), label(target);
  if (classes <= most_small_classes && rows <= most_small_rows && rows > 0 && x.dtype != f64) {
    const DenseOutput out(loss);
    launch("cross_entropy", cross_entropy_small, grid_for_rows(1, rows), operand(out.view), total.as<float>(),
           largest.as<float>(), log_sum.as<float>(), operand(in.view),
           labels_of(label.view, w.view, o.ignore_index, classes), rows, o.label_smoothing, o.reduction);
    return out.finish();
  }
  const RowPlan plan = plan_rows(classes, {in.view}, compute_dtype(x.dtype));
  visit_rows(compute_dtype(x.dtype), plan, [&]<class C, int width, int held>() {
    const Tensor each = Tensor::allocate({2 * rows}, dtype_of<C>, x.device);
    launch("cross_entropy", cross_entropy_rows<C, width, held>, grid_of(plan, rows), data_of<C>(each),
           data_of<C>(each) + rows, largest.as<C>(), log_sum.as<C>(), operand(in.view),
           labels_of(label.view, w.view, o.ignore_index, classes), rows, o.label_smoothing);
    finish_losses<C>(loss, total, each, rows, o.reduction);
  });
}

// dx may be x: each element is read and written by the same thread only.
void cross_entropy_backward(const View& dx, const View& g, const View& x, const View& target, const View& weight,
                            const View& largest, const View& log_sum, const View& total, const CrossEntropyOptions& o) {
  const std::int64_t classes = x.sizes[class_dim(x)], rows = target.numel();
  const DenseInput in(moved_to_last(x, class_dim(x))), w(weight), label(target), grad(g), maxima(largest),
      log_sums(log_sum);
  const DenseOutput out(moved_to_last(dx, class_dim(x)));
  RowPlan plan = plan_rows(classes, {in.view, out.view}, compute_dtype(x.dtype));
  plan.fits = false;  // each element is read once, so nothing needs to be held
  visit_rows(compute_dtype(x.dtype), plan, [&]<class C, int width, int held>() {
    Tensor sum;
    const C* all_weights = nullptr;  // null: all weights are 1
    if (weight) {
      sum = Tensor::allocate({1}, dtype_of<C>, x.device);
      launch("sum_class_weights", sum_class_weights<C>, Grid{dim3(1), dim3(256)}, data_of<C>(sum), operand(w.view),
             classes);
      all_weights = data_of<C>(sum);
    }
    launch("cross_entropy_backward", cross_entropy_backward_rows<C, width>, grid_of(plan, rows), operand(out.view),
           operand(grad.view), operand(in.view), labels_of(label.view, w.view, o.ignore_index, classes),
           maxima.view.as<C>(), log_sums.view.as<C>(), total.as<C>(), all_weights, rows, o.label_smoothing,
           o.reduction, plan.interleaves);
  });
  out.finish();
}

void nll_loss(const View& loss, const View& total, const View& x, const View& target, const View& weight,
              const NllOptions& o) {
  const std::int64_t classes = x.sizes[class_dim(x)], rows = target.numel();
  const DenseInput in(moved_to_last(x, class_dim(x))), w(weight), label(target);
  visit_compute(x.dtype, [&]<class C>() {
    const Tensor each = Tensor::allocate({2 * rows}, dtype_of<C>, x.device);
    launch("nll_loss", nll_rows<C>, grid_for(rows), data_of<C>(each), data_of<C>(each) + rows, operand(in.view),
           labels_of(label.view, w.view, o.ignore_index, classes), rows);
    finish_losses<C>(loss, total, each, rows, o.reduction);
  });
}

void nll_loss_backward(const View& dx, const View& g, const View& target, const View& weight, const View& total,
                       const NllOptions& o) {
  const std::int64_t classes = dx.sizes[class_dim(dx)], rows = target.numel();
  const DenseInput w(weight), label(target), grad(g);
  const DenseOutput out(moved_to_last(dx, class_dim(dx)));
  visit_compute(dx.dtype, [&]<class C>() {
    launch("nll_loss_backward", nll_backward_rows<C>, grid_for(rows * classes), operand(out.view), operand(grad.view),
           labels_of(label.view, w.view, o.ignore_index, classes), total.as<C>(), rows, o.reduction);
  });
  out.finish();
}

void mse_loss(const View& y, const View& a, const View& b, Reduction reduction) {
  const DenseInput left(a), right(b);
  const std::int64_t n = a.numel();
  visit_compute(y.dtype, [&]<class C>() {
    if (reduction == Reduction::none) {
      const DenseOutput out(y);
      launch("mse_loss", mse_each<C>, grid_for(n), operand(out.view), operand(left.view), operand(right.view), n);
      out.finish();
      return;
    }
    const Tensor partial = Tensor::allocate({mse_blocks}, dtype_of<C>, y.device);
    launch("mse_loss", mse_sums<C>, Grid{dim3(mse_blocks), dim3(256)}, data_of<C>(partial), operand(left.view),
           operand(right.view), n);
    launch("mse_total", mse_total<C>, Grid{dim3(1), dim3(mse_blocks)}, operand(y), data_of<C>(partial),
           reduction == Reduction::mean ? n : 1);
  });
}

}  // namespace mantissa::cuda_backend
