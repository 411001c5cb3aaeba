#include "data/resize.h"

#include <algorithm>
#include <cmath>

#include "core/ops.h"
#include "core/resample.h"

namespace mantissa::data {
namespace {

// Interpolation weights for outputs first, first + 1, ... when resizing one dimension: a triangle filter as wide as a
// source pixel, or as an output pixel if that is wider; truncated at the ends.
Taps triangle(std::int64_t from, std::int64_t to, std::int64_t first, std::int64_t count) {
  Taps taps;
  taps.in = from;
  const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(scale, 1.0);
  std::vector<double> weights;
  for (std::int64_t i = first; i < first + count; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const std::int64_t begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - reach + 0.5));
    const std::int64_t end = std::min(from, static_cast<std::int64_t>(centre + reach + 0.5));
    weights.clear();
    double sum = 0;
    for (std::int64_t x = begin; x < end; ++x) {
      weights.push_back(std::max(0.0, 1 - std::abs((static_cast<double>(x) + 0.5 - centre) / reach)));
      sum += weights.back();
    }
    for (std::int64_t x = begin; x < end; ++x)
      if (const double w = weights[static_cast<std::size_t>(x - begin)]; w > 0) taps.add(x, w / sum);
    taps.end_result();
  }
  return taps;
}
// The same for the pixel that contains the upper left corner of the output's.
Taps nearest(std::int64_t from, std::int64_t to, std::int64_t first, std::int64_t count) {
  Taps taps;
  taps.in = from;
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  for (std::int64_t i = first; i < first + count; ++i) {
    taps.add(std::min(static_cast<std::int64_t>(static_cast<float>(i) * scale), from - 1), 1);
    taps.end_result();
  }
  return taps;
}

}  // namespace

Tensor resize_window(const Tensor& x, const Window& window, std::int64_t height, std::int64_t width,
                     const Window& wanted, Interpolation interpolation) {
  const Tensor part = x.slice(2, window.top, window.top + window.height)
                          .slice(3, window.left, window.left + window.width);
  // Interleaved pixels (from a decoder) stay interleaved until the end, when there are fewer of them.
  const Layout layout = x.stride(1) == 1 && x.size(1) > 1 ? Layout::channels_last : Layout::contiguous;
  const Tensor from = x.dtype() == f32 ? part : Tensor::allocate(part.sizes(), f32, cpu, layout).copy_(part);
  Tensor to = Tensor::allocate({x.size(0), x.size(1), wanted.height, wanted.width}, f32, cpu, layout);
  const auto taps = interpolation == Interpolation::nearest ? nearest : triangle;
  const Taps rows = taps(window.height, height, wanted.top, wanted.height),
             columns = taps(window.width, width, wanted.left, wanted.width);
  kernels::resample(cpu, to.view(), from.view(), LineMaps{LineMap{}, LineMap{&rows}, LineMap{&columns}});
  if (x.dtype() == f32) return to.contiguous();
  return Tensor::allocate(to.sizes(), u8).copy_(to.add_(0.5));  // + 0.5 and truncation: rounds to nearest
}

}  // namespace mantissa::data
