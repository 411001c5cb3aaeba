// Interpolated sampling of images and volumes: grid_sample, forward and backward, nearest, linear or cubic.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"
#include "core/kernel.h"

namespace mantissa {

struct GridReading {
  enum class Padding { zeros, border, reflection };
  Padding padding = Padding::zeros;
  int taps = 2;                // elements read along each dimension: 1 (the nearest), 2 (linear) or 4 (cubic; images)
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
// The weights of four elements at a fraction f of the way from the second to the third, and their derivatives by f
// (Keys, "Cubic convolution interpolation for digital image processing", 1981, a = -0.75).
template <class T> MANTISSA_HD void cubic_weights(T f, T (&weight)[4], T (&change)[4]) {
  constexpr T a = T(-0.75);
  const T distance[4] = {1 + f, f, 1 - f, 2 - f};
  for (int t = 0; t < 4; ++t) {
    const T x = distance[t];
    const bool near = t == 1 || t == 2;
    weight[t] = near ? ((a + 2) * x - (a + 3)) * x * x + 1 : (((x - 5) * x + 8) * x - 4) * a;
    const T slope = near ? (3 * (a + 2) * x - 2 * (a + 3)) * x : ((3 * x - 10) * x + 8) * a;
    change[t] = t < 2 ? slope : -slope;
  }
}
// A point's neighbours are all combinations of the elements along each dimension: digit d of k, in base `taps`, says
// which of them neighbour k is along dimension d.
template <int n, int taps> inline constexpr int neighbour_count = taps == 1 ? 1 : taps == 2 ? 1 << n : taps * taps;
template <int taps> MANTISSA_HD constexpr int tap_of(int k, int d) {
  return k / (d == 0 ? 1 : d == 1 ? taps : taps * taps) % taps;
}
// Calls f with the element type of x, its number of dimensions n, and how.taps, as a type and constants.
template <class F> void visit_grid_space(const View& x, const GridReading& how, const F& f) {
  const auto with = [&]<class T> {
    const bool image = x.sizes.rank() == 4;
    if (how.taps == 4) f.template operator()<T, 2, 4>();
    else if (how.taps == 2) image ? f.template operator()<T, 2, 2>() : f.template operator()<T, 3, 2>();
    else image ? f.template operator()<T, 2, 1>() : f.template operator()<T, 3, 1>();
  };
  if (x.dtype == f32) with.template operator()<float>();
  else with.template operator()<double>();
}

// x [N, C, H, W] or [N, C, D, H, W], grid [N, ..., 2 or 3], y [N, C, ...]: dense and contiguous, all f32 or all f64; a
// plane of x has fewer than 2^31 elements. A NaN in the grid reads zeros, or, padded, some element.
MANTISSA_KERNEL(read_grid, const View& y, const View& x, const View& grid, const GridReading& how)
// The gradient of x from the gradient g of y.
MANTISSA_KERNEL(read_grid_input_gradient, const View& dx, const View& g, const View& grid, const GridReading& how)
// The gradient of the grid, for 2 or 4 taps; zero where positions are clamped at the borders.
MANTISSA_KERNEL(read_grid_grid_gradient, const View& dgrid, const View& g, const View& x, const View& grid,
                const GridReading& how)

}  // namespace mantissa
