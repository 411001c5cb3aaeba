// The loss scale policies: floors, ceilings, hysteresis, tolerance, and presets compared with models of the systems
// they are named after, written here from those systems' own rules. Next: tests/scaler_test.cpp for PyTorch's rule and
// the state machine.
#include <cmath>
#include <limits>

#include "amp/grad_scaler.h"
#include "core/ops.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::GradScaler;
using amp::GradScalerOptions;
using Catch::Matchers::Contains;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

// One parameter whose gradient is clean or overflowed; its optimizer's step does nothing.
struct OneParameter final : amp::Steppable {
  std::vector<Tensor> parameters() const override { return {p}; }
  std::string parameter_name(std::size_t) const override { return "p"; }
  void step_unless(const Tensor&) override {}
  Tensor p = ones({1}).requires_grad_();
};

// Runs one iteration; returns whether update() threw ScaleAtFloor.
bool iterate(GradScaler& scaler, OneParameter& opt, bool overflow) {
  scaler.scale(ones({}));
  opt.p.set_grad(full({1}, overflow ? inf : 1.0));
  scaler.step(opt);
  try {
    scaler.update();
  } catch (const amp::ScaleAtFloor&) {
    return true;
  }
  return false;
}
std::vector<double> trace(const GradScalerOptions& o, const std::vector<bool>& overflows) {
  GradScaler scaler(o);
  OneParameter opt;
  std::vector<double> scales;
  for (bool overflow : overflows) {
    iterate(scaler, opt, overflow);
    scales.push_back(scaler.get_scale());
  }
  return scales;
}
using V = std::vector<double>;
using B = std::vector<bool>;

// 10,000 overflow flags. Rare: single overflows and occasional bursts, so that long windows complete. Often: about as
// many backoffs as growths with a window of five.
constexpr int verdict_count = 10000;
std::vector<bool> verdicts(bool often) {
  const Philox random{seed()};
  std::vector<bool> list;
  for (int i = 0; i < verdict_count; ++i) {
    const double u = uniform_from_bits(random(static_cast<std::uint64_t>(i), often ? 7 : 8).v[0]);
    list.push_back(often ? u < 0.1 : u < (i % 4000 < 30 ? 0.7 : 0.0002));
  }
  return list;
}

// ---- each system's rule; update returns false if the system would end the run ----
struct Torch {
  float scale = 65536;
  int tracker = 0, interval = 2000;
  bool update(bool found_inf) {
    if (found_inf) {
      scale *= 0.5f;
      tracker = 0;
    } else if (++tracker == interval) {
      if (std::isfinite(scale * 2)) scale *= 2;
      tracker = 0;
    }
    return true;
  }
};
struct Apex {
  float scale = 65536;
  int unskipped = 0, interval = 2000;
  bool update(bool has_overflow) {
    if (has_overflow) {
      scale /= 2;
      unskipped = 0;
    } else {
      ++unskipped;
    }
    if (unskipped == interval) {
      scale = std::min(16777216.0f, scale * 2);
      unskipped = 0;
    }
    return true;
  }
};
struct Keras {
  float scale = 32768;
  int step_counter = 0, interval = 2000;
  bool update(bool overflow) {
    if (overflow) {
      step_counter = 0;
      scale *= 0.5f;
    } else if (step_counter == interval - 1) {
      step_counter = 0;
      if (std::isfinite(scale * 2)) scale *= 2;
    } else {
      ++step_counter;
    }
    return true;
  }
};
struct Jmp {
  float scale = 32768;
  int counter = 0, interval = 2000;
  bool update(bool overflow) {
    const bool finite = !overflow;
    const float grown = std::isfinite(scale * 2) ? scale * 2 : scale;
    scale = finite ? (counter == interval - 1 ? grown : scale) : std::max(1.0f, scale / 2);
    counter = finite ? (counter + 1) % interval : 0;
    return true;
  }
};
struct DeepSpeed {
  float scale = 65536;
  int iteration = 0, last_overflow = -1, left = 2, interval = 1000;
  bool update(bool overflow) {
    if (overflow) {
      if (left == 1) {
        if (scale == 1) return false;
        scale = std::max(scale / 2, 1.0f);
      } else {
        --left;
      }
      last_overflow = iteration;
    } else if ((iteration - last_overflow) % interval == 0) {
      left = 2;
      if (std::isfinite(scale * 2)) scale *= 2;
    }
    ++iteration;
    return true;
  }
};
struct Megatron {
  float scale = 4294967296.0f;
  int growth_tracker = 0, hysteresis_tracker = 2, interval = 1000;
  bool update(bool found_inf) {
    if (found_inf) {
      growth_tracker = 0;
      if (--hysteresis_tracker <= 0) scale = std::max(scale * 0.5f, 1.0f);
    } else if (++growth_tracker == interval) {
      growth_tracker = 0;
      hysteresis_tracker = 2;
      if (std::isfinite(scale * 2)) scale *= 2;
    }
    return true;
  }
};

// Replays the flags through both. Returns the number of iterations at which the scale changed.
template <class Model> int replay(GradScalerOptions options, bool often) {
  Model model;
  CHECK(options.init_scale == static_cast<double>(model.scale));
  CHECK(options.growth_interval == model.interval);
  if (often) options.growth_interval = model.interval = 5;
  GradScaler scaler(options);
  OneParameter opt;
  int changes = 0;
  float before = model.scale;
  for (bool overflow : verdicts(often)) {
    const bool goes_on = model.update(overflow);
    const bool raised = iterate(scaler, opt, overflow);
    REQUIRE(raised == !goes_on);
    REQUIRE(scaler.get_scale() == static_cast<double>(model.scale));
    if (!goes_on) break;
    changes += model.scale != before;
    before = model.scale;
  }
  return changes;
}
template <class Model> void check_preset(const GradScalerOptions& options) {
  MANTISSA_PRINT_SEED();
  CHECK(replay<Model>(options, false) > 10);
  CHECK(replay<Model>(options, true) > 10);
}

}  // namespace

TEST_CASE("G34: the torch preset, which is the default, replays PyTorch's rule", "[scaler][G34]") {
  check_preset<Torch>(amp::presets::torch());
  check_preset<Torch>({});
}
TEST_CASE("G34: the apex preset replays Apex's rule", "[scaler][G34]") { check_preset<Apex>(amp::presets::apex()); }
TEST_CASE("G34: the keras preset replays Keras' rule", "[scaler][G34]") { check_preset<Keras>(amp::presets::keras()); }
TEST_CASE("G34: the jmp preset replays jmp's rule", "[scaler][G34]") { check_preset<Jmp>(amp::presets::jmp()); }
TEST_CASE("G34: the deepspeed preset replays DeepSpeed's rule", "[scaler][G34]") {
  check_preset<DeepSpeed>(amp::presets::deepspeed());
}
TEST_CASE("G34: the megatron preset replays Megatron's rule", "[scaler][G34]") {
  check_preset<Megatron>(amp::presets::megatron());
}

TEST_CASE("G34: the deepspeed preset raises where DeepSpeed does", "[scaler][G34]") {
  GradScaler scaler(amp::presets::deepspeed());
  OneParameter opt;
  DeepSpeed model;
  int iterations = 0;
  while (model.update(true)) {
    CHECK(!iterate(scaler, opt, true));
    ++iterations;
  }
  CHECK(iterations == 17);  // one forgiven, sixteen halvings
  CHECK(iterate(scaler, opt, true));
  CHECK(!iterate(scaler, opt, false));
}

TEST_CASE("G32: the floor holds, raises or calls back", "[scaler][G32]") {
  OneParameter opt;
  GradScaler hold({.init_scale = 64, .min_scale = 3});
  for (int i = 0; i < 1000; ++i) CHECK(!iterate(hold, opt, true));
  CHECK(hold.get_scale() == 3);

  GradScaler raise({.init_scale = 4, .min_scale = 1, .at_floor = amp::AtFloor::raise, .floor_limit = 3});
  std::vector<bool> raised;
  for (bool overflow : {true, true, true, true, false, true, true, true})
    raised.push_back(iterate(raise, opt, overflow));
  CHECK(raised == B{false, false, false, false, false, false, false, true});
  raise.scale(ones({}));
  opt.p.set_grad(full({1}, inf));
  raise.step(opt);
  CHECK_THAT(message_of([&] { raise.update(); }), Contains("4 overflows in a row at the smallest scale, 1"));

  GradScaler told({.init_scale = 4, .min_scale = 1, .floor_limit = 2});
  std::vector<std::int64_t> updates;
  told.on_floor([&](const amp::FloorEvent& e) {
    CHECK(e.scale == 1);
    CHECK(e.overflows == 2);
    updates.push_back(e.update);
  });
  for (int i = 0; i < 1000; ++i) iterate(told, opt, true);
  CHECK(updates == std::vector<std::int64_t>{4});
  iterate(told, opt, false);
  iterate(told, opt, true);
  iterate(told, opt, true);
  CHECK(updates == std::vector<std::int64_t>{4, 1003});
}

TEST_CASE("a ceiling stops growth", "[scaler]") {
  CHECK(trace({.init_scale = 4, .growth_factor = 3, .growth_interval = 1, .max_scale = 20}, B(4, false)) ==
        V{12, 20, 20, 20});
}

TEST_CASE("factors that f32 cannot hold act in double and round once, as in PyTorch", "[scaler]") {
  float scale = 65536;
  V expected;
  for (int i = 0; i < 40; ++i)
    expected.push_back(static_cast<double>(scale = static_cast<float>(static_cast<double>(scale) * 0.7)));
  CHECK(trace({.backoff_factor = 0.7}, B(40, true)) == expected);
}

TEST_CASE("G33: hysteresis counts overflows in a row, or since the last growth", "[scaler][G33]") {
  const B overflows{true, true, false, true, true, true, true, false, false, false, true, true, true};
  const GradScalerOptions o{.init_scale = 64, .growth_interval = 3, .hysteresis = 3};
  GradScalerOptions budget = o;
  budget.hysteresis_mode = amp::Hysteresis::budget;
  CHECK(trace(o, overflows) == V{64, 64, 64, 64, 64, 32, 16, 16, 16, 32, 32, 32, 16});
  CHECK(trace(budget, overflows) == V{64, 64, 64, 32, 16, 8, 4, 4, 4, 8, 8, 8, 4});
  CHECK(trace({.init_scale = 64, .growth_interval = 3}, {true, false, true}) == V{32, 32, 16});
}

TEST_CASE("tolerance backs off only when enough of the iterations overflowed", "[scaler]") {
  MANTISSA_PRINT_SEED();
  constexpr double tolerance = 0.2;
  GradScaler scaler({.growth_interval = 20, .tolerance = tolerance});
  OneParameter opt;
  double scale = 65536;
  int clean = 0, since = 0, overflowed = 0, changes = 0;
  for (bool overflow : verdicts(true)) {
    ++since;
    const double before = scale;
    if (overflow) {
      clean = 0;
      ++overflowed;
      if (overflowed >= tolerance * since) scale /= 2;
    } else if (++clean == 20) {
      clean = 0;
      scale *= 2;
    }
    if (scale != before) since = overflowed = 0;
    changes += scale != before;
    iterate(scaler, opt, overflow);
    REQUIRE(scaler.get_scale() == scale);
  }
  CHECK(changes > 100);
}

TEST_CASE("a static scale never moves, and overflowed steps are still skipped", "[scaler]") {
  GradScaler scaler({.init_scale = 128, .growth_interval = 1, .static_scale = true});
  OneParameter opt;
  for (bool overflow : {false, true, false, false}) {
    iterate(scaler, opt, overflow);
    CHECK(scaler.last_skipped() == overflow);
    CHECK(scaler.get_scale() == 128);
  }
  CHECK(scaler.total_skipped() == 1);
}

TEST_CASE("G40: hysteresis and tolerance survive saving, and PyTorch's five keys are enough", "[scaler][G40]") {
  GradScalerOptions o = amp::presets::megatron();
  o.growth_interval = 4;
  o.tolerance = 0.3;
  OneParameter opt;
  GradScaler a(o), torch_state(o);
  for (bool overflow : {true, false, true, true, false, true}) iterate(a, opt, overflow);
  REQUIRE(a.state_dict().size() == 6);
  GradScaler b(o);
  b.load_state_dict(a.state_dict());
  for (bool overflow : {true, false, false, true, true, false, false, false, false, true, true, true}) {
    iterate(a, opt, overflow);
    iterate(b, opt, overflow);
    CHECK(b.get_scale() == a.get_scale());
  }
  auto five = a.state_dict();
  five.pop_back();
  torch_state.load_state_dict(five);
  CHECK(torch_state.get_scale() == a.get_scale());
  auto bad = a.state_dict();
  bad.back().second = scalar(-1);
  CHECK_THROWS(b.load_state_dict(bad));
}

TEST_CASE("G2: settings of the scale policy are validated", "[scaler][G2]") {
  const auto message = [](const GradScalerOptions& o) { return message_of([&] { GradScaler s(o); }); };
  CHECK_THAT(message({.min_scale = -1}), Contains("min_scale must be 0 or positive"));
  CHECK_THAT(message({.init_scale = 4, .min_scale = 8}), Contains("min_scale <= init_scale <= max_scale"));
  CHECK_THAT(message({.init_scale = 4, .max_scale = 2}), Contains("min_scale <= init_scale <= max_scale"));
  CHECK_THAT(message({.max_scale = std::nan("")}), Contains("max_scale"));
  CHECK_THAT(message({.hysteresis = 0}), Contains("hysteresis must be at least 1"));
  CHECK_THAT(message({.tolerance = 1}), Contains("tolerance"));
  CHECK_THAT(message({.floor_limit = 0}), Contains("floor_limit"));
  GradScaler bounded({.init_scale = 4, .min_scale = 1, .max_scale = 8});
  bounded.scale(ones({}));
  CHECK_THROWS(bounded.update(16.0));
  CHECK(bounded.get_scale() == 4);
}
