// Multi-tensor kernels, which process many tensors in one call: optimizer updates, the loss scaler's unscaling,
// gradient norms and clipping. Every tensor is dense and treated as a flat array. Work is cut into blocks of fixed size
// over the concatenation of all tensors, so results do not depend on the number of threads. Values that change from
// step to step are read from device memory.
// Next: core/optim_formulas.h (the updates), core/cpu/optim.cpp, core/cpu/gradients.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "core/host_device.h"
#include "core/kernel.h"
#include "core/loss_scale.h"

namespace mantissa {

struct GradientView {
  void* data = nullptr;
  std::int64_t numel = 0;
  Dtype dtype = f32;
  std::int64_t index = 0;  // of the parameter, for reports
};

// 1 / scale, and the factor by which clipping scales gradients of this norm: shared by all kernels that need them.
// 1 / scale in two factors. The second is 1 except for scales beyond 2^126: their inverses are denormal, and would be
// flushed to 0 (core/parallel.h). Without overflows to stop it, a scale grows up to 2^127.
struct InverseScale { float factor, rest; };
MANTISSA_HD inline InverseScale inverse_scale(float scale) {
  constexpr double most = 0x1p126;
  const double s = static_cast<double>(scale);
  if (s > most) return {static_cast<float>(1 / most), static_cast<float>(most / s)};
  return {static_cast<float>(1 / s), 1.0f};
}
MANTISSA_HD inline double clip_factor(float norm, double max_norm) {
  const double wanted = max_norm / (static_cast<double>(norm) + 1e-6);
  return wanted > 1 ? 1 : wanted;  // a NaN norm gives NaN gradients, as in PyTorch
}

// What an update applies to gradients while reading them, instead of separate passes over memory before it: it divides
// them by *scale and clips them to max_norm. For f32 and f64 bitwise equal to unscale_gradients followed by
// scale_gradients; f16 and bf16 gradients are not rounded in between. A null pointer disables that part.
struct GradientReading {
  const float* scale = nullptr;
  const float* norm = nullptr;  // of the gradients after division by *scale
  double max_norm = 0;

  template <class C> struct Factors {
    C unscale, clip;
    MANTISSA_HD C operator()(C g) const { return g * unscale * clip; }
  };
  template <class C> MANTISSA_HD Factors<C> factors() const {
    const InverseScale inverse = scale ? inverse_scale(*scale) : InverseScale{1, 1};
    return {static_cast<C>(inverse.factor),
            static_cast<C>(norm ? clip_factor(*norm, max_norm) : 1.0) * static_cast<C>(inverse.rest)};
  }
  MANTISSA_HD bool as_they_are() const { return !scale && !norm; }
};

// One parameter of an optimizer step. `step` counts this parameter's updates. State is read and written in the compute
// dtype of the parameter; state stored in bf16 is rounded stochastically, because rounding to nearest would lose every
// change below 0.4 % of a moment, and slow moments change by less.
struct ParameterView {
  static constexpr int max_states = 3;
  void* value = nullptr;
  const void* gradient = nullptr;
  void* state[max_states] = {};
  void* shadow = nullptr;  // low-precision copy of the value, updated with it; null if there is none
  double* scalars = nullptr;  // per-parameter numbers, for formulas that have some
  std::int64_t* step = nullptr;
  std::int64_t numel = 0;
  Dtype dtype = f32, gradient_dtype = f32, shadow_dtype = f32, state_dtype = f32;
};

// Updates every parameter by formula number `formula` of optim_formulas::Formulas, whose fields are the doubles at
// `hyper`, and advances its step count. Does nothing if `skip` points to true.
MANTISSA_KERNEL(optimizer_step, int formula, const double* hyper, const bool* skip, const GradientReading& reading,
                std::span<const ParameterView> parameters)

// g = g / scale in place, or not stored if `write` is false. In both cases *summary describes the results as rounded to
// g's dtype, and *found_inf tells whether one of them is not finite, or *before is true (`before` may be null). *norm,
// unless null, is bitwise that of gradient_norm with p = 2.
MANTISSA_KERNEL(unscale_gradients, std::span<const GradientView> gradients, const float* scale, bool write,
                const bool* before, bool* found_inf, GradientSummary* summary, float* norm)

// One iteration of the loss scale: state->iterate(*scale, ...). `forward_failed` may be null.
MANTISSA_KERNEL(update_loss_scale, float* scale, ScalerState* state, std::span<const Verdict> verdicts,
                const bool* forward_failed, const ScaleRule& rule)

// *norm = (sum over all elements of |g|^p)^(1/p), or the largest |g| for p = infinity.
MANTISSA_KERNEL(gradient_norm, std::span<const GradientView> gradients, double p, float* norm)
// g *= min(1, max_norm / (*norm + 1e-6)).
MANTISSA_KERNEL(scale_gradients, std::span<const GradientView> gradients, const float* norm, double max_norm)
// g = min(max(g, -limit), limit).
MANTISSA_KERNEL(clamp_gradients, std::span<const GradientView> gradients, double limit)

}  // namespace mantissa
