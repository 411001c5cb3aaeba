// Softmax along one dimension, its logarithm, and their gradients. Each row is read while it is in
// cache: largest element, exponentials, their sum, division.
#include "core/cpu/rows.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(softmax, const View& y, const View& x, int dim)
MANTISSA_KERNEL(log_softmax, const View& y, const View& x, int dim)
MANTISSA_KERNEL(softmax_backward, const View& dx, const View& g, const View& y, int dim)
MANTISSA_KERNEL(log_softmax_backward, const View& dx, const View& g, const View& y, int dim)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// Calls row(n, y + offset, x + offset...) for the rows of `y` and `x...` along `dim`.
template <class C, class Row, class... In> void for_rows(Row&& row, int dim, const View& y, const In&... x) {
  if (y.numel() == 0) return;
  DenseResult<C> out(moved_to_last(y, dim));
  [&](const auto&... in) {
    const std::int64_t n = y.dim() > 0 ? y.sizes[dim] : 1;
    parallel_for(y.numel() / n, std::max<std::int64_t>(1, grain_size / n), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) row(n, out.data() + r * n, (in.data() + r * n)...);
    });
  }(Dense<C>(moved_to_last(x, dim))...);
  out.finish();
}

}  // namespace

void softmax(const View& y, const View& x, int dim) {
  visit_compute(x.dtype, [&]<class C> {
    for_rows<C>([](std::int64_t n, C* out, const C* in) {
      const C largest = fold_run<Max>(n, in);
      map_run(n, out, [=](auto v) { return exp(v - decltype(v)(largest)); }, in);
      const C scale = C(1) / fold_run<Sum>(n, static_cast<const C*>(out));
      map_run(n, out, [=](auto v) { return v * decltype(v)(scale); }, static_cast<const C*>(out));
    }, dim, y, x);
  });
}

void log_softmax(const View& y, const View& x, int dim) {
  visit_compute(x.dtype, [&]<class C> {
    for_rows<C>([](std::int64_t n, C* out, const C* in) {
      const C largest = fold_run<Max>(n, in);
      const C log_sum = std::log(fold_run<Sum>(n, [=](auto v) { return exp(v - decltype(v)(largest)); }, in));
      map_run(n, out, [=](auto v) { return (v - decltype(v)(largest)) - decltype(v)(log_sum); }, in);
    }, dim, y, x);
  });
}

// dx = y * (g - sum(g * y))
void softmax_backward(const View& dx, const View& g, const View& y, int dim) {
  visit_compute(dx.dtype, [&]<class C> {
    for_rows<C>([](std::int64_t n, C* out, const C* grad, const C* in) {
      const C dot = fold_run<Sum>(n, [](auto a, auto b) { return a * b; }, grad, in);
      map_run(n, out, [=](auto a, auto b) { return b * (a - decltype(a)(dot)); }, grad, in);
    }, dim, dx, g, y);
  });
}

// dx = g - exp(y) * sum(g)
void log_softmax_backward(const View& dx, const View& g, const View& y, int dim) {
  visit_compute(dx.dtype, [&]<class C> {
    for_rows<C>([](std::int64_t n, C* out, const C* grad, const C* in) {
      const C total = fold_run<Sum>(n, grad);
      map_run(n, out, [=](auto a, auto b) { return a - exp(b) * decltype(a)(total); }, grad, in);
    }, dim, dx, g, y);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
