#include "data/transforms.h"

#include <algorithm>
#include <cstring>

namespace mantissa::data {
namespace {

void check_images(const Tensor& images, const char* who) {
  check(images.defined() && images.dim() == 4 && (images.dtype() == u8 || images.dtype() == f32) &&
            images.is_contiguous(),
        who, ": expected contiguous u8 or f32 images [B, C, H, W], got ",
        images);
}

// One channel of every image in the batch.
void normalize_channel(const Tensor& images, std::int64_t channel, float mean, float std, float* out) {
  const std::int64_t plane = images.size(2) * images.size(3), step = images.size(1) * plane;
  float table[256];  // a pixel has 256 values: look them up instead of dividing for each
  for (int i = 0; i < 256; ++i) table[i] = (static_cast<float>(i) / 255.0f - mean) / std;
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    const std::int64_t begin = b * step + channel * plane;
    if (images.dtype() == u8) {
      const std::uint8_t* in = images.data<std::uint8_t>();
      for (std::int64_t i = begin; i < begin + plane; ++i) out[i] = table[in[i]];
    } else {
      const float* in = images.data<float>();
      for (std::int64_t i = begin; i < begin + plane; ++i) out[i] = (in[i] - mean) / std;
    }
  }
}

template <class T> void flip_rows(T* image, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) std::reverse(image + r * width, image + (r + 1) * width);
}

// Copies the plane moved by (dy, dx); what comes from outside stays 0. Sizes in elements.
void shift_plane(const char* in, char* out, std::int64_t h, std::int64_t w, std::int64_t dy, std::int64_t dx,
                 std::int64_t element) {
  const std::int64_t first = std::max<std::int64_t>(0, -dx), last = std::min(w, w - dx);
  for (std::int64_t y = std::max<std::int64_t>(0, -dy); y < std::min(h, h - dy) && first < last; ++y)
    std::memcpy(out + (y * w + first) * element, in + ((y + dy) * w + first + dx) * element,
                static_cast<std::size_t>((last - first) * element));
}

}  // namespace

Tensor normalize(const Tensor& images, const std::vector<float>& mean, const std::vector<float>& std) {
  check_images(images, "normalize");
  const std::int64_t channels = images.size(1);
  for (const auto* v : {&mean, &std})
    check(v->size() == 1 || static_cast<std::int64_t>(v->size()) == channels, "normalize: ", v->size(),
          " values for images of ", channels, " channels");
  for (const float s : std) check(s > 0, "normalize: std must be positive, got ", s);
  const Tensor out = Tensor::allocate(images.sizes(), f32);
  for (std::int64_t c = 0; c < channels; ++c)
    normalize_channel(images, c, mean[mean.size() == 1 ? 0 : c], std[std.size() == 1 ? 0 : c],
                      out.data<float>());
  return out;
}

void random_flip_(Tensor& images, Draws& draws, float p) {
  check_images(images, "random_flip_");
  const std::int64_t rows = images.size(1) * images.size(2), width = images.size(3);
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    if (draws.uniform() >= p) continue;
    if (images.dtype() == u8) flip_rows(images.data<std::uint8_t>() + b * rows * width, rows, width);
    else flip_rows(images.data<float>() + b * rows * width, rows, width);
  }
}

Tensor random_crop(const Tensor& images, std::int64_t padding, Draws& draws) {
  check_images(images, "random_crop");
  check(padding >= 0, "random_crop: padding must not be negative, got ", padding);
  const std::int64_t channels = images.size(1), h = images.size(2), w = images.size(3);
  const auto element = static_cast<std::int64_t>(size_of(images.dtype()));
  const Tensor out = Tensor::allocate(images.sizes(), images.dtype());
  const auto* in = static_cast<const char*>(images.raw_data());
  auto* to = static_cast<char*>(out.raw_data());
  std::memset(to, 0, static_cast<std::size_t>(out.nbytes()));
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    const std::int64_t dy = draws.below(2 * padding + 1) - padding;
    const std::int64_t dx = draws.below(2 * padding + 1) - padding;
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t at = (b * channels + c) * h * w * element;
      shift_plane(in + at, to + at, h, w, dy, dx, element);
    }
  }
  return out;
}

}  // namespace mantissa::data
