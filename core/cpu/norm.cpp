// Layer normalisation with its gradient. Statistics take two passes (mean, then squared deviations), so a large
// mean costs no digits. Weight and bias may be absent (null).
#include "core/cpu/rows.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace mantissa {
MANTISSA_KERNEL(layer_norm, const View& y, const View& mean, const View& inv_std, const View& x,
                const View& weight, const View& bias, std::int64_t row, double eps)
MANTISSA_KERNEL(layer_norm_backward, const View& dx, const View& dweight, const View& dbias, const View& g,
                const View& x, const View& weight, const View& mean, const View& inv_std)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

template <class C> ScratchVector<C> zeros(std::int64_t n) {
  return ScratchVector<C>(static_cast<std::size_t>(n));
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
    auto partial = zeros<C>(std::max<std::int64_t>(1, blocks) * 2 * n);
    parallel_for(blocks, std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, block * n)), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t k = first; k < last; ++k) {
        C* __restrict dw = partial.data() + k * 2 * n;
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
      const C* from = partial.data() + k * 2 * n;
      for (std::int64_t j = 0; j < 2 * n; ++j) partial[j] += from[j];
    }
    std::copy_n(partial.data(), n, dweight.as<C>());
    std::copy_n(partial.data() + n, n, dbias.as<C>());
    out.finish();
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
