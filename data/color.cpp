#include "data/color.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace mantissa::data {
namespace {

// One image as f32 in [0, 1], channel by channel.
struct Pixels {
  std::vector<float> v;
  std::size_t plane;
  bool color;
  float gray(std::size_t i) const {
    return color ? 0.2989f * v[i] + 0.587f * v[plane + i] + 0.114f * v[2 * plane + i] : v[i];
  }
};

float unit(float x) { return std::clamp(x, 0.0f, 1.0f); }

void brightness(Pixels& p, float factor) {
  for (float& x : p.v) x = unit(x * factor);
}

void contrast(Pixels& p, float factor) {
  double sum = 0;
  for (std::size_t i = 0; i < p.plane; ++i) sum += p.gray(i);
  const float mean = static_cast<float>(sum / static_cast<double>(p.plane));
  for (float& x : p.v) x = unit(factor * x + (1 - factor) * mean);
}

void saturation(Pixels& p, float factor) {
  if (!p.color) return;
  for (std::size_t i = 0; i < p.plane; ++i) {
    const float gray = p.gray(i);
    for (std::size_t c = 0; c < 3; ++c)
      p.v[c * p.plane + i] = unit(factor * p.v[c * p.plane + i] + (1 - factor) * gray);
  }
}

// Through hue, saturation and value (Smith, 1978); only the hue changes.
void hue(Pixels& p, float turn) {
  if (!p.color) return;
  for (std::size_t i = 0; i < p.plane; ++i) {
    float &r = p.v[i], &g = p.v[p.plane + i], &b = p.v[2 * p.plane + i];
    const float high = std::max({r, g, b}), low = std::min({r, g, b}), chroma = high - low;
    if (chroma <= 0) continue;
    float h = high == r ? (g - b) / chroma : high == g ? 2 + (b - r) / chroma : 4 + (r - g) / chroma;
    h = h / 6 + turn;
    h = (h - std::floor(h)) * 6;
    const auto channel = [&](float n) {  // n: 5 red, 3 green, 1 blue
      const float k = std::fmod(n + h, 6.0f);
      return high - chroma * std::clamp(std::min(k, 4 - k), 0.0f, 1.0f);
    };
    r = channel(5), g = channel(3), b = channel(1);
  }
}

using Change = void (*)(Pixels&, float);

template <class T> Pixels load(const T* image, std::int64_t channels, std::int64_t plane) {
  Pixels p{std::vector<float>(static_cast<std::size_t>(channels * plane)), static_cast<std::size_t>(plane),
           channels == 3};
  const float scale = std::is_same_v<T, float> ? 1.0f : 1 / 255.0f;
  for (std::size_t i = 0; i < p.v.size(); ++i) p.v[i] = static_cast<float>(image[i]) * scale;
  return p;
}
template <class T> void store(const Pixels& p, T* image) {
  for (std::size_t i = 0; i < p.v.size(); ++i) {
    if constexpr (std::is_same_v<T, float>) image[i] = p.v[i];
    else image[i] = static_cast<T>(p.v[i] * 255.0f + 0.5f);
  }
}

template <class F> void with_elements(const Tensor& images, F f) {
  if (images.dtype() == u8) f(images.data<std::uint8_t>());
  else f(images.data<float>());
}

void adjust(const Tensor& image, float factor, Change change, const char* who) {
  check(image.defined() && image.dim() == 3 && (image.size(0) == 1 || image.size(0) == 3) &&
            (image.dtype() == u8 || image.dtype() == f32) && image.is_contiguous(),
        who, ": expected a contiguous u8 or f32 image [3, H, W] or [1, H, W], got ", image);
  with_elements(image, [&](auto* at) {
    Pixels p = load(at, image.size(0), image.size(1) * image.size(2));
    change(p, factor);
    store(p, at);
  });
}

}  // namespace

void adjust_brightness_(Tensor& image, float factor) { adjust(image, factor, brightness, "adjust_brightness_"); }
void adjust_contrast_(Tensor& image, float factor) { adjust(image, factor, contrast, "adjust_contrast_"); }
void adjust_saturation_(Tensor& image, float factor) { adjust(image, factor, saturation, "adjust_saturation_"); }
void adjust_hue_(Tensor& image, float turn) { adjust(image, turn, hue, "adjust_hue_"); }

namespace {

void check_images(const Tensor& images, const char* who) {
  check(images.defined() && images.dim() == 4 && (images.size(1) == 1 || images.size(1) == 3) &&
            (images.dtype() == u8 || images.dtype() == f32) && images.is_contiguous(),
        who, ": expected contiguous u8 or f32 images [B, C, H, W] with 1 or 3 channels, got ", images);
}
// The brightness of each pixel of an image, in every channel of `out`.
template <class T>
void write_gray(const T* image, std::int64_t from_channels, std::int64_t plane, T* out, std::int64_t channels) {
  const Pixels p = load(image, from_channels, plane);
  Pixels gray{std::vector<float>(static_cast<std::size_t>(channels * plane)), p.plane, channels == 3};
  for (std::size_t i = 0; i < gray.v.size(); ++i) gray.v[i] = p.gray(i % p.plane);
  store(gray, out);
}

}  // namespace

Tensor grayscale(const Tensor& images, std::int64_t channels) {
  check_images(images, "grayscale");
  check(channels == 1 || channels == 3, "grayscale: the result has 1 or 3 channels, not ", channels);
  const std::int64_t from = images.size(1), plane = images.size(2) * images.size(3);
  const Tensor out = Tensor::allocate({images.size(0), channels, images.size(2), images.size(3)}, images.dtype());
  with_elements(images, [&]<class T>(T* in) {
    for (std::int64_t b = 0; b < images.size(0); ++b)
      write_gray(in + b * from * plane, from, plane, static_cast<T*>(out.raw_data()) + b * channels * plane, channels);
  });
  return out;
}

void random_grayscale_(Tensor& images, Draws& draws, float p) {
  check_images(images, "random_grayscale_");
  check(p >= 0 && p <= 1, "random_grayscale_: p must be a probability, got ", p);
  const std::int64_t channels = images.size(1), plane = images.size(2) * images.size(3);
  with_elements(images, [&](auto* all) {
    for (std::int64_t b = 0; b < images.size(0); ++b) {
      auto* image = all + b * channels * plane;
      if (draws.uniform() < p && channels == 3) write_gray(image, channels, plane, image, channels);
    }
  });
}

void color_jitter_(Tensor& images, Draws& draws, const ColorJitterOptions& o) {
  check_images(images, "color_jitter_");
  check(o.brightness >= 0 && o.contrast >= 0 && o.saturation >= 0 && o.hue >= 0 && o.hue <= 0.5f,
        "color_jitter_: strengths must not be negative and hue at most 0.5, got ", o.brightness, ", ", o.contrast, ", ",
        o.saturation, ", ", o.hue);
  const std::int64_t channels = images.size(1), plane = images.size(2) * images.size(3);
  const std::array<float, 3> strengths{o.brightness, o.contrast, o.saturation};
  const std::array<Change, 4> changes{brightness, contrast, saturation, hue};
  with_elements(images, [&](auto* all) {
    for (std::int64_t b = 0; b < images.size(0); ++b) {
      std::array<int, 4> order{0, 1, 2, 3};
      for (int i = 3; i > 0; --i)
        std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(draws.below(i + 1))]);
      auto* image = all + b * channels * plane;
      Pixels p = load(image, channels, plane);
      for (const int which : order) {
        const float strength = which == 3 ? o.hue : strengths[static_cast<std::size_t>(which)];
        if (strength == 0) continue;
        const float factor =
            which == 3 ? draws.uniform(-strength, strength) : draws.uniform(std::max(0.0f, 1 - strength), 1 + strength);
        changes[static_cast<std::size_t>(which)](p, factor);
      }
      store(p, image);
    }
  });
}

}  // namespace mantissa::data
