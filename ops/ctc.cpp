// The CTC loss (Graves et al., 2006). Targets are reshaped to [N, S] and lengths copied to the host before the
// operator, whose gradient is the exact one with respect to log_probs: PyTorch's differs by a term that vanishes in the
// log_softmax before it. Next: core/cpu/ctc.cpp.
#include <algorithm>

#include "autograd/backward.h"
#include "core/ops.h"
#include "ops/apply.h"
#include "ops/registry.h"

namespace mantissa {

using Lengths = std::vector<std::int64_t>;
MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(ctc_loss, const View& loss, const View& alpha, const View& log_probs, const View& targets,
                std::span<const std::int64_t> input_lengths, std::span<const std::int64_t> target_lengths,
                std::int64_t blank)
MANTISSA_KERNEL(ctc_loss_backward, const View& dx, const View& g, const View& log_probs, const View& targets,
                const View& alpha, std::span<const std::int64_t> input_lengths,
                std::span<const std::int64_t> target_lengths, std::int64_t blank)

namespace {

struct Lattice {  // attributes of the operator and its gradient
  Lengths input_lengths, target_lengths;
  std::int64_t blank = 0;

  void check_inputs(const Tensor& log_probs, const Tensor& targets) const {
    check(log_probs.dim() == 3, "log_probs must be [T, N, C], or [T, C] without a batch");
    check(log_probs.is_floating(), "log_probs need a floating dtype");
    const std::int64_t steps = log_probs.size(0), batch = log_probs.size(1), classes = log_probs.size(2);
    check(targets.dtype() == i64 && targets.dim() == 2 && targets.size(0) == batch, "targets must be i64 [", batch,
          ", S] or one after the other");
    check(blank >= 0 && blank < classes, "blank ", blank, " is not one of ", classes, " classes");
    const auto check_lengths = [&](const Lengths& lengths, const char* what, std::int64_t most) {
      check(static_cast<std::int64_t>(lengths.size()) == batch, what, " must have one length for each of ", batch,
            " samples, found ", lengths.size());
      for (std::int64_t n : lengths)
        check(n >= 0 && n <= most, what, ": a length of ", n, " is not between 0 and ", most);
    };
    check_lengths(input_lengths, "input_lengths", steps);
    check_lengths(target_lengths, "target_lengths", targets.size(1));
  }
  // Labels beyond a target's length are padding and may have any value.
  void check_labels(const View& given, std::int64_t classes) const {
    Tensor here;  // labels are few, and the lengths are on the host anyway
    View targets = given;
    if (!given.device.is_cpu()) {
      here = Tensor::allocate(given.sizes, given.dtype);
      kernels::copy(given.device, here.view(), given);
      targets = here.view();
    }
    for (std::int64_t n = 0; n < targets.size(0); ++n) {
      for (std::int64_t s = 0; s < target_lengths[static_cast<std::size_t>(n)]; ++s) {
        const std::int64_t label = targets.as<const std::int64_t>()[n * targets.size(1) + s];
        check(label >= 0 && label < classes, "the target ", label, " of sample ", n, " is not one of ", classes,
              " classes");
      }
    }
  }
  // Stands for log(0), to keep gradients from becoming NaN.
  static constexpr double none = -1e30;

  // The recursion composed of operators, [N]. Every sample needs at least one time step.
  Tensor by_operators(const Tensor& given, const Tensor& targets) const {
    const Tensor x = is_half(given.dtype()) ? cast(given, f32) : given;
    const std::int64_t steps = x.size(0), batch = x.size(1), states = 2 * targets.size(1) + 1;
    Lengths labels, skips;
    const Lengths t = targets.to_vector<std::int64_t>();
    for (std::int64_t n = 0; n < batch; ++n) {
      const auto label = [&](std::int64_t s) { return t[static_cast<std::size_t>(n * targets.size(1) + s / 2)]; };
      for (std::int64_t s = 0; s < states; ++s) {
        const bool used = s % 2 == 1 && s / 2 < target_lengths[static_cast<std::size_t>(n)];
        labels.push_back(used ? label(s) : blank);
        skips.push_back(used && s >= 3 && label(s) != label(s - 2));
      }
    }
    const Tensor emission = gather(
        x, 2, expand(from_data<std::int64_t>(labels, {1, batch, states}).to(x.device()), {steps, batch, states}));
    const Tensor skip = from_data<std::int64_t>(skips, {batch, states}).to(x.device()) != 0;
    const Tensor first = arange(states, {.dtype = i64, .device = x.device()}) < 2;
    std::vector<Tensor> alpha{where(first, emission[0], Tensor(none))};
    for (std::int64_t i = 1; i < steps; ++i) {
      const Tensor& before = alpha.back();
      const auto moved = [&](std::int64_t by) {
        return slice(pad(before, {by, 0}, "constant", none), 1, 0, states);
      };
      const Tensor ways = stack({before, moved(1), where(skip, moved(2), Tensor(none))});
      alpha.push_back(logsumexp(ways, {0}) + emission[i]);
    }
    for (std::int64_t length : input_lengths)
      check(length >= 1, "second derivatives need at least one time step of every sample");
    std::vector<Tensor> losses;
    for (std::int64_t n = 0; n < batch; ++n) {
      const auto i = static_cast<std::size_t>(n);
      const std::int64_t last = 2 * target_lengths[i];
      losses.push_back(-logsumexp(slice(alpha[static_cast<std::size_t>(input_lengths[i] - 1)][n], 0,
                                        std::max<std::int64_t>(last - 1, 0), last + 1)));
    }
    return cast(stack(losses), given.dtype());
  }
};

struct CtcLossBackward : Lattice {
  static constexpr auto name = "ctc_loss_backward";
  static constexpr const char* args[] = {"gradient", "log_probs", "targets", "alpha"};
  static constexpr std::uint64_t constants = 0b1000;  // alpha is derived from log_probs

  Spec infer(const Tensor& g, const Tensor& x, const Tensor& targets, const Tensor& alpha) const {
    check_inputs(x, targets);
    check_sizes(g, "gradient", {x.size(1)});
    check_sizes(alpha, "alpha", {x.size(1), x.size(0), 2 * targets.size(1) + 1});
    return like(x);
  }
  void run(const View& dx, const View& g, const View& x, const View& targets, const View& alpha) const {
    check_labels(targets, x.size(2));
    kernels::ctc_loss_backward(dx.device, dx, g, x, targets, alpha, std::span<const std::int64_t>(input_lengths),
                               std::span<const std::int64_t>(target_lengths), blank);
  }
  static Tensor reference(const CtcLossBackward& op, const Tensor& g, const Tensor& x, const Tensor& targets,
                          const Tensor&) {
    Tensor log_probs = x;
    if (!log_probs.requires_grad()) log_probs = x.detach().requires_grad_();
    const Tensor roots[] = {op.by_operators(log_probs, targets)}, inputs[] = {log_probs}, gradients[] = {g};
    return grad(roots, inputs, gradients, {.create_graph = true})[0];
  }
  static void samples(Samples& s);
};

struct CtcLoss : Lattice {
  static constexpr auto name = "ctc_loss";
  static constexpr const char* args[] = {"log_probs", "targets"};
  static constexpr auto autocast = CastPolicy::f32;

  std::array<Spec, 2> infer(const Tensor& x, const Tensor& targets) const {
    check_inputs(x, targets);
    return {like(x, Dims{x.size(1)}),
            Spec{{x.size(1), x.size(0), 2 * targets.size(1) + 1}, compute_dtype(x.dtype()), x.device()}};
  }
  void run(const std::array<View, 2>& y, const View& x, const View& targets) const {
    check_labels(targets, x.size(2));
    kernels::ctc_loss(x.device, y[0], y[1], x, targets, std::span<const std::int64_t>(input_lengths),
                      std::span<const std::int64_t>(target_lengths), blank);
  }
  static constexpr auto vjp() {
    return rules([](const CtcLoss& op, Grad g, In<0> x, In<1> targets, Out<1> alpha) {
      return apply(CtcLossBackward{op}, g, x, targets, alpha);
    }, no_gradient);
  }
  static void samples(Samples& s);
};

// --- samples ---
const Lattice lattice{{5, 4, 5}, {2, 1, 0}, 0};
Tensor sample_targets() { return tensor({{2, 2}, {1, -7}, {-1, -1}}); }

void CtcLoss::samples(Samples& s) {
  const auto call = [](const Lattice& l) {
    return [l](const Tensors& x) { return apply(CtcLoss{l}, x[0], contiguous(x[1]))[0]; };
  };
  const auto reference = [](const Lattice& l) { return [l](const Tensors& x) { return l.by_operators(x[0], x[1]); }; };
  const auto add = [&](const Tensor& x, const Tensor& targets, const Lattice& l) {
    s.call({x, targets}, call(l), reference(l));
  };
  add(log_softmax(s.randn({5, 3, 4}), 2), sample_targets(), lattice);
  add(s.randn({5, 3, 4}), sample_targets(), lattice);  // the gradient does not rely on a log_softmax before it
  add(log_softmax(s.randn({7, 1, 3}), 2), tensor({{0, 1, 0}}), {{7}, {3}, 2});
  const auto refuse = [&](const Tensor& x, const Tensor& targets, const Lattice& l, const char* fragment) {
    s.error({x, targets}, CtcLoss{l}, fragment);
  };
  refuse(s.randn({5, 4}), sample_targets(), lattice, "log_probs must be [T, N, C]");
  refuse(s.randn({5, 3, 4}), tensor({{1, 2}}), lattice, "targets must be i64 [3, S]");
  refuse(s.randn({5, 3, 4}), sample_targets(), {{5, 5, 5}, {2, 1, 0}, 4}, "blank 4 is not one of 4 classes");
  refuse(s.randn({5, 3, 4}), sample_targets(), {{5, 5}, {2, 1, 0}, 0}, "one length for each of 3 samples");
  refuse(s.randn({5, 3, 4}), sample_targets(), {{5, 6, 5}, {2, 1, 0}, 0},
         "input_lengths: a length of 6 is not between 0 and 5");
  refuse(s.randn({5, 3, 4}), sample_targets(), {{5, 5, 5}, {2, 3, 0}, 0},
         "target_lengths: a length of 3 is not between 0 and 2");
  refuse(s.randn({5, 3, 2}), sample_targets(), lattice, "the target 2 of sample 0 is not one of 2 classes");
}
void CtcLossBackward::samples(Samples& s) {
  const Tensor x = log_softmax(s.randn({5, 3, 4}), 2), targets = sample_targets();
  const auto y = apply(CtcLoss{lattice}, x, targets);
  s.call({s.randn({3}), x, targets, y[1]}, [](const Tensors& in) {
    const auto forward = apply(CtcLoss{lattice}, in[1].detach(), contiguous(in[2]));  // differences change log_probs
    return Tensors{apply(CtcLossBackward{lattice}, in[0], in[1], contiguous(in[2]), forward[1])};
  });
}

MANTISSA_OP(CtcLoss)
MANTISSA_OP(CtcLossBackward)

// Concatenated targets as [N, S].
Tensor padded(const Tensor& targets, const Lengths& lengths) {
  std::int64_t longest = 0, total = 0;
  for (std::int64_t n : lengths) {
    check(n >= 0, "ctc_loss: target_lengths must not be negative, found ", n);
    longest = std::max(longest, n);
    total += n;
  }
  check(targets.dtype() == i64 && targets.numel() == total, "ctc_loss: targets ", targets,
        " must be i64 and as long as all target_lengths, ", total);
  const Lengths flat = targets.to_vector<std::int64_t>();
  Lengths rows(lengths.size() * static_cast<std::size_t>(longest), 0);
  auto from = flat.begin();
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    std::copy_n(from, lengths[n], rows.begin() + static_cast<std::ptrdiff_t>(n) * longest);
    from += lengths[n];
  }
  return from_data<std::int64_t>(rows, {static_cast<std::int64_t>(lengths.size()), longest}).to(targets.device());
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, CtcOptions o) {
  check(!is_floating(input_lengths.dtype()) && !is_floating(target_lengths.dtype()),
        "ctc_loss: lengths must be integers, got ", input_lengths, " and ", target_lengths);
  const bool batched = log_probs.dim() != 2;
  const Tensor x = batched ? log_probs : unsqueeze(log_probs, 1);
  const Lattice l{input_lengths.to_vector<std::int64_t>(), target_lengths.to_vector<std::int64_t>(), o.blank};
  const Tensor rows = targets.dim() == 1 ? padded(targets, l.target_lengths) : contiguous(targets);
  Tensor loss = apply(CtcLoss{l}, x, rows)[0];
  if (o.zero_infinity) loss = where(isinf(loss), Tensor(0.0), loss);
  if (o.reduction == Reduction::sum) return sum(loss);
  if (o.reduction == Reduction::none) return batched ? loss : squeeze(loss, 0);
  const Tensor lengths = clamp(from_data<std::int64_t>(l.target_lengths, loss.sizes()).to(loss.device()), 1, 1e9);
  return mean(loss / cast(lengths, loss.dtype()));
}

}  // namespace mantissa
