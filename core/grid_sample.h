// Interpolated sampling of images and volumes: grid_sample, forward and backward, nearest or linear.
#pragma once

#include "core/kernel.h"

namespace mantissa {

struct GridReading {
  enum class Padding { zeros, border, reflection };
  Padding padding = Padding::zeros;
  bool nearest = false;        // else linear in every dimension
  bool align_corners = false;  // -1 and 1 are the centres of the outermost elements, not their outer edges
};

// x [N, C, H, W] or [N, C, D, H, W], grid [N, ..., 2 or 3], y [N, C, ...]: dense and contiguous, all f32 or all f64; a
// plane of x has fewer than 2^31 elements. A NaN in the grid reads zeros.
MANTISSA_KERNEL(read_grid, const View& y, const View& x, const View& grid, const GridReading& how)
// The gradient of x from the gradient g of y.
MANTISSA_KERNEL(read_grid_input_gradient, const View& dx, const View& g, const View& grid, const GridReading& how)
// The gradient of the grid; zero for nearest neighbour, and where positions are clamped at the borders.
MANTISSA_KERNEL(read_grid_grid_gradient, const View& dgrid, const View& g, const View& x, const View& grid,
                const GridReading& how)

}  // namespace mantissa
