#include "optim/schedules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numbers>
#include <span>
#include <utility>

#include "core/error.h"

namespace mantissa::optim {

double StepLR::lr_at(double base, std::int64_t step) const {
  check(step_size >= 1, "StepLR: step_size must be at least 1, got ", step_size);
  return base * std::pow(gamma, static_cast<double>(step / step_size));
}

double LinearLR::lr_at(double base, std::int64_t step) const {
  check(total_iters >= 1, "LinearLR: total_iters must be at least 1, got ", total_iters);
  const double part = step >= total_iters ? 1 : static_cast<double>(step) / static_cast<double>(total_iters);
  return base * (start_factor + (end_factor - start_factor) * part);
}

double MultiStepLR::lr_at(double base, std::int64_t step) const {
  const auto passed = std::ranges::count_if(milestones, [step](std::int64_t m) { return m <= step; });
  return base * std::pow(gamma, static_cast<double>(passed));
}

double ConstantLR::lr_at(double base, std::int64_t step) const {
  check(factor >= 0 && factor <= 1, "ConstantLR: factor must be in [0, 1], got ", factor);
  return step >= total_iters ? base : base * factor;
}

double ExponentialLR::lr_at(double base, std::int64_t step) const {
  return base * std::pow(gamma, static_cast<double>(step));
}

double PolynomialLR::lr_at(double base, std::int64_t step) const {
  check(total_iters >= 1, "PolynomialLR: total_iters must be at least 1, got ", total_iters);
  if (step >= total_iters) return 0;
  return base * std::pow(1 - static_cast<double>(step) / static_cast<double>(total_iters), power);
}

namespace {
double cosine_between(double base, double low, double part) {
  return low + (base - low) * (1 + std::cos(std::numbers::pi * part)) / 2;
}
}  // namespace

double CosineAnnealingLR::lr_at(double base, std::int64_t step) const {
  check(t_max >= 1, "CosineAnnealingLR: t_max must be at least 1, got ", t_max);
  return cosine_between(base, eta_min, static_cast<double>(step) / static_cast<double>(t_max));
}

namespace {

// Phases of the cycle that end at (fractional) step numbers; `at` interpolates between their end values.
struct Phase {
  double end, from, to;
};
double one_cycle(const OneCycleLR& s, std::int64_t step, double low, double high, double last) {
  check(s.total_steps >= 1, "OneCycleLR: total_steps must be at least 1, got ", s.total_steps);
  check(s.pct_start >= 0 && s.pct_start <= 1, "OneCycleLR: pct_start must be in [0, 1], got ", s.pct_start);
  check(step <= s.total_steps, "OneCycleLR: step ", step, " is beyond total_steps ", s.total_steps);
  const double total = static_cast<double>(s.total_steps), top = s.pct_start * total - 1;
  const Phase two[] = {{top, low, high}, {total - 1, high, last}};
  const Phase three[] = {{top, low, high}, {2 * s.pct_start * total - 2, high, low}, {total - 1, low, last}};
  const std::span<const Phase> phases = s.three_phase ? std::span<const Phase>(three) : std::span<const Phase>(two);
  double begin = 0;
  const auto now = static_cast<double>(std::min(step, s.total_steps - 1));
  for (const Phase& p : phases) {
    if (now > p.end && &p != &phases.back()) {
      begin = p.end;
      continue;
    }
    const double part = p.end == begin ? 1 : (now - begin) / (p.end - begin);
    if (s.linear) return p.from + (p.to - p.from) * part;
    return p.to + (p.from - p.to) / 2 * (1 + std::cos(std::numbers::pi * part));
  }
  return last;
}

}  // namespace

double OneCycleLR::lr_at(double, std::int64_t step) const {
  const double initial = max_lr / div_factor;
  return one_cycle(*this, step, initial, max_lr, initial / final_div_factor);
}
std::optional<double> OneCycleLR::momentum_at(std::int64_t step) const {
  if (!cycle_momentum) return {};
  return one_cycle(*this, step, max_momentum, base_momentum, max_momentum);
}

double CosineAnnealingWarmRestarts::lr_at(double base, std::int64_t step) const {
  check(t_0 >= 1, "CosineAnnealingWarmRestarts: t_0 must be at least 1, got ", t_0);
  check(t_mult >= 1, "CosineAnnealingWarmRestarts: t_mult must be at least 1, got ", t_mult);
  std::int64_t length = t_0, at = step;
  if (t_mult == 1) {
    at = step % t_0;
  } else {
    while (at >= length) {
      at -= length;
      length = length > std::numeric_limits<std::int64_t>::max() / t_mult ? std::numeric_limits<std::int64_t>::max()
                                                                          : length * t_mult;
    }
  }
  return cosine_between(base, eta_min, static_cast<double>(at) / static_cast<double>(length));
}

double LambdaLR::lr_at(double base, std::int64_t step) const {
  check(static_cast<bool>(lr_lambda), "LambdaLR: there is no function");
  return base * lr_lambda(step);
}

struct MultiplicativeLR::Product {
  std::function<double(std::int64_t)> factor;
  std::mutex mutex;
  std::int64_t step = 0;
  double value = 1;
};
MultiplicativeLR::MultiplicativeLR(std::function<double(std::int64_t)> lr_lambda)
    : product_(std::make_shared<Product>()) {
  check(static_cast<bool>(lr_lambda), "MultiplicativeLR: there is no function");
  product_->factor = std::move(lr_lambda);
}
double MultiplicativeLR::lr_at(double base, std::int64_t step) const {
  const std::lock_guard lock(product_->mutex);
  if (step < product_->step) {
    product_->step = 0;
    product_->value = 1;
  }
  while (product_->step < step) {
    const double factor = product_->factor(product_->step + 1);
    product_->value *= factor;
    ++product_->step;
  }
  return base * product_->value;
}

double CyclicLR::height_at(std::int64_t step) const {
  const std::int64_t down = step_size_down.value_or(step_size_up);
  check(step_size_up >= 1 && down >= 1, "CyclicLR: step_size_up and step_size_down must be at least 1, got ",
        step_size_up, " and ", down);
  const std::int64_t total = step_size_up + down, at = step % total;
  const auto cycle = static_cast<double>(1 + step / total);
  const double part = at <= step_size_up ? static_cast<double>(at) / static_cast<double>(step_size_up)
                                         : static_cast<double>(total - at) / static_cast<double>(down);
  if (scale_fn) return part * scale_fn(scale_by_iterations ? static_cast<double>(step) : cycle);
  switch (mode) {
    case Cycle::triangular2: return part / std::pow(2.0, cycle - 1);
    case Cycle::exp_range: return part * std::pow(gamma, static_cast<double>(step));
    default: return part;
  }
}
double CyclicLR::lr_at(double, std::int64_t step) const { return base_lr + (max_lr - base_lr) * height_at(step); }
std::optional<double> CyclicLR::momentum_at(std::int64_t step) const {
  if (!cycle_momentum) return {};
  return max_momentum - (max_momentum - base_momentum) * height_at(step);
}

double SWALR::lr_at(double base, std::int64_t step) const {
  check(anneal_epochs >= 0, "SWALR: anneal_epochs must not be negative, got ", anneal_epochs);
  const double part = step >= anneal_epochs ? 1 : static_cast<double>(step) / static_cast<double>(anneal_epochs);
  const double alpha = linear ? part : (1 - std::cos(std::numbers::pi * part)) / 2;
  return swa_lr * alpha + base * (1 - alpha);
}

}  // namespace mantissa::optim
