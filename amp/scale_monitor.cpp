#include "amp/scale_monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace mantissa::amp {
namespace {

constexpr const char* alert_names[] = {"low_scale", "at_floor", "skip_rate", "forward_failure"};

}  // namespace

ScaleMonitor::ScaleMonitor(const GradScaler& scaler, const ScaleMonitorOptions& o) : scaler_(&scaler), options_(o) {
  check(o.history >= 1, "ScaleMonitor: history must be at least 1");
  check(o.low_scale >= 0, "ScaleMonitor: low_scale must not be negative, got ", o.low_scale);
  check(o.max_skip_rate >= 0 && o.max_skip_rate <= 1, "ScaleMonitor: max_skip_rate must be from 0 to 1, got ",
        o.max_skip_rate);
  check(o.window >= 1, "ScaleMonitor: window must be at least 1, got ", o.window);
  seen_ = scaler.history();
  totals_.push_back({seen_.updates, seen_.skipped});
}

template <class F> void ScaleMonitor::look(ScaleAlert::Kind kind, bool is_so, F&& message) {
  const bool was_so = std::exchange(is_so_[kind], is_so);
  if (!is_so || was_so) return;
  alerts_.push_back({kind, points_.back(), concat("update ", points_.back().update, ": ", message())});
  if (function_) (*function_)(ScaleAlert(alerts_.back()));
}

void ScaleMonitor::observe() {
  const ScalerHistory now = scaler_->history();
  if (now.updates == seen_.updates) return;
  const ScalePoint point{.update = now.updates, .scale = now.scale, .skipped = now.skipped - seen_.skipped,
                         .gradient_norm = now.gradient_norm, .largest_gradient = now.largest_gradient};
  if (points_.empty()) lowest_ = highest_ = now.scale;
  else if (now.scale != points_.back().scale) ++changes_;
  lowest_ = std::min(lowest_, now.scale);
  highest_ = std::max(highest_, now.scale);
  if (points_.size() == options_.history) points_.pop_front();
  points_.push_back(point);
  totals_.push_back({now.updates, now.skipped});
  while (totals_.size() > 2 && totals_[1].updates <= now.updates - options_.window) totals_.pop_front();
  const bool failed = now.forward_failures > seen_.forward_failures;
  seen_ = now;

  const double rate = skip_rate();
  look(ScaleAlert::low_scale, now.scale < options_.low_scale, [&] {
    return concat("the scale fell to ", now.scale, ", below ", options_.low_scale,
                  "; gradients overflow whatever it is, see overflows()");
  });
  look(ScaleAlert::at_floor, now.at_floor > 0, [&] {
    return concat("gradients overflow at the smallest scale, ", now.scale, "; it is not the scale, see overflows()");
  });
  const bool enough = now.updates - totals_.front().updates >= options_.window;
  look(ScaleAlert::skip_rate, enough && rate > options_.max_skip_rate, [&] {
    return concat(100 * rate, " % of the last ", options_.window, " iterations were skipped, more than ",
                  100 * options_.max_skip_rate, " %");
  });
  look(ScaleAlert::forward_failure, failed,
       [] { return std::string("the loss itself was inf or NaN; the scale is left alone"); });
}

double ScaleMonitor::skip_rate() const {
  const Total &first = totals_.front(), &last = totals_.back();
  return last.updates == first.updates
             ? 0
             : static_cast<double>(last.skipped - first.skipped) / static_cast<double>(last.updates - first.updates);
}

std::string ScaleMonitor::summary() const {
  if (points_.empty()) return "no updates seen";
  const Total &first = totals_.front(), &last = totals_.back();
  std::string text = concat("scale ", points_.back().scale, " (lowest ", lowest_, ", highest ", highest_, ", ",
                            changes_, " changes); ", seen_.skipped, " of ", seen_.updates, " steps skipped, ",
                            last.skipped - first.skipped, " of the last ",
                            last.updates - first.updates, "; ");
  if (alerts_.empty()) return text + "no alerts";
  return text + concat(alerts_.size(), " alerts, last: ", alerts_.back().message);
}

std::string ScaleMonitor::csv() const {
  std::string text = "update,scale,skipped,gradient_norm,largest_gradient\n";
  for (const ScalePoint& p : points_) {
    // fmt: the shortest numbers that read back the same, with a point in every locale.
    text += fmt::format("{},{},{},{},{}\n", p.update, p.scale, p.skipped, p.gradient_norm, p.largest_gradient);
  }
  return text;
}

std::string ScaleMonitor::json() const {
  nlohmann::ordered_json j;
  for (const char* key : {"update", "scale", "skipped", "gradient_norm", "largest_gradient", "alerts"}) {
    j[key] = nlohmann::json::array();
  }
  for (const ScalePoint& p : points_) {
    j["update"].push_back(p.update);
    j["scale"].push_back(p.scale);
    j["skipped"].push_back(p.skipped);
    j["gradient_norm"].push_back(p.gradient_norm);
    j["largest_gradient"].push_back(p.largest_gradient);
  }
  for (const ScaleAlert& a : alerts_) {
    j["alerts"].push_back({{"kind", alert_names[a.kind]}, {"update", a.point.update}, {"scale", a.point.scale},
                           {"message", a.message}});
  }
  return j.dump();
}

void ScaleMonitor::save(const std::string& path) const {
  const bool as_json = path.ends_with(".json");
  check(as_json || path.ends_with(".csv"), "ScaleMonitor.save: the name must end in .csv or .json, got ", path);
  std::ofstream file(path, std::ios::binary);
  file << (as_json ? json() : csv());
  file.close();
  check(file.good(), "ScaleMonitor.save: cannot write ", path, ": ", std::generic_category().message(errno));
}

}  // namespace mantissa::amp
