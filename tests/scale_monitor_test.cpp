// The scale monitor: recorded points, each alert only once, files; and that monitoring reads nothing from the device.
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "amp/scale_monitor.h"
#include "core/host_reads.h"
#include "core/ops.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/temp_dir.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::ScaleAlert;
using Catch::Matchers::Contains;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

struct Training {
  explicit Training(const amp::GradScalerOptions& o) : scaler(o) {}
  void iterate(double gradient, double loss = 1) {
    scaler.scale(full({}, loss));
    p.set_grad(full({4}, gradient));
    scaler.step(opt);
    scaler.update();
  }
  Tensor p = ones({4}).requires_grad_();
  optim::Sgd opt{optim::Parameters{p}};
  amp::GradScaler scaler;
};

}  // namespace

TEST_CASE("a monitor records scale, skips and gradients of every update without reading the device", "[scaler]") {
  Training t({.init_scale = 8, .growth_interval = 2});
  amp::ScaleMonitor monitor(t.scaler);
  CHECK(monitor.summary() == "no updates seen");
  const std::uint64_t reads = host_reads();
  monitor.observe();
  for (double g : {8.0, 16.0, inf, 8.0}) {
    t.iterate(g);
    monitor.observe();
    monitor.observe();  // nothing new
  }
  t.iterate(1);
  t.iterate(inf);
  monitor.observe();  // two at once
  CHECK(host_reads() == reads);
  REQUIRE(monitor.history().size() == 5);
  const auto scale = [&](std::size_t k) { return monitor.history()[k].scale; };
  CHECK(std::vector{scale(0), scale(1), scale(2), scale(3), scale(4)} == std::vector<double>{8, 16, 8, 8, 8});
  CHECK(monitor.history()[0].gradient_norm == 2);
  CHECK(monitor.history()[1].largest_gradient == 2);
  CHECK(monitor.history()[2].skipped == 1);
  CHECK(!std::isfinite(monitor.history()[2].gradient_norm));
  CHECK(monitor.history()[4].update == 6);
  CHECK(monitor.history()[4].skipped == 1);
  CHECK(monitor.changes() == 2);
  CHECK(monitor.skip_rate() == Approx(2.0 / 6));
  CHECK(monitor.summary() ==
        "scale 8 (lowest 8, highest 16, 2 changes); 2 of 6 steps skipped, 2 of the last 6; no alerts");
}

TEST_CASE("alerts tell of a collapsing scale, a floor, too many skips and bad losses, once each time",
          "[scaler][G32][G36]") {
  Training t({.init_scale = 4, .growth_interval = 2, .min_scale = 0.5, .check_loss = true});
  amp::ScaleMonitor monitor(t.scaler, {.low_scale = 2, .max_skip_rate = 0.5, .window = 4});
  std::vector<std::pair<int, std::int64_t>> told;
  monitor.on_alert([&](const ScaleAlert& a) { told.emplace_back(a.kind, a.point.update); });
  const auto iterate = [&](double g, double loss = 1) {
    t.iterate(g, loss);
    monitor.observe();
  };
  for (double g : {1.0, inf, inf, inf, inf, inf}) iterate(g);  // 4, 2, 1 (low), 0.5 (skips), floor, floor
  for (int i = 0; i < 6; ++i) iterate(1);                      // 1, 2, 4 again
  iterate(1, std::nan(""));
  for (double g : {inf, inf}) iterate(g);
  using V = std::vector<std::pair<int, std::int64_t>>;
  CHECK(told == V{{ScaleAlert::low_scale, 3},
                  {ScaleAlert::skip_rate, 4},
                  {ScaleAlert::at_floor, 5},
                  {ScaleAlert::forward_failure, 13},
                  {ScaleAlert::low_scale, 15},
                  {ScaleAlert::skip_rate, 15}});
  REQUIRE(monitor.alerts().size() == 6);
  CHECK_THAT(monitor.alerts()[0].message, Contains("update 3: the scale fell to 1, below 2"));
  CHECK_THAT(monitor.alerts()[1].message, Contains("75 % of the last 4 iterations were skipped"));
  CHECK_THAT(monitor.alerts()[2].message, Contains("smallest scale, 0.5"));
  CHECK_THAT(monitor.summary(), Contains("6 alerts, last: update 15"));
}

TEST_CASE("the history is bounded and written as CSV and JSON", "[scaler]") {
  Training t({.init_scale = 0.1, .growth_factor = 1.5, .growth_interval = 1});
  amp::ScaleMonitor monitor(t.scaler, {.history = 3, .low_scale = 0});
  for (double g : {1.0, 1.0, 1.0, inf}) {
    t.iterate(g);
    monitor.observe();
  }
  REQUIRE(monitor.history().size() == 3);
  std::istringstream lines(monitor.csv());
  std::string line;
  std::getline(lines, line);
  CHECK(line == "update,scale,skipped,gradient_norm,largest_gradient");
  std::getline(lines, line);
  double scale = 0;
  CHECK(std::sscanf(line.c_str(), "2,%lf,0,", &scale) == 1);
  CHECK(scale == monitor.history()[0].scale);
  const nlohmann::json j = nlohmann::json::parse(monitor.json());
  CHECK(j["update"] == nlohmann::json({2, 3, 4}));
  CHECK(j["scale"][1] == monitor.history()[1].scale);
  CHECK(j["gradient_norm"][2].is_null());
  CHECK(j["alerts"].empty());
  const TempDir dir;
  for (const char* name : {"scale.csv", "scale.json"}) {
    const std::string path = dir / name;
    monitor.save(path);
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    CHECK(text.str() == (std::string(name) == "scale.csv" ? monitor.csv() : monitor.json()));
  }
  CHECK_THAT(message_of([&] { monitor.save("scale.txt"); }), Contains("must end in .csv or .json"));
  CHECK_THAT(message_of([&] { monitor.save(dir / "no/such/folder.csv"); }), Contains("cannot write"));
  CHECK_THROWS(amp::ScaleMonitor(t.scaler, {.window = 0}));
  CHECK_THROWS(amp::ScaleMonitor(t.scaler, {.max_skip_rate = 2}));
}
