#include "data/warp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "data/blur.h"
#include "data/pixels.h"
#include "data/places.h"
#include "data/vector_loops.h"

namespace mantissa::data {
namespace {

// Output (x, y) is sampled at ((a x + b y + c) / (g x + h y + 1), (d x + e y + f) / (g x + h y + 1)).
using Coefficients = std::array<double, 8>;

// Solves eight equations by elimination with partial pivoting. nullopt if singular.
std::optional<Coefficients> solve(std::array<std::array<double, 9>, 8> m) {
  for (std::size_t k = 0; k < 8; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < 8; ++i)
      if (std::abs(m[i][k]) > std::abs(m[pivot][k])) pivot = i;
    std::swap(m[k], m[pivot]);
    if (!(std::abs(m[k][k]) > 1e-9)) return std::nullopt;
    for (std::size_t i = 0; i < 8; ++i) {
      if (i == k) continue;
      const double factor = m[i][k] / m[k][k];
      for (std::size_t j = k; j < 9; ++j) m[i][j] -= factor * m[k][j];
    }
  }
  Coefficients x;
  for (std::size_t k = 0; k < 8; ++k) x[k] = m[k][8] / m[k][k];
  return x;
}

std::optional<Coefficients> coefficients(const Corners& from, const Corners& to) {
  std::array<std::array<double, 9>, 8> m{};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto [x, y] = to[i];
    const auto [u, v] = from[i];
    m[2 * i] = {x, y, 1, 0, 0, 0, -u * x, -u * y, u};
    m[2 * i + 1] = {0, 0, 0, x, y, 1, -v * x, -v * y, v};
  }
  return solve(m);
}

void change_perspective(const Tensor& images, std::int64_t b, const Coefficients& exact, const RotationOptions& o,
                        const Tensor& out, Places& places) {
  std::array<float, 8> k;
  for (std::size_t i = 0; i < 8; ++i) k[i] = static_cast<float>(exact[i]);
  const std::int64_t h = images.size(2), w = images.size(3);
  const float half_h = 0.5f * static_cast<float>(h), half_w = 0.5f * static_cast<float>(w);
  with_vectors([=, at_x = places.x.data(), at_y = places.y.data()]() mutable {
    for (int row = 0; row < h; ++row, at_x += w, at_y += w) {
      const float y = static_cast<float>(row) + 0.5f;
      for (int column = 0; column < w; ++column) {
        const float x = static_cast<float>(column) + 0.5f;
        const float depth = k[6] * x + k[7] * y + 1;
        at_x[column] = pixel_of((k[0] / half_w * x + k[1] / half_w * y + k[2] / half_w) / depth - 1, w);
        at_y[column] = pixel_of((k[3] / half_h * x + k[4] / half_h * y + k[5] / half_h) / depth - 1, h);
      }
    }
  });
  sample_image(images, b, places, o, out);
}

Corners corners_of(std::int64_t height, std::int64_t width) {
  const auto right = static_cast<double>(width - 1), bottom = static_cast<double>(height - 1);
  return {{{0, 0}, {right, 0}, {right, bottom}, {0, bottom}}};
}

Corners moved_inwards(std::int64_t height, std::int64_t width, float part, Draws& draws) {
  const auto reach = [&](std::int64_t side) {
    return static_cast<std::int64_t>(part * static_cast<float>(side / 2)) + 1;  // number of possible corner positions
  };
  Corners corners = corners_of(height, width);
  for (auto& [x, y] : corners) {
    const auto across = static_cast<double>(draws.below(reach(width)));
    const auto along = static_cast<double>(draws.below(reach(height)));
    x += x > 0 ? -across : across;
    y += y > 0 ? -along : along;
  }
  return corners;
}

void deform(const Tensor& images, std::int64_t b, const Tensor& displacement, const RotationOptions& o,
            const Tensor& out, Places& places) {
  const std::int64_t h = images.size(2), w = images.size(3);
  const float* by = displacement.data<float>();
  std::size_t i = 0;
  for (std::int64_t row = 0; row < h; ++row)
    for (std::int64_t column = 0; column < w; ++column, ++i) {
      const auto place = [](std::int64_t at, std::int64_t size) {
        return static_cast<float>(2 * at + 1 - size) / static_cast<float>(size);
      };
      places.x[i] = pixel_of(place(column, w) + by[2 * i], w);
      places.y[i] = pixel_of(place(row, h) + by[2 * i + 1], h);
    }
  sample_image(images, b, places, o, out);
}

// Size of the blur window in pixels.
int window_of(float sigma) { return static_cast<int>(8 * std::min(sigma, 1e6f) + 1) | 1; }

// Random displacement: blurred noise for x, then for y.
Tensor random_displacement(std::int64_t height, std::int64_t width, Draws& draws, float alpha, float sigma) {
  Tensor displacement = Tensor::allocate({height, width, 2}, f32);
  for (int direction = 0; direction < 2; ++direction) {
    Tensor noise = Tensor::allocate({1, 1, height, width}, f32);
    for (std::int64_t i = 0; i < noise.numel(); ++i) noise.data<float>()[i] = draws.uniform(-1, 1);
    if (sigma > 0) noise = gaussian_blur(noise, window_of(sigma), sigma);
    const float scale = alpha / static_cast<float>(direction == 0 ? width : height);
    for (std::int64_t i = 0; i < noise.numel(); ++i)
      displacement.data<float>()[2 * i + direction] = noise.data<float>()[i] * scale;
  }
  return displacement;
}

Tensor copy_of(const Tensor& images) {
  const Tensor out = Tensor::allocate(images.sizes(), images.dtype());
  std::memcpy(out.raw_data(), images.raw_data(), static_cast<std::size_t>(out.nbytes()));
  return out;
}

}  // namespace

Tensor perspective(const Tensor& images, const Corners& from, const Corners& to, const RotationOptions& o) {
  check_some_images(images, "perspective");
  const std::optional<Coefficients> k = coefficients(from, to);
  check(k.has_value(), "perspective: three of the four corners that are to be reached lie on a line");
  const Tensor out = Tensor::allocate(images.sizes(), images.dtype());
  Places places(images.size(2), images.size(3));
  for (std::int64_t b = 0; b < images.size(0); ++b) change_perspective(images, b, *k, o, out, places);
  return out;
}

Tensor random_perspective(const Tensor& images, Draws& draws, const RandomPerspectiveOptions& o, Motions* motions) {
  check_some_images(images, "random_perspective");
  const std::int64_t h = images.size(2), w = images.size(3);
  check(o.distortion_scale >= 0 && o.distortion_scale <= 1 && o.p >= 0 && o.p <= 1,
        "random_perspective: distortion_scale and p must be between 0 and 1, got ", o.distortion_scale, " and ", o.p);
  check(h >= 3 && w >= 3, "random_perspective: images of ", h, " x ", w, " are too small, 3 x 3 are needed");
  const Tensor out = copy_of(images);
  Places places(h, w);
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    if (motions) motions->push_back({h, w});
    if (draws.uniform() >= o.p) continue;
    const auto k = coefficients(corners_of(h, w), moved_inwards(h, w, o.distortion_scale, draws));
    if (motions && k) motions->back().map = inverse_map(*k);
    if (k) change_perspective(images, b, *k, {o.interpolation, o.fill}, out, places);
  }
  return out;
}

Tensor elastic(const Tensor& images, const Tensor& displacement, const RotationOptions& o) {
  check_some_images(images, "elastic");
  check(displacement.defined() && displacement.sizes() == Dims{images.size(2), images.size(3), 2} &&
            displacement.dtype() == f32 && is_plain(displacement, "elastic"),
        "elastic: expected a contiguous displacement f32[", images.size(2), ", ", images.size(3), ", 2], got ",
        displacement);
  const Tensor out = Tensor::allocate(images.sizes(), images.dtype());
  Places places(images.size(2), images.size(3));
  for (std::int64_t b = 0; b < images.size(0); ++b) deform(images, b, displacement, o, out, places);
  return out;
}

Tensor random_elastic(const Tensor& images, Draws& draws, const RandomElasticOptions& o, Motions* motions) {
  check_some_images(images, "random_elastic");
  check(o.alpha >= 0 && o.sigma >= 0, "random_elastic: alpha and sigma must not be negative, got ", o.alpha, " and ",
        o.sigma);
  check(o.sigma == 0 || std::min(images.size(2), images.size(3)) > window_of(o.sigma) / 2, "random_elastic: images of ",
        images.size(2), " x ", images.size(3), " are too small for sigma ", o.sigma, ", which needs more than ",
        window_of(o.sigma) / 2, " pixels");
  const Tensor out = Tensor::allocate(images.sizes(), images.dtype());
  const std::int64_t h = images.size(2), w = images.size(3);
  Places places(h, w);
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    const Tensor displacement = random_displacement(h, w, draws, o.alpha, o.sigma);
    if (motions) motions->push_back({.height = h, .width = w, .displacement = displacement});
    deform(images, b, displacement, {o.interpolation, o.fill}, out, places);
  }
  return out;
}

}  // namespace mantissa::data
