#include "data/color.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "data/pixels.h"
#include "data/vector_loops.h"

namespace mantissa::data {
namespace {

// One image in memory, planar: f32 in [0, 1], or u8.
template <class T> struct Picture {
  T* v;
  std::size_t plane;
  bool color;
  std::size_t size() const { return color ? 3 * plane : plane; }
};

float gray_of(float r, float g, float b) { return 0.2989f * r + 0.587f * g + 0.114f * b; }
float gray(const Picture<float>& p, std::size_t i) {
  return p.color ? gray_of(p.v[i], p.v[p.plane + i], p.v[2 * p.plane + i]) : p.v[i];
}
float gray(const Picture<std::uint8_t>& p, std::size_t i) {  // truncated to an integer
  if (!p.color) return p.v[i];
  const auto channel = [&](std::size_t c) { return static_cast<float>(p.v[c * p.plane + i]); };
  return static_cast<float>(static_cast<int>(gray_of(channel(0), channel(1), channel(2))));
}

float unit(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

// factor * x + rest for every value.
template <class T> void scale_and_add(Picture<T>& p, float factor, float rest) {
  T* const v = p.v;
  const std::size_t size = p.size();
  with_vectors([=] {
    for (std::size_t i = 0; i < size; ++i) {
      const float x = factor * static_cast<float>(v[i]) + rest;
      if constexpr (std::is_same_v<T, float>) v[i] = unit(x);
      else v[i] = pixel_from<std::uint8_t>(x);
    }
  });
}

template <class T> void brightness(Picture<T>& p, double factor) { scale_and_add(p, static_cast<float>(factor), 0); }

double sum_of_grays(const Picture<float>& p) {
  double sum = 0;
  for (std::size_t i = 0; i < p.plane; ++i) sum += gray(p, i);
  return sum;
}
double sum_of_grays(const Picture<std::uint8_t>& p) {
  std::int64_t sum = 0;
  with_vectors([p, result = &sum] {
    constexpr std::size_t block = std::size_t{1} << 20;  // block size for which the sum fits an int
    for (std::size_t begin = 0; begin < p.plane; begin += block) {
      int part = 0;
      for (std::size_t i = begin; i < std::min(p.plane, begin + block); ++i) part += static_cast<int>(gray(p, i));
      *result += part;
    }
  });
  return static_cast<double>(sum);
}

template <class T> void contrast(Picture<T>& p, double factor) {
  const float mean = static_cast<float>(sum_of_grays(p) / static_cast<double>(p.plane));
  scale_and_add(p, static_cast<float>(factor), static_cast<float>(1 - factor) * mean);
}

template <class T> void saturation(Picture<T>& p, double factor) {
  if (!p.color) return;
  const auto own = static_cast<float>(factor), rest = static_cast<float>(1 - factor);
  const std::size_t plane = p.plane;
  T *const __restrict red = p.v, *const __restrict green = red + plane, *const __restrict blue = green + plane;
  const auto mixed = [own](T x, float without) {
    const float v = own * static_cast<float>(x) + without;
    if constexpr (std::is_same_v<T, float>) return unit(v);
    else return pixel_from<std::uint8_t>(v);
  };
  with_vectors([=] {
    for (std::size_t i = 0; i < plane; ++i) {
      const auto channel = [i](const T* of) { return static_cast<float>(of[i]); };
      float without = gray_of(channel(red), channel(green), channel(blue));
      if constexpr (!std::is_same_v<T, float>) without = static_cast<float>(static_cast<int>(without));
      without *= rest;
      red[i] = mixed(red[i], without);
      green[i] = mixed(green[i], without);
      blue[i] = mixed(blue[i], without);
    }
  });
}

// Via HSV (Smith, 1978); only the hue changes. Branch-free, so that the compiler vectorises it.
template <class T> void hue(Picture<T>& p, double by) {
  if (!p.color) return;
  constexpr bool bytes = !std::is_same_v<T, float>;
  const auto turn = static_cast<float>(by);
  const std::size_t plane = p.plane;
  T *const __restrict red = p.v, *const __restrict green = red + plane, *const __restrict blue = green + plane;
  const auto load = [](T x) { return bytes ? static_cast<float>(x) * (1 / 255.0f) : static_cast<float>(x); };
  with_vectors([=] {
    for (std::size_t i = 0; i < plane; ++i) {
      const float r = load(red[i]), g = load(green[i]), b = load(blue[i]);
      const float first = r < g ? g : r, high = first < b ? b : first;
      const float least = g < r ? g : r, chroma = high - (b < least ? b : least);
      const bool gray = chroma <= 0;
      const float green_blue = g - b, blue_red = b - r, red_green = r - g;
      const float difference = high == r ? green_blue : high == g ? blue_red : red_green;
      const float sector = high == r ? 0.0f : high == g ? 2.0f : 4.0f;
      float h = (sector + difference / (gray ? 1.0f : chroma)) / 6 + turn;
      h = (h - std::floor(h)) * 6;
      const auto channel = [&](float n, T before) {  // n: 5 red, 3 green, 1 blue
        const float once = n + h, over = once - 6, k = once < 6 ? once : over, mirrored = 4 - k;
        const float x = high - chroma * unit(k < mirrored ? k : mirrored);
        if constexpr (bytes) {
          const int level = static_cast<int>(x * 255.999f);
          return static_cast<T>(gray ? before : level);
        } else {
          return gray ? before : x;
        }
      };
      red[i] = channel(5, red[i]), green[i] = channel(3, green[i]), blue[i] = channel(1, blue[i]);
    }
  });
}

template <class T> using Change = void (*)(Picture<T>&, double);
template <class T> constexpr std::array<Change<T>, 4> changes{brightness<T>, contrast<T>, saturation<T>, hue<T>};

void adjust(const Tensor& image, double factor, std::size_t which, const char* who) {
  check(image.defined() && image.dim() == 3 && (image.size(0) == 1 || image.size(0) == 3) &&
            (image.dtype() == u8 || image.dtype() == f32) && is_plain(image, who),
        who, ": expected a contiguous u8 or f32 image [3, H, W] or [1, H, W], got ", image);
  with_elements(image, [&]<class T>(T* at) {
    Picture<T> p{at, static_cast<std::size_t>(image.size(1) * image.size(2)), image.size(0) == 3};
    changes<T>[which](p, factor);
  });
}

}  // namespace

void adjust_brightness_(Tensor& image, double factor) {
  check(factor >= 0, "adjust_brightness_: the factor must not be negative, got ", factor);
  adjust(image, factor, 0, "adjust_brightness_");
}
void adjust_contrast_(Tensor& image, double factor) {
  check(factor >= 0, "adjust_contrast_: the factor must not be negative, got ", factor);
  adjust(image, factor, 1, "adjust_contrast_");
}
void adjust_saturation_(Tensor& image, double factor) {
  check(factor >= 0, "adjust_saturation_: the factor must not be negative, got ", factor);
  adjust(image, factor, 2, "adjust_saturation_");
}
void adjust_hue_(Tensor& image, double turn) {
  check(turn >= -1 && turn <= 1, "adjust_hue_: a turn is a part of the circle from -1 to 1, got ", turn);
  adjust(image, turn, 3, "adjust_hue_");
}

namespace {

void check_colors(const Tensor& images, const char* who) {
  check(images.defined() && images.dim() == 4 && (images.size(1) == 1 || images.size(1) == 3) &&
            (images.dtype() == u8 || images.dtype() == f32) && is_plain(images, who),
        who, ": expected contiguous u8 or f32 images [B, C, H, W] with 1 or 3 channels, got ", images);
}
// Writes the luminance of each pixel of an image to every channel of `out`.
template <class T>
void write_gray(const T* image, std::int64_t from_channels, std::int64_t plane, T* out, std::int64_t channels) {
  with_vectors([=] {
    for (std::int64_t i = 0; i < plane; ++i) {
      const auto channel = [&](std::int64_t c) { return static_cast<float>(image[c * plane + i]); };
      const float gray = from_channels == 3 ? gray_of(channel(0), channel(1), channel(2)) : channel(0);
      const T level = pixel_from<T>(std::is_same_v<T, float> ? gray : gray + 0.5f);
      for (std::int64_t c = 0; c < channels; ++c) out[c * plane + i] = level;
    }
  });
}

}  // namespace

Tensor grayscale(const Tensor& images, std::int64_t channels) {
  check_colors(images, "grayscale");
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
  check_colors(images, "random_grayscale_");
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
  check_colors(images, "color_jitter_");
  check(o.brightness >= 0 && o.contrast >= 0 && o.saturation >= 0 && o.hue >= 0 && o.hue <= 0.5f,
        "color_jitter_: strengths must not be negative and hue at most 0.5, got ", o.brightness, ", ", o.contrast, ", ",
        o.saturation, ", ", o.hue);
  const std::int64_t channels = images.size(1), plane = images.size(2) * images.size(3);
  const std::array<float, 3> strengths{o.brightness, o.contrast, o.saturation};
  with_elements(images, [&]<class T>(T* all) {
    for (std::int64_t b = 0; b < images.size(0); ++b) {
      std::array<int, 4> order{0, 1, 2, 3};
      for (int i = 3; i > 0; --i)
        std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(draws.below(i + 1))]);
      Picture<T> p{all + b * channels * plane, static_cast<std::size_t>(plane), channels == 3};
      for (const int which : order) {
        const float strength = which == 3 ? o.hue : strengths[static_cast<std::size_t>(which)];
        if (strength == 0) continue;
        const float factor =
            which == 3 ? draws.uniform(-strength, strength) : draws.uniform(std::max(0.0f, 1 - strength), 1 + strength);
        changes<T>[static_cast<std::size_t>(which)](p, factor);
      }
    }
  });
}

namespace {

template <class T> void permute_channels(T* image, std::int64_t channels, std::int64_t plane, Draws& draws) {
  for (std::int64_t i = channels - 1; i > 0; --i) {
    const std::int64_t j = draws.below(i + 1);
    if (j != i) std::swap_ranges(image + i * plane, image + (i + 1) * plane, image + j * plane);
  }
}

}  // namespace

void random_channel_permutation_(Tensor& images, Draws& draws) {
  check(images.defined() && images.dim() == 4 && (images.dtype() == u8 || images.dtype() == f32) &&
            is_plain(images, "random_channel_permutation_"),
        "random_channel_permutation_: expected contiguous u8 or f32 images [B, C, H, W], got ", images);
  const std::int64_t channels = images.size(1), plane = images.size(2) * images.size(3);
  with_elements(images, [&](auto* all) {
    for (std::int64_t b = 0; b < images.size(0); ++b)
      permute_channels(all + b * channels * plane, channels, plane, draws);
  });
}

void random_photometric_distort_(Tensor& images, Draws& draws, const PhotometricDistortOptions& o) {
  check_colors(images, "random_photometric_distort_");
  for (const auto& range : {o.brightness, o.contrast, o.saturation})
    check(range[0] >= 0 && range[0] <= range[1], "random_photometric_distort_: factors must be ranges from 0 on, got ",
          range[0], " to ", range[1]);
  check(o.hue[0] >= -0.5f && o.hue[0] <= o.hue[1] && o.hue[1] <= 0.5f && o.p >= 0 && o.p <= 1,
        "random_photometric_distort_: hue must be a range within -0.5 and 0.5, and p a probability, got ", o.hue[0],
        " to ", o.hue[1], " and ", o.p);
  const std::int64_t channels = images.size(1), plane = images.size(2) * images.size(3);
  with_elements(images, [&]<class T>(T* all) {
    for (std::int64_t b = 0; b < images.size(0); ++b) {
      Picture<T> p{all + b * channels * plane, static_cast<std::size_t>(plane), channels == 3};
      const auto maybe = [&](Change<T> change, const std::array<float, 2>& range) {
        if (draws.uniform() < o.p) change(p, draws.uniform(range[0], range[1]));
      };
      const bool contrast_last = draws.uniform() < 0.5f;
      maybe(brightness<T>, o.brightness);
      if (!contrast_last) maybe(contrast<T>, o.contrast);
      maybe(saturation<T>, o.saturation);
      maybe(hue<T>, o.hue);
      if (contrast_last) maybe(contrast<T>, o.contrast);
      if (draws.uniform() < o.p) permute_channels(p.v, channels, plane, draws);
    }
  });
}

}  // namespace mantissa::data
