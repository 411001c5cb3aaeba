// What happens to gradients between backward and the update: unscaling with the check for overflow,
// the loss scale's own update, norms and clipping. Contract: core/multi_tensor.h.
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "core/cpu/multi_tensor.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

constexpr std::int64_t tile = 512;

// g = f(g) in compute type C, rounded once; `check` sees the values as loaded and as stored.
template <class C, class F, class Check>
void transform(const GradientView& g, std::int64_t begin, std::int64_t count, F&& f, Check&& check) {
  C buffer[tile];
  for (std::int64_t i = begin; i < begin + count; i += tile) {
    const std::int64_t n = std::min(tile, begin + count - i);
    C* p = buffer;
    if (g.dtype == dtype_of<C>) p = static_cast<C*>(g.data) + i;
    else load_run(p, g.data, g.dtype, i, 1, n);
    check(p, n);
    for (std::int64_t j = 0; j < n; ++j) p[j] = f(p[j]);
    if (p == buffer) {
      store_run(g.data, g.dtype, i, 1, p, n);
      load_run(p, g.data, g.dtype, i, 1, n);  // as rounded: an f16 may have become infinite
    }
    check(p, n);
  }
}
template <class F> void for_all(std::span<const GradientView> gradients, F&& f) {
  parallel_pieces(gradients, [&](const GradientView& g, std::int64_t begin, std::int64_t count, std::int64_t) {
    if (g.dtype == f64) transform<double>(g, begin, count, f, [](const double*, std::int64_t) {});
    else transform<float>(g, begin, count, f, [](const float*, std::int64_t) {});
  });
}

// x - x is 0 for every finite x and NaN otherwise; the loop has no branch.
template <class C> bool all_finite(const C* x, std::int64_t n) {
  constexpr std::int64_t width = static_cast<std::int64_t>(Vec<C>::size);
  Vec<C> sums(C(0));
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    const Vec<C> v = load(x + i);
    sums += v - v;
  }
  C lanes[width], sum = 0;
  store(lanes, sums);
  for (C lane : lanes) sum += lane;
  for (; i < n; ++i) sum += x[i] - x[i];
  return sum == 0;
}

// The sum of squares in an order that depends on n alone.
double sum_of_squares(const double* x, std::int64_t n) {
  constexpr std::int64_t width = static_cast<std::int64_t>(Vec<double>::size);
  Vec<double> sums(0.0);
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    const Vec<double> v = load(x + i);
    sums += v * v;
  }
  double lanes[width], sum = 0;
  store(lanes, sums);
  for (double lane : lanes) sum += lane;
  for (; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

}  // namespace

void unscale_gradients(std::span<const GradientView> gradients, const float* scale, bool* found_inf) {
  const float inverse = static_cast<float>(1.0 / static_cast<double>(*scale));
  std::atomic<bool> bad{false};
  parallel_pieces(gradients, [&](const GradientView& g, std::int64_t begin, std::int64_t count, std::int64_t) {
    const auto unscale = [inverse]<class C>(C x) { return x * static_cast<C>(inverse); };
    const auto check = [&](const auto* x, std::int64_t n) {
      if (!all_finite(x, n)) bad.store(true, std::memory_order_relaxed);
    };
    if (g.dtype == f64) transform<double>(g, begin, count, unscale, check);
    else transform<float>(g, begin, count, unscale, check);
  });
  if (bad) *found_inf = true;
}

void update_loss_scale(float* scale, std::int32_t* tracker, std::span<const bool* const> found_inf, double growth,
                       double backoff, std::int64_t interval) {
  bool overflow = false;
  for (const bool* f : found_inf) overflow = overflow || *f;
  if (overflow) {
    *scale *= static_cast<float>(backoff);
    *tracker = 0;
  } else if (++*tracker >= interval) {  // >=: the interval may have been lowered meanwhile
    const float grown = *scale * static_cast<float>(growth);
    if (std::isfinite(grown)) *scale = grown;
    *tracker = 0;
  }
}

void gradient_norm(std::span<const GradientView> gradients, double p, float* norm) {
  const bool largest = std::isinf(p);
  const std::int64_t blocks = (total_numel(gradients) + multi_tensor_block - 1) / multi_tensor_block;
  std::vector<double> partial(static_cast<std::size_t>(blocks), 0.0);  // per block, joined in order
  const auto join = [largest](double a, double b) { return !largest ? a + b : b > a || b != b ? b : a; };
  parallel_pieces(gradients, [&](const GradientView& g, std::int64_t begin, std::int64_t count, std::int64_t block) {
    double buffer[tile], sum = partial[static_cast<std::size_t>(block)];
    for (std::int64_t i = begin; i < begin + count; i += tile) {
      const std::int64_t n = std::min(tile, begin + count - i);
      load_run(buffer, g.data, g.dtype, i, 1, n);
      if (p == 2) {
        sum += sum_of_squares(buffer, n);
        continue;
      }
      for (std::int64_t j = 0; j < n; ++j) {
        const double x = std::abs(buffer[j]);
        sum = join(sum, p == 1 || largest ? x : std::pow(x, p));
      }
    }
    partial[static_cast<std::size_t>(block)] = sum;
  });
  double total = 0;
  for (double s : partial) total = join(total, s);
  *norm = static_cast<float>(largest || p == 1 ? total : p == 2 ? std::sqrt(total) : std::pow(total, 1 / p));
}

void scale_gradients(std::span<const GradientView> gradients, const float* norm, double max_norm) {
  const double wanted = max_norm / (static_cast<double>(*norm) + 1e-6);
  const double factor = wanted > 1 ? 1 : wanted;  // a NaN norm makes NaN gradients, as in PyTorch
  if (factor == 1) return;
  for_all(gradients, [factor]<class C>(C x) { return x * static_cast<C>(factor); });
}

void clamp_gradients(std::span<const GradientView> gradients, double limit) {
  for_all(gradients, [limit]<class C>(C x) {
    const C top = static_cast<C>(limit);
    return x > top ? top : x < -top ? -top : x;
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
