// Running sums, products and linear recurrences along one dimension, each row from its beginning (or
// its end) in order. Sums and products are kept in f64 whatever the dtype, integers in i64.
#include "core/cpu/rows.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(cumsum, const View& y, const View& x, int dim, bool reverse)
MANTISSA_KERNEL(cumprod, const View& y, const View& x, int dim, bool reverse)
MANTISSA_KERNEL(linear_recurrence, const View& y, const View& a, const View& b, int dim, bool reverse)
MANTISSA_KERNEL(logcumsumexp, const View& y, const View& x, int dim)
MANTISSA_KERNEL(cumulative_extreme, const View& values, const View& indices, const View& x, int dim, bool largest)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// y[i] = step(y[i - 1], i) along rows of n, from `start`; backwards when `reverse`.
template <class C, class Wide, class Step>
void scan_rows(const View& y, int dim, bool reverse, Wide start, Step&& step) {
  if (y.numel() == 0) return;
  DenseResult<C> out(moved_to_last(y, dim));
  const std::int64_t n = y.dim() > 0 ? y.sizes[dim] : 1;
  parallel_for(y.numel() / n, std::max<std::int64_t>(1, grain_size / n), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      Wide v = start;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = r * n + (reverse ? n - 1 - i : i);
        v = step(v, at);
        out.data()[at] = static_cast<C>(v);
      }
    }
  });
  out.finish();
}
template <class F> void visit_with_integers(Dtype t, F&& f) {
  if (is_floating(t)) visit_compute(t, f);
  else f.template operator()<std::int64_t>();
}
template <class C> using WideOf = std::conditional_t<std::is_integral_v<C>, std::int64_t, double>;

}  // namespace

void cumsum(const View& y, const View& x, int dim, bool reverse) {
  visit_with_integers(y.dtype, [&]<class C> {
    const Dense<C> in(moved_to_last(x, dim));
    scan_rows<C>(y, dim, reverse, WideOf<C>(0), [p = in.data()](WideOf<C> v, std::int64_t i) { return v + p[i]; });
  });
}
void cumprod(const View& y, const View& x, int dim, bool reverse) {
  visit_with_integers(y.dtype, [&]<class C> {
    const Dense<C> in(moved_to_last(x, dim));
    scan_rows<C>(y, dim, reverse, WideOf<C>(1), [p = in.data()](WideOf<C> v, std::int64_t i) { return v * p[i]; });
  });
}
// y[i] = b[i] + a[i] * y[i - 1]
void linear_recurrence(const View& y, const View& a, const View& b, int dim, bool reverse) {
  visit_compute(y.dtype, [&]<class C> {
    const Dense<C> factor(moved_to_last(a, dim)), term(moved_to_last(b, dim));
    scan_rows<C>(y, dim, reverse, 0.0,
                 [p = factor.data(), q = term.data()](double v, std::int64_t i) { return q[i] + p[i] * v; });
  });
}
void logcumsumexp(const View& y, const View& x, int dim) {
  visit_compute(y.dtype, [&]<class C> {
    const Dense<C> in(moved_to_last(x, dim));
    constexpr double nothing = -std::numeric_limits<double>::infinity();
    scan_rows<C>(y, dim, false, nothing, [p = in.data()](double v, std::int64_t i) -> double {
      const double a = p[i], high = std::max(v, a), low = std::min(v, a);
      if (a != a || std::isinf(high)) return a != a ? a : v != v ? v : high;
      return high + std::log1p(std::exp(low - high));
    });
  });
}
// A later value replaces the extreme when it is equal, beyond it or NaN; NaN stays.
void cumulative_extreme(const View& values, const View& indices, const View& x, int dim, bool largest) {
  if (x.numel() == 0) return;
  visit_with_integers(x.dtype, [&]<class C> {
    const Dense<C> in(moved_to_last(x, dim));
    DenseResult<C> value(moved_to_last(values, dim));
    DenseResult<std::int64_t> index(moved_to_last(indices, dim));
    const std::int64_t n = x.dim() > 0 ? x.sizes[dim] : 1;
    parallel_for(x.numel() / n, std::max<std::int64_t>(1, grain_size / n), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) {
        const C* p = in.data() + r * n;
        std::int64_t at = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          const bool takes = p[i] != p[i] || (p[at] == p[at] && (largest ? p[i] >= p[at] : p[i] <= p[at]));
          if (takes) at = i;
          value.data()[r * n + i] = p[at];
          index.data()[r * n + i] = at;
        }
      }
    });
    value.finish();
    index.finish();
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
