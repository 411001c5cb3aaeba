// Saving and loading of a GradScaler, in PyTorch's form.
#include <cmath>

#include "amp/grad_scaler.h"
#include "core/ops.h"
#include "core/recorded_memory.h"

namespace mantissa::amp {
namespace {

constexpr const char* keys[] = {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"};
// ScaleCounters' fields besides the growth tracker: forgiven, iterations, overflows.
constexpr const char* extra_key = "_mantissa_counters";
constexpr std::int64_t extra_count = 3;

bool counts_more_than_pytorch(const GradScalerOptions& o) { return o.hysteresis > 1 || o.tolerance > 0; }

const Tensor* find(const std::vector<std::pair<std::string, Tensor>>& state, std::string_view name) {
  for (const auto& [key, t] : state) if (key == name) return &t;
  return nullptr;
}
std::int64_t count_from(const char* name, double value, double smallest) {
  check(value >= smallest && value < 0x1p31 && value == std::floor(value), "GradScaler.load_state_dict: ", name,
        " must be a whole number from ", smallest, " on, got ", value);
  return static_cast<std::int64_t>(value);
}

}  // namespace

void GradScaler::set_counters(const std::array<std::int64_t, 5>& values) {
  state_.slice(0, 0, 5).copy_(from_data<std::int64_t>(std::span<const std::int64_t>(values), {5}));
}

std::vector<std::pair<std::string, Tensor>> GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  const std::scoped_lock lock(stepping_, mutex_);
  between_iterations("saved");
  std::vector<std::int64_t> counters(init_counters_.begin(), init_counters_.end());
  if (state_.defined()) counters = state_.slice(0, 0, 5).to_vector<std::int64_t>();
  const auto number = [](auto x, Dtype dtype) { return scalar(static_cast<double>(x), {.dtype = dtype}); };
  std::vector<std::pair<std::string, Tensor>> state{{keys[0], number(read_scale(), f64)},
                                                    {keys[1], number(options_.growth_factor, f64)},
                                                    {keys[2], number(options_.backoff_factor, f64)},
                                                    {keys[3], number(options_.growth_interval, i64)},
                                                    {keys[4], number(counters[0], i64)}};
  if (counts_more_than_pytorch(options_)) {
    state.emplace_back(extra_key, from_data<std::int64_t>(std::span(counters).subspan(1, 3), {extra_count}));
  }
  return state;
}

void GradScaler::load_state_dict(const std::vector<std::pair<std::string, Tensor>>& state, CallSite site) {
  if (!options_.enabled) return;
  const std::scoped_lock lock(stepping_, mutex_);
  check(!state.empty(),
        "GradScaler.load_state_dict: the state is empty: was it saved from a disabled scaler? Construct "
        "this one disabled too");
  between_iterations("loaded");
  double values[5];
  for (int k = 0; k < 5; ++k) {
    const Tensor* found = find(state, keys[k]);
    check(found && found->defined() && found->numel() == 1, "GradScaler.load_state_dict: needs \"", keys[k],
          "\", a number");
    values[k] = found->item<double>();
  }
  const Tensor* extra = find(state, extra_key);
  check(state.size() == (extra ? 6u : 5u), "GradScaler.load_state_dict: expected ", extra ? 6 : 5, " entries, found ",
        state.size(), "; was it saved by a later version?");
  GradScalerOptions loaded = options_;
  loaded.init_scale = values[0];
  loaded.growth_factor = values[1];
  loaded.backoff_factor = values[2];
  loaded.growth_interval = count_from(keys[3], values[3], 1);
  check_options(loaded, "GradScaler.load_state_dict");
  std::array<std::int64_t, 5> counters{};
  counters[0] = count_from(keys[4], values[4], 0);
  if (extra) {
    check(extra->defined() && extra->numel() == extra_count, "GradScaler.load_state_dict: \"", extra_key,
          "\" must be three numbers");
    const std::vector<double> more = extra->to_vector<double>();
    for (std::size_t k = 0; k < more.size(); ++k) counters[k + 1] = count_from(extra_key, more[k], 0);
  }
  options_.init_scale = loaded.init_scale;
  options_.growth_factor = loaded.growth_factor;
  options_.backoff_factor = loaded.backoff_factor;
  options_.growth_interval = loaded.growth_interval;
  init_counters_ = counters;
  if (!scale_.defined()) return;
  cuda_backend::outdate_recordings(scale_);  // as by set_growth_factor
  scale_.fill_(values[0]);
  set_counters(counters);
  scale_set("load_state_dict()", site);
}

}  // namespace mantissa::amp
