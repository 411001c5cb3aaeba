// Batch norm for contiguous layouts, where each channel of a sample is a plane in memory; channels-last layouts are
// handled by core/cpu/batch_norm_channels.cpp. Statistics are computed from blocks that are read twice while in cache
// (mean, then deviations), so a large mean costs no precision. Weight and bias may be absent (null).
#include "core/cpu/batch_norm.h"

#include "core/cpu/planes.h"
#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(batch_norm, const BatchNormForward& f)
MANTISSA_KERNEL(batch_norm_backward, const BatchNormGradient& f)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// rows(n, offset, channel): n elements of one channel from `offset`.
template <class F> void for_rows(const Planes& p, F&& rows) {
  if (p.inner == 0) return;
  parallel_for(p.samples * p.channels, std::max<std::int64_t>(1, grain_size / p.inner),
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t r = first; r < last; ++r) rows(p.inner, r * p.inner, r % p.channels);
               });
}

// Per block the mean, and then, while it is in cache, the deviations from it.
template <class T, class C = Compute<T>> Statistics plane_statistics(const Planes& p, const T* x) {
  std::unique_ptr<C[]> partial(new C[static_cast<std::size_t>(p.blocks * 3 * p.channels)]);
  p.for_blocks([&](std::int64_t b, std::int64_t c) {
    const auto [sum] = p.sum_block<1, C>(
        b, c, [&](const auto& lanes, std::int64_t i) { return std::array{lanes.load(x + i)}; });
    const C centre = sum / static_cast<C>(p.elements_in(b));
    const auto [away, squares] = p.sum_block<2, C>(b, c, [&](const auto& lanes, std::int64_t i) {
      const auto d = lanes.load(x + i) - Vec<C>(centre);
      return std::array{d, d * d};
    });
    C* out = partial.get() + b * 3 * p.channels + c;
    out[0] = centre, out[p.channels] = away, out[2 * p.channels] = squares;
  });
  return join_blocks(p.blocks, p.channels, static_cast<const C*>(partial.get()),
                     [&](std::int64_t b) { return p.elements_in(b); });
}

// y = max(0, normalised x + z) of one run; relu and add are optional.
template <bool relu, bool add, class T, class F>
void finish_run(std::int64_t n, T* y, const T* x, const T* z, const F& normalised) {
  for_vectors<Compute<T>>(n, [&](const auto& lanes, std::int64_t j) {
    auto v = normalised(lanes.load(x + j));
    if constexpr (add) v = v + lanes.load(z + j);
    if constexpr (relu) v = rectified(v);
    lanes.store(y + j, v);
  });
}

}  // namespace

void batch_norm(const BatchNormForward& f) {
  if (f.training && f.batches) ++*f.batches.as<std::int64_t>();
  if (channels_are_innermost(f.x)) return batch_norm_channels(f);
  visit_floating(f.x.dtype, [&]<class T> {
    using C = Compute<T>;
    const Planes p(f.x);
    const Dense<T> in(f.x), residual(f.z);
    const Dense<C> w(f.weight), b(f.bias);
    DenseResult<T> out(f.y);
    C *m = f.mean.as<C>(), *s = f.inv_std.as<C>();
    if (f.training) {
      use_statistics<C>(f, p.count(), plane_statistics(p, in.data()));
    } else {
      load_run(m, f.running_mean.data, f.running_mean.dtype, 0, f.running_mean.strides[0], p.channels);
      load_run(s, f.running_var.data, f.running_var.dtype, 0, f.running_var.strides[0], p.channels);
    }
    for (std::int64_t c = 0; c < p.channels; ++c) s[c] = C(1) / std::sqrt(s[c] + static_cast<C>(f.eps));
    for_rows(p, [&](std::int64_t n, std::int64_t offset, std::int64_t c) {
      const C scale = w.data() ? s[c] * w.data()[c] : s[c], shift = b.data() ? b.data()[c] : C(0), mean = m[c];
      const auto normalised = [=](const Vec<C>& v) {
        return Normalise{}(v, Vec<C>(mean), Vec<C>(scale), Vec<C>(shift));
      };
      T* y = out.data() + offset;
      const T *x = in.data() + offset, *z = residual.data() ? residual.data() + offset : nullptr;
      if (z && f.relu) finish_run<true, true>(n, y, x, z, normalised);
      else if (z) finish_run<false, true>(n, y, x, z, normalised);
      else if (f.relu) finish_run<true, false>(n, y, x, z, normalised);
      else finish_run<false, false>(n, y, x, z, normalised);
    });
    out.finish();
  });
}

// The gradients that passed the activation, in a separate buffer.
template <class T, class C = Compute<T>>
Tensor passed(const BatchNormGradient& f, const Planes& p, const T* g, const T* x, const C* weight, const C* bias,
              const C* mean, const C* inv_std) {
  const Tensor mask = Tensor::allocate(f.x.sizes, dtype_of<T>);
  const Dense<T> result(f.y);
  for_rows(p, [&](std::int64_t n, std::int64_t offset, std::int64_t c) {
    T* to = mask.data<T>() + offset;
    const T *from = g + offset, *y = result.data() + offset, *v = x + offset;
    if (result.data()) {
      return for_vectors<C>(n, [&](const auto& lanes, std::int64_t j) {
        lanes.store(to + j, let_through(lanes.load(from + j), lanes.load(y + j)));
      });
    }
    const Vec<C> m(mean[c]), scale(weight ? inv_std[c] * weight[c] : inv_std[c]), shift(bias ? bias[c] : C(0));
    for_vectors<C>(n, [&](const auto& lanes, std::int64_t j) {
      lanes.store(to + j, let_through(lanes.load(from + j), Normalise{}(lanes.load(v + j), m, scale, shift)));
    });
  });
  return mask;
}

// Formulas: core/cpu/batch_norm_channels.cpp.
void batch_norm_backward(const BatchNormGradient& f) {
  if (channels_are_innermost(f.x)) return batch_norm_channels_backward(f);
  visit_floating(f.x.dtype, [&]<class T> {
    using C = Compute<T>;
    const Planes p(f.x);
    const Dense<T> in(f.x), given(f.g);
    const Dense<C> w(f.weight), b(f.bias), means(f.mean), inv_stds(f.inv_std);
    DenseResult<T> out(f.dx);
    const C *m = means.data(), *s = inv_stds.data();
    const T* g = given.data();
    C *dw = f.dweight.as<C>(), *db = f.dbias.as<C>();
    Tensor masked;
    if (f.relu) {
      masked = passed(f, p, g, in.data(), w.data(), b.data(), m, s);
      g = masked.data<T>();
    }
    if (f.dz) copy(f.dz, View{const_cast<T*>(g), f.dz.sizes, contiguous_strides(f.dz.sizes), dtype_of<T>, cpu});
    const T* x = in.data();
    const std::vector<double> sums =
        p.sum_channels<2, C>([=](const auto& lanes, std::int64_t i, std::int64_t c) {
          const auto u = lanes.load(g + i);
          return std::array{u, u * (lanes.load(x + i) - Vec<C>(m[c]))};
        });
    std::vector<C> scale(static_cast<std::size_t>(p.channels), C(0)), mean_g = scale, slope = scale;
    const auto n = static_cast<double>(p.count());
    for (std::size_t c = 0; c < scale.size(); ++c) {
      const double inv = static_cast<double>(s[c]), product = sums[scale.size() + c];
      scale[c] = w.data() ? s[c] * w.data()[c] : s[c];
      db[c] = static_cast<C>(sums[c]);
      dw[c] = static_cast<C>(product * inv);
      if (!f.training) continue;
      mean_g[c] = static_cast<C>(sums[c] / n);
      slope[c] = static_cast<C>(inv * inv * (product / n));
    }
    for_rows(p, [&](std::int64_t count, std::int64_t offset, std::int64_t c) {
      const auto i = static_cast<std::size_t>(c);
      const Vec<C> mu(m[c]), k(scale[i]), mg(mean_g[i]), sl(slope[i]);
      T* to = out.data() + offset;
      const T *from = g + offset, *v = x + offset;
      for_vectors<C>(count, [&](const auto& lanes, std::int64_t j) {
        lanes.store(to + j, k * (lanes.load(from + j) - mg - (lanes.load(v + j) - mu) * sl));
      });
    });
    out.finish();
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
