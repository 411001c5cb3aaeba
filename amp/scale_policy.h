// How the loss scale evolves: GradScaler's options, with other systems' rules as presets.
//
//   amp::GradScaler scaler(amp::presets::megatron());
//   amp::GradScalerOptions o = amp::presets::torch();
//   o.min_scale = 1;
//
// The default is exactly torch.amp.GradScaler's rule. An iteration overflows if a gradient of any optimizer is inf or
// NaN. After an overflow the scale is multiplied by backoff_factor (unless hysteresis or tolerance suppress that),
// after growth_interval consecutive clean iterations by growth_factor (unless the result is not finite in f32). The
// rule as code: core/loss_scale.h.
#pragma once

#include <cstdint>
#include <limits>

#include "core/error.h"

namespace mantissa::amp {

enum class AtFloor : std::uint8_t {  // effect of an overflow when the scale is already min_scale
  hold,      // nothing: the step is skipped
  raise,     // update() throws ScaleAtFloor
  callback,  // calls the function given to GradScaler::on_floor
};
enum class Hysteresis : std::uint8_t {
  consecutive,  // consecutive overflows: a clean iteration resets the count
  budget,       // overflows since the scale last grew
};

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // consecutive clean iterations before the scale grows
  bool enabled = true;                  // false: scale, unscale_ and update do nothing, step just steps
  bool allow_f16_gradients = false;     // for f16 parameters: gradients lose range before they are unscaled
  bool allow_empty_step = false;        // an optimizer without any gradient is no error

  // Beyond PyTorch.
  double min_scale = 0;                                         // 0: no floor
  double max_scale = std::numeric_limits<double>::infinity();  // growth stops here
  std::int64_t hysteresis = 1;  // the scale backs off at this many overflows; earlier ones only skip
  Hysteresis hysteresis_mode = Hysteresis::consecutive;
  double tolerance = 0;         // overflows back off only from this fraction of iterations since the
                                // scale last changed, in [0, 1); as fairseq's threshold of loss scale
  bool static_scale = false;    // keep init_scale: overflowed steps are still skipped
  AtFloor at_floor = AtFloor::hold;
  std::int64_t floor_limit = 1;  // consecutive overflows at the floor before raise or callback
  bool recheck = false;          // check gradients modified between unscale_ and step again: one more
                                 // pass, only when unscale_ was called
  bool check_loss = false;       // a loss that is inf or NaN skips the step, is reported as a failure of
                                 // the forward, and leaves the scale alone
};

// Thrown by update() with AtFloor::raise; the iteration is complete and the scaler usable. On an asynchronous device it
// may be thrown some iterations late.
class ScaleAtFloor : public Error {
 public:
  using Error::Error;
};
struct FloorEvent {
  double scale = 0;
  std::int64_t overflows = 0;  // in a row, at the floor
  std::int64_t update = 0;     // iteration, counted from 1
};

// Rules and defaults of the systems they are named after. Where a system has no ceiling, growth still stops before
// infinity.
namespace presets {
GradScalerOptions torch();      // torch.amp.GradScaler: same as GradScalerOptions{}
GradScalerOptions apex();       // NVIDIA Apex's LossScaler: at most 2^24
GradScalerOptions deepspeed();  // window 1000, floor 1 that raises, hysteresis 2 as a budget
GradScalerOptions megatron();   // Megatron-LM: from 2^32, window 1000, floor 1, hysteresis 2 as a budget
GradScalerOptions keras();      // Keras 3's LossScaleOptimizer: from 2^15
GradScalerOptions jmp();        // jmp.DynamicLossScale: from 2^15, floor 1
}  // namespace presets

// Throws unless all settings are finite, positive and consistent. `what`: prefix of the message.
void check_options(const GradScalerOptions& options, const char* what);

}  // namespace mantissa::amp
