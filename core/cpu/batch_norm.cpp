// Batch norm where each channel of a sample is a plane of its own in memory; what has its channels innermost goes to
// core/cpu/batch_norm_channels.cpp. Statistics take two passes (mean, then squared deviations), so a large mean costs
// no digits. Weight and bias may be absent (null).
#include "core/cpu/batch_norm.h"

#include "core/cpu/reduce.h"
#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(batch_norm, const View& y, const View& mean, const View& inv_std, const View& x, const View& weight,
                const View& bias, const View& running_mean, const View& running_var, bool training, double momentum,
                double eps)
MANTISSA_KERNEL(batch_norm_backward, const View& dx, const View& dweight, const View& dbias, const View& g,
                const View& x, const View& weight, const View& mean, const View& inv_std, bool training)
MANTISSA_KERNEL(batch_norm_act, const View& y, const View& mean, const View& inv_std, const View& x, const View& weight,
                const View& bias, const View& z, const View& running_mean, const View& running_var, bool training,
                double momentum, double eps)
MANTISSA_KERNEL(batch_norm_act_backward, const View& dx, const View& dweight, const View& dbias, const View& dz,
                const View& g, const View& x, const View& weight, const View& bias, const View& mean,
                const View& inv_std, const View& y, bool training)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

template <class C> std::unique_ptr<C[]> scratch(std::int64_t n) {
  return std::unique_ptr<C[]>(new C[static_cast<std::size_t>(n)]);
}

// x as [samples, channels, inner].
struct Planes {
  std::int64_t samples = 0, channels = 0, inner = 1;

  explicit Planes(const View& x) : samples(x.sizes[0]), channels(x.sizes[1]) {
    for (int d = 2; d < x.dim(); ++d) inner *= x.sizes[d];
  }
  std::int64_t count() const { return samples * inner; }
  template <class T> View view(const T* data) const {
    const Dims sizes{samples, channels, inner};
    return {const_cast<T*>(data), sizes, contiguous_strides(sizes), dtype_of<T>, cpu};
  }
  ReducePlan plan(const View& x) const { return ReducePlan({1, channels, 1}, x); }

  // rows(n, offset, channel): n elements of one channel from `offset`.
  template <class F> void for_rows(F&& rows) const {
    if (inner == 0) return;
    parallel_for(samples * channels, std::max<std::int64_t>(1, grain_size / inner),
                 [&](std::int64_t first, std::int64_t last) {
                   for (std::int64_t r = first; r < last; ++r) rows(inner, r * inner, r % channels);
                 });
  }
};

// The batch's mean and biased variance; the running ones move towards mean and unbiased variance.
template <class T, class C = Compute<T>>
void batch_statistics(const Planes& p, const T* x, C* mean, C* var, const View& running_mean, const View& running_var,
                      double momentum) {
  const View v = p.view(x);
  const ReducePlan plan = p.plan(v);
  const auto n = static_cast<C>(p.count());
  reduce<Sum>(plan, Elements<C>{v}, mean);
  for (std::int64_t c = 0; c < p.channels; ++c) mean[c] = mean[c] / n;
  reduce<Sum>(plan, SquaredDeviations<C>{v}, var, static_cast<const C*>(mean));
  if (p.count() > 1) {
    std::unique_ptr<C[]> unbiased = scratch<C>(p.channels);
    for (std::int64_t c = 0; c < p.channels; ++c) unbiased[c] = var[c] / (n - 1);
    update_running(running_mean, p.channels, momentum, static_cast<const C*>(mean));
    update_running(running_var, p.channels, momentum, static_cast<const C*>(unbiased.get()));
  }
  for (std::int64_t c = 0; c < p.channels; ++c) var[c] = var[c] / n;
}

// y = max(0, normalised x + z) of one run, each where wanted.
template <bool relu, bool add, class T, class F>
void finish_run(std::int64_t n, T* y, const T* x, const T* z, const F& normalised) {
  for_vectors<Compute<T>>(n, [&](const auto& lanes, std::int64_t j) {
    auto v = normalised(lanes.load(x + j));
    if constexpr (add) v = v + lanes.load(z + j);
    if constexpr (relu) v = rectified(v);
    lanes.store(y + j, v);
  });
}

void forward(const BatchNormForward& f) {
  if (channels_are_innermost(f.x)) return batch_norm_channels(f);
  visit_floating(f.x.dtype, [&]<class T> {
    using C = Compute<T>;
    const Planes p(f.x);
    const Dense<T> in(f.x), residual(f.z);
    const Dense<C> w(f.weight), b(f.bias);
    DenseResult<T> out(f.y);
    C *m = f.mean.as<C>(), *s = f.inv_std.as<C>();
    if (f.training) {
      batch_statistics(p, in.data(), m, s, f.running_mean, f.running_var, f.momentum);
    } else {
      load_run(m, f.running_mean.data, f.running_mean.dtype, 0, f.running_mean.strides[0], p.channels);
      load_run(s, f.running_var.data, f.running_var.dtype, 0, f.running_var.strides[0], p.channels);
    }
    for (std::int64_t c = 0; c < p.channels; ++c) s[c] = C(1) / std::sqrt(s[c] + static_cast<C>(f.eps));
    p.for_rows([&](std::int64_t n, std::int64_t offset, std::int64_t c) {
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

// The gradients that the activation let through, in a buffer of their own.
template <class T, class C = Compute<T>>
Tensor passed(const BatchNormGradient& f, const Planes& p, const T* g, const T* x, const C* weight, const C* bias,
              const C* mean, const C* inv_std) {
  const Tensor mask = Tensor::allocate(f.x.sizes, dtype_of<T>);
  const Dense<T> result(f.y);
  p.for_rows([&](std::int64_t n, std::int64_t offset, std::int64_t c) {
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
void backward(const BatchNormGradient& f) {
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
    const View v = p.view(in.data()), gv = p.view(g);
    if (f.dz) copy(f.dz, View{const_cast<T*>(g), f.dz.sizes, contiguous_strides(f.dz.sizes), dtype_of<T>, cpu});
    reduce<Sum>(p.plan(gv), Elements<C>{gv}, db);
    reduce<Sum>(p.plan(v), DeviationProducts<T>{in.data(), g}, dw, m);
    auto scale = scratch<C>(p.channels), mean_g = scratch<C>(p.channels), slope = scratch<C>(p.channels);
    const auto n = static_cast<C>(p.count());
    for (std::int64_t c = 0; c < p.channels; ++c) {
      scale[c] = w.data() ? s[c] * w.data()[c] : s[c];
      mean_g[c] = f.training ? db[c] / n : C(0);
      slope[c] = f.training ? s[c] * s[c] * (dw[c] / n) : C(0);
      dw[c] *= s[c];
    }
    p.for_rows([&](std::int64_t count, std::int64_t offset, std::int64_t c) {
      const Vec<C> mu(m[c]), k(scale[c]), mg(mean_g[c]), sl(slope[c]);
      T* to = out.data() + offset;
      const T *from = g + offset, *v = in.data() + offset;
      for_vectors<C>(count, [&](const auto& lanes, std::int64_t j) {
        lanes.store(to + j, k * (lanes.load(from + j) - mg - (lanes.load(v + j) - mu) * sl));
      });
    });
    out.finish();
  });
}

}  // namespace

void batch_norm(const View& y, const View& mean, const View& inv_std, const View& x, const View& weight,
                const View& bias, const View& running_mean, const View& running_var, bool training, double momentum,
                double eps) {
  forward({y, mean, inv_std, x, weight, bias, View{}, running_mean, running_var, training, false, momentum, eps});
}
void batch_norm_act(const View& y, const View& mean, const View& inv_std, const View& x, const View& weight,
                    const View& bias, const View& z, const View& running_mean, const View& running_var, bool training,
                    double momentum, double eps) {
  forward({y, mean, inv_std, x, weight, bias, z, running_mean, running_var, training, true, momentum, eps});
}
void batch_norm_backward(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                         const View& weight, const View& mean, const View& inv_std, bool training) {
  backward({dx, dweight, dbias, View{}, g, x, weight, View{}, mean, inv_std, View{}, training, false});
}
// y, the result of batch_norm_act, where it had a z.
void batch_norm_act_backward(const View& dx, const View& dweight, const View& dbias, const View& dz, const View& g,
                             const View& x, const View& weight, const View& bias, const View& mean, const View& inv_std,
                             const View& y, bool training) {
  backward({dx, dweight, dbias, dz, g, x, weight, bias, mean, inv_std, y, training, true});
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
