#include "data/crops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "data/pixels.h"
#include "data/transforms.h"

namespace mantissa::data {
namespace {

// The source index for index i of a padded line of n; -1: fill.
std::int64_t origin(std::int64_t i, std::int64_t n, Border border) {
  if (i >= 0 && i < n) return i;
  switch (border) {
    case Border::edge: return i < 0 ? 0 : n - 1;
    case Border::reflect: return i < 0 ? -i : 2 * (n - 1) - i;
    case Border::symmetric: return i < 0 ? -1 - i : 2 * n - 1 - i;
    default: return -1;
  }
}

void check_border(std::int64_t before, std::int64_t after, std::int64_t n, Border border) {
  constexpr std::int64_t widest = INT32_MAX;  // sums of sizes stay far from overflow
  check(before >= 0 && after >= 0, "pad: borders must not be negative, got ", before, " and ", after);
  check(before <= widest && after <= widest, "pad: borders of ", before, " and ", after, " are too wide");
  if (border != Border::reflect && border != Border::symmetric) return;
  const std::int64_t most = border == Border::reflect ? n - 1 : n;
  check(std::max(before, after) <= most, "pad: ", n, " pixels can be mirrored by at most ", most, ", asked for ",
        std::max(before, after));
}

// Copies the window of `in` (one plane) with the given upper left corner to `out`, row by row.
template <class T>
void copy_window(const T* in, std::int64_t row, std::int64_t top, std::int64_t left, std::int64_t height,
                 std::int64_t width, T* out) {
  for (std::int64_t y = 0; y < height; ++y)
    std::copy_n(in + (top + y) * row + left, width, out + y * width);
}

}  // namespace

Tensor pad(const Tensor& images, const PadOptions& o, Motions* motions) {
  check_some_images(images, "pad");
  const std::int64_t h = images.size(2), w = images.size(3);
  check_border(o.top, o.bottom, h, o.border);
  check_border(o.left, o.right, w, o.border);
  const Tensor out = Tensor::allocate({images.size(0), images.size(1), h + o.top + o.bottom, w + o.left + o.right},
                                      images.dtype());
  if (motions) {
    const Place shift{static_cast<double>(o.left), static_cast<double>(o.top)};
    motions->insert(motions->end(), static_cast<std::size_t>(images.size(0)),
                    scaled_and_shifted(out.size(2), out.size(3), {1, 1}, shift));
  }
  with_elements(images, [&]<class T>(const T* in) {
    const T fill = pixel_from<T>(o.fill);
    T* to = out.data<T>();
    for (std::int64_t c = 0; c < images.size(0) * images.size(1); ++c, in += h * w) {
      for (std::int64_t y = 0; y < out.size(2); ++y, to += out.size(3)) {
        const std::int64_t from = origin(y - o.top, h, o.border);
        if (from < 0) {
          std::fill_n(to, out.size(3), fill);
          continue;
        }
        const T* line = in + from * w;
        const auto pixel = [&](std::int64_t x) {
          const std::int64_t at = origin(x - o.left, w, o.border);
          return at < 0 ? fill : line[at];
        };
        for (std::int64_t x = 0; x < o.left; ++x) to[x] = pixel(x);
        std::copy_n(line, w, to + o.left);
        for (std::int64_t x = o.left + w; x < out.size(3); ++x) to[x] = pixel(x);
      }
    }
  });
  return out;
}

Tensor random_crop(const Tensor& images, const RandomCropOptions& o, Draws& draws, Motions* motions) {
  check_some_images(images, "random_crop");
  const Tensor padded =
      o.padding == 0 ? images : pad(images, {o.padding, o.padding, o.padding, o.padding, o.fill, o.border});
  const std::int64_t channels = images.size(1), h = padded.size(2), w = padded.size(3);
  check(o.height >= 1 && o.width >= 1 && o.height <= h && o.width <= w, "random_crop: a window of ", o.height, " x ",
        o.width, " does not fit into images of ", h, " x ", w, " (with padding)");
  const Tensor out = Tensor::allocate({images.size(0), channels, o.height, o.width}, images.dtype());
  with_elements(padded, [&]<class T>(const T* in) {
    for (std::int64_t b = 0; b < images.size(0); ++b) {
      const std::int64_t top = draws.below(h - o.height + 1), left = draws.below(w - o.width + 1);
      const Place shift{static_cast<double>(o.padding - left), static_cast<double>(o.padding - top)};
      if (motions) motions->push_back(scaled_and_shifted(o.height, o.width, {1, 1}, shift));
      for (std::int64_t c = b * channels; c < (b + 1) * channels; ++c)
        copy_window(in + c * h * w, w, top, left, o.height, o.width, out.data<T>() + c * o.height * o.width);
    }
  });
  return out;
}

Tensor five_crop(const Tensor& images, std::int64_t height, std::int64_t width) {
  check_some_images(images, "five_crop");
  const std::int64_t channels = images.size(1), h = images.size(2), w = images.size(3);
  check(height >= 1 && width >= 1 && height <= h && width <= w, "five_crop: windows of ", height, " x ", width,
        " do not fit into images of ", h, " x ", w);
  const std::int64_t bottom = h - height, right = w - width;
  const auto middle = [](std::int64_t room) { return std::lrint(static_cast<double>(room) / 2); };  // half to even
  const std::array<std::array<std::int64_t, 2>, 5> places{
      {{0, 0}, {0, right}, {bottom, 0}, {bottom, right}, {middle(bottom), middle(right)}}};
  const Tensor out = Tensor::allocate({5 * images.size(0), channels, height, width}, images.dtype());
  with_elements(images, [&]<class T>(const T* in) {
    T* to = out.data<T>();
    for (std::int64_t b = 0; b < images.size(0); ++b)
      for (const auto& [top, left] : places)
        for (std::int64_t c = b * channels; c < (b + 1) * channels; ++c, to += height * width)
          copy_window(in + c * h * w, w, top, left, height, width, to);
  });
  return out;
}

Tensor ten_crop(const Tensor& images, std::int64_t height, std::int64_t width, bool vertical_flip) {
  check_some_images(images, "ten_crop");
  const Tensor straight = five_crop(images, height, width);
  Tensor mirrored = Tensor::allocate(images.sizes(), images.dtype());
  std::memcpy(mirrored.raw_data(), images.raw_data(), static_cast<std::size_t>(images.nbytes()));
  Draws certain(0, Purpose::augment, 0);
  if (vertical_flip) random_vertical_flip_(mirrored, certain, 1);
  else random_flip_(mirrored, certain, 1);
  const Tensor turned = five_crop(mirrored, height, width);
  Dims sizes = straight.sizes();
  sizes[0] *= 2;
  const Tensor out = Tensor::allocate(sizes, images.dtype());
  const auto five = static_cast<std::size_t>(straight.nbytes() / images.size(0));
  auto* to = static_cast<char*>(out.raw_data());
  for (std::int64_t b = 0; b < images.size(0); ++b)
    for (const Tensor* half : {&straight, &turned}) {
      std::memcpy(to, static_cast<const char*>(half->raw_data()) + static_cast<std::size_t>(b) * five, five);
      to += five;
    }
  return out;
}

}  // namespace mantissa::data
