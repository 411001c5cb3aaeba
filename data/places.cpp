#include "data/places.h"

#include <algorithm>
#include <type_traits>

#include "data/pixels.h"

namespace mantissa::data {
namespace {

// Rounds to nearest, halves to even, as grid_sample does; exact below 2^22, far beyond valid positions.
float rounded(float v) {
  constexpr float large = 12582912;  // 1.5 * 2^23: here the spacing of floats is 1
  return (v + large) - large;
}

template <class T> T from_float(float v) { return pixel_from<T>(std::is_same_v<T, float> ? v : rounded(v)); }

template <class T> struct Image {
  const T* in;
  T* out;
  std::int64_t channels, height, width;
};

template <class T> void sample_nearest(const Image<T>& image, const Places& p, float fill) {
  const std::size_t pixels = p.x.size();
  const auto h = static_cast<float>(image.height), w = static_cast<float>(image.width);
  std::vector<std::int32_t> places(pixels);  // -1: outside
  std::int32_t* const from = places.data();
  const float *at_y = p.y.data(), *at_x = p.x.data();
  const auto row = static_cast<std::int32_t>(image.width);
  for (std::size_t i = 0; i < pixels; ++i) {
    const float y = rounded(at_y[i]), x = rounded(at_x[i]);
    const bool inside = bool(y >= 0) & bool(y < h) & bool(x >= 0) & bool(x < w);  // false for NaN
    from[i] = inside ? static_cast<std::int32_t>(y) * row + static_cast<std::int32_t>(x) : -1;
  }
  const T outside = from_float<T>(fill);
  const T* in = image.in;
  T* out = image.out;
  for (std::int64_t c = 0; c < image.channels; ++c, in += image.height * image.width, out += pixels)
    for (std::size_t i = 0; i < pixels; ++i) out[i] = from[i] < 0 ? outside : in[from[i]];
}

// Bilinear interpolation of four neighbours; those outside are `fill`.
template <class T> void sample_bilinear(const Image<T>& image, const Places& p, float fill) {
  const auto pixels = static_cast<std::int64_t>(p.x.size()), plane = image.height * image.width;
  const auto h = static_cast<float>(image.height), w = static_cast<float>(image.width);
  for (std::int64_t i = 0; i < pixels; ++i) {
    const float y = p.y[static_cast<std::size_t>(i)], x = p.x[static_cast<std::size_t>(i)];
    if (!(y > -1 && y < h && x > -1 && x < w)) {
      for (std::int64_t c = 0; c < image.channels; ++c) image.out[c * pixels + i] = from_float<T>(fill);
      continue;
    }
    // floor() without a call: truncation after adding 1, where a value just below an integer may round up to it.
    const std::int64_t y0 = std::min(static_cast<std::int64_t>(y + 1), image.height) - 1,
                       x0 = std::min(static_cast<std::int64_t>(x + 1), image.width) - 1;
    const float dy = y - static_cast<float>(y0), dx = x - static_cast<float>(x0);
    const auto mixed = [dy, dx](float a, float b, float c, float d) {
      const float above = a * (1 - dx) + b * dx, below = c * (1 - dx) + d * dx;
      return from_float<T>(above * (1 - dy) + below * dy);
    };
    const bool top = y0 >= 0, bottom = y0 + 1 < image.height, left = x0 >= 0, right = x0 + 1 < image.width;
    if (top && bottom && left && right) {  // the usual case
      const T* in = image.in + y0 * image.width + x0;
      for (std::int64_t c = 0; c < image.channels; ++c, in += plane) {
        const auto at = [in](std::int64_t k) { return static_cast<float>(in[k]); };
        image.out[c * pixels + i] = mixed(at(0), at(1), at(image.width), at(image.width + 1));
      }
      continue;
    }
    for (std::int64_t c = 0; c < image.channels; ++c) {
      const T* in = image.in + c * plane;
      const auto at = [&](bool inside, std::int64_t row, std::int64_t column) {
        return inside ? static_cast<float>(in[row * image.width + column]) : fill;
      };
      image.out[c * pixels + i] = mixed(at(top && left, y0, x0), at(top && right, y0, x0 + 1),
                                        at(bottom && left, y0 + 1, x0), at(bottom && right, y0 + 1, x0 + 1));
    }
  }
}

}  // namespace

void sample_image(const Tensor& images, std::int64_t b, const Places& places, const RotationOptions& o,
                  const Tensor& out) {
  const std::int64_t channels = images.size(1), h = images.size(2), w = images.size(3);
  const auto sample = [&]<class T>(T* from, T* to) {
    const Image<T> image{from + b * channels * h * w, to + b * channels * places.height * places.width, channels, h, w};
    if (o.interpolation == Interpolation::nearest) sample_nearest(image, places, o.fill);
    else sample_bilinear(image, places, o.fill);
  };
  if (images.dtype() == u8) sample(images.data<std::uint8_t>(), out.data<std::uint8_t>());
  else sample(images.data<float>(), out.data<float>());
}

}  // namespace mantissa::data
