// Batch norm with channels innermost in memory, vectorised over channels. Next: core/cpu/channels.h. Statistics read x
// once (core/cpu/channel_statistics.h), so training reads it twice in all.
#include <array>
#include <cmath>

#include "core/cpu/batch_norm.h"
#include "core/cpu/channel_statistics.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// Per-channel numbers for the elementwise passes, repeated for the columns of a row.
template <class C> struct Affine {
  std::vector<C> mean, scale, shift;
  Affine(const ChannelRows& s, const View& weight, const View& bias, const C* mean_, const C* inv_std) {
    std::vector<C> m(mean_, mean_ + s.channels), k = numbers<C>(weight, s.channels, C(1)),
                                                 d = numbers<C>(bias, s.channels, C(0));
    for (std::int64_t c = 0; c < s.channels; ++c) k[static_cast<std::size_t>(c)] *= inv_std[c];
    mean = s.repeat(m), scale = s.repeat(k), shift = s.repeat(d);
  }
};

template <bool relu, bool add, class T>
void normalise(const ChannelRows& s, T* y, const T* x, const T* z, const Affine<Compute<T>>& a) {
  s.for_blocks([&](std::int64_t b) {
    s.template for_elements<Compute<T>>(b, [&](const auto& lanes, std::int64_t i, std::int64_t j) {
      auto v = Normalise{}(lanes.load(x + i), lanes.load(a.mean.data() + j), lanes.load(a.scale.data() + j),
                           lanes.load(a.shift.data() + j));
      if constexpr (add) v = v + lanes.load(z + i);
      if constexpr (relu) v = rectified(v);
      lanes.store(y + i, v);
    });
  });
}

template <class T> void forward(const BatchNormForward& f) {
  using C = Compute<T>;
  const std::int64_t channels = f.x.sizes[1];
  const ChannelRows s(channels > 0 ? f.x.numel() / channels : 0, channels);
  const Pixels in(f.x, dtype_of<T>), residual(f.z, dtype_of<T>);
  C *mean = f.mean.as<C>(), *inv_std = f.inv_std.as<C>();
  if (f.training) {
    use_statistics<C>(f, s.pixels, channel_statistics(s, in.as<T>()));
  } else {
    load_run(mean, f.running_mean.data, f.running_mean.dtype, 0, f.running_mean.strides[0], channels);
    load_run(inv_std, f.running_var.data, f.running_var.dtype, 0, f.running_var.strides[0], channels);
  }
  for (std::int64_t c = 0; c < channels; ++c) inv_std[c] = C(1) / std::sqrt(inv_std[c] + static_cast<C>(f.eps));
  if (f.y.numel() == 0) return;
  const Affine<C> a(s, f.weight, f.bias, mean, inv_std);
  PixelsResult out(f.y);
  const auto run = [&]<bool relu, bool add> { normalise<relu, add>(s, out.as<T>(), in.as<T>(), residual.as<T>(), a); };
  if (f.relu && f.z) run.template operator()<true, true>();
  else if (f.relu) run.template operator()<true, false>();
  else if (f.z) run.template operator()<false, true>();
  else run.template operator()<false, false>();
  out.finish();
}

// Which gradients pass: all; those where the normalised x is positive; or those where the result y is positive (the
// passed gradient is then also dz, and stored).
enum class Mask { none, from_x, from_y };

template <Mask mask, class T> void backward(const BatchNormGradient& f) {
  using C = Compute<T>;
  const std::int64_t channels = f.x.sizes[1];
  C *dweight = f.dweight.as<C>(), *dbias = f.dbias.as<C>();
  if (f.x.numel() == 0) {
    std::fill_n(dweight, channels, C(0));
    std::fill_n(dbias, channels, C(0));
    return;
  }
  const ChannelRows s(f.x.numel() / channels, channels);
  const Pixels in(f.x, dtype_of<T>), gradient(f.g, dtype_of<T>), result(f.y, dtype_of<T>);
  PixelsResult out(f.dx), to_z(f.dz);
  const std::vector<C> mean = numbers<C>(f.mean, channels, C(0)), inv_std = numbers<C>(f.inv_std, channels, C(1));
  const Affine<C> a(s, f.weight, f.bias, mean.data(), inv_std.data());
  const T *x = in.as<T>(), *g = gradient.as<T>(), *y = result.as<T>();
  T *dx = out.as<T>(), *dz = to_z.as<T>();
  const C *mu = a.mean.data(), *scale = a.scale.data(), *shift = a.shift.data();
  // The gradient after the activation mask.
  const auto passed = [=](const auto& lanes, std::int64_t i, std::int64_t j, const auto& value) {
    const auto from = lanes.load(g + i);
    if constexpr (mask == Mask::from_x)
      return let_through(from, Normalise{}(value, lanes.load(mu + j), lanes.load(scale + j), lanes.load(shift + j)));
    else if constexpr (mask == Mask::from_y) return let_through(from, lanes.load(y + i));
    else return from;
  };
  const std::vector<double> sums = sum_over_pixels<2, C>(s, [=](const auto& lanes, std::int64_t i, std::int64_t j) {
    const auto value = lanes.load(x + i);
    const auto u = passed(lanes, i, j, value);
    if constexpr (mask == Mask::from_y) {
      if (dz) lanes.store(dz + i, u);
    }
    return std::array{u, u * (value - lanes.load(mu + j))};
  });
  std::vector<C> mean_g(static_cast<std::size_t>(channels), C(0)), slope = mean_g;
  const auto n = static_cast<double>(s.pixels);
  for (std::size_t c = 0; c < mean_g.size(); ++c) {
    const double inv = static_cast<double>(inv_std[c]), product = sums[static_cast<std::size_t>(channels) + c];
    dbias[c] = static_cast<C>(sums[c]);
    dweight[c] = static_cast<C>(product * inv);
    if (!f.training) continue;
    mean_g[c] = static_cast<C>(sums[c] / n);
    slope[c] = static_cast<C>(inv * inv * (product / n));
  }
  const std::vector<C> mean_gs = s.repeat(mean_g), slopes = s.repeat(slope);
  const C *mg = mean_gs.data(), *sl = slopes.data();
  s.for_blocks([&](std::int64_t b) {
    s.template for_elements<C>(b, [&](const auto& lanes, std::int64_t i, std::int64_t j) {
      const auto value = lanes.load(x + i);
      const auto u = passed(lanes, i, j, value);
      lanes.store(dx + i,
                  lanes.load(scale + j) * (u - lanes.load(mg + j) - (value - lanes.load(mu + j)) * lanes.load(sl + j)));
    });
  });
  out.finish();
  to_z.finish();
}

}  // namespace

void batch_norm_channels(const BatchNormForward& f) {
  visit_floating(f.x.dtype, [&]<class T> { forward<T>(f); });
}

// Training: dx = weight * inv_std * (g - mean(g) - (x - mean) * inv_std^2 * mean(g * (x - mean))).
// Otherwise the statistics are constants: dx = weight * inv_std * g.
void batch_norm_channels_backward(const BatchNormGradient& f) {
  visit_floating(f.x.dtype, [&]<class T> {
    if (f.relu && f.y) backward<Mask::from_y, T>(f);
    else if (f.relu) backward<Mask::from_x, T>(f);
    else backward<Mask::none, T>(f);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
