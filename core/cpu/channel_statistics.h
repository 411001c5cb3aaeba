// Mean and variance per channel where channels are innermost in memory, and access to tensors in that layout: for batch
// norm and group norm. x is read from memory once: the mean of a block of rows and the squared deviations from it are
// computed while the block is in cache, and blocks are combined by the method of Chan, Golub and LeVeque (1979).
#pragma once

#include <array>

#include "core/cpu/channels.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

template <class C> std::vector<C> numbers(const View& v, std::int64_t n, C otherwise) {  // of [n] or absent
  std::vector<C> values(static_cast<std::size_t>(n), otherwise);
  if (v) load_run(values.data(), v.data, v.dtype, 0, v.strides[0], n);
  return values;
}

// `v` dense with channels innermost and of type T: itself or a copy. Absent stays absent.
class Pixels {
 public:
  Pixels(const View& v, Dtype dtype) : data_(v.data) {
    if (!v || (v.dtype == dtype && dense(v))) return;
    copy_ = Tensor::allocate(v.sizes, dtype, cpu, Layout::channels_last);
    copy(copy_.view(), v);
    data_ = copy_.raw_data();
  }
  static bool dense(const View& v) { return v.dim() >= 4 ? is_channels_last(v.sizes, v.strides) : v.is_contiguous(); }
  template <class T> const T* as() const { return static_cast<const T*>(data_); }

 private:
  Tensor copy_;
  void* data_;
};
// The same for a result: finish() copies to the destination if a copy was needed.
class PixelsResult {
 public:
  explicit PixelsResult(const View& v) : view_(v), data_(v.data) {
    if (!v || Pixels::dense(v)) return;
    copy_ = Tensor::allocate(v.sizes, v.dtype, cpu, Layout::channels_last);
    data_ = copy_.raw_data();
  }
  template <class T> T* as() const { return static_cast<T*>(data_); }
  void finish() {
    if (copy_.defined()) copy(view_, copy_.view());
  }

 private:
  View view_;
  Tensor copy_;
  void* data_;
};

// For each channel the mean and the sum of squared deviations from it.
struct Statistics { std::vector<double> mean, squares; };

// partial: per block and channel a centre near the mean, the sum of the deviations from it and the sum of their
// squares. The centre is rounded, which costs no precision, as the sum of deviations corrects for it. count(b): number
// of elements of block b.
template <class C, class F>
Statistics join_blocks(std::int64_t blocks, std::int64_t channels, const C* partial, const F& count) {
  Statistics result;
  result.mean.assign(static_cast<std::size_t>(channels), 0.0);
  result.squares = result.mean;
  const auto each = [&](auto&& f) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      const C* p = partial + b * 3 * channels;
      const auto n = static_cast<double>(count(b));
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto away = static_cast<double>(p[channels + c]);
        f(static_cast<std::size_t>(c), n, static_cast<double>(p[c]) + away / n,
          static_cast<double>(p[2 * channels + c]) - away / n * away);
      }
    }
  };
  double total = 0;
  for (std::int64_t b = 0; b < blocks; ++b) total += static_cast<double>(count(b));
  each([&](std::size_t c, double n, double centre, double) { result.mean[c] += n * centre; });
  for (double& m : result.mean) m /= total;
  each([&](std::size_t c, double n, double centre, double around) {
    result.squares[c] += around + n * (centre - result.mean[c]) * (centre - result.mean[c]);
  });
  return result;
}

template <class T, class C = Compute<T>> Statistics channel_statistics(const ChannelRows& s, const T* x) {
  const std::int64_t n = s.channels;
  std::unique_ptr<C[]> partial(new C[static_cast<std::size_t>(s.blocks * 3 * n)]);
  s.for_blocks([&](std::int64_t b) {
    std::vector<C> space(static_cast<std::size_t>(3 * s.columns));
    C *sums = space.data(), *centre = sums + 2 * s.columns, *out = partial.get() + b * 3 * n;
    s.template sum_columns<1>(
        b, sums, [&](const auto& lanes, std::int64_t i, std::int64_t) { return std::array{lanes.load(x + i)}; });
    s.fold_joined(sums, out);
    for (std::int64_t c = 0; c < n; ++c) out[c] = out[c] / static_cast<C>(s.pixels_in(b));
    s.repeat(out, centre);
    s.template sum_columns<2>(b, sums, [&](const auto& lanes, std::int64_t i, std::int64_t j) {
      const auto d = lanes.load(x + i) - lanes.load(centre + j);
      return std::array{d, d * d};
    });
    s.fold_joined(sums, out + n);
    s.fold_joined(sums + s.columns, out + 2 * n);
  });
  return join_blocks(s.blocks, n, static_cast<const C*>(partial.get()), [&](std::int64_t b) { return s.pixels_in(b); });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
