// Softmax and log_softmax along one dimension, and their gradients. For each row maximum, exponentials, sum and
// division are computed while it is in cache. Along a dimension other than the last, vectors run across adjacent
// columns instead (core/cpu/columns.h).
#include <tuple>

#include "core/cpu/columns.h"
#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(softmax, const View& y, const View& x, int dim)
MANTISSA_KERNEL(log_softmax, const View& y, const View& x, int dim)
MANTISSA_KERNEL(softmax_backward, const View& dx, const View& g, const View& y, int dim)
MANTISSA_KERNEL(log_softmax_backward, const View& dx, const View& g, const View& y, int dim)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// Calls row(n, y + offset, x + offset...) for the rows of `y` and `x...` along `dim`. f16 and bf16 rows are converted
// to f32 in a small buffer, several short rows at a time.
template <class C, class Row, class... In> void for_rows(Row&& row, int dim, const View& y, const In&... x) {
  if (y.numel() == 0) return;
  const WideResultRows<C> out(moved_to_last(y, dim));
  const std::int64_t n = y.dim() > 0 ? y.sizes[dim] : 1, rows = y.numel() / n;
  const std::int64_t together = std::max<std::int64_t>(1, 1024 / n), room = together * n;
  const bool direct = ((y.dtype == dtype_of<C>) && ... && (x.dtype == dtype_of<C>));
  const auto run = [&](const auto&... in) {
    parallel_for(rows, std::max<std::int64_t>(1, grain_size / n), [&](std::int64_t first, std::int64_t last) {
      const Tensor memory =
          direct ? Tensor() : Tensor::allocate({1 + static_cast<std::int64_t>(sizeof...(in)), room}, dtype_of<C>);
      C* const buffer = direct ? nullptr : static_cast<C*>(memory.raw_data());
      for (std::int64_t r = first; r < last; r += together) {
        const std::int64_t count = std::min(together, last - r);
        C *next = buffer, *to = out.at(r * n, buffer);
        const auto from = [&](const WideRows<C>& v) { return v.at(r * n, count * n, direct ? nullptr : next += room); };
        std::apply(
            [&](const auto*... p) {
              for (std::int64_t i = 0; i < count; ++i) row(n, to + i * n, (p + i * n)...);
            },
            std::tuple{from(in)...});
        out.put(r * n, count * n, to);
      }
    });
  };
  run(WideRows<C>(moved_to_last(x, dim))...);
  out.finish();
}

// dx = result(g, y, sum of term(g, y)) for f16 and bf16 rows, converted to f32 in registers: a buffer as in for_rows
// would take as long as the sum. Returns false, having done nothing, for other or mixed dtypes or an empty tensor.
template <class Term, class Result>
bool backward_of_halves(const View& dx, const View& g, const View& y, int dim, const Term& term, const Result& result) {
  using V = Vec<float>;
  if (!is_half(dx.dtype) || g.dtype != dx.dtype || y.dtype != dx.dtype || dx.numel() == 0) return false;
  const auto run = [&]<class T>(T) {
    const Dense<T> grad(moved_to_last(g, dim)), in(moved_to_last(y, dim));
    DenseResult<T> out(moved_to_last(dx, dim));
    const std::int64_t n = dx.dim() > 0 ? dx.sizes[dim] : 1;
    const auto sum_of_tile = [&](const T* a, const T* b, std::int64_t count) {
      constexpr auto width = static_cast<std::int64_t>(V::size);
      V sum[4] = {V(0.0f), V(0.0f), V(0.0f), V(0.0f)};
      std::int64_t i = 0;
      for (; i + 4 * width <= count; i += 4 * width) {
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) sum[k] += term(load_wide(a + i + k * width), load_wide(b + i + k * width));
      }
      for_vectors<float>(count - i, [&](const auto& lanes, std::int64_t j) {
        sum[0] += lanes.kept(term(lanes.load(a + i + j), lanes.load(b + i + j)));
      });
      return fold_lanes<Sum, float>((sum[0] + sum[1]) + (sum[2] + sum[3]));
    };
    parallel_for(dx.numel() / n, std::max<std::int64_t>(1, grain_size / n), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) {
        const T *a = grad.data() + r * n, *b = in.data() + r * n;
        T* const to = out.data() + r * n;
        Cascade<float, Sum> sum;
        for (std::int64_t i = 0; i < n; i += fold_tile) sum.add(sum_of_tile(a + i, b + i, std::min(fold_tile, n - i)));
        const V total(sum.total());
        for_vectors<float>(n, [&](const auto& lanes, std::int64_t j) {
          lanes.store(to + j, result(lanes.load(a + j), lanes.load(b + j), total));
        });
      }
    });
    out.finish();
  };
  dx.dtype == bf16 ? run(BFloat16()) : run(Half());
  return true;
}

}  // namespace

void softmax(const View& y, const View& x, int dim) {
  visit_compute(x.dtype, [&]<class C> {
    if (can_fold_columns(x, dim)) {
      return for_columns<C>([](const Columns<C>& c, std::int64_t, C* out, const C* in) {
        C largest[most_columns], scale[most_columns];
        const C *top = largest, *by = scale;
        c.template fold<Max>(largest, [&](std::int64_t at, C* line) { std::copy_n(in + at, c.columns, line); });
        c.template fold<Sum>(scale, [&](std::int64_t at, C* line) {
          map_run(c.columns, line, [](auto v, auto m) { return exp_inside(v - m); }, in + at, top);
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
      map_run(n, out, [=](auto v) { return exp_inside(v - decltype(v)(largest)); }, in);
      const C scale = C(1) / fold_run<Sum>(n, static_cast<const C*>(out));
      map_run(n, out, [=](auto v) { return v * decltype(v)(scale); }, static_cast<const C*>(out));
    }, dim, y, x);
  });
}

void log_softmax(const View& y, const View& x, int dim) {
  visit_compute(x.dtype, [&]<class C> {
    if (can_fold_columns(x, dim)) {
      return for_columns<C>([](const Columns<C>& c, std::int64_t, C* out, const C* in) {
        C largest[most_columns], log_sum[most_columns];
        const C *top = largest, *ls = log_sum;
        c.template fold<Max>(largest, [&](std::int64_t at, C* line) { std::copy_n(in + at, c.columns, line); });
        c.template fold<Sum>(log_sum, [&](std::int64_t at, C* line) {
          map_run(c.columns, line, [](auto v, auto m) { return exp_inside(v - m); }, in + at, top);
        });
        map_run(c.columns, log_sum, [](auto v) { return log(v); }, ls);
        c.each([&](std::int64_t at) {
          map_run(c.columns, out + at, [](auto v, auto m, auto l) { return (v - m) - l; }, in + at, top, ls);
        });
      }, dim, y, x);
    }
    for_rows<C>([](std::int64_t n, C* out, const C* in) {
      const C largest = fold_run<Max>(n, in);
      const C log_sum = std::log(fold_run<Sum>(n, [=](auto v) { return exp_inside(v - decltype(v)(largest)); }, in));
      map_run(n, out, [=](auto v) { return (v - decltype(v)(largest)) - decltype(v)(log_sum); }, in);
    }, dim, y, x);
  });
}

// dx = y * (g - sum(g * y))
void softmax_backward(const View& dx, const View& g, const View& y, int dim) {
  visit_compute(dx.dtype, [&]<class C> {
    if (can_fold_columns(dx, dim)) {
      return for_columns<C>([](const Columns<C>& c, std::int64_t, C* out, const C* grad, const C* in) {
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
    const auto product = [](auto a, auto b) { return a * b; };
    if (backward_of_halves(dx, g, y, dim, product, [](auto a, auto b, auto dot) { return b * (a - dot); })) return;
    for_rows<C>([&](std::int64_t n, C* out, const C* grad, const C* in) {
      const C dot = fold_run<Sum>(n, product, grad, in);
      map_run(n, out, [=](auto a, auto b) { return b * (a - decltype(a)(dot)); }, grad, in);
    }, dim, dx, g, y);
  });
}

// dx = g - exp(y) * sum(g)
void log_softmax_backward(const View& dx, const View& g, const View& y, int dim) {
  visit_compute(dx.dtype, [&]<class C> {
    if (can_fold_columns(dx, dim)) {
      return for_columns<C>([](const Columns<C>& c, std::int64_t, C* out, const C* grad, const C* in) {
        C total[most_columns];
        const C* t = total;
        c.template fold<Sum>(total, [&](std::int64_t at, C* line) { std::copy_n(grad + at, c.columns, line); });
        c.each([&](std::int64_t at) {
          map_run(
              c.columns, out + at, [](auto a, auto b, auto k) { return a - exp_inside(b) * k; }, grad + at, in + at, t);
        });
      }, dim, dx, g, y);
    }
    const auto gradient = [](auto a, auto) { return a; };
    const auto result = [](auto a, auto b, auto total) { return a - exp_inside(b) * total; };
    if (backward_of_halves(dx, g, y, dim, gradient, result)) return;
    for_rows<C>([](std::int64_t n, C* out, const C* grad, const C* in) {
      const C total = fold_run<Sum>(n, grad);
      map_run(n, out, [=](auto a, auto b) { return a - exp_inside(b) * decltype(a)(total); }, grad, in);
    }, dim, dx, g, y);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
