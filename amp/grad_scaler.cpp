#include "amp/grad_scaler.h"

#include <algorithm>
#include <cstddef>

#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "autograd/leaf_watch.h"
#include "core/multi_tensor.h"
#include "core/ops.h"
#include "core/profile.h"
#include "core/recorded_memory.h"
#include "core/recording.h"
#include "core/shared_one.h"

namespace mantissa::amp {
namespace {

// The options with new values, validated.
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
          .clean_forgives = o.hysteresis_mode == Hysteresis::consecutive, .tolerance = o.tolerance,
          .fixed = o.static_scale};
}
Tensor copy_of(const Tensor& t) { return t.defined() ? empty_like(t).copy_(t) : Tensor(); }
Tensor on(const Tensor& t, Device device) {
  return t.device() == device ? t : empty(t.sizes(), {.dtype = t.dtype(), .device = device}).copy_(t);
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  if (options.enabled) check_options(options, "GradScaler");
}

GradScaler::GradScaler(const GradScaler& other) {
  const std::scoped_lock lock(other.stepping_, other.mutex_);
  other.between_iterations("copied");
  options_ = other.options_;
  init_counters_ = other.init_counters_;
  seen_ = other.seen_;
  names_ = other.names_;
  floor_function_ = other.floor_function_;
  floor_told_ = other.floor_told_;
  scale_ = copy_of(other.scale_);
  state_ = copy_of(other.state_);
}

void GradScaler::between_iterations(const char* what) const {
  const auto begun = std::ranges::find_if(entries_, [](const PerOptimizer& e) { return e.stage != Stage::ready; });
  if (begun == entries_.end()) return;
  const PerOptimizer& e = *begun;
  fail("GradScaler: cannot be ", what, " in the middle of an iteration: ", describe(e), " was ",
       e.stage == Stage::stepped ? "stepped at " : "unscaled at ",
       to_string(e.stage == Stage::stepped ? e.stepped_at : e.unscaled_at),
       "; call update() first");
}

void GradScaler::start(Device device) {
  scale_ = scalar(options_.init_scale, {.device = device});
  static_assert(sizeof(ScalerState) % sizeof(std::int64_t) == 0);
  state_ =
      zeros({static_cast<std::int64_t>(sizeof(ScalerState) / sizeof(std::int64_t))}, {.dtype = i64, .device = device});
  set_counters(init_counters_);
}

ScalerState* GradScaler::device_state() const { return reinterpret_cast<ScalerState*>(state_.data<std::int64_t>()); }

void GradScaler::check_loss(const Tensor& loss) const {
  check(loss.defined() && loss.is_floating(), "GradScaler.scale: needs a floating tensor, got ", loss);
  check(
      loss.dtype() != f16 || !loss.requires_grad() || options_.max_scale <= 65504,
      "GradScaler.scale: the loss is f16, whose gradient cannot be as large as the scale; compute it from f32, as the "
      "losses of this library do in a region, or set max_scale to 32768");
}

ScaledLoss GradScaler::scale(const Tensor& loss, CallSite site) {
  if (!options_.enabled) return {loss, loss.defined() ? loss.detach() : loss};
  check_loss(loss);
  return scale(loss, pin(loss.device(), site));
}

GradScaler::Pin GradScaler::pin(Device device, CallSite site) {
  if (!options_.enabled) return {};
  const std::lock_guard lock(mutex_);
  if (!scale_.defined()) start(device);
  // A copy: autograd saves the factor, and update() changes scale_ in place.
  const Tensor copy = ledger_.scaled_loss(scale_, site);
  return {copy, ledger_.scaled_tag()};
}

ScaledLoss GradScaler::scale(const Tensor& loss, const Pin& pin) {
  if (!options_.enabled) return {loss, loss.defined() ? loss.detach() : loss};
  check_loss(loss);
  check(pin.scale.defined(), "GradScaler.scale: the pin was never taken; call pin()");
  check(loss.device().type == pin.scale.device().type, "GradScaler.scale: the loss is on ", loss.device(),
        ", the scaler on ", pin.scale.device(), "; use one scaler for each type of device");
  if (options_.check_loss) {
    const NoGrad no_grad;
    const Tensor x = loss.detach();
    // x - x is 0 for every finite x, otherwise NaN
    const Tensor failed = on(ne(sum(sub(x, x)), Tensor(0.0)), pin.scale.device());
    const std::lock_guard lock(mutex_);
    forward_failed_ = forward_failed_.defined() ? maximum(forward_failed_, failed) : failed;
  }
  // In f32 even for many losses: in f16, 65536 times anything above 1 overflows.
  const Tensor scaled = mul(is_half(loss.dtype()) ? cast(loss, f32) : loss, on(pin.scale, loss.device()));
  if (scaled.requires_grad()) scaled.on_grad([tag = pin.tag](const Tensor&) { autograd::tag_running_backward(tag); });
  return {scaled, loss.detach()};
}

void GradScaler::need_scale(const char* method, const CallSite& site) const {
  if (!scale_.defined()) {
    fail("GradScaler.", method, ": nothing was scaled yet, at ", to_string(site),
         "; call scale(loss) and backward first");
  }
}

GradScaler::PerOptimizer& GradScaler::entry_for(const char* method, Steppable& optimizer, const CallSite& site) {
  const std::lock_guard lock(mutex_);
  need_scale(method, site);
  for (PerOptimizer& e : entries_) {
    if (e.optimizer != &optimizer) continue;
    if (e.stage == Stage::ready) e.captured = autograd::is_in_captured_step();
    else check_is_in_one_place(e, method, site);
    return e;
  }
  return entries_.emplace_back(PerOptimizer{.optimizer = &optimizer,
                                            .number = names_of(optimizer, optimizer.parameters()),
                                            .captured = autograd::is_in_captured_step()});
}

// A replay repeats what the device did, not the calls that this class takes note of.
void GradScaler::check_is_in_one_place(const PerOptimizer& e, const char* method, const CallSite& site) const {
  if (e.captured == autograd::is_in_captured_step()) return;
  const bool stepped = e.stage == Stage::stepped;
  fail("GradScaler.", method, ": ", stepped ? "step() at " : "unscale_() at ",
       to_string(stepped ? e.stepped_at : e.unscaled_at), " is ", e.captured ? "part" : "not part",
       " of a captured step, but ", method, "() at ", to_string(site), e.captured ? " is not" : " is",
       "; put unscale_, step and update all into the captured step, or all outside of it");
}

// Makes one pass per device and scale of the gradients; nearly always a single one. With `write` false, a single pass
// whose gradients have no other handles only reads. Strong exception guarantee.
void GradScaler::unscale(PerOptimizer& e, bool write, const CallSite& site) {
  const ProfileRange range(ProfileKind::library, "scaler: unscale and check", &scale_);
  const NoGrad no_grad;
  struct Group {
    Device device;
    Tensor scale;
    std::vector<NumberedGradient> gradients;
  };
  std::vector<Group> groups;
  std::unique_lock lock(mutex_);
  const std::vector<Tensor> parameters = e.optimizer->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    if (!p.requires_grad() || !p.is_leaf()) continue;
    write = write || !autograd::holds_gradient_alone(p);
    const Tensor g = p.grad();
    if (!g.defined()) continue;
    const auto name = [&] { return e.optimizer->parameter_name(i); };
    if (g.dtype() == f16 && !options_.allow_f16_gradients) {
      fail("GradScaler: the gradient of ", name(), " of ", describe(e),
           " is f16: keep parameters in f32 and use autocast, or set allow_f16_gradients");
    }
    if (g.device().type != scale_.device().type) {
      fail("GradScaler: the gradient of ", name(), " of ", describe(e), " is on ", g.device(), ", the scaler on ",
           scale_.device());
    }
    const Tensor own = ledger_.scale_of(p, *e.optimizer, i);
    const Tensor& scale = own.defined() ? own : scale_;
    auto group =
        std::ranges::find_if(groups, [&](const Group& x) { return x.device == g.device() && x.scale.is_same(scale); });
    if (group == groups.end()) group = groups.insert(groups.end(), Group{g.device(), scale, {}});
    group->gradients.push_back({g, static_cast<std::int64_t>(i)});
  }
  if (groups.empty() && !options_.allow_empty_step) {
    fail("GradScaler: ", describe(e), " has no gradients at ", to_string(site),
         ", so nothing was checked for inf; was backward called on a loss that uses its parameters?");
  }
  e.found_inf = forward_failed_;
  lock.unlock();  // scale_ cannot change: only update() writes it, in this thread or waiting for it
  if (groups.empty()) groups.push_back({scale_.device(), scale_, {}});
  for (const Group& group : groups) {
    const bool here = group.device == scale_.device(), first = !e.found_inf.defined();
    e.passes.push_back(std::make_unique<GradientPass>(group.gradients, on(group.scale, group.device),
                                                      write || groups.size() > 1, here ? e.found_inf : Tensor()));
    const Tensor found_inf = on(e.passes.back()->found_inf(), scale_.device());
    e.found_inf = here || first ? found_inf : maximum(e.found_inf, found_inf);
    e.summaries.push_back(on(e.passes.back()->summary(), scale_.device()));
    e.scales.push_back(on(group.scale, scale_.device()));
    const std::lock_guard again(mutex_);
    for (const NumberedGradient& g : group.gradients)
      ledger_.unscaled(parameters[static_cast<std::size_t>(g.parameter)], site);
  }
  e.unscaled_at = site;
  e.stage = Stage::unscaled;
}

// Checks again gradients that may have been modified since unscale_.
void GradScaler::check_again(PerOptimizer& e) {
  const ProfileRange range(ProfileKind::library, "scaler: check again", &scale_);
  const std::vector<Tensor> parameters = e.optimizer->parameters();
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < parameters.size(); ++i) ledger_.check_still_unscaled(parameters[i], *e.optimizer, i);
  }
  if (!options_.recheck) return;
  std::vector<std::vector<NumberedGradient>> by_device;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor g = parameters[i].grad();
    if (!g.defined()) continue;
    auto list = std::ranges::find_if(by_device, [&](const auto& x) { return x[0].gradient.device() == g.device(); });
    if (list == by_device.end()) list = by_device.insert(by_device.end(), std::vector<NumberedGradient>{});
    list->push_back({g, static_cast<std::int64_t>(i)});
  }
  e.summaries.clear();
  const std::vector<Tensor> scales = std::exchange(e.scales, {});
  for (const auto& gradients : by_device) {
    const Device device = gradients[0].gradient.device();
    const GradientPass pass(gradients, shared_one(device, f32));
    e.found_inf = maximum(e.found_inf, on(pass.found_inf(), scale_.device()));
    e.summaries.push_back(on(pass.summary(), scale_.device()));
    e.scales.push_back(scales[0]);
  }
}

void GradScaler::unscale_(Steppable& optimizer, CallSite site) {
  if (!options_.enabled) return;
  const std::lock_guard lock(stepping_);
  PerOptimizer& e = entry_for("unscale_", optimizer, site);
  if (e.stage == Stage::unscaled) {
    fail("GradScaler.unscale_: already called on ", describe(e), " at ", to_string(e.unscaled_at),
         " since the last update(), and again at ", to_string(site),
         "; call it once, after the last backward of the iteration");
  }
  if (e.stage == Stage::stepped) {
    fail("GradScaler.unscale_: called after step() on ", describe(e), ": step at ", to_string(e.stepped_at),
         ", unscale_ at ", to_string(site), "; call it between backward and step");
  }
  unscale(e, true, site);
}

StepResult GradScaler::step(Steppable& optimizer, CallSite site) { return run_step(optimizer, nullptr, site); }
StepResult GradScaler::step(Steppable& optimizer, const ClipNorm& clip, CallSite site) {
  check(clip.max_norm >= 0, "GradScaler.step: max_norm must not be negative, got ", clip.max_norm);
  return run_step(optimizer, &clip, site);
}

// The scaling and clipping left to the optimizer's update; clips gradients that were already written.
ReadScaling GradScaler::finish_scaling(PerOptimizer& e, const ClipNorm* clip) {
  const NoGrad no_grad;
  const bool wrote = e.passes[0]->wrote();
  ReadScaling left;
  if (!wrote) {  // a copy if it is scale_ itself, which update() will change
    const Tensor& scale = e.passes[0]->scale();
    left.scale = scale.is_same(scale_) ? copy_of(scale) : scale;
  }
  if (!clip) return left;
  const Tensor norm = e.passes.size() > 1 ? joint_norm(e.summaries) : e.passes[0]->norm();
  if (!wrote) {
    left.norm = on(norm, e.passes[0]->scale().device());
    left.max_norm = clip->max_norm;
    return left;
  }
  for (const auto& pass : e.passes) pass->clip(on(norm, pass->scale().device()), clip->max_norm);
  return left;
}

// The clipped step of a disabled scaler: scale 1, never skipped.
StepResult GradScaler::clipped_step(Steppable& optimizer, const ClipNorm& clip) {
  const NoGrad no_grad;
  std::vector<NumberedGradient> gradients;
  bool write = !optimizer.scales_while_reading();
  const std::vector<Tensor> parameters = optimizer.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].requires_grad() || !parameters[i].is_leaf()) continue;
    write = write || !autograd::holds_gradient_alone(parameters[i]);
    const Tensor g = parameters[i].grad();
    if (!g.defined()) continue;
    check(gradients.empty() || gradients[0].gradient.device() == g.device(), "GradScaler.step: clips gradients on ",
          gradients.empty() ? cpu : gradients[0].gradient.device(), " and ", g.device(),
          "; a disabled scaler clips on one device, use optim::clip_grads_with_norm_ for several");
    gradients.push_back({g, static_cast<std::int64_t>(i)});
  }
  if (gradients.empty()) {
    optimizer.step_unless({});
    return StepResult();
  }
  const Device device = gradients[0].gradient.device();
  GradientPass pass(gradients, shared_one(device, f32), write);
  gradients.clear();
  const ReadScaling scaling{pass.scale(), pass.norm(), clip.max_norm};
  if (write) {
    pass.clip(pass.norm(), clip.max_norm);
    optimizer.step_unless({});
  } else {
    optimizer.step_scaled({}, scaling);
    for (const Tensor& p : parameters) {
      if (p.grad().defined())
        autograd::leave_pending(p, {scaling.scale, scaling.norm, scaling.max_norm, is_recording(device)});
    }
  }
  return StepResult({}, {pass.summary()});
}

StepResult GradScaler::run_step(Steppable& optimizer, const ClipNorm* clip, const CallSite& site) {
  if (!options_.enabled) {
    if (clip) return clipped_step(optimizer, *clip);
    optimizer.step_unless({});
    return StepResult();
  }
  const std::lock_guard lock(stepping_);
  PerOptimizer& e = entry_for("step", optimizer, site);
  if (e.stage == Stage::stepped) {
    fail("GradScaler.step: already called on ", describe(e), " at ", to_string(e.stepped_at),
         " since the last update(), and again at ", to_string(site),
         "; call update() once per iteration, after all steps");
  }
  if (clip && e.stage == Stage::unscaled) {
    fail("GradScaler.step: ", describe(e), " was unscaled at ", to_string(e.unscaled_at),
         "; clip with optim::clip_grad_norm_ then, or let step do both");
  }
  ReadScaling scaling;
  if (e.stage == Stage::ready) {
    unscale(e, !optimizer.scales_while_reading(), site);
    scaling = finish_scaling(e, clip);
  } else {
    check_again(e);
  }
  if (scaling.scale.defined()) {
    struct Pending {  // also if the step throws: the gradients count as unscaled
      ~Pending() {
        for (const Tensor& p : optimizer.parameters()) {
          if (p.grad().defined()) autograd::leave_pending(p, {scaling.scale, scaling.norm, scaling.max_norm, recorded});
        }
      }
      const Steppable& optimizer;
      const ReadScaling& scaling;
      const bool recorded;
    } const pending{optimizer, scaling, is_recording(scaling.scale.device())};
    optimizer.step_scaled(e.found_inf, scaling);
  } else {
    optimizer.step_unless(e.found_inf);
  }
  e.passes.clear();  // the user may modify the gradients again
  e.stepped_at = site;
  e.stage = Stage::stepped;
  return StepResult(e.found_inf, e.summaries);
}

void GradScaler::update(CallSite site) {
  if (!options_.enabled) return;
  {
    const std::scoped_lock lock(stepping_, mutex_);
    update_scale(site);
  }
  tell_floor();
}

void GradScaler::update_scale(const CallSite& site) {
  const ProfileRange range(ProfileKind::library, "scaler: update", &scale_);
  need_scale("update", site);
  std::vector<Verdict> verdicts;
  for (const PerOptimizer& e : entries_) {
    if (e.stage != Stage::ready) check_is_in_one_place(e, "update", site);
    for (std::size_t k = 0; k < e.summaries.size(); ++k) {
      verdicts.push_back({e.found_inf.data<bool>(),
                          reinterpret_cast<const GradientSummary*>(e.summaries[k].data<double>()), e.number,
                          e.scales[k].data<float>()});
    }
  }
  if (verdicts.empty()) {
    fail("GradScaler.update: no step() or unscale_() since the last update(), at ", to_string(site),
         "; call it once per iteration, after the steps");
  }
  kernels::update_loss_scale(scale_.device(), scale_.data<float>(), device_state(), std::span<const Verdict>(verdicts),
                             forward_failed_.defined() ? forward_failed_.data<bool>() : nullptr, rule_of(options_));
  scale_.storage()->written_by("update");
  forward_failed_ = {};
  entries_.clear();
  ledger_.scale_changed("update()", site);
  seen_.request(state_);
}

void GradScaler::tell_floor() {
  FloorEvent event;
  std::shared_ptr<FloorFunction> function;
  {
    const std::lock_guard lock(mutex_);
    const ScaleCounters& c = seen_.latest().counters;
    if (c.at_floor < options_.floor_limit) {
      floor_told_ = false;
      return;
    }
    event = {.scale = options_.min_scale, .overflows = c.at_floor, .update = c.updates};
    if (options_.at_floor == AtFloor::callback && !floor_told_) {
      floor_told_ = true;
      function = floor_function_;
    }
  }
  if (options_.at_floor == AtFloor::raise) {
    throw ScaleAtFloor(concat("GradScaler.update: ", event.overflows, " overflows in a row at the smallest scale, ",
                              event.scale,
                              "; the gradients are inf or NaN for another reason than the scale. Look at overflows()"));
  }
  if (function) (*function)(event);  // without the lock: it may call the scaler
}

void GradScaler::discard(CallSite site) {
  const std::scoped_lock lock(stepping_, mutex_);
  forward_failed_ = {};
  entries_.clear();
  ledger_.scale_changed("discard()", site);
}

void GradScaler::scale_set(const char* method, const CallSite& site) {
  state_.raw_view({}, {}, offsetof(ScaleCounters, burst) / sizeof(std::int64_t)).fill_(0);
  forward_failed_ = {};
  entries_.clear();
  ledger_.scale_changed(method, site);
}

void GradScaler::update(double new_scale, CallSite site) {
  if (!options_.enabled) return;
  const std::scoped_lock lock(stepping_, mutex_);
  need_scale("update", site);
  with(options_, new_scale, options_.growth_factor, options_.backoff_factor, options_.growth_interval);
  scale_.fill_(new_scale);
  scale_set("update(new_scale)", site);
}

void GradScaler::update(const Tensor& new_scale, CallSite site) {
  if (!options_.enabled) return;
  const std::scoped_lock lock(stepping_, mutex_);
  need_scale("update", site);
  check(new_scale.defined() && new_scale.numel() == 1 && new_scale.is_floating() && !new_scale.requires_grad(),
        "GradScaler.update: the new scale must be a floating tensor of one element without gradient, got ", new_scale);
  with(options_, new_scale.item<double>(), options_.growth_factor, options_.backoff_factor, options_.growth_interval);
  const Dims ones = Dims::filled(new_scale.dim(), 1);
  scale_.raw_view(ones, ones).copy_(new_scale);
  scale_set("update(new_scale)", site);
}

double GradScaler::get_scale() const {
  const std::lock_guard lock(mutex_);
  return read_scale();
}
double GradScaler::read_scale() const {
  if (!options_.enabled) return 1;
  return scale_.defined() ? scale_.item<double>() : options_.init_scale;
}
// The rule of a captured step is among the parameters of its launches.
static void outdate_captured(const Tensor& scale) {
  if (scale.defined()) cuda_backend::outdate_recordings(scale);
}
void GradScaler::set_growth_factor(double factor) {
  const std::lock_guard lock(mutex_);
  options_.growth_factor = with(options_, options_.init_scale, factor, options_.backoff_factor,
                                options_.growth_interval).growth_factor;
  outdate_captured(scale_);
}
void GradScaler::set_backoff_factor(double factor) {
  const std::lock_guard lock(mutex_);
  options_.backoff_factor = with(options_, options_.init_scale, options_.growth_factor, factor,
                                 options_.growth_interval).backoff_factor;
  outdate_captured(scale_);
}
void GradScaler::set_growth_interval(std::int64_t interval) {
  const std::lock_guard lock(mutex_);
  options_.growth_interval = with(options_, options_.init_scale, options_.growth_factor, options_.backoff_factor,
                                  interval).growth_interval;
  outdate_captured(scale_);
}

}  // namespace mantissa::amp
