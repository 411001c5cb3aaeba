#include "data/motion.h"

#include <algorithm>
#include <cmath>

namespace mantissa::data {

Place Motion::operator()(Place from) const {
  const auto [x, y] = from;
  const double w = map[6] * x + map[7] * y + 1;
  const Place to{(map[0] * x + map[1] * y + map[2]) / w, (map[3] * x + map[4] * y + map[5]) / w};
  if (!displacement.defined()) return to;
  // Wanted is the place that shows `to`, which is `to` minus the displacement there: found by iteration.
  constexpr int iterations = 8;
  const auto pixel = [](double at, std::int64_t size) -> std::int64_t {
    if (!(at > 0)) return 0;  // NaN, too
    return at < static_cast<double>(size) ? static_cast<std::int64_t>(at) : size - 1;
  };
  const float* by = displacement.data<float>();
  Place moved = to;
  for (int i = 0; i < iterations; ++i) {
    const float* here = by + 2 * (pixel(moved[1], height) * width + pixel(moved[0], width));
    moved = {to[0] - here[0] * static_cast<double>(width) / 2, to[1] - here[1] * static_cast<double>(height) / 2};
  }
  return moved;
}

Motion scaled_and_shifted(std::int64_t height, std::int64_t width, Place scale, Place shift) {
  return {height, width, {scale[0], 0, shift[0], 0, scale[1], shift[1], 0, 0}};
}

Motion motion_of(const PixelStep& s, std::int64_t height, std::int64_t width) {
  const auto h = static_cast<double>(height), w = static_cast<double>(width);
  switch (s.kind) {
    case PixelStep::mirror_x:
      return scaled_and_shifted(height, width, {-1, 1}, {w, 0});
    case PixelStep::mirror_y:
      return scaled_and_shifted(height, width, {1, -1}, {0, h});
    case PixelStep::shift:
      return scaled_and_shifted(height, width, {1, 1}, {-static_cast<double>(s.b), -static_cast<double>(s.a)});
    default:
      return {height, width};
  }
}

std::array<double, 8> inverse_map(const std::array<double, 8>& m) {
  const auto& [a, b, c, d, e, f, g, h] = m;
  // The adjugate of the matrix {a b c, d e f, g h 1}; its scale does not matter.
  const double last = a * e - b * d;
  check(last != 0 && std::isfinite(last), "the map of this image has no inverse");
  const std::array<double, 8> adjugate{e - f * h, c * h - b,     b * f - c * e, f * g - d,
                                       a - c * g, c * d - a * f, d * h - e * g, b * g - a * h};
  std::array<double, 8> inverse;
  for (std::size_t i = 0; i < 8; ++i) inverse[i] = adjugate[i] / last;
  return inverse;
}

}  // namespace mantissa::data
