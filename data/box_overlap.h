// The overlap of two boxes, for what compares single ones on the host; of many, on any device: nn/boxes.h. Internal.
#pragma once

#include <algorithm>

namespace mantissa::data {

// Intersection over union of a and b, x1, y1, x2, y2 each; 0 if nothing is shared or a number is NaN.
inline double overlap_of(const float* a, const float* b) {
  const double wide = std::min<double>(a[2], b[2]) - std::max<double>(a[0], b[0]);
  const double high = std::min<double>(a[3], b[3]) - std::max<double>(a[1], b[1]);
  if (!(wide > 0 && high > 0)) return 0;
  const auto area = [](const float* x) { return (double{x[2]} - x[0]) * (double{x[3]} - x[1]); };
  return wide * high / (area(a) + area(b) - wide * high);
}

}  // namespace mantissa::data
