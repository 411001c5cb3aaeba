// GradScaler: dynamic loss scaling for f16 training, with the names, defaults, state machine and
// rules of torch.amp.GradScaler.
//
//   amp::GradScaler scaler;
//   backward(scaler.scale(loss));
//   scaler.unscale_(opt);                  // optional: to clip, or to inspect the true gradients
//   optim::clip_grad_norm_(params, 1.0);   // reuses the norm that unscale_ computed; or step(opt, ClipNorm{1.0})
//   scaler.step(opt);                      // skips the update if a gradient is inf or NaN
//   scaler.update();                       // once per iteration, after all steps
//
// Scale, counters and the overflow flags (found_inf, bool) live on the device, and the optimizer's kernel itself
// decides whether to skip, so nothing is read back to the host unless a comment says so. Between two updates call, for
// each optimizer, unscale_ at most once and then step at most once. Errors name the optimizer, the parameter, and the
// two lines of the program whose calls conflict.
//
// Beyond PyTorch: other rules for the scale (amp/scale_policy.h); found_inf is a bool; gradients must be finite after
// unscaling, too; bf16 and f64 gradients work; arguments are validated; growth happens at >= interval; skips are
// counted and overflows reported; each gradient is divided by the scale of its own loss, and sums over losses of
// different scales, or with gradients that were already unscaled, are errors (amp/scale_ledger.h); a loss not scaled by
// any scaler is assumed to be scaled by hand. Gradients modified between unscale_ and step are checked again only with
// the option recheck. To watch a scaler over time: amp/scale_monitor.h.
//
// Threads: scale(), get_scale() and the reports may be called from any thread at any time; unscale_, step and update
// are serialised.
#pragma once

#include <array>
#include <concepts>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "amp/gradient_pass.h"
#include "amp/host_view.h"
#include "amp/scale_ledger.h"
#include "amp/scale_policy.h"
#include "amp/step.h"
#include "core/loss_scale.h"

namespace mantissa::amp {

// A skipped step: which gradient was not finite, and at what scale.
struct OverflowReport {
  std::int64_t update = 0;       // iteration, counted from 1
  bool forward = false;          // the loss itself was inf or NaN (option check_loss): not caused by a parameter
  std::string parameter, layer;  // the optimizer's first bad parameter; layer: its name up to the last dot
  std::int64_t infs = 0, nans = 0;  // elements, over all gradients of the optimizer
  double scale = 0;
};
// "update 7: 3 inf and 0 NaN, first in fc1.weight, at scale 65536"
std::string to_string(const OverflowReport& report);

// loss * scale, together with the loss itself, for logging.
class ScaledLoss : public Tensor {
 public:
  ScaledLoss(Tensor scaled, Tensor loss) : Tensor(std::move(scaled)), loss_(std::move(loss)) {}
  const Tensor& value() const { return loss_; }  // detached

 private:
  Tensor loss_;
};

struct ClipNorm { double max_norm; };  // for step: clips the norm of all unscaled gradients taken as one vector

struct ScalerHistory {
  std::int64_t updates = 0, skipped = 0, forward_failures = 0;
  bool last_skipped = false;
  double scale = 0;          // after the last of these updates; 0 before the first
  std::int64_t at_floor = 0;  // consecutive overflows at the smallest scale
  double gradient_norm = 0, largest_gradient = 0;  // of the last iteration, unscaled, over all optimizers
};

class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(const GradScaler& other);  // an independent copy; only between iterations
  GradScaler& operator=(const GradScaler&) = delete;

  // loss * scale, differentiable. An f16 or bf16 loss is multiplied in f32. An f16 loss that requires a gradient is an
  // error unless max_scale fits in f16, because backward starts from the scale itself. The scaler's state lives on the
  // device of the first loss; losses on other devices of that type are multiplied on their own device.
  ScaledLoss scale(const Tensor& loss, CallSite site = CallSite::current());
  template <class T> auto scale(const std::vector<T>& losses, CallSite site = CallSite::current()) {
    std::vector<std::decay_t<decltype(scale(losses[0], site))>> scaled;
    for (const T& x : losses) scaled.push_back(scale(x, site));
    return scaled;
  }
  template <class T, std::size_t n> auto scale(const std::array<T, n>& losses, CallSite site = CallSite::current()) {
    return std::apply([&](const auto&... x) { return std::array{scale(x, site)...}; }, losses);
  }
  template <class... T> auto scale(const std::tuple<T...>& losses, CallSite site = CallSite::current()) {
    return std::apply([&](const auto&... x) { return std::tuple{scale(x, site)...}; }, losses);
  }
  template <class A, class B> auto scale(const std::pair<A, B>& losses, CallSite site = CallSite::current()) {
    return std::pair{scale(losses.first, site), scale(losses.second, site)};
  }

  // The current scale, for later losses, unaffected by updates from other threads in between. For code that runs one
  // iteration ahead of the optimizer (optim/async_trainer.h).
  struct Pin {
    Tensor scale;  // undefined when disabled
    std::uint64_t tag = 0;
  };
  Pin pin(Device device, CallSite site = CallSite::current());
  ScaledLoss scale(const Tensor& loss, const Pin& pin);

  // Divides the optimizer's gradients by their scale, in place.
  void unscale_(Steppable& optimizer, CallSite site = CallSite::current());
  // Steps unless a gradient is inf or NaN. Without a preceding unscale_, gradients are read twice: by the check, and by
  // the update, which divides them while reading (Steppable::scales_while_reading); in memory they are divided lazily,
  // when they are accessed or accumulated into later. They are divided in memory first if the optimizer cannot scale
  // while reading, if they are on several devices or have several scales, or if another handle to one exists.
  StepResult step(Steppable& optimizer, CallSite site = CallSite::current());
  // The same with gradients clipped to a norm, in the same two passes. Replaces unscale_, clip_grad_norm_ and step,
  // with identical bits for f32 gradients; the norm before clipping is in the result. A disabled scaler clips too, so
  // one loop serves f32, bf16 and f16; then a gradient that is not finite makes all of them NaN, as in PyTorch.
  StepResult step(Steppable& optimizer, const ClipNorm& clip, CallSite site = CallSite::current());
  // Closures are not supported (LBFGS calls them several times, at one scale): use attempt().
  template <std::invocable F> StepResult step(Steppable& optimizer, F&& closure, CallSite = {}) = delete;
  void update(CallSite site = CallSite::current());  // adapts the scale to the steps since the last update
  void update(double new_scale, CallSite site = CallSite::current());         // sets the scale instead
  // Sets the scale from a tensor: one element, floating, without gradient; copied.
  void update(const Tensor& new_scale, CallSite site = CallSite::current());
  // Abandons the current iteration, for instance after an exception: forgets which optimizers were unscaled or stepped
  // since the last update(). Call zero_grad() yourself.
  void discard(CallSite site = CallSite::current());

  // Runs one iteration and update(), and repeats both while the step was skipped, at most `retries` times, so that the
  // batch is recomputed at a lower scale instead of being lost. `iteration` does everything from zero_grad to step and
  // returns step's result. Reads found_inf back to the host each time. With a static scale, which retries would not
  // lower, it runs once.
  template <class F> StepResult attempt(int retries, F&& iteration, CallSite site = CallSite::current()) {
    check(retries >= 0, "GradScaler.attempt: retries must not be negative, got ", retries);
    for (;; --retries) {
      const StepResult result = iteration();
      update(site);
      if (retries == 0 || options_.static_scale || !result.skipped()) return result;
    }
  }

  bool is_enabled() const { return options_.enabled; }
  const GradScalerOptions& options() const { return options_; }
  double get_scale() const;  // reads the device; 1 when disabled
  double get_growth_factor() const { return options_.growth_factor; }
  double get_backoff_factor() const { return options_.backoff_factor; }
  std::int64_t get_growth_interval() const { return options_.growth_interval; }
  void set_growth_factor(double factor);            // > 1
  void set_backoff_factor(double factor);           // in (0, 1)
  void set_growth_interval(std::int64_t interval);  // >= 1

  // The scaler's history since construction, as far as known to the host, without waiting for the device. Not affected
  // by load_state_dict.
  ScalerHistory history() const;
  std::int64_t total_updates() const { return history().updates; }
  std::int64_t total_skipped() const { return history().skipped; }  // iterations
  bool last_skipped() const { return history().last_skipped; }
  std::int64_t forward_failures() const { return history().forward_failures; }
  // The most recent overflows, oldest first, at most 32.
  std::vector<OverflowReport> overflows() const;
  // "scale 32768, 3 of 100 steps skipped (1 for the loss), last: update 7: ..." Reads the scale.
  std::string summary() const;

  // Sets AtFloor::callback: f is called with a FloorEvent each time floor_limit is reached.
  template <class F> void on_floor(F f) {
    const std::lock_guard lock(mutex_);
    floor_function_ = std::make_shared<FloorFunctionOf<F>>(std::move(f));
    options_.at_floor = AtFloor::callback;
  }

  // PyTorch's five keys, plus "_mantissa_counters" if hysteresis or tolerance need more counters; empty when disabled.
  // Only between iterations. load_state_dict takes either form, validates everything before changing anything, and
  // ignores its argument when disabled.
  std::vector<std::pair<std::string, Tensor>> state_dict() const;
  void load_state_dict(const std::vector<std::pair<std::string, Tensor>>& state, CallSite site = CallSite::current());

 private:
  enum class Stage : std::uint8_t { ready, unscaled, stepped };
  struct PerOptimizer {
    Steppable* optimizer;
    std::int64_t number;  // index into names_
    bool captured;        // begun in a captured step
    Stage stage = Stage::ready;
    CallSite unscaled_at = {}, stepped_at = {};
    std::vector<std::unique_ptr<GradientPass>> passes = {};  // one per device and scale; from unscale_ to step
    Tensor found_inf = {};                                   // of all passes; undefined until unscaled
    std::vector<Tensor> summaries = {}, scales = {};         // of each pass, on the scaler's device
  };
  struct Names {  // parameter names of an optimizer, for reports after it is destroyed
    std::uint64_t optimizer;  // Steppable::identity
    std::vector<std::string> parameters;
  };
  struct FloorFunction {
    virtual ~FloorFunction() = default;
    virtual void operator()(const FloorEvent& event) = 0;
  };
  template <class F> struct FloorFunctionOf final : FloorFunction {
    explicit FloorFunctionOf(F f) : function(std::move(f)) {}
    void operator()(const FloorEvent& event) override { function(event); }
    F function;
  };

  void start(Device device);
  void check_loss(const Tensor& loss) const;
  void need_scale(const char* method, const CallSite& site) const;
  PerOptimizer& entry_for(const char* method, Steppable& optimizer, const CallSite& site);
  void check_is_in_one_place(const PerOptimizer& entry, const char* method, const CallSite& site) const;
  std::string describe(const PerOptimizer& entry) const;
  void unscale(PerOptimizer& entry, bool write, const CallSite& site);
  static StepResult clipped_step(Steppable& optimizer, const ClipNorm& clip);
  StepResult run_step(Steppable& optimizer, const ClipNorm* clip, const CallSite& site);
  ReadScaling finish_scaling(PerOptimizer& entry, const ClipNorm* clip);
  void check_again(PerOptimizer& entry);
  void update_scale(const CallSite& site);
  void scale_set(const char* method, const CallSite& site);
  void between_iterations(const char* what) const;
  std::int64_t names_of(const Steppable& optimizer, const std::vector<Tensor>& parameters);
  ScalerState* device_state() const;
  double read_scale() const;
  void tell_floor();
  void set_counters(const std::array<std::int64_t, 5>& values);

  // Unscaling, stepping, updating, saving and loading hold stepping_, plus mutex_ while they access the state that
  // scale() and reports use: scale() never waits for an optimizer's arithmetic.
  mutable std::mutex stepping_, mutex_;
  GradScalerOptions options_;
  Tensor scale_;           // f32, 0-d; made by the first scale(), on the loss's device
  Tensor state_;           // the bytes of a ScalerState, as i64
  Tensor forward_failed_;  // bool, 0-d, of this iteration; undefined: no loss was checked
  std::array<std::int64_t, 5> init_counters_{};  // the first of ScaleCounters
  HostView<ScalerState> seen_;
  ScaleLedger ledger_;
  std::vector<PerOptimizer> entries_;  // of this iteration
  std::vector<Names> names_;
  std::shared_ptr<FloorFunction> floor_function_;
  bool floor_told_ = false;
};

}  // namespace mantissa::amp
