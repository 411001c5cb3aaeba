#include "data/geometry.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "data/pixels.h"
#include "data/places.h"
#include "data/resize.h"
#include "data/vector_loops.h"

namespace mantissa::data {
namespace {

Tensor like(const Tensor& images, std::int64_t height, std::int64_t width, const char* who) {
  check(height >= 1 && width >= 1, who, ": the new size must be positive, got ", height, " x ", width);
  return Tensor::allocate({images.size(0), images.size(1), height, width}, images.dtype());
}

// Inverse affine map about the centre: output pixel (x, y) is sampled at (xx x + xy y + x0, yx x + yy y + y0).
struct Origin { float xx, xy, x0, yx, yy, y0; };

void move_image(const Tensor& images, std::int64_t b, const Origin& o, const RotationOptions& options,
                const Tensor& out, Places& places) {
  const std::int64_t h = images.size(2), w = images.size(3);
  const float half_h = 0.5f * static_cast<float>(h), half_w = 0.5f * static_cast<float>(w);
  const Origin part{o.xx / half_w, o.xy / half_w, o.x0 / half_w, o.yx / half_h, o.yy / half_h, o.y0 / half_h};
  const float middle_y = static_cast<float>(h - 1) / 2, middle_x = static_cast<float>(w - 1) / 2;
  with_vectors([=, at_x = places.x.data(), at_y = places.y.data()]() mutable {
    for (int row = 0; row < h; ++row, at_x += w, at_y += w) {
      const float y = static_cast<float>(row) - middle_y;
      for (int column = 0; column < w; ++column) {
        const float x = static_cast<float>(column) - middle_x;
        at_x[column] = pixel_of(part.xx * x + part.xy * y + part.x0, w);
        at_y[column] = pixel_of(part.yx * x + part.yy * y + part.y0, h);
      }
    }
  });
  sample_image(images, b, places, options, out);
}

// The way back from the output to the input, about the centre.
Motion motion_of(const Origin& o, const Tensor& images) {
  const double x = static_cast<double>(images.size(3)) / 2, y = static_cast<double>(images.size(2)) / 2;
  const double xx = o.xx, xy = o.xy, yx = o.yx, yy = o.yy;
  return {images.size(2), images.size(3),
          inverse_map({xx, xy, o.x0 + x - xx * x - xy * y, yx, yy, o.y0 + y - yx * x - yy * y, 0, 0})};
}

void tell_all(Motions* motions, const Tensor& images, const Motion& motion) {
  if (motions) motions->insert(motions->end(), static_cast<std::size_t>(images.size(0)), motion);
}

constexpr double radian = 0.017453292519943295;  // of a degree

// The inverse of shift(turn(shear_y(shear_x(scale(.))))): torchvision's matrix, RSS = R(angle) S(shear) scale.
Origin inverse_of(const Affine& m) {
  const double turn = m.degrees * radian, x = m.shear_x * radian, y = m.shear_y * radian;
  const double a = std::cos(turn - y) / std::cos(y), b = -(a * std::tan(x) + std::sin(turn));
  const double c = std::sin(turn - y) / std::cos(y), d = std::cos(turn) - c * std::tan(x);
  const double xx = d / m.scale, xy = -b / m.scale, yx = -c / m.scale, yy = a / m.scale;  // det(R S) = 1
  const double right = m.center_x + m.right, down = m.center_y + m.down;
  const auto f = [](double v) { return static_cast<float>(v); };
  return {f(xx), f(xy), f(m.center_x - xx * right - xy * down), f(yx), f(yy), f(m.center_y - yx * right - yy * down)};
}

// Counter-clockwise, whereas affine rotates clockwise.
Origin rotated(double degrees) {
  const double turn = degrees - 360 * std::floor(degrees / 360);  // torchvision reduces the angle first
  return inverse_of({.degrees = -turn});
}

}  // namespace

Motion motion_of(const Window& w, std::int64_t height, std::int64_t width) {
  const double x = static_cast<double>(width) / static_cast<double>(w.width);
  const double y = static_cast<double>(height) / static_cast<double>(w.height);
  return scaled_and_shifted(height, width, {x, y}, {-x * static_cast<double>(w.left), -y * static_cast<double>(w.top)});
}
void check_resized_crop(const ResizedCropOptions& o) {
  check(o.scale[0] > 0 && o.scale[0] <= o.scale[1] && o.ratio[0] > 0 && o.ratio[0] <= o.ratio[1] &&
            std::isfinite(o.scale[1]) && std::isfinite(o.ratio[1]),
        "random_resized_crop: scale and ratio must be ranges of positive numbers, got ", o.scale[0], " to ", o.scale[1],
        " and ", o.ratio[0], " to ", o.ratio[1]);
}
Window random_window(std::int64_t h, std::int64_t w, Draws& draws, const ResizedCropOptions& o) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const float area = static_cast<float>(h * w) * draws.uniform(o.scale[0], o.scale[1]);
    const float aspect = std::exp(draws.uniform(std::log(o.ratio[0]), std::log(o.ratio[1])));
    const auto wide = static_cast<std::int64_t>(std::lround(std::sqrt(area * aspect)));
    const auto high = static_cast<std::int64_t>(std::lround(std::sqrt(area / aspect)));
    if (wide >= 1 && high >= 1 && wide <= w && high <= h)
      return {draws.below(h - high + 1), draws.below(w - wide + 1), high, wide};
  }
  // The largest central window with an allowed aspect ratio.
  const float proportion = std::clamp(static_cast<float>(w) / static_cast<float>(h), o.ratio[0], o.ratio[1]);
  const auto within = [](float side, std::int64_t most) {
    return static_cast<std::int64_t>(std::clamp(std::round(side), 1.0f, static_cast<float>(most)));
  };
  const std::int64_t high = within(static_cast<float>(w) / proportion, h),
                     wide = within(static_cast<float>(h) * proportion, w);
  return {(h - high) / 2, (w - wide) / 2, high, wide};
}

Tensor resize(const Tensor& images, std::int64_t height, std::int64_t width, Interpolation how, Motions* motions) {
  check_some_images(images, "resize");
  check(height >= 1 && width >= 1, "resize: the new size must be positive, got ", height, " x ", width);
  const Window all{0, 0, images.size(2), images.size(3)};
  tell_all(motions, images, motion_of(all, height, width));
  return resize_window(images, all, height, width, how);
}

Tensor resize_shorter_side(const Tensor& images, std::int64_t size, Interpolation how, Motions* motions) {
  check_some_images(images, "resize_shorter_side");
  check(size >= 1 && size <= INT32_MAX, "resize_shorter_side: the new size must be from 1 to 2^31 - 1, got ", size);
  const std::int64_t h = images.size(2), w = images.size(3);
  return h <= w ? resize(images, size, size * w / h, how, motions) : resize(images, size * h / w, size, how, motions);
}

Tensor random_resize(const Tensor& images, std::int64_t least, std::int64_t most, Draws& draws, Interpolation how,
                     Motions* motions) {
  check(least >= 1 && most > least, "random_resize: sizes must be a range of positive numbers, got ", least, " to ",
        most);
  return resize_shorter_side(images, least + draws.below(most - least), how, motions);
}

Tensor scale_jitter(const Tensor& images, std::int64_t height, std::int64_t width, Draws& draws,
                    std::array<float, 2> scale, Interpolation how, Motions* motions) {
  check_some_images(images, "scale_jitter");
  check(height >= 1 && width >= 1 && scale[0] > 0 && scale[0] <= scale[1] && std::isfinite(scale[1]),
        "scale_jitter: size and scale must be positive, got ", height, " x ", width, " and ", scale[0], " to ",
        scale[1]);
  const auto h = static_cast<double>(images.size(2)), w = static_cast<double>(images.size(3));
  const double by = std::min(static_cast<double>(height) / h, static_cast<double>(width) / w) *
                    static_cast<double>(draws.uniform(scale[0], scale[1]));
  const auto side = [by](double s) { return static_cast<std::int64_t>(std::clamp<double>(s * by, 1, INT32_MAX)); };
  return resize(images, side(h), side(w), how, motions);
}

Tensor random_shorter_side(const Tensor& images, const std::vector<std::int64_t>& sizes, Draws& draws,
                           std::int64_t longest, Interpolation how, Motions* motions) {
  check_some_images(images, "random_shorter_side");
  check(!sizes.empty() && longest >= 1, "random_shorter_side: needs sizes to choose from, and a positive longest side");
  for (const std::int64_t s : sizes)
    check(s >= 1 && s <= INT32_MAX, "random_shorter_side: sizes must be from 1 to 2^31 - 1, got ", s);
  const auto chosen = sizes[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(sizes.size())))];
  const auto h = static_cast<double>(images.size(2)), w = static_cast<double>(images.size(3));
  const double by =
      std::min(static_cast<double>(chosen) / std::min(h, w), static_cast<double>(longest) / std::max(h, w));
  const auto side = [by](double s) { return static_cast<std::int64_t>(std::clamp<double>(s * by, 1, INT32_MAX)); };
  return resize(images, side(h), side(w), how, motions);
}

Tensor center_crop(const Tensor& images, std::int64_t height, std::int64_t width, Motions* motions) {
  check_some_images(images, "center_crop");
  const Tensor out = like(images, height, width, "center_crop");
  std::memset(out.raw_data(), 0, static_cast<std::size_t>(out.nbytes()));
  const std::int64_t h = images.size(2), w = images.size(3), bytes = static_cast<std::int64_t>(size_of(images.dtype()));
  // torchvision rounds half to even; if the image is smaller, it pads the smaller half first.
  const std::int64_t top = height <= h ? std::lrint(static_cast<double>(h - height) / 2) : -((height - h) / 2);
  const std::int64_t left = width <= w ? std::lrint(static_cast<double>(w - width) / 2) : -((width - w) / 2);
  tell_all(motions, images, motion_of(Window{top, left, height, width}, height, width));
  const std::int64_t x0 = std::max<std::int64_t>(0, -left), count = std::min(width, w - left) - x0;
  const auto* in = static_cast<const char*>(images.raw_data());
  auto* to = static_cast<char*>(out.raw_data());
  for (std::int64_t c = 0; c < images.size(0) * images.size(1); ++c)
    for (std::int64_t y = std::max<std::int64_t>(0, -top); y < std::min(height, h - top); ++y)
      std::memcpy(to + ((c * height + y) * width + x0) * bytes, in + ((c * h + y + top) * w + x0 + left) * bytes,
                  static_cast<std::size_t>(count * bytes));
  return out;
}

Tensor random_resized_crop(const Tensor& images, std::int64_t size, Draws& draws, const ResizedCropOptions& o,
                           Motions* motions) {
  check_some_images(images, "random_resized_crop");
  check_resized_crop(o);
  const Tensor out = like(images, size, size, "random_resized_crop");
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    const Window window = random_window(images.size(2), images.size(3), draws, o);
    if (motions) motions->push_back(motion_of(window, size, size));
    out.slice(0, b, b + 1).copy_(resize_window(images.slice(0, b, b + 1), window, size, size, o.interpolation));
  }
  return out;
}

Tensor rotate(const Tensor& images, double degrees, const RotationOptions& o) {
  check_some_images(images, "rotate");
  const Tensor out = like(images, images.size(2), images.size(3), "rotate");
  Places places(images.size(2), images.size(3));
  for (std::int64_t b = 0; b < images.size(0); ++b) move_image(images, b, rotated(degrees), o, out, places);
  return out;
}

Tensor random_rotation(const Tensor& images, float degrees, Draws& draws, const RotationOptions& o, Motions* motions) {
  check_some_images(images, "random_rotation");
  check(degrees >= 0, "random_rotation: the largest angle must not be negative, got ", degrees);
  const Tensor out = like(images, images.size(2), images.size(3), "random_rotation");
  Places places(images.size(2), images.size(3));
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    const Origin origin = rotated(draws.uniform(-degrees, degrees));
    if (motions) motions->push_back(motion_of(origin, images));
    move_image(images, b, origin, o, out, places);
  }
  return out;
}

Tensor affine(const Tensor& images, const Affine& map, const RotationOptions& o) {
  check_some_images(images, "affine");
  check(map.scale > 0, "affine: scale must be positive, got ", map.scale);
  const Tensor out = like(images, images.size(2), images.size(3), "affine");
  Places places(images.size(2), images.size(3));
  for (std::int64_t b = 0; b < images.size(0); ++b) move_image(images, b, inverse_of(map), o, out, places);
  return out;
}

Tensor random_affine(const Tensor& images, Draws& draws, const RandomAffineOptions& o, Motions* motions) {
  check_some_images(images, "random_affine");
  check(o.degrees >= 0, "random_affine: the largest angle must not be negative, got ", o.degrees);
  for (const float part : o.translate)
    check(part >= 0 && part <= 1, "random_affine: translate must be parts of the image between 0 and 1, found ", part);
  check(o.scale[0] > 0 && o.scale[0] <= o.scale[1], "random_affine: scale must be a range of positive numbers, got ",
        o.scale[0], " to ", o.scale[1]);
  const Tensor out = like(images, images.size(2), images.size(3), "random_affine");
  Places places(images.size(2), images.size(3));
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    const auto shift = [&](float part, std::int64_t size) {
      const float most = part * static_cast<float>(size);
      return std::nearbyint(draws.uniform(-most, most));
    };
    Affine map;
    map.degrees = draws.uniform(-o.degrees, o.degrees);
    map.right = shift(o.translate[0], images.size(3));
    map.down = shift(o.translate[1], images.size(2));
    map.scale = draws.uniform(o.scale[0], o.scale[1]);
    map.shear_x = draws.uniform(o.shear_x[0], o.shear_x[1]);
    map.shear_y = draws.uniform(o.shear_y[0], o.shear_y[1]);
    const Origin origin = inverse_of(map);
    if (motions) motions->push_back(motion_of(origin, images));
    move_image(images, b, origin, {o.interpolation, o.fill}, out, places);
  }
  return out;
}

}  // namespace mantissa::data
