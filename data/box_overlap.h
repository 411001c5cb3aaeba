// The overlap of two boxes, for what compares single ones on the host; of many, on any device: nn/boxes.h. Internal.
#pragma once

#include <algorithm>

namespace mantissa::data {

// Boxes are x1, y1, x2, y2.
inline double area_of(const float* a) { return (double{a[2]} - a[0]) * (double{a[3]} - a[1]); }
// The area that a and b share; 0 also if a number is NaN.
inline double shared_area(const float* a, const float* b) {
  const double wide = std::min<double>(a[2], b[2]) - std::max<double>(a[0], b[0]);
  const double high = std::min<double>(a[3], b[3]) - std::max<double>(a[1], b[1]);
  return wide > 0 && high > 0 ? wide * high : 0;
}
// Intersection over union.
inline double overlap_of(const float* a, const float* b) {
  const double shared = shared_area(a, b);
  return shared > 0 ? shared / (area_of(a) + area_of(b) - shared) : 0;
}
// The part of a that lies in b.
inline double part_within(const float* a, const float* b) {
  const double shared = shared_area(a, b);
  return shared > 0 ? shared / area_of(a) : 0;
}

}  // namespace mantissa::data
