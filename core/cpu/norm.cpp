// Normalisation of rows: layer norm, and RMS norm, which is the same around zero instead of the mean. Statistics take
// two passes (mean, then squared deviations), so a large mean costs no digits. Weight and bias may be absent (null).
#include "core/cpu/wide_rows.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace mantissa {
MANTISSA_KERNEL(layer_norm, const View& y, const View& mean, const View& inv_std, const View& x, const View& weight,
                const View& bias, std::int64_t row, double eps)
MANTISSA_KERNEL(layer_norm_backward, const View& dx, const View& dweight, const View& dbias, const View& g,
                const View& x, const View& weight, const View& mean, const View& inv_std)
MANTISSA_KERNEL(rms_norm, const View& y, const View& inv_rms, const View& x, const View& weight, std::int64_t row,
                double eps)
MANTISSA_KERNEL(rms_norm_backward, const View& dx, const View& dweight, const View& g, const View& x,
                const View& weight, const View& inv_rms)
}  // namespace mantissa

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

template <class C> ScratchVector<C> zeros(std::int64_t n) { return ScratchVector<C>(static_cast<std::size_t>(n)); }

template <class C>
void normalise_row(std::int64_t n, C* y, const C* x, C mean, C inv_std, const C* weight, const C* bias) {
  const auto hat = [=](const auto& v) {
    using V = std::decay_t<decltype(v)>;
    return (v - V(mean)) * V(inv_std);
  };
  if (weight && bias)
    map_run(
        n, y, [=](auto v, auto w, auto b) { return hat(v) * w + b; }, x, weight, bias);
  else if (weight)
    map_run(
        n, y, [=](auto v, auto w) { return hat(v) * w; }, x, weight);
  else if (bias)
    map_run(
        n, y, [=](auto v, auto b) { return hat(v) + b; }, x, bias);
  else map_run(n, y, hat, x);
}

// With u = g * weight: dx = inv_std * (u - mean(u) - hat * mean(u * hat)), hat the normalised x. Around zero mean(u)
// has no part.
template <class C>
void norm_backward_row(std::int64_t n, C* dx, const C* g, const C* x, bool centred, C mean, C inv_std,
                       const C* weight) {
  const auto hat = [=](const auto& v) {
    using V = std::decay_t<decltype(v)>;
    return (v - V(mean)) * V(inv_std);
  };
  const C* u = g;
  if (weight) {
    map_run(
        n, dx, [](auto a, auto w) { return a * w; }, g, weight);
    u = dx;
  }
  const C mean_u = centred ? fold_run<Sum>(n, u) / static_cast<C>(n) : C(0);
  const C mean_u_hat = fold_run<Sum>(
                           n, [=](auto a, auto v) { return a * hat(v); }, u, x) /
                       static_cast<C>(n);
  map_run(
      n, dx,
      [=](auto a, auto v) {
        using V = decltype(v);
        return V(inv_std) * (a - V(mean_u) - hat(v) * V(mean_u_hat));
      },
      u, x);
}

// `row` elements are normalised together. Statistics are of compute type; without `mean` around zero.
void forward(const View& y, const View& mean, const View& inv_std, const View& x, const View& weight, const View& bias,
             std::int64_t row, double eps) {
  if (y.numel() == 0) return;
  visit_compute(x.dtype, [&]<class C> {
    const WideRows<C> in(x);
    const WideResultRows<C> out(y);
    const Dense<C> w(weight), b(bias);
    parallel_for(y.numel() / row, std::max<std::int64_t>(1, grain_size / row),
                 [&](std::int64_t first, std::int64_t last) {
                   auto buffer = zeros<C>(is_half(x.dtype) ? row : 0);
                   for (std::int64_t r = first; r < last; ++r) {
                     const C* p = in.at(r * row, row, buffer.data());
                     const C m = mean ? fold_run<Sum>(row, p) / static_cast<C>(row) : C(0);
                     const C v = fold_run<Sum>(
                                     row,
                                     [=](auto e) {
                                       auto d = e - decltype(e)(m);
                                       return d * d;
                                     },
                                     p) /
                                 static_cast<C>(row);
                     const C s = C(1) / std::sqrt(v + static_cast<C>(eps));
                     if (mean) mean.as<C>()[r] = m;
                     inv_std.as<C>()[r] = s;
                     C* q = out.at(r * row, buffer.data());
                     normalise_row(row, q, p, m, s, w.data(), b.data());
                     out.put(r * row, row, q);
                   }
                 });
    out.finish();
  });
}

// dweight = sum(g * hat) and dbias = sum(g) over rows: partial sums of blocks of rows, then over blocks. Without `mean`
// around zero, and then there is no dbias.
void backward(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x, const View& weight,
              const View& mean, const View& inv_std) {
  visit_compute(x.dtype, [&]<class C> {
    const std::int64_t n = dweight.numel(), rows = n > 0 ? x.numel() / n : 0, sums = dbias ? 2 : 1;
    const std::int64_t block = std::max<std::int64_t>(16, (rows + 63) / 64), blocks = (rows + block - 1) / block;
    const WideRows<C> in(x), grad(g);
    const WideResultRows<C> out(dx);
    const Dense<C> w(weight), means(mean), inv_stds(inv_std);
    auto partial = zeros<C>(std::max<std::int64_t>(1, blocks) * sums * n);
    parallel_for(blocks, std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, block * n)),
                 [&](std::int64_t first, std::int64_t last) {
                   auto buffer = zeros<C>(3 * n);
                   for (std::int64_t k = first; k < last; ++k) {
                     C* __restrict dw = partial.data() + k * sums * n;
                     C* __restrict db = dbias ? dw + n : nullptr;
                     for (std::int64_t r = k * block; r < std::min(rows, (k + 1) * block); ++r) {
                       const C *p = in.at(r * n, n, buffer.data()), *q = grad.at(r * n, n, buffer.data() + n);
                       const C m = mean ? means.data()[r] : C(0), s = inv_stds.data()[r];
                       C* to = out.at(r * n, buffer.data() + 2 * n);
                       norm_backward_row(n, to, q, p, static_cast<bool>(mean), m, s, w.data());
                       out.put(r * n, n, to);
                       for (std::int64_t j = 0; j < n; ++j) dw[j] += q[j] * ((p[j] - m) * s);
                       for (std::int64_t j = 0; db && j < n; ++j) db[j] += q[j];
                     }
                   }
                 });
    for (std::int64_t k = 1; k < blocks; ++k) {
      const C* from = partial.data() + k * sums * n;
      for (std::int64_t j = 0; j < sums * n; ++j) partial[j] += from[j];
    }
    std::copy_n(partial.data(), n, dweight.as<C>());
    if (dbias) std::copy_n(partial.data() + n, n, dbias.as<C>());
    out.finish();
  });
}

}  // namespace

void layer_norm(const View& y, const View& mean, const View& inv_std, const View& x, const View& weight,
                const View& bias, std::int64_t row, double eps) {
  forward(y, mean, inv_std, x, weight, bias, row, eps);
}
void layer_norm_backward(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                         const View& weight, const View& mean, const View& inv_std) {
  backward(dx, dweight, dbias, g, x, weight, mean, inv_std);
}
void rms_norm(const View& y, const View& inv_rms, const View& x, const View& weight, std::int64_t row, double eps) {
  forward(y, View{}, inv_rms, x, weight, View{}, row, eps);
}
void rms_norm_backward(const View& dx, const View& dweight, const View& g, const View& x, const View& weight,
                       const View& inv_rms) {
  backward(dx, dweight, View{}, g, x, weight, View{}, inv_rms);
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
