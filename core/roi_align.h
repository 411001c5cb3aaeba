// Averages over parts of rectangles in images: roi_align and ps_roi_align, forward and backward. A rectangle is cut
// into bins; each averages points that are interpolated linearly between pixels. Rows and columns separate: a bin is
// the sum of its pixels, each times the share of its row and that of its column.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"
#include "core/kernel.h"

namespace mantissa {

struct RegionReading {
  std::int64_t height = 1, width = 1;  // bins of a region
  double scale = 1;                    // from the coordinates of boxes to pixels
  std::int64_t samples = 0;  // points per bin and direction; 0 or less: as many as it has pixels, rounded up
  bool aligned = false;      // pixel centres are at half-integers; if false, regions are at least one pixel large
  bool by_position = false;  // bin (i, j) of channel c reads channel (c * height + i) * width + j
};

// The bins of one direction of a region, in pixels.
struct RegionSpan {
  static constexpr std::int64_t most_points = 1 << 20;  // per bin

  double begin, part;   // of the first bin; of each
  std::int64_t points;  // per bin; -1 if the region is not finite, or too large

  // box: its picture, x1, y1, x2, y2; direction 0: rows, 1: columns.
  MANTISSA_HD RegionSpan(const double* box, int direction, const RegionReading& how) {
    const double shift = how.aligned ? 0.5 : 0;
    begin = box[2 - direction] * how.scale - shift;
    double length = box[4 - direction] * how.scale - shift - begin;
    if (!how.aligned && length < 1) length = 1;
    part = length / static_cast<double>(direction == 0 ? how.height : how.width);
    points = -1;
    if (!std::isfinite(begin) || !(std::abs(part) <= most_points)) return;
    const double pixels = std::ceil(part);
    points = how.samples > 0 ? how.samples : pixels > 0 ? static_cast<std::int64_t>(pixels) : 0;
  }
  // Calls f(pixel, share) for what the points of bin i take of an image's `size` pixels; of some more than once.
  template <class F> MANTISSA_HD void for_shares(std::int64_t i, std::int64_t size, const F& f) const {
    const double one = 1 / static_cast<double>(points);
    for (std::int64_t k = 0; k < points; ++k) {
      double x = begin + part * (static_cast<double>(i) + (static_cast<double>(k) + 0.5) * one);
      if (x < -1 || x > static_cast<double>(size)) continue;
      const auto last = static_cast<double>(size - 1);
      x = x < 0 ? 0 : x > last ? last : x;
      const auto low = static_cast<std::int64_t>(x);
      const double to_high = x - static_cast<double>(low);
      f(low, (1 - to_high) * one);
      if (to_high > 0) f(low + 1, to_high * one);
    }
  }
};

// y [K, C, height, width], x [N, C, H, W], or [N, C * height * width, H, W] by position: dense, all f32 or all f64; x
// and dx contiguous or channels-last, the others contiguous; boxes f64 [K, 5]. Error for a box of a picture that is not
// there, or that is not finite: on the CPU at once, on a GPU when the host next waits (y is 0 there).
MANTISSA_KERNEL(average_regions, const View& y, const View& x, const View& boxes, const RegionReading& how)
// The gradient of x from the gradient g of y.
MANTISSA_KERNEL(average_regions_gradient, const View& dx, const View& g, const View& boxes, const RegionReading& how)

// As an operator, for nn/roi_align.h, which documents it.
Tensor average_regions(const Tensor& x, const Tensor& boxes, const RegionReading& how);

}  // namespace mantissa
