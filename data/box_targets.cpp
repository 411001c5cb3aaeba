#include "data/box_targets.h"

#include <algorithm>
#include <cmath>

namespace mantissa::data {
namespace {

// Of less than this, nothing is to be seen: SanitizeBoundingBoxes' min_size.
constexpr double least_side = 1;

// What lies on the side of the line where sign * (place[axis] - limit) <= 0 (Sutherland and Hodgman, 1974).
std::vector<Place> cut(const std::vector<Place>& outline, std::size_t axis, double limit, double sign) {
  std::vector<Place> inside;
  const auto beyond = [&](const Place& p) { return sign * (p[axis] - limit); };
  for (std::size_t i = 0; i < outline.size(); ++i) {
    const Place &from = outline[i], &to = outline[(i + 1) % outline.size()];
    const double a = beyond(from), b = beyond(to);
    if (a <= 0) inside.push_back(from);
    if ((a < 0 && b > 0) || (a > 0 && b < 0)) {
      Place crossing;
      crossing[axis] = limit;
      crossing[1 - axis] = from[1 - axis] + a / (a - b) * (to[1 - axis] - from[1 - axis]);
      inside.push_back(crossing);
    }
  }
  return inside;
}

void move_box(float* row, const Motion& motion) {
  if (!(row[4] >= 0)) return;
  const Place corners[4] = {{row[0], row[1]}, {row[2], row[1]}, {row[2], row[3]}, {row[0], row[3]}};
  const int parts = motion.displacement.defined() ? 8 : 1;  // straight sides become bent ones
  std::vector<Place> outline;
  for (std::size_t i = 0; i < 4; ++i)
    for (int part = 0; part < parts; ++part) {
      const Place &a = corners[i], &b = corners[(i + 1) % 4];
      const double t = static_cast<double>(part) / parts;
      outline.push_back(motion({a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])}));
    }
  for (const std::size_t axis : {0, 1}) {
    outline = cut(outline, axis, 0, -1);
    outline = cut(outline, axis, static_cast<double>(axis == 0 ? motion.width : motion.height), 1);
  }
  Place least{HUGE_VAL, HUGE_VAL}, most{-HUGE_VAL, -HUGE_VAL};
  for (const Place& p : outline)
    for (const std::size_t axis : {0, 1}) {
      least[axis] = std::min(least[axis], p[axis]);
      most[axis] = std::max(most[axis], p[axis]);
    }
  const bool remains = most[0] - least[0] >= least_side && most[1] - least[1] >= least_side;
  const auto f = [](double v) { return static_cast<float>(v); };
  const float box[5] = {f(least[0]), f(least[1]), f(most[0]), f(most[1]), row[4]};
  const float none[5] = {0, 0, 0, 0, -1};
  std::copy_n(remains ? box : none, 5, row);
}

void move_point(float* row, std::int64_t columns, const Motion& motion) {
  if (columns > 2 && row[2] == 0) return;
  const auto [x, y] = motion({row[0], row[1]});
  row[0] = static_cast<float>(x);
  row[1] = static_cast<float>(y);
  const bool inside =
      x >= 0 && y >= 0 && x < static_cast<double>(motion.width) && y < static_cast<double>(motion.height);
  if (columns > 2 && !inside) row[2] = 0;
}

}  // namespace

void check_place_targets(const Tensor& t, Targets kind, std::int64_t images) {
  const bool boxes = kind == Targets::boxes;
  check(t.defined() && t.dtype() == f32 && t.dim() == 3 && t.size(0) == images && t.size(2) >= (boxes ? 5 : 2) &&
            t.is_contiguous(),
        "targets that are ",
        boxes ? "boxes must be f32 [N, M, 5 or more] (x1, y1, x2, y2, class)"
              : "points must be f32 [N, M, 2 or more] (x, y, visible)",
        " for ", images, " images, got ", t);
}

Tensor moved_targets(const Tensor& targets, Targets kind, const Motions& motions) {
  check_place_targets(targets, kind, static_cast<std::int64_t>(motions.size()));
  const std::int64_t rows = targets.size(1), columns = targets.size(2);
  const Tensor result = Tensor::allocate(targets.sizes(), f32);
  std::copy_n(targets.data<float>(), targets.numel(), result.data<float>());
  float* row = result.data<float>();
  for (const Motion& motion : motions)
    for (std::int64_t i = 0; i < rows; ++i, row += columns) {
      if (kind == Targets::boxes) move_box(row, motion);
      else move_point(row, columns, motion);
    }
  return result;
}

}  // namespace mantissa::data
