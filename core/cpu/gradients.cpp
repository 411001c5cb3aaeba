// Gradients between backward and the update: unscaling and the statistics gathered with it, the loss scale's own
// update, norms and clipping. Contract: core/multi_tensor.h.
#include <cmath>
#include <vector>

#include "core/cpu/multi_tensor.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

constexpr std::int64_t tile = 512;

// g = f(g) in compute type C, rounded once; `see` gets the values as stored. With `write` false nothing is stored.
template <class C, class F, class See>
void transform(const GradientView& g, std::int64_t begin, std::int64_t count, bool write, F&& f, See&& see) {
  C buffer[tile];
  for (std::int64_t i = begin; i < begin + count; i += tile) {
    const std::int64_t n = std::min(tile, begin + count - i);
    const bool stored_as_c = g.dtype == dtype_of<C>;
    C* in_place = static_cast<C*>(g.data) + (stored_as_c ? i : 0);
    const C* from = in_place;
    if (!stored_as_c) load_run(buffer, g.data, g.dtype, i, 1, n), from = buffer;
    C* to = stored_as_c && write ? in_place : buffer;
    for (std::int64_t j = 0; j < n; ++j) to[j] = f(from[j]);
    if (!stored_as_c) {  // use the rounded values: an f16 may have become infinite
      std::uint16_t narrow[tile];
      void* rounded = write ? g.data : narrow;
      const std::int64_t first = write ? i : 0;
      store_run(rounded, g.dtype, first, 1, buffer, n);
      load_run(buffer, rounded, g.dtype, first, 1, n);
    }
    see(to, n);
  }
}
template <class F> void for_all(std::span<const GradientView> gradients, F&& f) {
  parallel_pieces(gradients, [&](const GradientView& g, std::int64_t begin, std::int64_t count, std::int64_t) {
    if (g.dtype == f64) transform<double>(g, begin, count, true, f, [](const double*, std::int64_t) {});
    else transform<float>(g, begin, count, true, f, [](const float*, std::int64_t) {});
  });
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

// The largest absolute value among finite elements.
template <class C> C largest_of(const C* x, std::int64_t n) {
  constexpr std::int64_t width = static_cast<std::int64_t>(Vec<C>::size);
  Vec<C> tops(C(0));
  std::int64_t i = 0;
  for (; i + width <= n; i += width) tops = xsimd::max(tops, xsimd::abs(load(x + i)));
  C lanes[width], top = 0;
  store(lanes, tops);
  for (C lane : lanes) top = std::max(top, lane);
  for (; i < n; ++i) top = std::max(top, std::abs(x[i]));
  return top;
}

// Adds one tile to `s`. A finite sum of squares proves that every element is finite: in this common case no element is
// read twice.
template <class C> void inspect(const C* x, std::int64_t n, std::int64_t index, GradientSummary& s) {
  double wide[tile];
  for (std::int64_t j = 0; j < n; ++j) wide[j] = static_cast<double>(x[j]);
  const double squares = sum_of_squares(wide, n);
  s.square_sum += squares;
  if (std::isfinite(squares)) {
    s.largest = std::max(s.largest, static_cast<double>(largest_of(x, n)));
    return;
  }
  for (std::int64_t j = 0; j < n; ++j) {
    const double size = std::abs(wide[j]);
    const bool nan = size != size, infinite = std::isinf(size);
    s.nans += nan;
    s.infs += infinite;
    if ((nan || infinite) && s.first_bad < 0) s.first_bad = static_cast<double>(index);
    if (!nan) s.largest = std::max(s.largest, size);
  }
}

}  // namespace

void unscale_gradients(std::span<const GradientView> gradients, const float* scale, bool write, const bool* before,
                       bool* found_inf, GradientSummary* summary, float* norm) {
  const auto [factor, rest] = inverse_scale(*scale);
  const std::int64_t blocks = (total_numel(gradients) + multi_tensor_block - 1) / multi_tensor_block;
  std::vector<GradientSummary> partial(static_cast<std::size_t>(blocks));  // combined in order
  parallel_pieces(gradients, [&](const GradientView& g, std::int64_t begin, std::int64_t count, std::int64_t block) {
    const auto unscale = [a = factor, b = rest]<class C>(C x) { return x * static_cast<C>(a) * static_cast<C>(b); };
    GradientSummary& here = partial[static_cast<std::size_t>(block)];
    const auto see = [&](const auto* x, std::int64_t n) { inspect(x, n, g.index, here); };
    if (g.dtype == f64) transform<double>(g, begin, count, write, unscale, see);
    else transform<float>(g, begin, count, write, unscale, see);
  });
  GradientSummary total;
  for (const GradientSummary& s : partial) {
    total.square_sum += s.square_sum;
    total.largest = std::max(total.largest, s.largest);
    total.infs += s.infs;
    total.nans += s.nans;
    if (total.first_bad < 0) total.first_bad = s.first_bad;
  }
  *summary = total;
  *found_inf = total.infs + total.nans > 0 || (before && *before);
  if (norm) *norm = static_cast<float>(std::sqrt(total.square_sum));
}

void update_loss_scale(float* scale, ScalerState* state, std::span<const Verdict> verdicts, const bool* forward_failed,
                       const ScaleRule& rule) {
  state->iterate(*scale, verdicts.data(), static_cast<std::int64_t>(verdicts.size()), forward_failed && *forward_failed,
                 rule);
}

void gradient_norm(std::span<const GradientView> gradients, double p, float* norm) {
  const bool largest = std::isinf(p);
  const std::int64_t blocks = (total_numel(gradients) + multi_tensor_block - 1) / multi_tensor_block;
  std::vector<double> partial(static_cast<std::size_t>(blocks), 0.0);  // per block, combined in order
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
  const double factor = clip_factor(*norm, max_norm);
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
