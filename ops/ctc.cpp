// The CTC loss (Graves et al., 2006). Its gradient is the exact one with respect to log_probs: PyTorch's differs by a
// term that vanishes in the log_softmax before it. On a GPU labels and lengths are looked at by the kernel. Next:
// core/cpu/ctc.cpp.
#include <algorithm>

#include "autograd/backward.h"
#include "core/ops.h"
#include "core/recording.h"
#include "ops/apply.h"
#include "ops/registry.h"

namespace mantissa {

using Lengths = std::vector<std::int64_t>;
MANTISSA_KERNEL(ctc_loss, const View& loss, const View& alpha, const View& log_probs, const View& targets,
                const View& input_lengths, const View& target_lengths, std::int64_t blank)
MANTISSA_KERNEL(ctc_loss_backward, const View& dx, const View& g, const View& log_probs, const View& targets,
                const View& input_lengths, const View& target_lengths, const View& alpha, std::int64_t blank)

namespace {

struct Lattice {  // what the operator and its gradient share
  std::int64_t blank = 0;

  void check_inputs(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                    const Tensor& target_lengths) const {
    check(log_probs.dim() == 3, "log_probs must be [T, N, C], or [T, C] without a batch");
    check(log_probs.is_floating(), "log_probs need a floating dtype");
    const std::int64_t batch = log_probs.size(1), classes = log_probs.size(2);
    check(targets.dtype() == i64 && targets.dim() == 2 && targets.size(0) == batch, "targets must be i64 [", batch,
          ", S] or one after the other");
    check(blank >= 0 && blank < classes, "blank ", blank, " is not one of ", classes, " classes");
    const auto check_lengths = [&](const Tensor& lengths, const char* what) {
      check(lengths.dtype() == i64 && lengths.sizes() == Dims{batch}, what, " must have one length for each of ", batch,
            " samples, found ", lengths.numel());
    };
    check_lengths(input_lengths, "input_lengths");
    check_lengths(target_lengths, "target_lengths");
  }
  // On the CPU. Labels beyond a target's length are padding and may have any value.
  static void check_values(const View& x, const View& targets, const View& input_lengths, const View& target_lengths) {
    if (!x.device.is_cpu()) return;
    const auto length_of = [](const View& lengths, std::int64_t n, const char* what, std::int64_t most) {
      const std::int64_t length = lengths.as<const std::int64_t>()[n * lengths.strides[0]];
      check(length >= 0 && length <= most, what, ": a length of ", length, " is not between 0 and ", most);
      return length;
    };
    for (std::int64_t n = 0; n < x.size(1); ++n) {
      (void)length_of(input_lengths, n, "input_lengths", x.size(0));
      const std::int64_t count = length_of(target_lengths, n, "target_lengths", targets.size(1));
      for (std::int64_t s = 0; s < count; ++s) {
        const std::int64_t label = targets.as<const std::int64_t>()[n * targets.strides[0] + s * targets.strides[1]];
        check(label >= 0 && label < x.size(2), "the target ", label, " of sample ", n, " is not one of ", x.size(2),
              " classes");
      }
    }
  }
  // Stands for log(0), to keep gradients from becoming NaN.
  static constexpr double none = -1e30;

  // The recursion composed of operators, [N]. Every sample needs at least one time step.
  Tensor by_operators(const Tensor& given, const Tensor& targets, const Tensor& of_inputs,
                      const Tensor& of_targets) const {
    const Lengths input_lengths = of_inputs.to_vector<std::int64_t>(),
                  target_lengths = of_targets.to_vector<std::int64_t>();
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
  static constexpr const char* args[] = {"gradient",      "log_probs",      "targets",
                                         "input_lengths", "target_lengths", "alpha"};
  static constexpr std::uint64_t constants = 0b100000;  // alpha is derived from log_probs

  Spec infer(const Tensor& g, const Tensor& x, const Tensor& targets, const Tensor& input_lengths,
             const Tensor& target_lengths, const Tensor& alpha) const {
    check_inputs(x, targets, input_lengths, target_lengths);
    check_sizes(g, "gradient", {x.size(1)});
    check_sizes(alpha, "alpha", {x.size(1), x.size(0), 2 * targets.size(1) + 1});
    return like(x);
  }
  void run(const View& dx, const View& g, const View& x, const View& targets, const View& input_lengths,
           const View& target_lengths, const View& alpha) const {
    check_values(x, targets, input_lengths, target_lengths);
    kernels::ctc_loss_backward(dx.device, dx, g, x, targets, input_lengths, target_lengths, alpha, blank);
  }
  static Tensor reference(const CtcLossBackward& op, const Tensor& g, const Tensor& x, const Tensor& targets,
                          const Tensor& input_lengths, const Tensor& target_lengths, const Tensor&) {
    Tensor log_probs = x;
    if (!log_probs.requires_grad()) log_probs = x.detach().requires_grad_();
    const Tensor roots[] = {op.by_operators(log_probs, targets, input_lengths, target_lengths)}, inputs[] = {log_probs},
                 gradients[] = {g};
    return grad(roots, inputs, gradients, {.create_graph = true})[0];
  }
  static void samples(Samples& s);
};

struct CtcLoss : Lattice {
  static constexpr auto name = "ctc_loss";
  static constexpr const char* args[] = {"log_probs", "targets", "input_lengths", "target_lengths"};
  static constexpr auto autocast = CastPolicy::f32;

  std::array<Spec, 2> infer(const Tensor& x, const Tensor& targets, const Tensor& input_lengths,
                            const Tensor& target_lengths) const {
    check_inputs(x, targets, input_lengths, target_lengths);
    return {like(x, Dims{x.size(1)}),
            Spec{{x.size(1), x.size(0), 2 * targets.size(1) + 1}, compute_dtype(x.dtype()), x.device()}};
  }
  void run(const std::array<View, 2>& y, const View& x, const View& targets, const View& input_lengths,
           const View& target_lengths) const {
    check_values(x, targets, input_lengths, target_lengths);
    kernels::ctc_loss(x.device, y[0], y[1], x, targets, input_lengths, target_lengths, blank);
  }
  static constexpr auto vjp() {
    return rules([](const CtcLoss& op, Grad g, In<0> x, In<1> targets, In<2> inputs, In<3> lengths,
                    Out<1> alpha) { return apply(CtcLossBackward{op}, g, x, targets, inputs, lengths, alpha); },
                 no_gradient, no_gradient, no_gradient);
  }
  static void samples(Samples& s);
};

// --- samples ---
Tensor sample_targets() { return tensor({{2, 2}, {1, -7}, {-1, -1}}); }
const auto sample_lengths = [] { return std::array{tensor({5, 4, 5}), tensor({2, 1, 0})}; };

void CtcLoss::samples(Samples& s) {
  const auto add = [&](const Tensor& x, const Tensor& targets, const std::array<Tensor, 2>& lengths,
                       std::int64_t blank) {
    const CtcLoss op{blank};
    s.call(
        {x, targets, lengths[0], lengths[1]},
        [op](const Tensors& in) { return apply(op, in[0], in[1], in[2], in[3])[0]; },
        [op](const Tensors& in) { return op.by_operators(in[0], in[1], in[2], in[3]); });
  };
  add(log_softmax(s.randn({5, 3, 4}), 2), sample_targets(), sample_lengths(), 0);
  add(s.randn({5, 3, 4}), sample_targets(), sample_lengths(), 0);  // does not rely on a log_softmax before it
  add(log_softmax(s.randn({7, 1, 3}), 2), tensor({{0, 1, 0}}), {tensor({7}), tensor({3})}, 2);
  const auto refuse = [&](const Tensor& x, const Tensor& targets, const std::array<Tensor, 2>& lengths,
                          std::int64_t blank, const char* fragment) {
    s.error({x, targets, lengths[0], lengths[1]}, CtcLoss{blank}, fragment);
  };
  const std::array<Tensor, 2> lengths = sample_lengths();
  refuse(s.randn({5, 4}), sample_targets(), lengths, 0, "log_probs must be [T, N, C]");
  refuse(s.randn({5, 3, 4}), tensor({{1, 2}}), lengths, 0, "targets must be i64 [3, S]");
  refuse(s.randn({5, 3, 4}), sample_targets(), lengths, 4, "blank 4 is not one of 4 classes");
  refuse(s.randn({5, 3, 4}), sample_targets(), {tensor({5, 5}), lengths[1]}, 0, "one length for each of 3 samples");
  refuse(s.randn({5, 3, 4}), sample_targets(), {tensor({5, 6, 5}), lengths[1]}, 0, "is not between 0 and 5");
  refuse(s.randn({5, 3, 4}), sample_targets(), {lengths[0], tensor({2, 3, 0})}, 0, "is not between 0 and 2");
  refuse(s.randn({5, 3, 2}), sample_targets(), lengths, 0, "is not one of 2 classes");
}
void CtcLossBackward::samples(Samples& s) {
  const Tensor x = log_softmax(s.randn({5, 3, 4}), 2), targets = sample_targets();
  const auto [inputs, lengths] = sample_lengths();
  const auto y = apply(CtcLoss{}, x, targets, inputs, lengths);
  s.call({s.randn({3}), x, targets, inputs, lengths, y[1]}, [](const Tensors& in) {
    const auto forward = apply(CtcLoss{}, in[1].detach(), in[2], in[3], in[4]);  // differences change log_probs
    return Tensors{apply(CtcLossBackward{}, in[0], in[1], in[2], in[3], in[4], forward[1])};
  });
}

MANTISSA_OP(CtcLoss)
MANTISSA_OP(CtcLossBackward)

// Concatenated targets as [N, S]; waits for a GPU.
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
  if (targets.dim() == 1)
    check_may_read("ctc_loss", x, "targets one after the other are put into rows on the host, unlike targets [N, S]");
  const Tensor rows = targets.dim() == 1 ? padded(targets, target_lengths.to_vector<std::int64_t>()) : targets;
  const auto on_device = [&](const Tensor& lengths) { return cast(flatten(lengths).to(x.device()), i64); };
  const Tensor lengths = on_device(target_lengths);
  Tensor loss = apply(CtcLoss{o.blank}, x, rows, on_device(input_lengths), lengths)[0];
  if (o.zero_infinity) loss = where(isinf(loss), Tensor(0.0), loss);
  if (o.reduction == Reduction::sum) return sum(loss);
  if (o.reduction == Reduction::none) return batched ? loss : squeeze(loss, 0);
  return mean(loss / cast(clamp_min(lengths, 1), loss.dtype()));
}

}  // namespace mantissa
