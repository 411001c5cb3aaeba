// Records a scaler over time: the scale, skipped steps and gradient magnitudes, and raises alerts when training is in
// trouble. Uses only values that have already reached the host; never waits for the device.
//
//   amp::ScaleMonitor monitor(scaler);
//   monitor.on_alert([](const amp::ScaleAlert& alert) { std::cerr << alert.message << '\n'; });
//   for (...) { ...; scaler.step(opt); scaler.update(); monitor.observe(); }
//   monitor.save("scale.csv");                      // or .json
//   std::cout << monitor.summary() << '\n';
//
// Invariant: one point per observe() that saw a new update. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "amp/grad_scaler.h"

namespace mantissa::amp {

struct ScalePoint {
  std::int64_t update = 0;   // iterations so far
  double scale = 0;          // after it
  std::int64_t skipped = 0;  // iterations skipped since the previous point
  // of the last iteration, unscaled; norm: inf or NaN if it overflowed
  double gradient_norm = 0, largest_gradient = 0;
};

struct ScaleAlert {
  enum Kind : std::uint8_t {
    low_scale,        // the scale fell below low_scale: it is collapsing
    at_floor,         // an overflow at the smallest scale: not caused by the scale
    skip_rate,        // too many of the last iterations were skipped
    forward_failure,  // a loss was itself inf or NaN (needs GradScalerOptions::check_loss)
  };
  Kind kind;
  ScalePoint point;     // the first point at which the condition held
  std::string message;  // "update 812: the scale fell to 0.5, below 1; ..."
};

struct ScaleMonitorOptions {
  std::size_t history = 100000;  // maximum number of points kept; the oldest are dropped
  double low_scale = 1;          // 0: no alert
  double max_skip_rate = 0.1;    // of the last `window` iterations; 1: no alert
  std::int64_t window = 100;     // no alert before this many iterations
};

class ScaleMonitor {
 public:
  // The scaler must live as long as the monitor.
  explicit ScaleMonitor(const GradScaler& scaler, const ScaleMonitorOptions& options = {});

  void observe();  // after update()
  // observe() calls f(alert) each time a condition starts to hold; f may throw to stop training.
  template <class F> void on_alert(F f) { function_ = std::make_shared<FunctionOf<F>>(std::move(f)); }

  const std::deque<ScalePoint>& history() const { return points_; }
  const std::vector<ScaleAlert>& alerts() const { return alerts_; }
  double skip_rate() const;  // over the last `window` iterations, or fewer at the start
  std::int64_t changes() const { return changes_; }
  // "scale 32768 (lowest 16384, highest 65536, 4 changes); 3 of 900 steps skipped, 0 of the last 100; no alerts"
  std::string summary() const;

  std::string csv() const;   // a header line, then one line per point
  // {"update": [...], "scale": [...], ..., "alerts": [...]}; a norm that is not finite is null
  std::string json() const;
  void save(const std::string& path) const;  // format by extension, csv or json; throws on write errors

 private:
  struct Function {
    virtual ~Function() = default;
    virtual void operator()(const ScaleAlert& alert) = 0;
  };
  template <class F> struct FunctionOf final : Function {
    explicit FunctionOf(F f) : function(std::move(f)) {}
    void operator()(const ScaleAlert& alert) override { function(alert); }
    F function;
  };
  struct Total {  // for skip_rate()
    std::int64_t updates, skipped;
  };
  template <class F> void look(ScaleAlert::Kind kind, bool is_so, F&& message);

  const GradScaler* scaler_;
  ScaleMonitorOptions options_;
  std::deque<ScalePoint> points_;
  std::deque<Total> totals_;  // of the last `window` iterations
  ScalerHistory seen_;
  double lowest_ = 0, highest_ = 0;
  std::int64_t changes_ = 0;
  std::vector<ScaleAlert> alerts_;
  bool is_so_[4] = {};
  std::shared_ptr<Function> function_;
};

}  // namespace mantissa::amp
