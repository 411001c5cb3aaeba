// What the two ways of batch norm share: planes of one channel (core/cpu/norm.cpp) and channels innermost in memory
// (core/cpu/batch_norm_channels.cpp). Both can end in y = max(0, normalised + z), for which backward needs no further
// tensor where there is no z: the mask is made again from x.
#pragma once

#include <vector>

#include "core/batch_norm.h"
#include "core/cpu/rows.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

void batch_norm_channels(const BatchNormForward& f);
void batch_norm_channels_backward(const BatchNormGradient& f);

template <class C> void update_running(const View& running, std::int64_t channels, double momentum, const C* batch) {
  if (!running) return;
  std::vector<C> values(static_cast<std::size_t>(channels));
  load_run(values.data(), running.data, running.dtype, 0, running.strides[0], channels);
  for (std::int64_t c = 0; c < channels; ++c) {
    values[static_cast<std::size_t>(c)] =
        static_cast<C>(1 - momentum) * values[static_cast<std::size_t>(c)] + static_cast<C>(momentum) * batch[c];
  }
  store_run(running.data, running.dtype, 0, running.strides[0], values.data(), channels);
}

// Formulas over vectors and numbers. The normalised x is (x - mean) * scale + shift in this order, so that a large
// mean costs no digits; forward and backward share it, so that they agree on what the activation let through.
struct Normalise {
  template <class V>
  V operator()(const V& x, const V& mean, const V& scale, const V& shift) const {
    return (x - mean) * scale + shift;
  }
};
template <class V> V rectified(const V& v) { return xsimd::select(v < V(0), V(0), v); }  // NaN stays, as in relu
template <class V> V let_through(const V& g, const V& result) { return xsimd::select(result <= V(0), V(0), g); }

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
