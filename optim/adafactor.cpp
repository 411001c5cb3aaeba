#include "optim/adafactor.h"

#include <cmath>
#include <limits>

#include "core/ops.h"

namespace mantissa::optim {
namespace {

namespace hyper {
enum : std::size_t { lr, beta2_decay, eps1, eps2, d, weight_decay, maximize };
}
constexpr const char* hyper_names[] = {"lr", "beta2_decay", "eps1", "eps2", "d", "weight_decay", "maximize"};
enum State : std::size_t { row_var, col_var, variance };  // variance for vectors, row_var and col_var for all others
constexpr const char* state_names[] = {"row_var", "col_var", "variance"};

double epsilon_of(Dtype dtype) {
  switch (dtype) {
    case f16: return 0x1p-10;
    case bf16: return 0x1p-7;
    case f64: return 0x1p-52;
    default: return 0x1p-23;
  }
}

Tensor at_least(const Tensor& x, double low) { return clamp(x, low, std::numeric_limits<double>::infinity()); }
Tensor root_mean_square(const Tensor& x) { return norm(x).to(f64) * (1 / std::sqrt(static_cast<double>(x.numel()))); }

}  // namespace

void Adafactor::add_group(Parameters parameters, const AdafactorOptions& o) {
  check(!memory().state_dtype, "Adafactor: its state is small and kept in the compute dtype; leave state_dtype out");
  check(o.lr >= 0, "Adafactor: lr must not be negative, got ", o.lr);
  check(o.beta2_decay <= 0, "Adafactor: beta2_decay must not be positive, got ", o.beta2_decay);
  check(o.eps1.value_or(0) >= 0, "Adafactor: eps1 must not be negative, got ", o.eps1.value_or(0));
  check(o.eps2 >= 0, "Adafactor: eps2 must not be negative, got ", o.eps2);
  check(o.d >= 1, "Adafactor: d must be at least 1, got ", o.d);
  check(o.weight_decay >= 0, "Adafactor: weight_decay must not be negative, got ", o.weight_decay);
  Group g;
  g.hyper_names = hyper_names;
  g.state_names = state_names;
  g.hyper_values = {o.lr, o.beta2_decay, o.eps1.value_or(-1), o.eps2, o.d, o.weight_decay, o.maximize ? 1.0 : 0.0};
  g.parameters = std::move(parameters.tensors);
  g.names = std::move(parameters.names);
  Optimizer::add_group(std::move(g));
}

std::optional<Dims> Adafactor::state_sizes(const Tensor& p, std::size_t k) const {
  if ((k == variance) != (p.dim() < 2)) return {};
  Dims sizes = p.sizes();
  if (k == row_var) sizes[sizes.rank() - 1] = 1;
  if (k == col_var) sizes[sizes.rank() - 2] = 1;
  return sizes;
}

void Adafactor::update(Group& group, std::size_t i, const Tensor& raw_gradient, const Keep& keep) {
  if (raw_gradient.numel() == 0) return;
  const std::vector<double>& h = group.hyper_values;
  const Tensor gradient = h[hyper::maximize] != 0 ? -raw_gradient : raw_gradient;
  const Dtype dtype = gradient.dtype();
  const Tensor p = group.value(i).detach(), value = p.to(dtype);
  const double least = h[hyper::eps1] >= 0 ? h[hyper::eps1] : epsilon_of(p.dtype());
  const Tensor step = group.step_at(i).to(f64), rate = group.hyper_at(hyper::lr);
  const Tensor fresh = pow(step, group.hyper_at(hyper::beta2_decay)).to(dtype);
  auto& state = group.state[i];

  Tensor estimate;  // of the second moment
  const auto average = [&](std::size_t k, const Tensor& squares) {
    const Tensor next = lerp(state[k], squares, fresh);
    state[k].copy_(keep(state[k], next));
    return next;
  };
  if (p.dim() < 2) {
    estimate = average(variance, square(gradient));
  } else {
    const Tensor squares = square(gradient);
    const Tensor rows = average(row_var, mean(squares, {-1}, true)),
                 columns = average(col_var, mean(squares, {-2}, true));
    estimate = rows * columns / at_least(mean(rows, {-2}, true), least);
  }
  const Tensor direction = gradient * rsqrt(at_least(estimate, least * least));
  const Tensor relative = minimum(rate, pow(step, -0.5));
  const Tensor length = at_least(root_mean_square(value), h[hyper::eps2]) * relative;
  const Tensor clipped = at_least(root_mean_square(direction) * (1 / h[hyper::d]), 1);
  const Tensor shrink = (1 - rate * group.hyper_at(hyper::weight_decay)).to(dtype);
  const Tensor next = value * shrink - direction * (length / clipped).to(dtype);
  write_value(group, i, keep(p, next));
}

}  // namespace mantissa::optim
