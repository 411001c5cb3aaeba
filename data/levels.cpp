#include "data/levels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "data/pixels.h"

namespace mantissa::data {
namespace {

using Table = std::array<std::uint8_t, 256>;  // the new value of each level

void check_bytes(const Tensor& images, const char* who) {
  check(images.defined() && images.dim() >= 2 && images.dtype() == u8 && is_plain(images, who), who,
        ": expected contiguous u8 images [..., H, W], got ", images);
}
void check_random(const Tensor& images, float p, const char* who) {
  check(images.defined() && images.dim() == 4 && images.dtype() == u8 && is_plain(images, who), who,
        ": expected contiguous u8 images [B, C, H, W], got ", images);
  check(p >= 0 && p <= 1, who, ": p must be a probability, got ", p);
}

void look_up(std::uint8_t* pixels, std::int64_t count, const Table& table) {
  for (std::int64_t i = 0; i < count; ++i) pixels[i] = table.data()[pixels[i]];
}

// Operations with fixed parameters, in loops that the compiler vectorises.
struct Posterize {
  explicit Posterize(int bits) {
    check(bits >= 0 && bits <= 8, "posterize_: bits must be 0 to 8, got ", bits);
    kept = static_cast<std::uint8_t>(0xff00 >> bits);
  }
  void operator()(std::uint8_t* pixels, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; ++i) pixels[i] &= kept;
  }
  std::uint8_t kept = 0;
};
struct Solarize {
  explicit Solarize(double threshold) {
    check(threshold <= 255, "solarize_: the threshold must be at most 255, got ", threshold);
    const auto t = static_cast<float>(threshold);  // as torchvision compares
    first = static_cast<std::uint8_t>(std::ceil(std::max(t, 0.0f)));
  }
  void operator()(std::uint8_t* pixels, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; ++i)
      pixels[i] = static_cast<std::uint8_t>(pixels[i] ^ (pixels[i] >= first ? 255 : 0));
  }
  std::uint8_t first = 0;  // the lowest inverted level
};
// Histogram of the levels.
std::array<std::int64_t, 256> histogram(const std::uint8_t* plane, std::int64_t pixels) {
  std::array<std::int64_t, 256> counts{}, others{};  // two: equal neighbours would serialise on one counter
  for (std::int64_t i = 0; i + 1 < pixels; i += 2) {
    ++counts[plane[i]];
    ++others[plane[i + 1]];
  }
  if (pixels % 2 != 0) ++counts[plane[pixels - 1]];
  for (std::size_t i = 0; i < 256; ++i) counts[i] += others[i];
  return counts;
}

void autocontrast_plane(std::uint8_t* plane, std::int64_t pixels) {
  std::uint8_t least = 255, most = 0;
  for (std::int64_t i = 0; i < pixels; ++i) {
    least = std::min(least, plane[i]);
    most = std::max(most, plane[i]);
  }
  if (least >= most) return;
  const auto low = static_cast<float>(least);
  const float scale = (static_cast<float>(most) - low) * static_cast<float>(1.0 / 255);
  Table table{};
  for (int i = least; i <= most; ++i)
    table[static_cast<std::size_t>(i)] =
        static_cast<std::uint8_t>(std::clamp((static_cast<float>(i) - low) / scale, 0.0f, 255.0f));
  look_up(plane, pixels, table);
}

// Each level is mapped to the number of darker pixels, scaled by 255 over the number of pixels below the brightest
// level.
void equalize_plane(std::uint8_t* plane, std::int64_t pixels) {
  if (pixels == 0) return;
  const std::array<std::int64_t, 256> counts = histogram(plane, pixels);
  std::size_t brightest = 255;
  while (counts[brightest] == 0) --brightest;
  const std::int64_t step = (pixels - counts[brightest]) / 255;
  if (step == 0) return;
  Table table;
  std::int64_t below = step / 2;
  for (std::size_t i = 0; i < 256; ++i) {
    table[i] = static_cast<std::uint8_t>(std::min<std::int64_t>(below / step, 255));
    below += counts[i];
  }
  look_up(plane, pixels, table);
}

// Calls f(plane, pixels) for every plane of `images`.
template <class F> void each_plane(const Tensor& images, F f) {
  const std::int64_t pixels = images.size(-1) * images.size(-2);
  auto* all = images.data<std::uint8_t>();
  for (std::int64_t at = 0; at < images.numel(); at += pixels) f(all + at, pixels);
}
// Calls f(image, planes, pixels per plane) for each image with probability p.
template <class F> void some_pictures(const Tensor& images, Draws& draws, float p, F f) {
  const std::int64_t planes = images.size(1), pixels = images.size(2) * images.size(3);
  for (std::int64_t b = 0; b < images.size(0); ++b)
    if (draws.uniform() < p) f(images.data<std::uint8_t>() + b * planes * pixels, planes, pixels);
}
void some_planes(const Tensor& images, Draws& draws, float p, void (*f)(std::uint8_t*, std::int64_t)) {
  some_pictures(images, draws, p, [f](std::uint8_t* picture, std::int64_t planes, std::int64_t pixels) {
    for (std::int64_t c = 0; c < planes; ++c) f(picture + c * pixels, pixels);
  });
}
template <class F> void some_pixels(const Tensor& images, Draws& draws, float p, const F& f) {
  some_pictures(images, draws, p, [&f](std::uint8_t* picture, std::int64_t planes, std::int64_t pixels) {
    f(picture, planes * pixels);
  });
}

}  // namespace

void posterize_(Tensor& images, int bits) {
  check_bytes(images, "posterize_");
  Posterize{bits}(images.data<std::uint8_t>(), images.numel());
}
void solarize_(Tensor& images, double threshold) {
  check_bytes(images, "solarize_");
  Solarize{threshold}(images.data<std::uint8_t>(), images.numel());
}
void invert_(Tensor& images) {
  check_bytes(images, "invert_");
  Solarize{0}(images.data<std::uint8_t>(), images.numel());
}
void autocontrast_(Tensor& images) {
  check_bytes(images, "autocontrast_");
  each_plane(images, autocontrast_plane);
}
void equalize_(Tensor& images) {
  check_bytes(images, "equalize_");
  each_plane(images, equalize_plane);
}

void random_posterize_(Tensor& images, Draws& draws, int bits, float p) {
  check_random(images, p, "random_posterize_");
  some_pixels(images, draws, p, Posterize{bits});
}
void random_solarize_(Tensor& images, Draws& draws, double threshold, float p) {
  check_random(images, p, "random_solarize_");
  some_pixels(images, draws, p, Solarize{threshold});
}
void random_invert_(Tensor& images, Draws& draws, float p) {
  check_random(images, p, "random_invert_");
  some_pixels(images, draws, p, Solarize{0});
}
void random_autocontrast_(Tensor& images, Draws& draws, float p) {
  check_random(images, p, "random_autocontrast_");
  some_planes(images, draws, p, autocontrast_plane);
}
void random_equalize_(Tensor& images, Draws& draws, float p) {
  check_random(images, p, "random_equalize_");
  some_planes(images, draws, p, equalize_plane);
}

}  // namespace mantissa::data
