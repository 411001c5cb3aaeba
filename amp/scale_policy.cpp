#include "amp/scale_policy.h"

#include <cmath>

namespace mantissa::amp {

namespace presets {

GradScalerOptions torch() { return {}; }
GradScalerOptions apex() { return {.max_scale = 0x1p24}; }
GradScalerOptions deepspeed() {
  return {.growth_interval = 1000, .min_scale = 1, .hysteresis = 2, .hysteresis_mode = Hysteresis::budget,
          .at_floor = AtFloor::raise};
}
GradScalerOptions megatron() {
  return {.init_scale = 0x1p32, .growth_interval = 1000, .min_scale = 1, .hysteresis = 2,
          .hysteresis_mode = Hysteresis::budget};
}
GradScalerOptions keras() { return {.init_scale = 0x1p15}; }
GradScalerOptions jmp() { return {.init_scale = 0x1p15, .min_scale = 1}; }

}  // namespace presets

void check_options(const GradScalerOptions& o, const char* what) {
  const float init = static_cast<float>(o.init_scale);
  check(init > 0 && std::isfinite(init), what, ": the scale must be positive and finite in f32, got ", o.init_scale);
  check(o.growth_factor > 1 && std::isfinite(o.growth_factor), what, ": growth_factor must be above 1 and finite, got ",
        o.growth_factor);
  check(o.backoff_factor > 0 && o.backoff_factor < 1, what, ": backoff_factor must be between 0 and 1, got ",
        o.backoff_factor);
  check(o.growth_interval >= 1 && o.growth_interval <= std::numeric_limits<std::int32_t>::max(), what,
        ": growth_interval must be at least 1 and fit 32 bits, got ", o.growth_interval);
  check(o.min_scale >= 0 && std::isfinite(static_cast<float>(o.min_scale)), what,
        ": min_scale must be 0 or positive, and finite in f32, got ", o.min_scale);
  check(o.max_scale > 0, what, ": max_scale must be positive, got ", o.max_scale);
  check(o.min_scale <= o.init_scale && o.init_scale <= o.max_scale, what,
        ": needs min_scale <= init_scale <= max_scale, got ", o.min_scale, ", ", o.init_scale, " and ", o.max_scale);
  check(o.hysteresis >= 1, what, ": hysteresis must be at least 1, got ", o.hysteresis);
  check(o.tolerance >= 0 && o.tolerance < 1, what, ": tolerance must be at least 0 and below 1, got ", o.tolerance);
  check(o.floor_limit >= 1, what, ": floor_limit must be at least 1, got ", o.floor_limit);
}

}  // namespace mantissa::amp
