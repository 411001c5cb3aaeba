// Mean and variance of every channel where channels are innermost in memory, and tensors as such memory: for batch norm
// and group norm. Statistics read x once: the mean of a block of rows and the squared deviations from it come from a
// block that is still in the cache, and blocks are combined as Chan, Golub and LeVeque (1979) do.
#pragma once

#include <array>

#include "core/cpu/channels.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

template <class C> std::vector<C> numbers(const View& v, std::int64_t n, C otherwise) {  // of [n] or absent
  std::vector<C> values(static_cast<std::size_t>(n), otherwise);
  if (v) load_run(values.data(), v.data, v.dtype, 0, v.strides[0], n);
  return values;
}

// `v` dense with the channels innermost and of type T: itself or a copy. Absent stays absent.
class Pixels {
 public:
  Pixels(const View& v, Dtype dtype) : data_(v.data) {
    if (!v || (v.dtype == dtype && dense(v))) return;
    copy_ = Tensor::allocate(v.sizes, dtype, cpu, Layout::channels_last);
    copy(copy_.view(), v);
    data_ = copy_.raw_data();
  }
  static bool dense(const View& v) { return v.dim() == 4 ? is_channels_last(v.sizes, v.strides) : v.is_contiguous(); }
  template <class T> const T* as() const { return static_cast<const T*>(data_); }

 private:
  Tensor copy_;
  void* data_;
};
// The same for a result: finish() moves a copy to where it belongs.
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

// The mean and the sum of squared deviations from it, for each channel.
template <class T, class C = Compute<T>>
void channel_statistics(const ChannelRows& s, const T* x, std::vector<double>& mean, std::vector<double>& squares) {
  const std::int64_t n = s.channels;
  std::unique_ptr<C[]> partial(
      new C[static_cast<std::size_t>(s.blocks * 3 * n)]);  // per block: centre, sum and squares around it
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
  mean.assign(static_cast<std::size_t>(n), 0.0);
  squares.assign(static_cast<std::size_t>(n), 0.0);
  const auto each = [&](auto&& f) {
    for (std::int64_t b = 0; b < s.blocks; ++b) {
      const C* p = partial.get() + b * 3 * n;
      const auto count = static_cast<double>(s.pixels_in(b));
      for (std::int64_t c = 0; c < n; ++c) {
        const double off = static_cast<double>(p[n + c]) / count;  // the centre was rounded
        f(static_cast<std::size_t>(c), count, static_cast<double>(p[c]) + off,
          static_cast<double>(p[2 * n + c]) - off * static_cast<double>(p[n + c]));
      }
    }
  };
  each([&](std::size_t c, double count, double centre, double) { mean[c] += count * centre; });
  for (double& m : mean) m /= static_cast<double>(s.pixels);
  each([&](std::size_t c, double count, double centre, double around) {
    squares[c] += around + count * (centre - mean[c]) * (centre - mean[c]);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
