// Softmax along one dimension, its logarithm, and their gradients. Each row is read while it is in
// cache: largest element, exponentials, their sum, division. Along another dimension than the last, as many
// neighbouring columns as fit the cache go through the same steps side by side.
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

// --- along another dimension than the last ---
constexpr std::int64_t most_columns = 64;

// x [outer, n, inner] as it lies in memory: `columns` neighbours, whose n elements lie `step` apart.
template <class C> struct Columns {
  std::int64_t n, step, columns;
  // f(i * step) for i in [0, n).
  template <class F> void each(F&& f) const {
    for (std::int64_t i = 0; i < n; ++i) f(i * step);
  }
  // to[j] = the fold over i of value(offset, line), where value writes `columns` numbers into line. Sums add up 64
  // elements at a time, so that their error grows with the root of n.
  template <class Fold, class Value> void fold(C* to, Value&& value) const {
    constexpr std::int64_t group = 64;
    std::fill_n(to, columns, Fold::template identity<C>());
    for (std::int64_t first = 0; first < n; first += group) {
      C part[most_columns], line[most_columns];
      std::fill_n(part, columns, Fold::template identity<C>());
      for (std::int64_t i = first; i < std::min(n, first + group); ++i) {
        value(i * step, line);
        map_run(columns, part, Fold{}, static_cast<const C*>(part), static_cast<const C*>(line));
      }
      map_run(columns, to, Fold{}, static_cast<const C*>(to), static_cast<const C*>(part));
    }
  }
};

// Calls block(columns, y + offset, x + offset...) for all blocks of columns.
template <class C, class Block, class... In> void for_columns(Block&& block, int dim, const View& y, const In&... x) {
  if (y.numel() == 0) return;
  DenseResult<C> out(y);
  [&](const auto&... in) {
    std::int64_t inner = 1;
    for (int d = dim + 1; d < y.dim(); ++d) inner *= y.sizes[d];
    const std::int64_t n = y.sizes[dim], outer = y.numel() / (n * inner);
    const std::int64_t blocks = (inner + most_columns - 1) / most_columns;
    const std::int64_t grain = std::max<std::int64_t>(1, grain_size / (n * std::min(inner, most_columns)));
    parallel_for(outer * blocks, grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t b = first; b < last; ++b) {
        const std::int64_t column = b % blocks * most_columns, offset = b / blocks * n * inner + column;
        const Columns<C> c{n, inner, std::min(most_columns, inner - column)};
        block(c, out.data() + offset, (in.data() + offset)...);
      }
    });
  }(Dense<C>(x)...);
  out.finish();
}
bool is_last(const View& x, int dim) {
  for (int d = dim + 1; d < x.dim(); ++d) if (x.sizes[d] != 1) return false;
  return true;
}

}  // namespace

void softmax(const View& y, const View& x, int dim) {
  visit_compute(x.dtype, [&]<class C> {
    if (!is_last(x, dim)) {
      return for_columns<C>([](const Columns<C>& c, C* out, const C* in) {
        C largest[most_columns], scale[most_columns];
        const C *top = largest, *by = scale;
        c.template fold<Max>(largest, [&](std::int64_t at, C* line) { std::copy_n(in + at, c.columns, line); });
        c.template fold<Sum>(scale, [&](std::int64_t at, C* line) {
          map_run(c.columns, line, [](auto v, auto m) { return exp(v - m); }, in + at, top);
          std::copy_n(line, c.columns, out + at);
        });
        map_run(c.columns, scale, [](auto v) { return decltype(v)(C(1)) / v; }, by);
        c.each([&](std::int64_t at) {
          map_run(c.columns, out + at, [](auto v, auto k) { return v * k; }, static_cast<const C*>(out + at), by);
        });
      }, dim, y, x);
    }
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
    if (!is_last(x, dim)) {
      return for_columns<C>([](const Columns<C>& c, C* out, const C* in) {
        C largest[most_columns], log_sum[most_columns];
        const C *top = largest, *ls = log_sum;
        c.template fold<Max>(largest, [&](std::int64_t at, C* line) { std::copy_n(in + at, c.columns, line); });
        c.template fold<Sum>(log_sum, [&](std::int64_t at, C* line) {
          map_run(c.columns, line, [](auto v, auto m) { return exp(v - m); }, in + at, top);
        });
        for (std::int64_t j = 0; j < c.columns; ++j) log_sum[j] = std::log(log_sum[j]);
        c.each([&](std::int64_t at) {
          map_run(c.columns, out + at, [](auto v, auto m, auto l) { return (v - m) - l; }, in + at, top, ls);
        });
      }, dim, y, x);
    }
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
    if (!is_last(dx, dim)) {
      return for_columns<C>([](const Columns<C>& c, C* out, const C* grad, const C* in) {
        C dot[most_columns];
        const C* d = dot;
        c.template fold<Sum>(dot, [&](std::int64_t at, C* line) {
          map_run(c.columns, line, [](auto a, auto b) { return a * b; }, grad + at, in + at);
        });
        c.each([&](std::int64_t at) {
          map_run(c.columns, out + at, [](auto a, auto b, auto k) { return b * (a - k); }, grad + at, in + at, d);
        });
      }, dim, dx, g, y);
    }
    for_rows<C>([](std::int64_t n, C* out, const C* grad, const C* in) {
      const C dot = fold_run<Sum>(n, [](auto a, auto b) { return a * b; }, grad, in);
      map_run(n, out, [=](auto a, auto b) { return b * (a - decltype(a)(dot)); }, grad, in);
    }, dim, dx, g, y);
  });
}

// dx = g - exp(y) * sum(g)
void log_softmax_backward(const View& dx, const View& g, const View& y, int dim) {
  visit_compute(dx.dtype, [&]<class C> {
    if (!is_last(dx, dim)) {
      return for_columns<C>([](const Columns<C>& c, C* out, const C* grad, const C* in) {
        C total[most_columns];
        const C* t = total;
        c.template fold<Sum>(total, [&](std::int64_t at, C* line) { std::copy_n(grad + at, c.columns, line); });
        c.each([&](std::int64_t at) {
          map_run(c.columns, out + at, [](auto a, auto b, auto k) { return a - exp(b) * k; }, grad + at, in + at, t);
        });
      }, dim, dx, g, y);
    }
    for_rows<C>([](std::int64_t n, C* out, const C* grad, const C* in) {
      const C total = fold_run<Sum>(n, grad);
      map_run(n, out, [=](auto a, auto b) { return a - exp(b) * decltype(a)(total); }, grad, in);
    }, dim, dx, g, y);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
