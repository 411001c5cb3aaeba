#include "amp/grad_scaler.h"

#include <cmath>
#include <limits>

#include "autograd/grad_mode.h"
#include "core/multi_tensor.h"
#include "core/ops.h"

namespace mantissa::amp {
namespace {

void check_growth(double f) {
  check(f > 1 && std::isfinite(f), "GradScaler: growth_factor must be above 1 and finite, got ", f);
}
void check_backoff(double f) {
  check(f > 0 && f < 1, "GradScaler: backoff_factor must be between 0 and 1, got ", f);
}
void check_interval(std::int64_t n) {
  check(n >= 1 && n <= std::numeric_limits<std::int32_t>::max(),
        "GradScaler: growth_interval must be at least 1 and fit 32 bits, got ", n);
}
void check_scale(double s) {
  const float stored = static_cast<float>(s);
  check(stored > 0 && std::isfinite(stored), "GradScaler: the scale must be positive and finite in f32, got ", s);
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  if (!options.enabled) return;
  check_scale(options.init_scale);
  check_growth(options.growth_factor);
  check_backoff(options.backoff_factor);
  check_interval(options.growth_interval);
}

GradScaler::GradScaler(const GradScaler& other) : options_(other.options_), init_tracker_(other.init_tracker_) {
  other.between_iterations("copied");
  if (!other.scale_.defined()) return;
  scale_ = empty_like(other.scale_).copy_(other.scale_);
  growth_tracker_ = empty_like(other.growth_tracker_).copy_(other.growth_tracker_);
}

void GradScaler::between_iterations(const char* what) const {
  check(entries_.empty(), "GradScaler: cannot be ", what, " in the middle of an iteration; call update() first");
}

Tensor GradScaler::scale(const Tensor& loss) {
  if (!options_.enabled) return loss;
  check(loss.defined() && loss.is_floating(), "GradScaler.scale: needs a floating tensor, got ", loss);
  if (!scale_.defined()) {
    scale_ = scalar(options_.init_scale, {.device = loss.device()});
    growth_tracker_ = scalar(init_tracker_, {.dtype = i32, .device = loss.device()});
  }
  check(loss.device() == scale_.device(), "GradScaler.scale: the loss is on ", loss.device(), ", the scaler on ",
        scale_.device());
  // A copy: autograd saves the factor, and update() changes scale_ in place.
  const Tensor factor = empty_like(scale_).copy_(scale_);
  return mul(loss, factor);
}

void GradScaler::need_scale(const char* method) const {
  check(scale_.defined(), "GradScaler.", method, ": nothing was scaled yet; call scale(loss) and backward first");
}

GradScaler::PerOptimizer& GradScaler::entry_for(Steppable& optimizer) {
  for (PerOptimizer& e : entries_) {
    if (e.optimizer == &optimizer) return e;
  }
  return entries_.emplace_back(PerOptimizer{&optimizer});
}

void GradScaler::unscale(PerOptimizer& entry) {
  const NoGrad no_grad;
  const std::vector<Tensor> parameters = entry.optimizer->parameters();
  std::vector<GradientView> views;
  std::vector<std::pair<Tensor, Tensor>> strided;  // gradient, dense copy
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Tensor g = parameters[i].grad();
    if (!g.defined()) continue;
    if (g.dtype() == f16 && !options_.allow_f16_gradients) {
      fail("GradScaler.unscale_: the gradient of ", entry.optimizer->parameter_name(i),
           " is f16: keep parameters in f32 and use autocast, or set allow_f16_gradients");
    }
    if (!(g.device() == scale_.device())) {
      fail("GradScaler.unscale_: the gradient of ", entry.optimizer->parameter_name(i), " is on ", g.device(), ", the scaler on ",
           scale_.device());
    }
    if (!g.is_contiguous()) {
      strided.emplace_back(g, empty_like(g).copy_(g));
      g = strided.back().second;
    }
    g.storage()->written_by("unscale_");
    views.push_back({g.raw_data(), g.numel(), g.dtype()});
  }
  check(!views.empty() || options_.allow_empty_step, "GradScaler: optimizer ", index_of(entry),
        " of this iteration has no gradients, so nothing was checked for inf; was backward called on a loss that "
        "uses its parameters?");
  entry.found_inf = zeros({}, {.dtype = boolean, .device = scale_.device()});
  kernels::unscale_gradients(scale_.device(), std::span<const GradientView>(views), scale_.data<float>(),
                             entry.found_inf.data<bool>());
  for (auto& [gradient, dense] : strided) gradient.copy_(dense);
}

void GradScaler::unscale_(Steppable& optimizer) {
  if (!options_.enabled) return;
  need_scale("unscale_");
  PerOptimizer& e = entry_for(optimizer);
  check(e.stage != Stage::unscaled, "GradScaler.unscale_: already called on optimizer ", index_of(e),
        " since the last update()");
  check(e.stage != Stage::stepped, "GradScaler.unscale_: called after step() on optimizer ", index_of(e),
        "; call it between backward and step");
  unscale(e);
  e.stage = Stage::unscaled;
}

StepResult GradScaler::step(Steppable& optimizer) {
  if (!options_.enabled) {
    optimizer.step_unless({});
    return StepResult();
  }
  need_scale("step");
  PerOptimizer& e = entry_for(optimizer);
  check(e.stage != Stage::stepped, "GradScaler.step: already called on optimizer ", index_of(e), " since the last update()");
  if (e.stage == Stage::ready) unscale(e);
  optimizer.step_unless(e.found_inf);
  e.stage = Stage::stepped;
  return StepResult(e.found_inf);
}

void GradScaler::update() {
  if (!options_.enabled) return;
  need_scale("update");
  std::vector<const bool*> verdicts;
  for (const PerOptimizer& e : entries_) {
    if (e.found_inf.defined()) verdicts.push_back(e.found_inf.data<bool>());
  }
  check(!verdicts.empty(), "GradScaler.update: no step() or unscale_() since the last update()");
  kernels::update_loss_scale(scale_.device(), scale_.data<float>(), growth_tracker_.data<std::int32_t>(),
                             std::span<const bool* const>(verdicts), options_.growth_factor, options_.backoff_factor,
                             options_.growth_interval);
  scale_.storage()->written_by("update");
  entries_.clear();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  need_scale("update");
  check_scale(new_scale);
  scale_.fill_(new_scale);
  entries_.clear();
}

void GradScaler::update(const Tensor& new_scale) {
  if (!options_.enabled) return;
  need_scale("update");
  check(new_scale.defined() && new_scale.numel() == 1 && new_scale.is_floating() && !new_scale.requires_grad(),
        "GradScaler.update: the new scale must be a floating tensor of one element without gradient, got ", new_scale);
  check_scale(new_scale.item<double>());
  const Dims ones = Dims::filled(new_scale.dim(), 1);
  scale_.as_strided(ones, ones).copy_(new_scale);
  entries_.clear();
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  return scale_.defined() ? scale_.item<double>() : options_.init_scale;
}
void GradScaler::set_growth_factor(double factor) {
  check_growth(factor);
  options_.growth_factor = factor;
}
void GradScaler::set_backoff_factor(double factor) {
  check_backoff(factor);
  options_.backoff_factor = factor;
}
void GradScaler::set_growth_interval(std::int64_t interval) {
  check_interval(interval);
  options_.growth_interval = interval;
}

std::vector<std::pair<std::string, Tensor>> GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  between_iterations("saved");
  const double tracker = growth_tracker_.defined() ? growth_tracker_.item<double>() : init_tracker_;
  return {{"scale", scalar(get_scale(), {.dtype = f64})},
          {"growth_factor", scalar(options_.growth_factor, {.dtype = f64})},
          {"backoff_factor", scalar(options_.backoff_factor, {.dtype = f64})},
          {"growth_interval", scalar(static_cast<double>(options_.growth_interval), {.dtype = i64})},
          {"_growth_tracker", scalar(tracker, {.dtype = i64})}};
}

void GradScaler::load_state_dict(const std::vector<std::pair<std::string, Tensor>>& state) {
  if (!options_.enabled) return;
  check(!state.empty(), "GradScaler.load_state_dict: the state is empty: was it saved from a disabled scaler? Construct "
        "this one disabled too");
  between_iterations("loaded");
  constexpr int keys = 5;
  const char* names[keys] = {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"};
  double values[keys];
  for (int k = 0; k < keys; ++k) {
    const Tensor* found = nullptr;
    for (const auto& [name, t] : state) if (name == names[k]) found = &t;
    check(found && found->defined() && found->numel() == 1, "GradScaler.load_state_dict: needs \"", names[k], "\", a number");
    values[k] = found->item<double>();
  }
  check(state.size() == keys, "GradScaler.load_state_dict: expected 5 entries, found ", static_cast<unsigned long>(state.size()),
        "; was it saved by a later version?");
  check_scale(values[0]);
  check_growth(values[1]);
  check_backoff(values[2]);
  check(values[3] >= 1 && values[3] < 0x1p31 && values[3] == std::floor(values[3]),
        "GradScaler.load_state_dict: growth_interval must be a whole number from 1 on, got ", values[3]);
  check(values[4] >= 0 && values[4] < 0x1p31 && values[4] == std::floor(values[4]),
        "GradScaler.load_state_dict: _growth_tracker must be a whole number from 0 on, got ", values[4]);
  options_.init_scale = values[0];
  options_.growth_factor = values[1];
  options_.backoff_factor = values[2];
  options_.growth_interval = static_cast<std::int64_t>(values[3]);
  init_tracker_ = static_cast<std::int32_t>(values[4]);
  if (!scale_.defined()) return;
  scale_.fill_(values[0]);
  growth_tracker_.fill_(values[4]);
}

}  // namespace mantissa::amp
