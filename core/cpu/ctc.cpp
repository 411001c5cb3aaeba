// Connectionist temporal classification: the forward and backward recursions over the target with blanks inserted
// between and around its labels, in log space, one sample after the other.
#include <cmath>
#include <limits>
#include <vector>

#include "core/cpu/rows.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
// log_probs [T, N, C], targets i64 [N, S], lengths i64 [N]; loss [N] and alpha [N, T, 2 S + 1] are results. Labels and
// lengths are valid; on a GPU invalid ones are errors that the next wait throws.
MANTISSA_KERNEL(ctc_loss, const View& loss, const View& alpha, const View& log_probs, const View& targets,
                const View& input_lengths, const View& target_lengths, std::int64_t blank)
MANTISSA_KERNEL(ctc_loss_backward, const View& dx, const View& g, const View& log_probs, const View& targets,
                const View& input_lengths, const View& target_lengths, const View& alpha, std::int64_t blank)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

template <class C> constexpr C nothing = -std::numeric_limits<C>::infinity();
template <class C> C add_logs(C a, C b) {
  if (!(a == a) || !(b == b)) return a + b;  // NaN
  const C high = std::max(a, b);
  if (high == nothing<C>) return high;
  return high + std::log1p(std::exp(std::min(a, b) - high));
}

// One sample: log-probabilities over time and the labels of the extended target, blank label blank label ... blank.
template <class C> struct Sequence {
  const C* log_probs;  // of this sample, time stride `step`
  std::int64_t step, length;
  const std::int64_t* target;
  std::int64_t target_step, target_length, blank;

  std::int64_t states() const { return 2 * target_length + 1; }
  std::int64_t label(std::int64_t s) const { return s % 2 ? target[s / 2 * target_step] : blank; }
  C at(std::int64_t t, std::int64_t s) const { return log_probs[t * step + label(s)]; }
  bool can_skip(std::int64_t s) const { return s >= 2 && s % 2 == 1 && label(s) != label(s - 2); }
};

// Negative log-probability of the whole target, from the last row of alpha.
template <class C> C loss_of(const Sequence<C>& q, const C* alpha, std::int64_t row) {
  if (q.length == 0) return q.target_length == 0 ? C(0) : -nothing<C>;
  const C* last = alpha + (q.length - 1) * row;
  return -(q.target_length == 0 ? last[0] : add_logs(last[q.states() - 1], last[q.states() - 2]));
}

template <class C> void forward(const Sequence<C>& q, C* alpha, std::int64_t row) {
  for (std::int64_t t = 0; t < q.length; ++t) {
    C* now = alpha + t * row;
    const C* before = now - row;
    for (std::int64_t s = 0; s < q.states(); ++s) {
      C from = t == 0 ? (s < 2 ? C(0) : nothing<C>) : before[s];
      if (t > 0 && s > 0) from = add_logs(from, before[s - 1]);
      if (t > 0 && q.can_skip(s)) from = add_logs(from, before[s - 2]);
      now[s] = from + q.at(t, s);
    }
  }
}

// d loss / d log_probs, times g, into dx (zeroed by the caller).
template <class C>
void backward(const Sequence<C>& q, const C* alpha, std::int64_t row, C g, std::int64_t classes, C* dx) {
  const C loss = loss_of(q, alpha, row);
  const std::int64_t states = q.states();
  std::vector<C> beta(static_cast<std::size_t>(states) * 2), by_label(static_cast<std::size_t>(classes));
  C *now = beta.data(), *after = now + states;
  for (std::int64_t t = q.length - 1; t >= 0; --t) {
    std::fill(by_label.begin(), by_label.end(), nothing<C>);
    for (std::int64_t s = 0; s < states; ++s) {
      C to = t == q.length - 1 ? (s + 2 >= states ? C(0) : nothing<C>) : after[s];
      if (t < q.length - 1 && s + 1 < states) to = add_logs(to, after[s + 1]);
      if (t < q.length - 1 && s + 2 < states && q.can_skip(s + 2)) to = add_logs(to, after[s + 2]);
      now[s] = to + q.at(t, s);
      C& sum = by_label[static_cast<std::size_t>(q.label(s))];
      sum = add_logs(sum, alpha[t * row + s] + to);
    }
    for (std::int64_t c = 0; c < classes; ++c) {
      const C sum = by_label[static_cast<std::size_t>(c)];
      if (sum != nothing<C> || loss == -nothing<C>) dx[t * q.step + c] = -std::exp(sum + loss) * g;
    }
    std::swap(now, after);
  }
}

template <class C>
Sequence<C> sequence(const View& x, const C* log_probs, const View& targets, const View& input_lengths,
                     const View& target_lengths, std::int64_t blank, std::int64_t n) {
  const auto row = [n](const View& v) { return v.as<const std::int64_t>() + n * v.strides[0]; };
  return {log_probs + n * x.size(2),
          x.size(1) * x.size(2),
          *row(input_lengths),
          row(targets),
          targets.strides[1],
          *row(target_lengths),
          blank};
}

}  // namespace

void ctc_loss(const View& loss, const View& alpha, const View& log_probs, const View& targets,
              const View& input_lengths, const View& target_lengths, std::int64_t blank) {
  visit_compute(log_probs.dtype, [&]<class C> {
    const Dense<C> x(log_probs);
    DenseResult<C> y(loss);
    const std::int64_t row = alpha.size(2);
    parallel_for(log_probs.size(1), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        C* a = alpha.as<C>() + n * alpha.size(1) * row;
        std::fill_n(a, alpha.size(1) * row, nothing<C>);
        const Sequence<C> q = sequence(log_probs, x.data(), targets, input_lengths, target_lengths, blank, n);
        forward(q, a, row);
        y.data()[n] = loss_of(q, a, row);
      }
    });
    y.finish();
  });
}
void ctc_loss_backward(const View& dx, const View& g, const View& log_probs, const View& targets,
                       const View& input_lengths, const View& target_lengths, const View& alpha, std::int64_t blank) {
  visit_compute(log_probs.dtype, [&]<class C> {
    const Dense<C> x(log_probs), gradient(g), a(alpha);
    DenseResult<C> y(dx);
    std::fill_n(y.data(), dx.numel(), C(0));
    const std::int64_t row = alpha.size(2), classes = dx.size(2);
    parallel_for(dx.size(1), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        if (gradient.data()[n] == 0) continue;  // also for an infinite loss that was replaced by 0
        backward(sequence(log_probs, x.data(), targets, input_lengths, target_lengths, blank, n),
                 a.data() + n * alpha.size(1) * row, row, gradient.data()[n], classes, y.data() + n * classes);
      }
    });
    y.finish();
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
