// Connectionist temporal classification: one block per sample iterates over time; its threads share the states of the
// extended target (blank label blank label ... blank). Mirrors core/cpu/ctc.cpp.
#include "core/kernel.h"
#include "cuda/noted_messages.h"
#include "cuda/rows.cuh"

namespace mantissa {
MANTISSA_KERNEL(ctc_loss, const View& loss, const View& alpha, const View& log_probs, const View& targets,
                const View& input_lengths, const View& target_lengths, std::int64_t blank)
MANTISSA_KERNEL(ctc_loss_backward, const View& dx, const View& g, const View& log_probs, const View& targets,
                const View& input_lengths, const View& target_lengths, const View& alpha, std::int64_t blank)
MANTISSA_KERNEL(fill, const View& y, double value)
}  // namespace mantissa

namespace mantissa::cuda_backend {
namespace {

template <class C> __device__ inline C nothing() { return -static_cast<C>(__builtin_huge_val()); }
template <class C> __device__ inline C add_logs(C a, C b) {
  if (!(a == a) || !(b == b)) return a + b;  // NaN
  const C high = a > b ? a : b, low = a > b ? b : a;
  if (high == nothing<C>()) return high;
  return high + std::log1p(std::exp(low - high));
}

// All samples of a batch; otherwise as Sequence in core/cpu/ctc.cpp.
struct Batch {
  RowOperand log_probs;                                          // [T, N, C]
  const std::int64_t *targets, *input_lengths, *target_lengths;  // [N, S], [N], [N]
  std::int64_t times, samples, classes, most_labels, blank;
  int wrong_input, wrong_target, wrong_label;  // numbers of messages
  Note* note;
};
template <class C> struct Sequence {
  const Batch& b;
  std::int64_t n, length, target_length;
  const std::int64_t* target;
  // For a whole block. What is invalid is noted, and counts as an empty sequence.
  __device__ Sequence(const Batch& batch, std::int64_t sample)
      : b(batch), n(sample), length(batch.input_lengths[sample]), target_length(batch.target_lengths[sample]),
        target(batch.targets + sample * batch.most_labels) {
    int wrong = length < 0 || length > b.times                       ? b.wrong_input
                : target_length < 0 || target_length > b.most_labels ? b.wrong_target
                                                                     : -1;
    for (std::int64_t s = threadIdx.x; wrong < 0 && s < target_length; s += blockDim.x)
      if (target[s] < 0 || target[s] >= b.classes) wrong = b.wrong_label;
    if (wrong >= 0) note_out_of_range(b.note, 4, wrong, b.samples, n);
    if (__syncthreads_or(wrong >= 0)) length = target_length = 0;
  }
  __device__ std::int64_t states() const { return 2 * target_length + 1; }
  __device__ std::int64_t label(std::int64_t s) const { return s % 2 ? target[s / 2] : b.blank; }
  __device__ C at(std::int64_t t, std::int64_t s) const {
    return load_element<C>(b.log_probs.data, b.log_probs.dtype, (t * b.samples + n) * b.classes + label(s));
  }
  __device__ bool can_skip(std::int64_t s) const { return s >= 2 && s % 2 == 1 && target[s / 2] != target[s / 2 - 1]; }
  __device__ C loss(const C* alpha, std::int64_t row) const {
    if (length == 0) return target_length == 0 ? C(0) : -nothing<C>();
    const C* last = alpha + (length - 1) * row;
    return -(target_length == 0 ? last[0] : add_logs(last[states() - 1], last[states() - 2]));
  }
};

template <class C>
__global__ void ctc_forward(RowOperand loss, C* alphas, Batch batch, std::int64_t times, std::int64_t row) {
  wait_for_previous_kernel();
  const Sequence<C> q(batch, blockIdx.x);
  C* alpha = alphas + q.n * times * row;
  for (std::int64_t i = threadIdx.x; i < times * row; i += blockDim.x) alpha[i] = nothing<C>();
  __syncthreads();
  for (std::int64_t t = 0; t < q.length; ++t) {
    C* now = alpha + t * row;
    const C* before = now - row;
    for (std::int64_t s = threadIdx.x; s < q.states(); s += blockDim.x) {
      C from = t == 0 ? (s < 2 ? C(0) : nothing<C>()) : before[s];
      if (t > 0 && s > 0) from = add_logs(from, before[s - 1]);
      if (t > 0 && q.can_skip(s)) from = add_logs(from, before[s - 2]);
      now[s] = from + q.at(t, s);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) store_element(loss.data, loss.dtype, q.n, q.loss(alpha, row));
}

// beta [N][2][row]: two rows of the backward recursion. dx is initially zero.
template <class C>
__global__ void ctc_backward(RowOperand dx, RowOperand g, const C* alphas, C* betas, Batch batch, std::int64_t times,
                             std::int64_t row) {
  wait_for_previous_kernel();
  const Sequence<C> q(batch, blockIdx.x);
  const C gradient = load_element<C>(g.data, g.dtype, q.n);
  if (gradient == C(0)) return;  // also for an infinite loss that was replaced by 0
  const C* alpha = alphas + q.n * times * row;
  const C loss = q.loss(alpha, row);
  const std::int64_t states = q.states();
  C *now = betas + q.n * 2 * row, *after = now + row;
  for (std::int64_t t = q.length - 1; t >= 0; --t) {
    for (std::int64_t s = threadIdx.x; s < states; s += blockDim.x) {
      C to = t == q.length - 1 ? (s + 2 >= states ? C(0) : nothing<C>()) : after[s];
      if (t < q.length - 1 && s + 1 < states) to = add_logs(to, after[s + 1]);
      if (t < q.length - 1 && s + 2 < states && q.can_skip(s + 2)) to = add_logs(to, after[s + 2]);
      now[s] = to;  // without the probability at t, as needed by alpha and by the next row
    }
    __syncthreads();
    // each class visits its states in order
    for (std::int64_t c = threadIdx.x; c < batch.classes; c += blockDim.x) {
      C sum = nothing<C>();
      for (std::int64_t s = 0; s < states; ++s) {
        if (q.label(s) == c) sum = add_logs(sum, alpha[t * row + s] + now[s]);
      }
      if (sum != nothing<C>() || loss == -nothing<C>()) {
        store_element(dx.data, dx.dtype, (t * batch.samples + q.n) * batch.classes + c,
                      static_cast<C>(-std::exp(sum + loss) * gradient));
      }
    }
    __syncthreads();
    for (std::int64_t s = threadIdx.x; s < states; s += blockDim.x) now[s] += q.at(t, s);
    __syncthreads();
    C* other = now;
    now = after;
    after = other;
  }
}

struct Lengths {
  DenseInput targets, inputs, of_targets;
  Batch batch(const View& log_probs, std::int64_t blank) const {
    const std::int64_t times = log_probs.size(0), classes = log_probs.size(2), most = targets.view.size(1);
    const auto numbered = [](const auto&... parts) { return number_of_message(concat("ctc_loss: ", parts...)); };
    return {operand(log_probs),
            targets.view.as<const std::int64_t>(),
            inputs.view.as<const std::int64_t>(),
            of_targets.view.as<const std::int64_t>(),
            times,
            log_probs.size(1),
            classes,
            most,
            blank,
            numbered("input_lengths: a length is not between 0 and ", times),
            numbered("target_lengths: a length is not between 0 and ", most),
            numbered("a target is not one of ", classes, " classes"),
            note()};
  }
};
Grid grid_of_samples(std::int64_t samples) { return {dim3(static_cast<unsigned>(samples)), dim3(128)}; }

}  // namespace

void ctc_loss(const View& loss, const View& alpha, const View& log_probs, const View& targets,
              const View& input_lengths, const View& target_lengths, std::int64_t blank) {
  const DenseInput x(log_probs);
  const Lengths lengths{DenseInput(targets), DenseInput(input_lengths), DenseInput(target_lengths)};
  const DenseOutput y(loss);
  visit_compute(log_probs.dtype, [&]<class C>() {
    launch("ctc_loss", &ctc_forward<C>, grid_of_samples(log_probs.size(1)), operand(y.view), alpha.as<C>(),
           lengths.batch(x.view, blank), alpha.size(1), alpha.size(2));
  });
  y.finish();
}
void ctc_loss_backward(const View& dx, const View& g, const View& log_probs, const View& targets,
                       const View& input_lengths, const View& target_lengths, const View& alpha, std::int64_t blank) {
  const DenseInput x(log_probs), gradient(g), a(alpha);
  const Lengths lengths{DenseInput(targets), DenseInput(input_lengths), DenseInput(target_lengths)};
  const DenseOutput y(dx);
  kernels::fill(dx.device, y.view, 0.0);
  visit_compute(log_probs.dtype, [&]<class C>() {
    const Tensor betas = Tensor::allocate({dx.size(1), 2, alpha.size(2)}, dtype_of<C>, dx.device);
    launch("ctc_loss_backward", &ctc_backward<C>, grid_of_samples(dx.size(1)), operand(y.view), operand(gradient.view),
           a.view.as<C>(), static_cast<C*>(betas.view().data), lengths.batch(x.view, blank), alpha.size(1),
           alpha.size(2));
  });
  y.finish();
}

}  // namespace mantissa::cuda_backend
