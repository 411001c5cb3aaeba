#include "data/blur.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "data/pixels.h"
#include "data/vector_loops.h"

namespace mantissa::data {
namespace {

void check_blur(const char* who, const Tensor& images, int kernel_size) {
  check_images(images, who);
  check(kernel_size >= 1 && kernel_size % 2 == 1, who, ": kernel_size must be odd and positive, got ", kernel_size);
  check(std::min(images.size(2), images.size(3)) > kernel_size / 2, who, ": images of ", images.size(2), " x ",
        images.size(3), " are too small for a window of ", kernel_size);
}

std::vector<float> gaussian(int size, float sigma) {
  std::vector<double> w;
  double sum = 0;
  for (int i = 0; i < size; ++i) {
    const double at = (i - size / 2) / static_cast<double>(sigma);
    w.push_back(std::exp(-at * at / 2));
    sum += w.back();
  }
  std::vector<float> weights;
  for (const double x : w) weights.push_back(static_cast<float>(x / sum));
  return weights;
}

// Index i into n elements, reflected at the first and last element.
std::int64_t mirrored(std::int64_t i, std::int64_t n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }

// Rows first, then columns, in f32. Accumulates a whole line per window element.
template <class T>
void blur_plane(const T* in, std::int64_t height, std::int64_t width, const std::vector<float>& weights, T* out) {
  const auto size = static_cast<std::int64_t>(weights.size()), half = size / 2, longer = width + 2 * half;
  std::vector<float> space(static_cast<std::size_t>(height * width + longer + width));
  float *const lines = space.data(), *const line = lines + height * width, *const sums = line + longer;
  const float* const window = weights.data();
  with_vectors([=] {
    // to[x] = the sum over k of window[k] * from(k)[x]
    const auto add_up = [=](float* to, const auto& from) {
      std::fill_n(to, width, 0.0f);
      for (std::int64_t k = 0; k < size; ++k) {
        const float weight = window[k];
        const float* const __restrict values = from(k);
        for (std::int64_t x = 0; x < width; ++x) to[x] += weight * values[x];
      }
    };
    for (std::int64_t y = 0; y < height; ++y) {
      const T* const row = in + y * width;
      for (std::int64_t x = 0; x < width; ++x) line[half + x] = static_cast<float>(row[x]);
      for (std::int64_t x = 0; x < half; ++x) {
        line[x] = static_cast<float>(row[mirrored(x - half, width)]);
        line[half + width + x] = static_cast<float>(row[mirrored(width + x, width)]);
      }
      add_up(lines + y * width, [=](std::int64_t k) { return line + k; });
    }
    for (std::int64_t y = 0; y < height; ++y) {
      add_up(sums, [=](std::int64_t k) { return lines + mirrored(y + k - half, height) * width; });
      T* const row = out + y * width;
      for (std::int64_t x = 0; x < width; ++x)
        row[x] = pixel_from<T>(std::is_same_v<T, float> ? sums[x] : sums[x] + 0.5f);
    }
  });
}

void blur_image(const Tensor& images, std::int64_t b, const std::vector<float>& weights, const Tensor& out) {
  const std::int64_t height = images.size(2), width = images.size(3), plane = height * width, channels = images.size(1);
  const auto blur = [&]<class T>(const T* in, T* to) {
    for (std::int64_t c = b * channels; c < (b + 1) * channels; ++c)
      blur_plane(in + c * plane, height, width, weights, to + c * plane);
  };
  if (images.dtype() == u8) blur(images.data<std::uint8_t>(), out.data<std::uint8_t>());
  else blur(images.data<float>(), out.data<float>());
}

// The interior of a plane. Sums three rows, then three columns, ignoring line ends; the wrong values at the first and
// last pixel of each row are restored afterwards.
template <class T> void sharpen_plane(T* plane, std::int64_t height, std::int64_t width, double factor) {
  if (height <= 2 || width <= 2) return;
  using Sum = std::conditional_t<std::is_same_v<T, float>, float, int>;
  const std::vector<T> before(plane, plane + height * width);
  std::vector<Sum> columns(before.size());
  const auto rest = static_cast<float>(1 - factor);
  with_vectors([=, source = before.data(), sums = columns.data()] {
    const T* const __restrict from = source;
    Sum* const __restrict sum = sums;
    T* const __restrict out = plane;
    const std::int64_t end = (height - 1) * width;
    for (std::int64_t i = width; i < end; ++i) sum[i] = static_cast<Sum>(from[i - width] + from[i] + from[i + width]);
    for (std::int64_t i = width + 1; i < end - 1; ++i) {
      const auto own = static_cast<float>(from[i]);
      const Sum thirteenfold = sum[i - 1] + sum[i] + sum[i + 1] + 4 * static_cast<Sum>(from[i]);
      if constexpr (std::is_same_v<T, float>) {
        const float v = own + rest * (thirteenfold / 13 - own);
        out[i] = v < 0 ? 0 : v > 1 ? 1 : v;
      } else {  // mean rounded to an integer: (2 s + 13) / 26 without a division, exact for sums of u8
        const auto mean = static_cast<float>(((2 * thirteenfold + 13) * 40330) >> 20);
        out[i] = pixel_from<T>(own + rest * (mean - own));
      }
    }
    for (std::int64_t i = width; i < end; i += width) out[i] = from[i], out[i + width - 1] = from[i + width - 1];
  });
}

// Sharpens `count` consecutive planes.
void sharpen(const Tensor& images, std::int64_t first, std::int64_t count, double factor) {
  const std::int64_t height = images.size(-2), width = images.size(-1);
  for (std::int64_t i = first; i < first + count; ++i) {
    const std::int64_t at = i * height * width;
    if (images.dtype() == u8) sharpen_plane(images.data<std::uint8_t>() + at, height, width, factor);
    else sharpen_plane(images.data<float>() + at, height, width, factor);
  }
}

void check_factor(double factor, const char* who) {
  check(factor >= 0 && factor < 1e6, who, ": the factor must be a number from 0 to below a million, got ", factor);
}

}  // namespace

void adjust_sharpness_(Tensor& images, double factor) {
  check(images.defined() && images.dim() >= 2 && (images.dtype() == u8 || images.dtype() == f32) &&
            is_plain(images, "adjust_sharpness_"),
        "adjust_sharpness_: expected contiguous u8 or f32 images [..., H, W], got ", images);
  check_factor(factor, "adjust_sharpness_");
  const std::int64_t plane = images.size(-1) * images.size(-2);
  if (plane > 0) sharpen(images, 0, images.numel() / plane, factor);
}

void random_adjust_sharpness_(Tensor& images, Draws& draws, double factor, float p) {
  check_images(images, "random_adjust_sharpness_");
  check_factor(factor, "random_adjust_sharpness_");
  check(p >= 0 && p <= 1, "random_adjust_sharpness_: p must be a probability, got ", p);
  for (std::int64_t b = 0; b < images.size(0); ++b)
    if (draws.uniform() < p) sharpen(images, b * images.size(1), images.size(1), factor);
}

Tensor gaussian_blur(const Tensor& images, int kernel_size, float sigma) {
  check_blur("gaussian_blur", images, kernel_size);
  check(sigma > 0, "gaussian_blur: sigma must be positive, got ", sigma);
  const Tensor out = Tensor::allocate(images.sizes(), images.dtype());
  const std::vector<float> weights = gaussian(kernel_size, sigma);
  for (std::int64_t b = 0; b < images.size(0); ++b) blur_image(images, b, weights, out);
  return out;
}

Tensor random_gaussian_blur(const Tensor& images, Draws& draws, int kernel_size, std::array<float, 2> sigma) {
  check_blur("random_gaussian_blur", images, kernel_size);
  check(sigma[0] > 0 && sigma[0] <= sigma[1], "random_gaussian_blur: sigma must be a range of positive numbers, got ",
        sigma[0], " to ", sigma[1]);
  const Tensor out = Tensor::allocate(images.sizes(), images.dtype());
  for (std::int64_t b = 0; b < images.size(0); ++b)
    blur_image(images, b, gaussian(kernel_size, draws.uniform(sigma[0], sigma[1])), out);
  return out;
}

}  // namespace mantissa::data
