// How the loss scale moves: the options of GradScaler and the rules of other systems as presets.
//
//   amp::GradScaler scaler(amp::presets::megatron());
//   amp::GradScalerOptions o = amp::presets::torch();
//   o.min_scale = 1;
//
// The default is exactly torch.amp.GradScaler's rule. An iteration overflows when a gradient of any
// optimizer is inf or NaN. Per iteration: after an overflow the scale is multiplied by backoff_factor
// (unless hysteresis or tolerance let it pass), after growth_interval clean ones in a row by
// growth_factor (unless the result is not finite in f32). core/loss_scale.h has the rule as code.
#pragma once

#include <cstdint>
#include <limits>

#include "core/error.h"

namespace mantissa::amp {

enum class AtFloor : std::uint8_t {  // what an overflow does when the scale is already min_scale
  hold,      // nothing: the step is skipped
  raise,     // update() throws ScaleAtFloor
  callback,  // calls the function given to GradScaler::on_floor
};
enum class Hysteresis : std::uint8_t {
  consecutive,  // overflows in a row: a clean iteration forgives them
  budget,       // overflows since the scale last grew
};

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // clean iterations in a row before the scale grows
  bool enabled = true;                  // false: scale, unscale_ and update do nothing, step just steps
  bool allow_f16_gradients = false;     // f16 parameters: gradients lose range before they are unscaled
  bool allow_empty_step = false;        // an optimizer without any gradient is no error

  // Beyond PyTorch.
  double min_scale = 0;                                         // 0: no floor
  double max_scale = std::numeric_limits<double>::infinity();  // growth stops here
  std::int64_t hysteresis = 1;  // the scale backs off at this many overflows; those before only skip
  Hysteresis hysteresis_mode = Hysteresis::consecutive;
  double tolerance = 0;         // overflows back off only from this part of the iterations since the
                                // scale last changed, in [0, 1); as fairseq's threshold of loss scale
  bool static_scale = false;    // init_scale for ever: overflowed steps are still skipped
  AtFloor at_floor = AtFloor::hold;
  std::int64_t floor_limit = 1;  // how many overflows in a row at the floor until raise or callback
  bool recheck = false;          // gradients changed between unscale_ and step are checked again: one more
                                 // pass, only when unscale_ was called
  bool check_loss = false;       // a loss that is inf or NaN skips the step, is reported as a failure of
                                 // the forward, and leaves the scale alone
};

// Thrown by update() when AtFloor::raise; the iteration is complete and the scaler usable. On a device
// that runs behind the host it comes some iterations late.
class ScaleAtFloor : public Error {
 public:
  using Error::Error;
};
struct FloorEvent {
  double scale = 0;
  std::int64_t overflows = 0;  // in a row, at the floor
  std::int64_t update = 0;     // iteration, counted from 1
};

// Rules and defaults as in the systems they are named after. Where a system has no ceiling, growth
// still stops before infinity.
namespace presets {
GradScalerOptions torch();      // torch.amp.GradScaler: also what GradScalerOptions{} is
GradScalerOptions apex();       // NVIDIA Apex's LossScaler: at most 2^24
GradScalerOptions deepspeed();  // window 1000, floor 1 that raises, hysteresis 2 as a budget
GradScalerOptions megatron();   // Megatron-LM: from 2^32, window 1000, floor 1, hysteresis 2 as a budget
GradScalerOptions keras();      // Keras 3's LossScaleOptimizer: from 2^15
GradScalerOptions jmp();        // jmp.DynamicLossScale: from 2^15, floor 1
}  // namespace presets

// Throws unless every setting is finite, positive and in order. `what` starts the message.
void check_options(const GradScalerOptions& options, const char* what);

}  // namespace mantissa::amp
