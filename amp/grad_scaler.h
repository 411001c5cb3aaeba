// GradScaler: dynamic loss scaling for f16 training, with the names, defaults, state machine and
// rules of torch.amp.GradScaler.
//
//   amp::GradScaler scaler;
//   backward(scaler.scale(loss));
//   scaler.unscale_(opt);                  // optional: only to clip or look at true gradients
//   optim::clip_grad_norm_(params, 1.0);
//   scaler.step(opt);                      // does nothing when a gradient is inf or NaN
//   scaler.update();                       // once per iteration, after all steps
//
// Scale, growth tracker and verdicts live on the device, and the optimizer's kernel decides by itself
// whether to skip: nothing here reads back to the host except what says so. Per optimizer:
// unscale_ at most once, then step at most once, until update.
//
// Beyond PyTorch: verdicts are booleans; a gradient must be finite also after unscaling; bf16 and f64
// gradients work; arguments are validated; growth happens at >= interval. Gradients changed between
// unscale_ and step are not checked again.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace mantissa::amp {

// What the scaler needs of an optimizer; optim::Optimizer is one.
class Steppable {
 public:
  virtual ~Steppable() = default;
  virtual std::vector<Tensor> parameters() const = 0;
  virtual std::string parameter_name(std::size_t i) const = 0;
  // One update, or no change at all when `skip` (bool, 0-d, same device) holds true. Undefined: false.
  virtual void step_unless(const Tensor& skip) = 0;
};

// Whether a step was skipped. Asking reads the device.
class StepResult {
 public:
  explicit StepResult(Tensor found_inf = {}) : found_inf_(std::move(found_inf)) {}
  bool skipped() const { return found_inf_.defined() && found_inf_.item() != 0; }

 private:
  Tensor found_inf_;
};

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // clean iterations in a row before the scale grows
  bool enabled = true;                  // false: scale, unscale_ and update do nothing, step just steps
  bool allow_f16_gradients = false;     // f16 parameters: gradients lose range before they are unscaled
  bool allow_empty_step = false;        // an optimizer without any gradient is no error
};

class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(const GradScaler& other);  // an independent copy; only between iterations
  GradScaler& operator=(const GradScaler&) = delete;

  // loss * scale, differentiable. A loss below f32 is multiplied in f32.
  Tensor scale(const Tensor& loss);
  template <class T> std::vector<T> scale(const std::vector<T>& losses) {
    std::vector<T> scaled;
    for (const T& x : losses) scaled.push_back(scale(x));
    return scaled;
  }
  template <class T, std::size_t n> std::array<T, n> scale(std::array<T, n> losses) {
    for (T& x : losses) x = scale(x);
    return losses;
  }

  void unscale_(Steppable& optimizer);     // divides its gradients by the scale, in place
  StepResult step(Steppable& optimizer);   // unscale_ if that was not done, then step unless one overflowed
  void update();                           // adapts the scale to what the steps since the last update found
  void update(double new_scale);           // sets the scale instead
  void update(const Tensor& new_scale);    // one element, floating, without gradient; copied

  bool is_enabled() const { return options_.enabled; }
  double get_scale() const;  // reads the device; 1 when disabled
  double growth_factor() const { return options_.growth_factor; }
  double backoff_factor() const { return options_.backoff_factor; }
  std::int64_t growth_interval() const { return options_.growth_interval; }
  void set_growth_factor(double factor);            // > 1
  void set_backoff_factor(double factor);           // in (0, 1)
  void set_growth_interval(std::int64_t interval);  // >= 1

  // PyTorch's five keys; empty when disabled. Only between iterations. load_state_dict checks
  // everything before it changes anything, and ignores its argument when disabled.
  std::vector<std::pair<std::string, Tensor>> state_dict() const;
  void load_state_dict(const std::vector<std::pair<std::string, Tensor>>& state);

 private:
  enum class Stage : std::uint8_t { ready, unscaled, stepped };
  struct PerOptimizer {
    Steppable* optimizer;
    Stage stage = Stage::ready;
    Tensor found_inf = {};  // bool, 0-d; undefined until unscaled
  };

  void need_scale(const char* method) const;
  PerOptimizer& entry_for(Steppable& optimizer);
  int index_of(const PerOptimizer& entry) const { return static_cast<int>(&entry - entries_.data()); }
  void unscale(PerOptimizer& entry);
  void between_iterations(const char* what) const;

  GradScalerOptions options_;
  Tensor scale_;           // f32, 0-d; made by the first scale(), on the loss's device
  Tensor growth_tracker_;  // i32, 0-d
  std::int32_t init_tracker_ = 0;
  std::vector<PerOptimizer> entries_;  // of this iteration
};

}  // namespace mantissa::amp
