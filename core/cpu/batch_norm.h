// Shared by the two implementations of batch norm: planes per channel (core/cpu/norm.cpp) and channels innermost in
// memory (core/cpu/batch_norm_channels.cpp). Both can end in y = max(0, normalised + z). Without z, backward needs no
// further tensor for that: the mask is recomputed from x.
#pragma once

#include <vector>

#include "core/batch_norm.h"
#include "core/cpu/channel_statistics.h"

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

// The batch statistics over `count` elements per channel: the mean, and the biased variance, which is stored in inv_std
// for now. Updates the running mean and (unbiased) variance.
template <class C>
void use_statistics(const BatchNormForward& f, std::int64_t count, const Statistics& batch) {
  C *mean = f.mean.as<C>(), *var = f.inv_std.as<C>();
  std::vector<C> unbiased(batch.mean.size());
  for (std::size_t c = 0; c < unbiased.size(); ++c) {
    mean[c] = static_cast<C>(batch.mean[c]);
    var[c] = static_cast<C>(batch.squares[c] / static_cast<double>(count));
    unbiased[c] = static_cast<C>(batch.squares[c] / static_cast<double>(count - 1));
  }
  if (count <= 1) return;
  const auto channels = static_cast<std::int64_t>(unbiased.size());
  update_running(f.running_mean, channels, f.momentum, static_cast<const C*>(mean));
  update_running(f.running_var, channels, f.momentum, static_cast<const C*>(unbiased.data()));
}

// Formulas over vectors and numbers. The normalised x is (x - mean) * scale + shift in this order, so that a large mean
// costs no precision; shared by forward and backward, so that they agree on the activation mask.
struct Normalise {
  template <class V>
  V operator()(const V& x, const V& mean, const V& scale, const V& shift) const {
    return (x - mean) * scale + shift;
  }
};
template <class V> V rectified(const V& v) { return xsimd::select(v < V(0), V(0), v); }  // propagates NaN, like relu
template <class V> V let_through(const V& g, const V& result) { return xsimd::select(result <= V(0), V(0), g); }

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
