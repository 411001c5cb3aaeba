// What a GradScaler can tell about the steps it skipped, from what has reached the host by itself.
#include <algorithm>
#include <atomic>

#include "amp/grad_scaler.h"

namespace mantissa::amp {

std::uint64_t Steppable::next_identity() {
  static constinit std::atomic<std::uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

// The number under which reports know the optimizer.
std::int64_t GradScaler::names_of(const Steppable& optimizer) {
  for (std::size_t k = 0; k < names_.size(); ++k) {
    if (names_[k].optimizer == optimizer.identity()) return static_cast<std::int64_t>(k);
  }
  Names names{.optimizer = optimizer.identity(), .parameters = {}};
  for (std::size_t i = 0, n = optimizer.parameters().size(); i < n; ++i) names.parameters.push_back(optimizer.parameter_name(i));
  names_.push_back(std::move(names));
  return static_cast<std::int64_t>(names_.size()) - 1;
}

std::vector<OverflowReport> GradScaler::overflows() const {
  const ScalerState& s = seen_.latest();
  std::vector<OverflowReport> reports;
  for (std::int64_t k = std::max<std::int64_t>(0, s.recorded - ScalerState::capacity); k < s.recorded; ++k) {
    const OverflowRecord& r = s.overflows[k % ScalerState::capacity];
    OverflowReport report{.update = r.update, .forward = r.optimizer < 0, .parameter = {}, .layer = {}, .infs = r.infs,
                          .nans = r.nans, .scale = r.scale};
    if (!report.forward) {
      const std::vector<std::string>& names = names_[static_cast<std::size_t>(r.optimizer)].parameters;
      const auto i = static_cast<std::size_t>(r.parameter);
      report.parameter = i < names.size() ? names[i] : concat("parameter ", r.parameter);
      const std::size_t dot = report.parameter.rfind('.');
      if (dot != std::string::npos) report.layer = report.parameter.substr(0, dot);
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

std::string to_string(const OverflowReport& r) {
  if (r.forward) return concat("update ", r.update, ": the loss itself was inf or NaN, at scale ", r.scale);
  return concat("update ", r.update, ": ", r.infs, " inf and ", r.nans, " NaN, first in ", r.parameter, ", at scale ", r.scale);
}

std::string GradScaler::summary() const {
  std::string text = concat("scale ", get_scale(), ", ", total_skipped(), " of ", total_updates(), " steps skipped");
  if (forward_failures() > 0) text += concat(" (", forward_failures(), " for the loss)");
  const std::vector<OverflowReport> reports = overflows();
  if (!reports.empty()) text += concat(", last: ", to_string(reports.back()));
  return text;
}

}  // namespace mantissa::amp
