// Cumulative sums, products and linear recurrences along one dimension, each row sequentially from its beginning
// (or its end). Sums and products are kept in f64 whatever the dtype, integers in i64.
#include <tuple>

#include "core/cpu/wide_rows.h"
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

// y[i] = step(y[i - 1], x[i]...) along `dim` from `start`; backwards if `reverse`. Several lines are processed together
// (adjacent ones if the dimension is not the last), so that their dependency chains overlap.
template <class C, class Wide, class Step, class... In>
void scan(const View& y, int dim, bool reverse, Wide start, const Step& step, const In&... x) {
  if (y.numel() == 0) return;
  constexpr std::int64_t rows_together = 8, columns_together = 64;
  const std::int64_t n = y.dim() > 0 ? y.sizes[dim] : 1;
  std::int64_t inner = 1;
  for (int d = dim + 1; d < y.dim(); ++d) inner *= y.sizes[d];
  const std::int64_t lines = y.numel() / n;
  const bool direct = y.dtype == dtype_of<C> && ((x.dtype == dtype_of<C>)&&...);
  const WideResultRows<C> out(y);
  const auto place = [=](std::int64_t i) { return reverse ? n - 1 - i : i; };
  const auto rows = [&](std::int64_t first, std::int64_t last, const auto&... in) {
    const std::int64_t buffers = direct ? 0 : 1 + static_cast<std::int64_t>(sizeof...(In));
    const Tensor memory = Tensor::allocate({buffers, std::min(rows_together, lines) * n}, dtype_of<C>);
    for (std::int64_t r = first * rows_together; r < std::min(last * rows_together, lines); r += rows_together) {
      const std::int64_t count = std::min(rows_together, lines - r), begin = r * n;
      C* buffer = static_cast<C*>(memory.raw_data());
      C* const to = out.at(begin, buffer);
      const auto run = [&](const auto*... p) {
        const auto some = [&](auto together, std::int64_t row) {
          Wide v[together.value];
          std::fill_n(v, together.value, start);
          for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t at = row * n + place(i);
            for (std::int64_t k = 0; k < together.value; ++k) {
              v[k] = step(v[k], p[at + k * n]...);
              to[at + k * n] = static_cast<C>(v[k]);
            }
          }
        };
        if (count == rows_together) return some(std::integral_constant<std::int64_t, rows_together>{}, 0);
        for (std::int64_t k = 0; k < count; ++k) some(std::integral_constant<std::int64_t, 1>{}, k);
      };
      const auto from = [&](const auto& v) { return v.at(begin, count * n, direct ? nullptr : buffer += count * n); };
      std::apply(run, std::tuple{from(in)...});
      out.put(begin, count * n, to);
    }
  };
  const std::int64_t strips = (inner + columns_together - 1) / columns_together;
  const auto columns = [&](std::int64_t first, std::int64_t last, const auto&... in) {
    C memory[1 + sizeof...(In)][columns_together];
    Wide v[columns_together];
    for (std::int64_t b = first; b < last; ++b) {
      const std::int64_t column = b % strips * columns_together, count = std::min(columns_together, inner - column);
      std::fill_n(v, count, start);
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t begin = (b / strips * n + place(i)) * inner + column;
        C* const to = out.at(begin, memory[0]);
        int buffer = 0;
        const auto run = [&](const auto*... p) {
          for (std::int64_t j = 0; j < count; ++j) {
            v[j] = step(v[j], p[j]...);
            to[j] = static_cast<C>(v[j]);
          }
        };
        const auto from = [&](const auto& v) { return v.at(begin, count, memory[++buffer]); };
        std::apply(run, std::tuple{from(in)...});
        out.put(begin, count, to);
      }
    }
  };
  const auto all = [&](const auto&... in) {
    const std::int64_t side = inner > 1 ? lines / inner * strips : (lines + rows_together - 1) / rows_together;
    const std::int64_t work = n * (inner > 1 ? std::min(inner, columns_together) : rows_together);
    parallel_for(side, std::max<std::int64_t>(1, grain_size / work), [&](std::int64_t first, std::int64_t last) {
      inner > 1 ? columns(first, last, in...) : rows(first, last, in...);
    });
  };
  all(WideRows<C>(x)...);
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
    scan<C>(
        y, dim, reverse, WideOf<C>(0), [](WideOf<C> v, C a) { return v + a; }, x);
  });
}
void cumprod(const View& y, const View& x, int dim, bool reverse) {
  visit_with_integers(y.dtype, [&]<class C> {
    scan<C>(
        y, dim, reverse, WideOf<C>(1), [](WideOf<C> v, C a) { return v * a; }, x);
  });
}
// y[i] = b[i] + a[i] * y[i - 1]
void linear_recurrence(const View& y, const View& a, const View& b, int dim, bool reverse) {
  visit_compute(y.dtype, [&]<class C> {
    scan<C>(
        y, dim, reverse, 0.0, [](double v, C p, C q) { return static_cast<double>(q) + static_cast<double>(p) * v; }, a,
        b);
  });
}
void logcumsumexp(const View& y, const View& x, int dim) {
  visit_compute(y.dtype, [&]<class C> {
    constexpr double nothing = -std::numeric_limits<double>::infinity();
    const auto step = [](double v, C next) -> double {
      const double a = next, high = std::max(v, a), low = std::min(v, a);
      if (a != a || std::isinf(high)) return a != a ? a : v != v ? v : high;
      return high + std::log1p(std::exp(low - high));
    };
    scan<C>(y, dim, false, nothing, step, x);
  });
}
// A later value replaces the extreme if it is equal, beyond it or NaN; NaN is kept.
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
