// Layer and batch normalisation with their gradients. Statistics take two passes (mean, then squared
// deviations), so a large mean costs no digits. Weight and bias may be absent (null).
#include "core/cpu/reduce.h"
#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(layer_norm, const View& y, const View& mean, const View& inv_std, const View& x,
                const View& weight, const View& bias, std::int64_t row, double eps)
MANTISSA_KERNEL(layer_norm_backward, const View& dx, const View& dweight, const View& dbias, const View& g,
                const View& x, const View& weight, const View& mean, const View& inv_std)
MANTISSA_KERNEL(batch_norm, const View& y, const View& mean, const View& inv_std, const View& x,
                const View& weight, const View& bias, const View& running_mean, const View& running_var,
                bool training, double momentum, double eps)
MANTISSA_KERNEL(batch_norm_backward, const View& dx, const View& dweight, const View& dbias, const View& g,
                const View& x, const View& weight, const View& mean, const View& inv_std, bool training)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

template <class C> std::unique_ptr<C[]> scratch(std::int64_t n) {
  return std::unique_ptr<C[]>(new C[static_cast<std::size_t>(n)]);
}

// --- layer_norm ---
template <class C> void normalise_row(std::int64_t n, C* y, const C* x, C mean, C inv_std, const C* weight, const C* bias) {
  const auto hat = [=](const auto& v) {
    using V = std::decay_t<decltype(v)>;
    return (v - V(mean)) * V(inv_std);
  };
  if (weight && bias) map_run(n, y, [=](auto v, auto w, auto b) { return hat(v) * w + b; }, x, weight, bias);
  else if (weight) map_run(n, y, [=](auto v, auto w) { return hat(v) * w; }, x, weight);
  else if (bias) map_run(n, y, [=](auto v, auto b) { return hat(v) + b; }, x, bias);
  else map_run(n, y, hat, x);
}

// With u = g * weight: dx = inv_std * (u - mean(u) - hat * mean(u * hat)), hat the normalised x.
template <class C> void layer_norm_backward_row(std::int64_t n, C* dx, const C* g, const C* x, C mean, C inv_std, const C* weight) {
  const auto hat = [=](const auto& v) {
    using V = std::decay_t<decltype(v)>;
    return (v - V(mean)) * V(inv_std);
  };
  const C* u = g;
  if (weight) {
    map_run(n, dx, [](auto a, auto w) { return a * w; }, g, weight);
    u = dx;
  }
  const C mean_u = fold_run<Sum>(n, u) / static_cast<C>(n);
  const C mean_u_hat = fold_run<Sum>(n, [=](auto a, auto v) { return a * hat(v); }, u, x) / static_cast<C>(n);
  map_run(n, dx, [=](auto a, auto v) {
    using V = decltype(v);
    return V(inv_std) * (a - V(mean_u) - hat(v) * V(mean_u_hat));
  }, u, x);
}

// --- batch_norm: x as [samples, channels, inner] ---
struct Planes {
  std::int64_t samples = 0, channels = 0, inner = 1;

  explicit Planes(const View& x) : samples(x.sizes[0]), channels(x.sizes[1]) {
    for (int d = 2; d < x.dim(); ++d) inner *= x.sizes[d];
  }
  std::int64_t count() const { return samples * inner; }
  template <class C> View view(const C* data) const {
    const Dims sizes{samples, channels, inner};
    return {const_cast<C*>(data), sizes, contiguous_strides(sizes), dtype_of<C>, cpu};
  }
  ReducePlan plan(const View& x) const { return ReducePlan({1, channels, 1}, x); }

  // rows(n, offset, channel, step): n elements from `offset`; their channel is channel + i * step.
  template <class F> void for_rows(F&& rows) const {
    if (inner == 1) {
      parallel_for(samples, std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, channels)), [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t s = first; s < last; ++s) rows(channels, s * channels, 0, true);
      });
    } else if (inner > 0) {
      parallel_for(samples * channels, std::max<std::int64_t>(1, grain_size / inner), [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) rows(inner, r * inner, r % channels, false);
      });
    }
  }
};

template <class C> void update_running(const View& running, std::int64_t channels, double momentum, const C* batch) {
  if (!running) return;
  auto values = scratch<C>(channels);
  load_run(values.get(), running.data, running.dtype, 0, running.strides[0], channels);
  for (std::int64_t c = 0; c < channels; ++c) {
    values[c] = static_cast<C>(1 - momentum) * values[c] + static_cast<C>(momentum) * batch[c];
  }
  store_run(running.data, running.dtype, 0, running.strides[0], values.get(), channels);
}

// The batch's mean and biased variance; the running ones move towards mean and unbiased variance.
template <class C> void batch_statistics(const Planes& p, const C* x, C* mean, C* var, const View& running_mean, const View& running_var, double momentum) {
  const View v = p.view(x);
  const ReducePlan plan = p.plan(v);
  const auto n = static_cast<C>(p.count());
  reduce<Sum>(plan, Elements<C>{v}, mean);
  for (std::int64_t c = 0; c < p.channels; ++c) mean[c] = mean[c] / n;
  reduce<Sum>(plan, SquaredDeviations<C>{v}, var, static_cast<const C*>(mean));
  if (p.count() > 1) {
    auto unbiased = scratch<C>(p.channels);
    for (std::int64_t c = 0; c < p.channels; ++c) unbiased[c] = var[c] / (n - 1);
    update_running(running_mean, p.channels, momentum, static_cast<const C*>(mean));
    update_running(running_var, p.channels, momentum, static_cast<const C*>(unbiased.get()));
  }
  for (std::int64_t c = 0; c < p.channels; ++c) var[c] = var[c] / n;
}

}  // namespace

// `row` elements are normalised together. mean and inv_std are of compute type.
void layer_norm(const View& y, const View& mean, const View& inv_std, const View& x, const View& weight,
                const View& bias, std::int64_t row, double eps) {
  if (y.numel() == 0) return;
  visit_compute(x.dtype, [&]<class C> {
    const Dense<C> in(x), w(weight), b(bias);
    DenseResult<C> out(y);
    parallel_for(y.numel() / row, std::max<std::int64_t>(1, grain_size / row), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) {
        const C* p = in.data() + r * row;
        const C m = fold_run<Sum>(row, p) / static_cast<C>(row);
        const C v = fold_run<Sum>(row, [=](auto e) { auto d = e - decltype(e)(m); return d * d; }, p) / static_cast<C>(row);
        const C s = C(1) / std::sqrt(v + static_cast<C>(eps));
        mean.as<C>()[r] = m;
        inv_std.as<C>()[r] = s;
        normalise_row(row, out.data() + r * row, p, m, s, w.data(), b.data());
      }
    });
    out.finish();
  });
}

// dweight = sum(g * hat) and dbias = sum(g) over rows: partial sums of blocks of rows, then over blocks.
void layer_norm_backward(const View& dx, const View& dweight, const View& dbias, const View& g,
                         const View& x, const View& weight, const View& mean, const View& inv_std) {
  visit_compute(x.dtype, [&]<class C> {
    const std::int64_t n = dweight.numel(), rows = n > 0 ? x.numel() / n : 0;
    const std::int64_t block = std::max<std::int64_t>(16, (rows + 63) / 64), blocks = (rows + block - 1) / block;
    const Dense<C> in(x), grad(g), w(weight), means(mean), inv_stds(inv_std);
    DenseResult<C> out(dx);
    auto partial = scratch<C>(std::max<std::int64_t>(1, blocks) * 2 * n);
    std::fill_n(partial.get(), std::max<std::int64_t>(1, blocks) * 2 * n, C(0));
    parallel_for(blocks, std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, block * n)), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t k = first; k < last; ++k) {
        C* __restrict dw = partial.get() + k * 2 * n;
        C* __restrict db = dw + n;
        for (std::int64_t r = k * block; r < std::min(rows, (k + 1) * block); ++r) {
          const C *p = in.data() + r * n, *q = grad.data() + r * n;
          const C m = means.data()[r], s = inv_stds.data()[r];
          layer_norm_backward_row(n, out.data() + r * n, q, p, m, s, w.data());
          for (std::int64_t j = 0; j < n; ++j) dw[j] += q[j] * ((p[j] - m) * s);
          for (std::int64_t j = 0; j < n; ++j) db[j] += q[j];
        }
      }
    });
    for (std::int64_t k = 1; k < blocks; ++k) {
      const C* from = partial.get() + k * 2 * n;
      for (std::int64_t j = 0; j < 2 * n; ++j) partial[j] += from[j];
    }
    std::copy_n(partial.get(), n, dweight.as<C>());
    std::copy_n(partial.get() + n, n, dbias.as<C>());
    out.finish();
  });
}

void batch_norm(const View& y, const View& mean, const View& inv_std, const View& x, const View& weight,
                const View& bias,
                const View& running_mean, const View& running_var, bool training, double momentum, double eps) {
  visit_compute(x.dtype, [&]<class C> {
    const Planes p(x);
    const Dense<C> in(x), w(weight), b(bias);
    DenseResult<C> out(y);
    C *m = mean.as<C>(), *s = inv_std.as<C>();
    if (training) {
      batch_statistics(p, in.data(), m, s, running_mean, running_var, momentum);
    } else {
      load_run(m, running_mean.data, running_mean.dtype, 0, running_mean.strides[0], p.channels);
      load_run(s, running_var.data, running_var.dtype, 0, running_var.strides[0], p.channels);
    }
    auto scale = scratch<C>(p.channels), shift = scratch<C>(p.channels);
    for (std::int64_t c = 0; c < p.channels; ++c) {
      s[c] = C(1) / std::sqrt(s[c] + static_cast<C>(eps));
      scale[c] = w.data() ? s[c] * w.data()[c] : s[c];
      shift[c] = b.data() ? b.data()[c] : C(0);
    }
    p.for_rows([&](std::int64_t n, std::int64_t offset, std::int64_t c, bool per_channel) {
      const C *from = in.data() + offset, *mc = m + c, *kc = scale.get() + c, *bc = shift.get() + c;
      if (per_channel) {
        map_run(n, out.data() + offset, [](auto v, auto a, auto k, auto d) { return (v - a) * k + d; }, from, mc, kc, bc);
      } else {
        const C a = *mc, k = *kc, d = *bc;
        map_run(n, out.data() + offset, [=](auto v) { using V = decltype(v); return (v - V(a)) * V(k) + V(d); }, from);
      }
    });
    out.finish();
  });
}

// Training: dx = weight * inv_std * (g - mean(g) - (x - mean) * inv_std^2 * mean(g * (x - mean))).
// Otherwise the statistics are constants: dx = weight * inv_std * g.
void batch_norm_backward(const View& dx, const View& dweight, const View& dbias, const View& g,
                         const View& x, const View& weight,
                         const View& mean, const View& inv_std, bool training) {
  visit_compute(x.dtype, [&]<class C> {
    const Planes p(x);
    const Dense<C> in(x), grad(g), w(weight), means(mean), inv_stds(inv_std);
    DenseResult<C> out(dx);
    const C *m = means.data(), *s = inv_stds.data();
    C *dw = dweight.as<C>(), *db = dbias.as<C>();
    const View v = p.view(in.data()), gv = p.view(grad.data());
    reduce<Sum>(p.plan(gv), Elements<C>{gv}, db);
    reduce<Sum>(p.plan(v), DeviationProducts<C>{in.data(), grad.data()}, dw, m);
    auto scale = scratch<C>(p.channels), mean_g = scratch<C>(p.channels), slope = scratch<C>(p.channels);
    const auto n = static_cast<C>(p.count());
    for (std::int64_t c = 0; c < p.channels; ++c) {
      scale[c] = w.data() ? s[c] * w.data()[c] : s[c];
      mean_g[c] = training ? db[c] / n : C(0);
      slope[c] = training ? s[c] * s[c] * (dw[c] / n) : C(0);
      dw[c] *= s[c];
    }
    p.for_rows([&](std::int64_t count, std::int64_t offset, std::int64_t c, bool per_channel) {
      const C *q = grad.data() + offset, *from = in.data() + offset;
      const C *mc = m + c, *kc = scale.get() + c, *gc = mean_g.get() + c, *sc = slope.get() + c;
      if (per_channel) {
        map_run(count, out.data() + offset, [](auto a, auto e, auto mu, auto k, auto mg, auto sl) { return k * (a - mg - (e - mu) * sl); },
                q, from, mc, kc, gc, sc);
      } else {
        const C mu = *mc, k = *kc, mg = *gc, sl = *sc;
        map_run(count, out.data() + offset, [=](auto a, auto e) { using V = decltype(a); return V(k) * (a - V(mg) - (e - V(mu)) * V(sl)); }, q, from);
      }
    });
    out.finish();
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
