#include "data/transforms.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/operators.h"
#include "core/ops.h"
#include "data/pixels.h"

namespace mantissa::data {
namespace {

// Normalises one channel of every image in the batch.
void normalize_channel(const Tensor& images, std::int64_t channel, float mean, float std, float* out) {
  std::int64_t plane = 1;
  for (int d = 2; d < images.dim(); ++d) plane *= images.size(d);
  const std::int64_t step = images.size(1) * plane;
  float table[256];  // one entry per u8 value, instead of a division per pixel
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

struct Box { std::int64_t top, bottom, left, right; };

template <class T> void flip_rows(T* image, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) std::reverse(image + r * width, image + (r + 1) * width);
}

// Copies the plane shifted by (dy, dx); pixels from outside stay 0. Sizes in elements.
void shift_plane(const char* in, char* out, std::int64_t h, std::int64_t w, std::int64_t dy, std::int64_t dx,
                 std::int64_t element) {
  const std::int64_t first = std::max<std::int64_t>(0, -dx), last = std::min(w, w - dx);
  for (std::int64_t y = std::max<std::int64_t>(0, -dy); y < std::min(h, h - dy) && first < last; ++y)
    std::memcpy(out + (y * w + first) * element, in + ((y + dy) * w + first + dx) * element,
                static_cast<std::size_t>((last - first) * element));
}

// Fills the box of image `b` with `value`.
void fill_box(const Tensor& images, std::int64_t b, Box box, float value) {
  const std::int64_t channels = images.size(1), h = images.size(2), w = images.size(3);
  with_elements(images, [&]<class T>(T* all) {
    T* const image = all + b * channels * h * w;
    for (std::int64_t row = 0; row < channels * h; ++row)
      if (row % h >= box.top && row % h < box.bottom && box.left < box.right)
        std::fill(image + row * w + box.left, image + row * w + box.right, pixel_from<T>(value));
  });
}

void tell(Motions* motions, const PixelSteps& steps, const Tensor& images) {
  if (!motions) return;
  for (const PixelStep& s : steps) motions->push_back(motion_of(s, images.size(2), images.size(3)));
}

}  // namespace

Tensor normalize(const Tensor& images, const std::vector<float>& mean, const std::vector<float>& std) {
  check(images.defined() && images.dim() >= 2 && (images.dtype() == u8 || images.dtype() == f32) &&
            is_plain(images, "normalize"),
        "normalize: expected contiguous u8 or f32 images [B, C, H, W] or rows [B, C], got ", images);
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

Tensor to_float(const Tensor& images) {
  check(images.defined() && (images.dtype() == u8 || images.dtype() == f32) && is_plain(images, "to_float"),
        "to_float: expected contiguous u8 or f32 images, got ", images);
  if (images.dtype() == f32) return images;
  const Tensor out = Tensor::allocate(images.sizes(), f32);
  const std::uint8_t* in = images.data<std::uint8_t>();
  for (std::int64_t i = 0; i < images.numel(); ++i) out.data<float>()[i] = static_cast<float>(in[i]) / 255.0f;
  return out;
}

Tensor linear_transformation(const Tensor& images, const Tensor& matrix, const Tensor& mean) {
  check_images(images, "linear_transformation");
  const std::int64_t pixels = images.size(1) * images.size(2) * images.size(3);
  check(matrix.defined() && matrix.sizes() == Dims{pixels, pixels} && mean.defined() && mean.sizes() == Dims{pixels},
        "linear_transformation: images of ", pixels, " values need a matrix [", pixels, ", ", pixels, "] and a mean [",
        pixels, "], got ", matrix, " and ", mean);
  const Tensor rows = reshape(to_float(images), {images.size(0), pixels});
  return reshape(matmul(rows - cast(mean.detach(), f32), cast(matrix.detach(), f32)), images.sizes());
}

void Normalize::apply(Batch& batch, Draws&) const {
  batch.image = data::normalize(batch.image, mean, std);
  if (dtype != f32) batch.image = cast(batch.image, dtype);
}

PixelSteps random_flip_steps(std::int64_t images, Draws& draws, float p) {
  check(p >= 0 && p <= 1, "random_flip: p must be a probability, got ", p);
  PixelSteps steps(static_cast<std::size_t>(images));
  for (PixelStep& s : steps) s.kind = draws.uniform() >= p ? PixelStep::nothing : PixelStep::mirror_x;
  return steps;
}
PixelSteps random_vertical_flip_steps(std::int64_t images, Draws& draws, float p) {
  PixelSteps steps = random_flip_steps(images, draws, p);
  for (PixelStep& s : steps) if (s.kind == PixelStep::mirror_x) s.kind = PixelStep::mirror_y;
  return steps;
}
PixelSteps random_crop_steps(std::int64_t images, std::int64_t padding, Draws& draws) {
  check(padding >= 0, "random_crop: padding must not be negative, got ", padding);
  check(padding <= INT32_MAX, "random_crop: a padding of ", padding, " is too wide");
  PixelSteps steps(static_cast<std::size_t>(images));
  for (PixelStep& s : steps) {
    s.kind = PixelStep::shift;
    s.a = draws.below(2 * padding + 1) - padding;
    s.b = draws.below(2 * padding + 1) - padding;
  }
  return steps;
}
PixelSteps cutout_steps(std::int64_t images, std::int64_t height, std::int64_t width, Draws& draws, std::int64_t size,
                        float value) {
  check(size >= 1, "cutout_: the size must be positive, got ", size);
  PixelSteps steps(static_cast<std::size_t>(images));
  for (PixelStep& s : steps) {
    const std::int64_t top = draws.below(height) - size / 2, left = draws.below(width) - size / 2;
    s = {PixelStep::fill, std::max<std::int64_t>(top, 0), std::min(top + size, height), std::max<std::int64_t>(left, 0),
         std::min(left + size, width), pixel_from<std::uint8_t>(value)};
  }
  return steps;
}

void random_flip_(Tensor& images, Draws& draws, float p, Motions* motions) {
  check_images(images, "random_flip_");
  const PixelSteps steps = random_flip_steps(images.size(0), draws, p);
  tell(motions, steps, images);
  const std::int64_t rows = images.size(1) * images.size(2), width = images.size(3);
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    if (steps[static_cast<std::size_t>(b)].kind == PixelStep::nothing) continue;
    if (images.dtype() == u8) flip_rows(images.data<std::uint8_t>() + b * rows * width, rows, width);
    else flip_rows(images.data<float>() + b * rows * width, rows, width);
  }
}

void random_vertical_flip_(Tensor& images, Draws& draws, float p, Motions* motions) {
  check_images(images, "random_vertical_flip_");
  const PixelSteps steps = random_vertical_flip_steps(images.size(0), draws, p);
  tell(motions, steps, images);
  const std::int64_t planes = images.size(1), h = images.size(2);
  const std::int64_t row = images.size(3) * static_cast<std::int64_t>(size_of(images.dtype()));
  auto* bytes = static_cast<char*>(images.raw_data());
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    if (steps[static_cast<std::size_t>(b)].kind == PixelStep::nothing) continue;
    for (std::int64_t c = 0; c < planes; ++c) {
      char* plane = bytes + (b * planes + c) * h * row;
      for (std::int64_t y = 0; y < h / 2; ++y)
        std::swap_ranges(plane + y * row, plane + (y + 1) * row, plane + (h - 1 - y) * row);
    }
  }
}

Tensor random_crop(const Tensor& images, std::int64_t padding, Draws& draws, Motions* motions) {
  check_images(images, "random_crop");
  const PixelSteps steps = random_crop_steps(images.size(0), padding, draws);
  tell(motions, steps, images);
  const std::int64_t channels = images.size(1), h = images.size(2), w = images.size(3);
  const auto element = static_cast<std::int64_t>(size_of(images.dtype()));
  const Tensor out = Tensor::allocate(images.sizes(), images.dtype());
  const auto* in = static_cast<const char*>(images.raw_data());
  auto* to = static_cast<char*>(out.raw_data());
  std::memset(to, 0, static_cast<std::size_t>(out.nbytes()));
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    const PixelStep& s = steps[static_cast<std::size_t>(b)];
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t at = (b * channels + c) * h * w * element;
      shift_plane(in + at, to + at, h, w, s.a, s.b, element);
    }
  }
  return out;
}

void cutout_(Tensor& images, Draws& draws, std::int64_t size, float value) {
  check_images(images, "cutout_");
  const PixelSteps steps = cutout_steps(images.size(0), images.size(2), images.size(3), draws, size, value);
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    const PixelStep& s = steps[static_cast<std::size_t>(b)];
    fill_box(images, b, {s.a, s.b, s.c, s.d}, value);
  }
}

void random_erasing_(Tensor& images, Draws& draws, const ErasingOptions& o) {
  check_images(images, "random_erasing_");
  check(o.p >= 0 && o.p <= 1, "random_erasing_: p must be a probability, got ", o.p);
  check(o.scale[0] > 0 && o.scale[0] <= o.scale[1] && o.scale[1] <= 1 && o.ratio[0] > 0 && o.ratio[0] <= o.ratio[1],
        "random_erasing_: scale must be a range in (0, 1] and ratio one of positive numbers, got ", o.scale[0], " to ",
        o.scale[1], " and ", o.ratio[0], " to ", o.ratio[1]);
  const std::int64_t h = images.size(2), w = images.size(3);
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    if (draws.uniform() >= o.p) continue;
    for (int attempt = 0; attempt < 10; ++attempt) {
      const float area = static_cast<float>(h * w) * draws.uniform(o.scale[0], o.scale[1]);
      const float aspect = std::exp(draws.uniform(std::log(o.ratio[0]), std::log(o.ratio[1])));
      const auto high = static_cast<std::int64_t>(std::lround(std::sqrt(area * aspect)));
      const auto wide = static_cast<std::int64_t>(std::lround(std::sqrt(area / aspect)));
      if (high >= h || wide >= w) continue;
      const std::int64_t top = draws.below(h - high + 1), left = draws.below(w - wide + 1);
      fill_box(images, b, {top, top + high, left, left + wide}, o.value);
      break;
    }
  }
}

void gaussian_noise_(Tensor& images, Draws& draws, float mean, float sigma) {
  check_images(images, "gaussian_noise_");
  check(sigma >= 0, "gaussian_noise_: sigma must not be negative, got ", sigma);
  check(std::isfinite(mean) && std::isfinite(sigma), "gaussian_noise_: mean and sigma must be finite, got ", mean,
        " and ", sigma);
  const auto add = [&]<class T>(T* pixels) {
    for (std::int64_t i = 0; i < images.numel(); i += 2) {  // Box-Muller transform, 1958: two at a time
      const float radius = std::sqrt(-2 * std::log(1 - draws.uniform())), angle = 6.2831853f * draws.uniform();
      const float normal[2] = {radius * std::cos(angle), radius * std::sin(angle)};
      for (std::int64_t k = i; k < std::min(i + 2, images.numel()); ++k) {
        const float noise = mean + sigma * normal[k - i];
        constexpr bool bytes = !std::is_same_v<T, float>;
        const float sum = static_cast<float>(pixels[k]) + (bytes ? std::trunc(255 * noise) : noise);
        pixels[k] = static_cast<T>(std::clamp(sum, 0.0f, bytes ? 255.0f : 1.0f));
      }
    }
  };
  with_elements(images, add);
}

}  // namespace mantissa::data
