#include "amp/grad_scaler.h"

#include "autograd/grad_mode.h"
#include "core/multi_tensor.h"
#include "core/ops.h"

namespace mantissa::amp {
namespace {

// The options with other values, checked.
GradScalerOptions with(GradScalerOptions o, double scale, double growth, double backoff, std::int64_t interval) {
  o.init_scale = scale;
  o.growth_factor = growth;
  o.backoff_factor = backoff;
  o.growth_interval = interval;
  if (o.enabled) check_options(o, "GradScaler");
  return o;
}
ScaleRule rule_of(const GradScalerOptions& o) {
  return {.growth = o.growth_factor, .backoff = o.backoff_factor, .min = o.min_scale, .max = o.max_scale,
          .interval = o.growth_interval, .hysteresis = o.hysteresis,
          .clean_forgives = o.hysteresis_mode == Hysteresis::consecutive, .tolerance = o.tolerance, .fixed = o.static_scale};
}
Tensor copy_of(const Tensor& t) { return t.defined() ? empty_like(t).copy_(t) : Tensor(); }

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  if (options.enabled) check_options(options, "GradScaler");
}

GradScaler::GradScaler(const GradScaler& other)
    : options_(other.options_), init_counters_(other.init_counters_), seen_(other.seen_), names_(other.names_),
      floor_function_(other.floor_function_), floor_told_(other.floor_told_) {
  other.between_iterations("copied");
  scale_ = copy_of(other.scale_);
  state_ = copy_of(other.state_);
}

void GradScaler::between_iterations(const char* what) const {
  check(entries_.empty(), "GradScaler: cannot be ", what, " in the middle of an iteration; call update() first");
}

void GradScaler::start(Device device) {
  scale_ = scalar(options_.init_scale, {.device = device});
  static_assert(sizeof(ScalerState) % sizeof(std::int64_t) == 0);
  state_ = zeros({static_cast<std::int64_t>(sizeof(ScalerState) / sizeof(std::int64_t))}, {.dtype = i64, .device = device});
  set_counters(init_counters_);
}

ScalerState* GradScaler::device_state() const { return reinterpret_cast<ScalerState*>(state_.data<std::int64_t>()); }

Tensor GradScaler::scale(const Tensor& loss) {
  if (!options_.enabled) return loss;
  check(loss.defined() && loss.is_floating(), "GradScaler.scale: needs a floating tensor, got ", loss);
  check(loss.dtype() != f16 || !loss.requires_grad() || options_.max_scale <= 65504,
        "GradScaler.scale: the loss is f16, whose gradient cannot be as large as the scale; compute it from f32, as the losses of "
        "this library do in a region, or set max_scale to 32768");
  if (!scale_.defined()) start(loss.device());
  check(loss.device() == scale_.device(), "GradScaler.scale: the loss is on ", loss.device(), ", the scaler on ",
        scale_.device());
  if (options_.check_loss) {
    const NoGrad no_grad;
    const Tensor x = loss.detach();
    const Tensor failed = ne(sum(sub(x, x)), Tensor(0.0));  // x - x is 0 for every finite x and NaN otherwise
    forward_failed_ = forward_failed_.defined() ? maximum(forward_failed_, failed) : failed;
  }
  // A copy: autograd saves the factor, and update() changes scale_ in place.
  return mul(loss, copy_of(scale_));
}

void GradScaler::need_scale(const char* method) const {
  check(scale_.defined(), "GradScaler.", method, ": nothing was scaled yet; call scale(loss) and backward first");
}

GradScaler::PerOptimizer& GradScaler::entry_for(Steppable& optimizer) {
  for (PerOptimizer& e : entries_) {
    if (e.optimizer == &optimizer) return e;
  }
  return entries_.emplace_back(PerOptimizer{.optimizer = &optimizer});
}

void GradScaler::unscale(PerOptimizer& entry) {
  Tensor found_inf = zeros({}, {.dtype = boolean, .device = scale_.device()});
  if (forward_failed_.defined()) found_inf.copy_(forward_failed_);
  auto pass = std::make_unique<GradientPass>(*entry.optimizer, scale_, found_inf, options_.allow_f16_gradients);
  check(!pass->empty() || options_.allow_empty_step, "GradScaler: optimizer ", index_of(entry),
        " of this iteration has no gradients, so nothing was checked for inf; was backward called on a loss that "
        "uses its parameters?");
  entry.found_inf = found_inf;
  entry.summary = pass->summary();
  entry.pass = std::move(pass);
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
  if (e.stage == Stage::ready) {
    unscale(e);
  } else if (options_.recheck) {
    e.summary = GradientPass(optimizer, ones({}, {.device = scale_.device()}), e.found_inf, options_.allow_f16_gradients).summary();
  }
  e.pass.reset();  // the gradients belong to the user again
  optimizer.step_unless(e.found_inf);
  e.stage = Stage::stepped;
  return StepResult(e.found_inf, e.summary);
}

void GradScaler::update() {
  if (!options_.enabled) return;
  need_scale("update");
  std::vector<Verdict> verdicts;
  for (const PerOptimizer& e : entries_) {
    if (!e.found_inf.defined()) continue;
    verdicts.push_back({e.found_inf.data<bool>(), reinterpret_cast<const GradientSummary*>(e.summary.data<double>()),
                        names_of(*e.optimizer)});
  }
  check(!verdicts.empty(), "GradScaler.update: no step() or unscale_() since the last update()");
  kernels::update_loss_scale(scale_.device(), scale_.data<float>(), device_state(), std::span<const Verdict>(verdicts),
                             forward_failed_.defined() ? forward_failed_.data<bool>() : nullptr, rule_of(options_));
  scale_.storage()->written_by("update");
  forward_failed_ = {};
  entries_.clear();
  seen_.request(state_);
  tell_floor();
}

void GradScaler::tell_floor() {
  const ScaleCounters& c = seen_.latest().counters;
  if (c.at_floor < options_.floor_limit) {
    floor_told_ = false;
    return;
  }
  if (options_.at_floor == AtFloor::raise) {
    throw ScaleAtFloor(concat("GradScaler.update: ", c.at_floor, " overflows in a row at the smallest scale, ", options_.min_scale,
                              "; the gradients are inf or NaN for another reason than the scale. Look at overflows()"));
  }
  if (options_.at_floor != AtFloor::callback || floor_told_ || !floor_function_) return;
  floor_told_ = true;
  (*floor_function_)({.scale = options_.min_scale, .overflows = c.at_floor, .update = c.updates});
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  need_scale("update");
  with(options_, new_scale, options_.growth_factor, options_.backoff_factor, options_.growth_interval);
  scale_.fill_(new_scale);
  forward_failed_ = {};
  entries_.clear();
}

void GradScaler::update(const Tensor& new_scale) {
  if (!options_.enabled) return;
  need_scale("update");
  check(new_scale.defined() && new_scale.numel() == 1 && new_scale.is_floating() && !new_scale.requires_grad(),
        "GradScaler.update: the new scale must be a floating tensor of one element without gradient, got ", new_scale);
  with(options_, new_scale.item<double>(), options_.growth_factor, options_.backoff_factor, options_.growth_interval);
  const Dims ones = Dims::filled(new_scale.dim(), 1);
  scale_.as_strided(ones, ones).copy_(new_scale);
  forward_failed_ = {};
  entries_.clear();
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  return scale_.defined() ? scale_.item<double>() : options_.init_scale;
}
void GradScaler::set_growth_factor(double factor) {
  options_ = with(options_, options_.init_scale, factor, options_.backoff_factor, options_.growth_interval);
}
void GradScaler::set_backoff_factor(double factor) {
  options_ = with(options_, options_.init_scale, options_.growth_factor, factor, options_.growth_interval);
}
void GradScaler::set_growth_interval(std::int64_t interval) {
  options_ = with(options_, options_.init_scale, options_.growth_factor, options_.backoff_factor, interval);
}

}  // namespace mantissa::amp
