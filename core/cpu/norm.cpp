// Row normalisation: layer norm, and RMS norm, which is the same without subtracting the mean. Statistics take two
// passes (mean, then squared deviations), so a large mean costs no precision. A residual added to x, or a gradient
// added to dx, is handled while the row is in cache. Weight and bias may be absent (null).
#include "core/cpu/row_moments.h"
#include "core/cpu/wide_rows.h"
#include "core/norm.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

template <class C> ScratchVector<C> zeros(std::int64_t n) { return ScratchVector<C>(static_cast<std::size_t>(n)); }

template <class C> RowMoments<C> moments_around_zero(std::int64_t n, const C* p) {
  const C squares = fold_run<Sum>(
      n, [](const auto& v) { return v * v; }, p);
  return {C(0), squares / static_cast<C>(n)};
}

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

// For the gradient g of a row, with u = g * weight and hat the normalised x: returns the sums of u and u * hat, and
// adds g * hat and g to the gradients of weight and bias.
template <class C> struct RowSums { C of_u = 0, of_u_hat = 0; };
template <bool centred, bool weighted, class C>
RowSums<C> sum_tile(std::int64_t n, const C* g, const C* x, C mean, C inv_std, const C* weight, C* dw, C* db) {
  using V = Vec<C>;
  constexpr auto width = static_cast<std::int64_t>(V::size);
  const auto step = [&](V& of_u, V& of_u_hat, const auto& lanes, std::int64_t j) {
    const V a = lanes.load(g + j), hat = lanes.kept((lanes.load(x + j) - V(mean)) * V(inv_std));
    V u = a;
    if constexpr (weighted) u *= lanes.load(weight + j);
    of_u_hat += u * hat;
    lanes.store(dw + j, lanes.load(dw + j) + a * hat);
    if constexpr (!centred) return;
    of_u += u;
    lanes.store(db + j, lanes.load(db + j) + a);
  };
  V u0(C(0)), u1 = u0, hat0 = u0, hat1 = u0;  // two independent accumulators each
  std::int64_t j = 0;
  for (; j + 2 * width <= n; j += 2 * width) {
    step(u0, hat0, WholeVector{}, j);
    step(u1, hat1, WholeVector{}, j + width);
  }
  for_vectors<C>(n - j, [&](const auto& lanes, std::int64_t k) { step(u0, hat0, lanes, j + k); });
  return {fold_lanes<Sum, C>(u0 + u1), fold_lanes<Sum, C>(hat0 + hat1)};
}
// The same for rows of any length, summed in the order of fold_run.
template <bool centred, bool weighted, class C>
RowSums<C> sum_row(std::int64_t n, const C* g, const C* x, C mean, C inv_std, const C* weight, C* dw, C* db) {
  Cascade<C, Sum> of_u, of_u_hat;
  for (std::int64_t i = 0; i < n; i += fold_tile) {
    const std::int64_t count = std::min(fold_tile, n - i);
    const RowSums<C> part = sum_tile<centred, weighted>(count, g + i, x + i, mean, inv_std,
                                                        weighted ? weight + i : nullptr, dw + i,
                                                        centred ? db + i : nullptr);
    of_u.add(part.of_u), of_u_hat.add(part.of_u_hat);
  }
  return {of_u.total(), of_u_hat.total()};
}

// dx = inv_std * (u - mean(u) - hat * mean(u * hat)). For RMS norm mean(u) is dropped. dx may be g.
template <bool centred, bool weighted, class C>
void norm_backward_row(std::int64_t n, C* dx, const C* g, const C* x, C mean, C inv_std, const C* weight, C* dw,
                       C* db) {
  const RowSums<C> sums = sum_row<centred, weighted>(n, g, x, mean, inv_std, weight, dw, db);
  const C mean_u = centred ? sums.of_u / static_cast<C>(n) : C(0), mean_u_hat = sums.of_u_hat / static_cast<C>(n);
  const auto result = [=](const auto& u, const auto& v) {
    using V = std::decay_t<decltype(v)>;
    return V(inv_std) * (u - V(mean_u) - (v - V(mean)) * V(inv_std) * V(mean_u_hat));
  };
  if constexpr (weighted)
    map_run(
        n, dx, [=](const auto& a, const auto& v, const auto& w) { return result(a * w, v); }, g, x, weight);
  else map_run(n, dx, result, g, x);
}

void forward(const RowNorm& f) {
  if (f.y.numel() == 0) return;
  const View& normalised = f.delta ? f.sum : f.x;
  const std::int64_t row = f.row;
  visit_compute(normalised.dtype, [&]<class C> {
    const WideRows<C> in(f.x), added(f.delta);
    const WideResultRows<C> out(f.y), sums(f.sum);
    const Dense<C> w(f.weight), b(f.bias);
    parallel_for(f.y.numel() / row, std::max<std::int64_t>(1, grain_size / row),
                 [&](std::int64_t first, std::int64_t last) {
                   auto buffer = zeros<C>(2 * row);
                   for (std::int64_t r = first; r < last; ++r) {
                     const C* p = in.at(r * row, row, buffer.data());
                     if (f.delta) {
                       C* sum = sums.at(r * row, buffer.data());
                       map_run(
                           row, sum, [](auto a, auto d) { return a + d; }, p,
                           added.at(r * row, row, buffer.data() + row));
                       sums.put_rounded(r * row, row, sum);
                       p = sum;
                     }
                     const auto [m, v] = f.mean ? moments_of_row(row, p) : moments_around_zero(row, p);
                     const C s = C(1) / std::sqrt(v + static_cast<C>(f.eps));
                     if (f.mean) f.mean.as<C>()[r] = m;
                     f.inv_std.as<C>()[r] = s;
                     C* q = out.at(r * row, buffer.data());
                     normalise_row(row, q, p, m, s, w.data(), b.data());
                     out.put(r * row, row, q);
                   }
                 });
    sums.finish();
    out.finish();
  });
}

// dweight = sum(g * hat) and dbias = sum(g) over rows: partial sums over blocks of rows, then over blocks.
template <bool centred, bool weighted, class C> void backward(const RowNormGradient& f) {
  const std::int64_t n = f.dweight.numel(), rows = n > 0 ? f.x.numel() / n : 0, sums = centred ? 2 : 1;
  const std::int64_t block = std::max<std::int64_t>(16, (rows + 63) / 64), blocks = (rows + block - 1) / block;
  const WideRows<C> in(f.x), grad(f.g), arrived(f.arrived);
  const WideResultRows<C> out(f.dx), rounded(f.rounded);
  const Dense<C> w(f.weight), means(f.mean), inv_stds(f.inv_std);
  auto partial = zeros<C>(std::max<std::int64_t>(1, blocks) * sums * n);
  parallel_for(blocks, std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, block * n)),
               [&](std::int64_t first, std::int64_t last) {
                 auto buffer = zeros<C>(4 * n);
                 for (std::int64_t k = first; k < last; ++k) {
                   C* dw = partial.data() + k * sums * n;
                   for (std::int64_t r = k * block; r < std::min(rows, (k + 1) * block); ++r) {
                     const C* p = in.at(r * n, n, buffer.data());
                     const C* q = grad.at(r * n, n, buffer.data() + n);
                     C *to = out.at(r * n, buffer.data() + 2 * n), *dx = f.arrived ? buffer.data() + 2 * n : to;
                     norm_backward_row<centred, weighted>(n, dx, q, p, centred ? means.data()[r] : C(0),
                                                          inv_stds.data()[r], w.data(), dw, dw + n);
                     if (f.arrived) {  // read before anything is written, as dx may alias it
                       const C* before = arrived.at(r * n, n, buffer.data() + 3 * n);
                       out.put_rounded(r * n, n, dx);
                       map_run(
                           n, to, [](auto a, auto b) { return a + b; }, dx, before);
                     }
                     out.put(r * n, n, to);
                     if (f.rounded) rounded.put(r * n, n, to);
                   }
                 }
               });
  for (std::int64_t k = 1; k < blocks; ++k) {
    const C* from = partial.data() + k * sums * n;
    for (std::int64_t j = 0; j < sums * n; ++j) partial[j] += from[j];
  }
  std::copy_n(partial.data(), n, f.dweight.as<C>());
  if (centred) std::copy_n(partial.data() + n, n, f.dbias.as<C>());
  out.finish();
  rounded.finish();
}

}  // namespace

void row_norm(const RowNorm& f) { forward(f); }

void row_norm_backward(const RowNormGradient& f) {
  visit_compute(f.x.dtype, [&]<class C> {
    if (f.dbias && f.weight) backward<true, true, C>(f);
    else if (f.dbias) backward<true, false, C>(f);
    else if (f.weight) backward<false, true, C>(f);
    else backward<false, false, C>(f);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
