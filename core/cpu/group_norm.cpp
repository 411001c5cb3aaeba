// Group norm (Wu and He, 2018): x [N, C, ...] normalised over the channels of a group and all trailing dimensions, then
// scaled and shifted per channel. If each channel of a sample is a plane in memory, a group is a contiguous row and is
// read while in cache; if channels are innermost, a sample is a matrix of pixels by channels (core/cpu/channels.h).
// Statistics take two passes, so a large mean costs no precision. Weight and bias may be absent (null).
#include "core/cpu/channel_statistics.h"
#include "core/cpu/row_moments.h"
#include "core/cpu/wide_rows.h"
#include "core/norm.h"
#include "core/scratch.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

template <class C> ScratchVector<C> zeros(std::int64_t n) { return ScratchVector<C>(static_cast<std::size_t>(n)); }

struct Groups {
  std::int64_t samples, channels, inner, count, each;  // inner: elements per channel; each: channels per group
  Groups(const View& x, const View& mean) : samples(x.sizes[0]), channels(x.sizes[1]), count(mean.sizes[1]) {
    inner = x.numel() / (samples * channels);
    each = channels / count;
  }
  std::int64_t row() const { return each * inner; }
};
// x has one element per channel, or is channels-last.
bool channels_are_innermost(const Groups& s, const View& x) {
  return s.inner == 1 || x.layout() == Layout::channels_last;
}

// --- planes ---
template <class C>
void forward_planes(const View& y, const View& mean, const View& inv_std, const View& x, const View& weight,
                    const View& bias, double eps) {
  const Groups s(x, mean);
  const std::int64_t n = s.row();
  const WideRows<C> in(x);
  const WideResultRows<C> out(y);
  const Dense<C> w(weight), b(bias);
  parallel_for(s.samples * s.count, std::max<std::int64_t>(1, grain_size / n),
               [&](std::int64_t first, std::int64_t last) {
                 auto buffer = zeros<C>(is_half(x.dtype) ? n : 0);
                 for (std::int64_t r = first; r < last; ++r) {
                   const C* p = in.at(r * n, n, buffer.data());
                   const auto [m, v] = moments_of_row(n, p);
                   const C inv = C(1) / std::sqrt(v + static_cast<C>(eps));
                   mean.as<C>()[r] = m;
                   inv_std.as<C>()[r] = inv;
                   C* q = out.at(r * n, buffer.data());
                   for (std::int64_t k = 0; k < s.each; ++k) {
                     const std::int64_t c = r % s.count * s.each + k;
                     const C scale = w.data() ? inv * w.data()[c] : inv, shift = b.data() ? b.data()[c] : C(0);
                     map_run(
                         s.inner, q + k * s.inner,
                         [scale, shift, m = m](auto e) {
                           using V = decltype(e);
                           return (e - V(m)) * V(scale) + V(shift);
                         },
                         p + k * s.inner);
                   }
                   out.put(r * n, n, q);
                 }
               });
  out.finish();
}

// With u = g * weight and hat the normalised x: dx = inv_std * (u - mean(u) - hat * mean(u * hat)). The sums over a
// group are computed from those over its channels, sum(g) and sum(g * hat), which summed over samples are dbias and
// dweight.
template <class C>
void backward_planes(const View& dx, C* partial, const View& g, const View& x, const View& weight, const View& mean,
                     const View& inv_std) {
  const Groups s(x, mean);
  const std::int64_t n = s.row();
  const WideRows<C> in(x), grad(g);
  const WideResultRows<C> out(dx);
  const Dense<C> w(weight), means(mean), inv_stds(inv_std);
  parallel_for(s.samples * s.count, std::max<std::int64_t>(1, grain_size / n),
               [&](std::int64_t first, std::int64_t last) {
                 auto buffer = zeros<C>(2 * n);
                 for (std::int64_t r = first; r < last; ++r) {
                   const C *p = in.at(r * n, n, buffer.data()), *q = grad.at(r * n, n, buffer.data() + n);
                   const C m = means.data()[r], inv = inv_stds.data()[r];
                   const std::int64_t from = r % s.count * s.each;
                   C *db = partial + r / s.count * 2 * s.channels + from, *dw = db + s.channels;
                   C sum_u = 0, sum_u_hat = 0;
                   for (std::int64_t k = 0; k < s.each; ++k) {
                     db[k] = fold_run<Sum>(s.inner, q + k * s.inner);
                     dw[k] = inv * fold_run<Sum>(
                                       s.inner, [=](auto a, auto e) { return a * (e - decltype(e)(m)); },
                                       q + k * s.inner, p + k * s.inner);
                     const C scale = w.data() ? w.data()[from + k] : C(1);
                     sum_u += scale * db[k];
                     sum_u_hat += scale * dw[k];
                   }
                   const C mean_u = sum_u / static_cast<C>(n), slope = inv * (sum_u_hat / static_cast<C>(n));
                   C* to = out.at(r * n, buffer.data() + n);  // for f16 and bf16 it overwrites the buffer of g
                   for (std::int64_t k = 0; k < s.each; ++k) {
                     const C scale = w.data() ? w.data()[from + k] : C(1);
                     map_run(
                         s.inner, to + k * s.inner,
                         [=](auto a, auto e) {
                           using V = decltype(a);
                           return V(inv) * (a * V(scale) - V(mean_u) - (e - V(m)) * V(slope));
                         },
                         q + k * s.inner, p + k * s.inner);
                   }
                   out.put(r * n, n, to);
                 }
               });
  out.finish();
}

// --- channels innermost ---
// f(sample, the sample's matrix): parallel over samples, or, if these are few, over the blocks of each.
template <class F> void for_samples(const Groups& s, const F& f) {
  const ChannelRows rows(s.inner, s.channels);
  const std::int64_t work = s.inner * s.channels;
  parallel_for(s.samples, s.samples < 4 ? s.samples : std::max<std::int64_t>(1, grain_size / work),
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t i = first; i < last; ++i) f(i, rows);
               });
}

template <class T>
void forward_channels(const View& y, const View& mean, const View& inv_std, const View& x, const View& weight,
                      const View& bias, double eps) {
  using C = Compute<T>;
  const Groups s(x, mean);
  const Pixels in(x, dtype_of<T>);
  PixelsResult out(y);
  const std::vector<C> w = numbers<C>(weight, s.channels, C(1)), b = numbers<C>(bias, s.channels, C(0));
  const std::vector<C> shifts = ChannelRows(s.inner, s.channels).repeat(b);
  for_samples(s, [&](std::int64_t i, const ChannelRows& rows) {
    const T* from = in.as<T>() + i * s.inner * s.channels;
    T* to = out.as<T>() + i * s.inner * s.channels;
    const auto [means, squares] = channel_statistics(rows, from);
    std::vector<C> centre(static_cast<std::size_t>(s.channels)), scale = centre;
    for (std::int64_t group = 0; group < s.count; ++group) {
      const auto begin = static_cast<std::size_t>(group * s.each), end = begin + static_cast<std::size_t>(s.each);
      double m = 0, around = 0;
      for (std::size_t c = begin; c < end; ++c) m += means[c];
      m /= static_cast<double>(s.each);
      for (std::size_t c = begin; c < end; ++c)
        around += squares[c] + static_cast<double>(s.inner) * (means[c] - m) * (means[c] - m);
      const C inv = static_cast<C>(1 / std::sqrt(around / static_cast<double>(s.row()) + eps));
      mean.as<C>()[i * s.count + group] = static_cast<C>(m);
      inv_std.as<C>()[i * s.count + group] = inv;
      for (std::size_t c = begin; c < end; ++c) centre[c] = static_cast<C>(m), scale[c] = inv * w[c];
    }
    const std::vector<C> centres = rows.repeat(centre), scales = rows.repeat(scale);
    const C *m = centres.data(), *k = scales.data(), *d = shifts.data();
    rows.for_blocks([&](std::int64_t block) {
      rows.template for_elements<C>(block, [&](const auto& lanes, std::int64_t at, std::int64_t j) {
        lanes.store(to + at, (lanes.load(from + at) - lanes.load(m + j)) * lanes.load(k + j) + lanes.load(d + j));
      });
    });
  });
  out.finish();
}

template <class T>
void backward_channels(const View& dx, Compute<T>* partial, const View& g, const View& x, const View& weight,
                       const View& mean, const View& inv_std) {
  using C = Compute<T>;
  const Groups s(x, mean);
  const Pixels in(x, dtype_of<T>), grad(g, dtype_of<T>);
  PixelsResult out(dx);
  const Dense<C> means(mean), inv_stds(inv_std);
  const std::vector<C> w = numbers<C>(weight, s.channels, C(1));
  for_samples(s, [&](std::int64_t i, const ChannelRows& rows) {
    const std::int64_t offset = i * s.inner * s.channels;
    const T *p = in.as<T>() + offset, *q = grad.as<T>() + offset;
    T* to = out.as<T>() + offset;
    std::vector<C> centre(static_cast<std::size_t>(s.channels)), scale = centre, base = centre, slope = centre;
    const auto of_groups = [&](auto&& f) {  // f(index of the group's statistics, channel)
      for (std::int64_t c = 0; c < s.channels; ++c) f(i * s.count + c / s.each, static_cast<std::size_t>(c));
    };
    of_groups([&](std::int64_t at, std::size_t c) { centre[c] = means.data()[at]; });
    const std::vector<C> centres = rows.repeat(centre);
    const C* m = centres.data();
    const std::vector<double> sums =
        sum_over_pixels<2, C>(rows, [=](const auto& lanes, std::int64_t at, std::int64_t j) {
          const auto a = lanes.load(q + at);
          return std::array{a, a * (lanes.load(p + at) - lanes.load(m + j))};
        });
    std::vector<double> of_u(static_cast<std::size_t>(s.count)), of_u_hat = of_u;
    C *db = partial + i * 2 * s.channels, *dw = db + s.channels;
    of_groups([&](std::int64_t at, std::size_t c) {
      const double sum = sums[c],
                   product = sums[static_cast<std::size_t>(s.channels) + c] * static_cast<double>(inv_stds.data()[at]);
      const auto group = static_cast<std::size_t>(at - i * s.count);
      db[c] = static_cast<C>(sum);
      dw[c] = static_cast<C>(product);
      of_u[group] += static_cast<double>(w[c]) * sum;
      of_u_hat[group] += static_cast<double>(w[c]) * product;
    });
    of_groups([&](std::int64_t at, std::size_t c) {
      const auto group = static_cast<std::size_t>(at - i * s.count);
      const double inv = static_cast<double>(inv_stds.data()[at]), n = static_cast<double>(s.row());
      scale[c] = static_cast<C>(inv) * w[c];
      base[c] = static_cast<C>(inv * (of_u[group] / n));
      slope[c] = static_cast<C>(inv * inv * (of_u_hat[group] / n));
    });
    const std::vector<C> scales = rows.repeat(scale), bases = rows.repeat(base), slopes = rows.repeat(slope);
    const C *k = scales.data(), *b = bases.data(), *sl = slopes.data();
    rows.for_blocks([&](std::int64_t block) {
      rows.template for_elements<C>(block, [&](const auto& lanes, std::int64_t at, std::int64_t j) {
        const auto hat = lanes.load(p + at) - lanes.load(m + j);
        lanes.store(to + at, lanes.load(q + at) * lanes.load(k + j) - lanes.load(b + j) - hat * lanes.load(sl + j));
      });
    });
  });
  out.finish();
}

}  // namespace

// mean and inv_std are [N, groups], in the compute dtype.
void group_norm(const View& y, const View& mean, const View& inv_std, const View& x, const View& weight,
                const View& bias, double eps) {
  if (x.numel() == 0) return;
  if (channels_are_innermost(Groups(x, mean), x)) {
    return visit_floating(x.dtype, [&]<class T> { forward_channels<T>(y, mean, inv_std, x, weight, bias, eps); });
  }
  visit_compute(x.dtype, [&]<class C> { forward_planes<C>(y, mean, inv_std, x, weight, bias, eps); });
}

void group_norm_backward(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                         const View& weight, const View& mean, const View& inv_std) {
  visit_compute(x.dtype, [&]<class C> {
    const std::int64_t channels = dweight.numel(), samples = x.numel() > 0 ? x.sizes[0] : 0;
    auto partial = zeros<C>(std::max<std::int64_t>(1, samples) * 2 * channels);  // per sample: dbias, dweight
    if (samples == 0) {
      // no elements: empty sums
    } else if (channels_are_innermost(Groups(x, mean), x)) {
      visit_floating(x.dtype, [&]<class T> {
        if constexpr (std::is_same_v<Compute<T>, C>)
          backward_channels<T>(dx, partial.data(), g, x, weight, mean, inv_std);
      });
    } else {
      backward_planes<C>(dx, partial.data(), g, x, weight, mean, inv_std);
    }
    for (std::int64_t i = 1; i < samples; ++i) {
      for (std::int64_t c = 0; c < 2 * channels; ++c) partial[c] += partial[i * 2 * channels + c];
    }
    std::copy_n(partial.data(), channels, dbias.as<C>());
    std::copy_n(partial.data() + channels, channels, dweight.as<C>());
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
