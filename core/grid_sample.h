// Pictures and volumes read between their elements: what grid_sample is on the CPU, forward and backward. (A GPU has it
// as gathers, products and sums: ops/grid.cpp.)
#pragma once

#include "core/kernel.h"

namespace mantissa {

struct GridReading {
  enum class Padding { zeros, border, reflection };
  Padding padding = Padding::zeros;
  bool nearest = false;        // else linear in every dimension
  bool align_corners = false;  // -1 and 1 are the middles of the outermost elements, not their edges
};

// x [N, C, H, W] or [N, C, D, H, W], grid [N, ..., 2 or 3], y [N, C, ...]: dense and contiguous, all f32 or all f64;
// a plane of x has fewer than 2^31 elements. A number of the grid that is NaN reads zeros.
MANTISSA_KERNEL(read_grid, const View& y, const View& x, const View& grid, const GridReading& how)
// From the gradient g of y to that of x.
MANTISSA_KERNEL(read_grid_input_gradient, const View& dx, const View& g, const View& grid, const GridReading& how)
// And to that of the grid, which is zeros for the nearest neighbour. At the borders, where positions are held, it is 0.
MANTISSA_KERNEL(read_grid_grid_gradient, const View& dgrid, const View& g, const View& x, const View& grid,
                const GridReading& how)

}  // namespace mantissa
