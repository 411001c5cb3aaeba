#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/error.h"
#include "core/profile.h"

namespace mantissa {
namespace {

struct Row {
  std::string name;
  std::int64_t calls = 0, self = 0, total = 0, device_self = 0, device_total = 0, bytes = 0;
  double flops = 0;

  void add(const ProfileEvent& e) {
    ++calls;
    self += e.self;
    total += e.duration;
    device_self += std::max<std::int64_t>(0, e.device_self);
    device_total += std::max<std::int64_t>(0, e.device_duration);
    bytes += e.bytes;
    flops += e.flops;
  }
  std::int64_t by(ProfileOrder order) const {
    switch (order) {
      case ProfileOrder::self:
        return self;
      case ProfileOrder::total:
        return total;
      case ProfileOrder::device_self:
        return device_self;
      case ProfileOrder::calls:
        return calls;
      default:
        return bytes;
    }
  }
};

std::vector<Row> rows_of(const std::vector<ProfileEvent>& events) {
  std::map<std::tuple<ProfileKind, std::string_view, std::string_view>, Row> by_name;
  for (const ProfileEvent& e : events) {
    Row& row = by_name[{e.kind, e.name, e.shapes}];
    if (row.calls == 0)
      row.name =
          concat(e.name, e.kind == ProfileKind::backward ? " (backward)" : "", e.shapes.empty() ? "" : "  ", e.shapes);
    row.add(e);
  }
  std::vector<Row> rows;
  for (auto& [key, row] : by_name) rows.push_back(std::move(row));
  return rows;
}

double milliseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }
std::string percent(std::int64_t part, std::int64_t whole) {
  return whole <= 0 ? std::string("-")
                    : fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// The table's columns.
struct Columns {
  bool device, memory, flops;
  int width;  // of the names

  std::string head() const {
    std::string text = fmt::format("{:<{}} {:>8} {:>10} {:>8} {:>10} {:>10}", "operator", width, "calls", "self, ms",
                                   "share", "total, ms", "mean, us");
    if (device) text += fmt::format(" {:>14} {:>8} {:>14}", "GPU self, ms", "share", "GPU total, ms");
    if (memory) text += fmt::format(" {:>12}", "memory, MiB");
    if (flops) text += fmt::format(" {:>14} {:>10}", "MFLOP", "GFLOP/s");
    return text + "\n";
  }
  // Totals of nested rows must not be added up, so the last line leaves them out.
  std::string line(const Row& r, const Row& sum, bool with_totals = true) const {
    const auto total = [&](std::int64_t ns) { return with_totals ? fmt::format("{:.3f}", milliseconds(ns)) : ""; };
    const std::string mean =
        with_totals ? fmt::format("{:.1f}", 1e3 * milliseconds(r.total) / static_cast<double>(r.calls)) : "";
    std::string text = fmt::format("{:<{}} {:>8} {:>10.3f} {:>8} {:>10} {:>10}", r.name, width, r.calls,
                                   milliseconds(r.self), percent(r.self, sum.self), total(r.total), mean);
    if (device)
      text += fmt::format(" {:>14.3f} {:>8} {:>14}", milliseconds(r.device_self),
                          percent(r.device_self, sum.device_self), total(r.device_total));
    if (memory)
      text +=
          fmt::format(" {:>12}", with_totals ? fmt::format("{:.2f}", static_cast<double>(r.bytes) / (1 << 20)) : "");
    const std::int64_t time = device ? r.device_self : r.self;  // FLOP in ns are GFLOP in s
    if (flops && (r.flops == 0 || time == 0)) text += fmt::format(" {:>14} {:>10}", "-", "-");
    else if (flops) text += fmt::format(" {:>14.3f} {:>10.2f}", r.flops / 1e6, r.flops / static_cast<double>(time));
    return text + "\n";
  }
};

}  // namespace

std::string Profile::table(int rows) {
  bool device = false;
  for (const ProfileEvent& e : events()) device = device || e.device_duration >= 0;
  return table(rows, device ? ProfileOrder::device_self : ProfileOrder::self);
}

std::string Profile::table(int rows, ProfileOrder order) {
  check(rows >= 1, "Profile.table: needs at least one row, got ", rows);
  std::vector<Row> all = rows_of(events());
  std::ranges::stable_sort(all, [&](const Row& a, const Row& b) { return a.by(order) > b.by(order); });
  const auto shown = std::min(all.size(), static_cast<std::size_t>(rows));
  Row sum{.name = "all"}, rest;
  bool device = false;
  for (const ProfileEvent& e : events_) {
    sum.add(e);
    device = device || e.device_duration >= 0;
  }
  Columns columns{device, options_.memory, options_.flops, 24};
  for (std::size_t i = 0; i < shown; ++i) columns.width = std::max(columns.width, static_cast<int>(all[i].name.size()));
  std::string text = columns.head();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i < shown) {
      text += columns.line(all[i], sum);
    } else {
      rest.calls += all[i].calls;
      rest.self += all[i].self;
      rest.device_self += all[i].device_self;
      rest.flops += all[i].flops;
    }
  }
  rest.name = concat(static_cast<int>(all.size() - shown), " more");
  if (rest.calls > 0) text += columns.line(rest, sum, false);
  text += columns.line(sum, sum, false);
  text += fmt::format("{:.3f} ms from begin to stop\n", milliseconds(duration_));
  if (dropped_ > 0)
    text += fmt::format("{} ranges more were not kept: raise ProfileOptions::most_events above {}\n", dropped_,
                        options_.most_events);
  return text;
}

}  // namespace mantissa
