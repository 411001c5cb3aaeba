// GradScaler's reports about skipped steps, from values that have already reached the host.
#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <typeinfo>

#include "amp/grad_scaler.h"

namespace mantissa::amp {
namespace {

std::string_view last_part(std::string_view name, std::string_view separator) {
  const std::size_t at = name.rfind(separator);
  return at == std::string_view::npos ? name : name.substr(at + separator.size());
}

}  // namespace

std::uint64_t Steppable::next_identity() {
  static constinit std::atomic<std::uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

// The optimizer's index in reports.
std::int64_t GradScaler::names_of(const Steppable& optimizer, const std::vector<Tensor>& parameters) {
  auto known = std::ranges::find(names_, optimizer.identity(), &Names::optimizer);
  if (known == names_.end()) known = names_.insert(known, Names{.optimizer = optimizer.identity(), .parameters = {}});
  for (std::size_t i = known->parameters.size(); i < parameters.size(); ++i) {  // groups may be added later
    known->parameters.push_back(optimizer.parameter_name(i));
  }
  return known - names_.begin();
}

std::string Steppable::type_name() const {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> type(
      abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? std::string(last_part(type.get(), "::")) : "optimizer";
}

// "optimizer 0 (SGD of fc1.weight and 3 more)"
std::string GradScaler::describe(const PerOptimizer& entry) const {
  const std::vector<std::string>& names = names_[static_cast<std::size_t>(entry.number)].parameters;
  std::string text = concat("optimizer ", entry.number, " (", entry.optimizer->type_name());
  if (!names.empty()) text += concat(" of ", names[0]);
  if (names.size() > 1) text += concat(" and ", names.size() - 1, " more");
  return text + ")";
}

ScalerHistory GradScaler::history() const {
  const std::lock_guard lock(mutex_);
  const ScalerState& s = seen_.latest();
  const ScaleCounters& c = s.counters;
  return {.updates = c.updates, .skipped = c.skipped, .forward_failures = c.forward_failures,
          .last_skipped = c.last_skipped != 0, .scale = c.scale_now, .at_floor = c.at_floor,
          .gradient_norm = std::sqrt(s.square_sum), .largest_gradient = s.largest};
}

std::vector<OverflowReport> GradScaler::overflows() const {
  const std::lock_guard lock(mutex_);
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
  return concat("update ", r.update, ": ", r.infs, " inf and ", r.nans, " NaN, first in ", r.parameter, ", at scale ",
                r.scale);
}

std::string GradScaler::summary() const {
  std::string text = concat("scale ", get_scale(), ", ", total_skipped(), " of ", total_updates(), " steps skipped");
  if (forward_failures() > 0) text += concat(" (", forward_failures(), " for the loss)");
  const std::vector<OverflowReport> reports = overflows();
  if (!reports.empty()) text += concat(", last: ", to_string(reports.back()));
  return text;
}

}  // namespace mantissa::amp
