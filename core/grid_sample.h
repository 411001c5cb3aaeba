// Interpolated sampling of images and volumes: grid_sample, forward and backward, nearest or linear.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"
#include "core/kernel.h"

namespace mantissa {

struct GridReading {
  enum class Padding { zeros, border, reflection };
  Padding padding = Padding::zeros;
  bool nearest = false;        // else linear in every dimension
  bool align_corners = false;  // -1 and 1 are the centres of the outermost elements, not their outer edges
};

// Shared by all points of a call: n dimensions, the last first, as in a grid.
template <int n> struct GridSpace {
  std::int64_t size[n], batch, channels, points = 1, plane = 1;
  GridReading how;
  GridSpace(const View& x, const View& grid, const GridReading& given)
      : batch(x.sizes[0]), channels(x.sizes[1]), how(given) {
    for (int d = 0; d < n; ++d) size[d] = x.sizes[1 + n - d], plane *= size[d], points *= grid.sizes[1 + d];
  }
};
// Reflects position p at low and low + span, and reverses `turn`, its derivative, for each reflection.
template <class T> MANTISSA_HD void reflect_position(T& p, T& turn, T low, T span) {
  if (span == 0) {
    p = turn = 0;
    return;
  }
  const T distance = std::abs(p - low), turns = std::floor(distance / span), rest = distance - turns * span;
  const bool back = turns - 2 * std::floor(turns / 2) != 0;
  if (back != (p < low)) turn = -turn;
  p = (back ? span - rest : rest) + low;
}
// Calls f with the element type of x and its number of dimensions, as a type and a constant.
template <class F> void visit_grid_space(const View& x, const F& f) {
  const auto with = [&]<class T> {
    if (x.sizes.rank() == 4) f.template operator()<T, 2>();
    else f.template operator()<T, 3>();
  };
  if (x.dtype == f32) with.template operator()<float>();
  else with.template operator()<double>();
}

// x [N, C, H, W] or [N, C, D, H, W], grid [N, ..., 2 or 3], y [N, C, ...]: dense and contiguous, all f32 or all f64; a
// plane of x has fewer than 2^31 elements. A NaN in the grid reads zeros.
MANTISSA_KERNEL(read_grid, const View& y, const View& x, const View& grid, const GridReading& how)
// The gradient of x from the gradient g of y.
MANTISSA_KERNEL(read_grid_input_gradient, const View& dx, const View& g, const View& grid, const GridReading& how)
// The gradient of the grid; zero for nearest neighbour, and where positions are clamped at the borders.
MANTISSA_KERNEL(read_grid_grid_gradient, const View& dgrid, const View& g, const View& x, const View& grid,
                const GridReading& how)

}  // namespace mantissa
