// Golden cases of what is made of other operators in a line or two (core/ops_special.h). tests/golden/case.h explains a line.
// clang-format off
#pragma once

#include "core/ops_special.h"
#include "tests/golden/case.h"

namespace mantissa::test {

inline constexpr Case more_cases[] = {
  // --- elementwise ---
  GOLDEN("fmax", "randn(3, 4), randn(4), of(1., nan, 2., nan), of(nan, 1., 2., nan), ints(-5, 5, 4)", "torch.fmax(x, y), torch.fmax(z, u), torch.fmax(v, v.flip(0))", fmax(x, y), fmax(z, u), fmax(v, flip(v, {0})))
  GOLDEN("fmin", "randn(3, 4), randn(4), of(1., nan, 2., nan), of(nan, 1., 2., nan), ints(-5, 5, 4)", "torch.fmin(x, y), torch.fmin(z, u), torch.fmin(v, v.flip(0))", fmin(x, y), fmin(z, u), fmin(v, flip(v, {0})))
  GOLDEN("heaviside", "const(special()), const(randn(1)), ints(-1, 2, 4), ints(5, 9, 4)", "torch.heaviside(x, y), torch.heaviside(z, u)", heaviside(x, y), heaviside(z, u))
  GOLDEN("deg2rad", "randn(3, 4), ints(-180, 180, 4)", "torch.deg2rad(x), torch.deg2rad(y)", deg2rad(x), deg2rad(y))
  GOLDEN("rad2deg", "randn(3, 4), ints(-4, 4, 4)", "torch.rad2deg(x), torch.rad2deg(y)", rad2deg(x), rad2deg(y))
  GOLDEN("ldexp", "randn(3, 4), ints(-4, 5, 4), randn(4), ints(-5, 5, 4)", "torch.ldexp(x, y), torch.ldexp(x, z), torch.ldexp(u, y)", ldexp(x, y), ldexp(x, z), ldexp(u, y))
  GOLDEN("float_power", "const(uniform(0.5, 2, 3)), ints(1, 5, 4)", "torch.float_power(x.float(), 2).float(), torch.float_power(y, 3).float()", cast(float_power(x, 2), f32), cast(float_power(y, 3), f32))
  GOLDEN("isposinf", "const(special()), ints(0, 3, 3)", "torch.isposinf(x), torch.isposinf(y)", isposinf(x), isposinf(y))
  GOLDEN("isneginf", "const(special()), ints(0, 3, 3)", "torch.isneginf(x), torch.isneginf(y)", isneginf(x), isneginf(y))
  GOLDEN("mvlgamma", "uniform(1.3, 6, 2, 3), ints(3, 9, 4)", "torch.mvlgamma(x, 1), torch.mvlgamma(x, 3), torch.mvlgamma(y, 2)", mvlgamma(x, 1), mvlgamma(x, 3), mvlgamma(y, 2))

  // --- shapes ---
  GOLDEN("atleast_1d", "randn(), randn(3), randn(2, 3)", "torch.atleast_1d(x), torch.atleast_1d(y), torch.atleast_1d(z)", atleast_1d(x), atleast_1d(y), atleast_1d(z))
  GOLDEN("atleast_2d", "randn(), randn(3), randn(2, 3, 1)", "torch.atleast_2d(x), torch.atleast_2d(y), torch.atleast_2d(z)", atleast_2d(x), atleast_2d(y), atleast_2d(z))
  GOLDEN("atleast_3d", "randn(), randn(3), randn(2, 3), randn(2, 1, 1, 2)", "torch.atleast_3d(x), torch.atleast_3d(y), torch.atleast_3d(z), torch.atleast_3d(u)", atleast_3d(x), atleast_3d(y), atleast_3d(z), atleast_3d(u))
  GOLDEN("fliplr", "randn(2, 3), randn(2, 3, 2)", "torch.fliplr(x), torch.fliplr(y)", fliplr(x), fliplr(y))
  GOLDEN("flipud", "randn(3), randn(2, 3)", "torch.flipud(x), torch.flipud(y)", flipud(x), flipud(y))
  GOLDEN("broadcast_tensors", "randn(3, 1), randn(2), randn()", "*torch.broadcast_tensors(x, y, z)", broadcast_tensors({x, y, z}))
  GOLDEN("tensor_split", "randn(7), randn(2, 5)", "*torch.tensor_split(x, 3), *torch.tensor_split(y, 7, -1), *torch.tensor_split(x, (1, 7, 3)), *torch.tensor_split(y, (-3, 2, 9), 1)", tensor_split(x, 3), tensor_split(y, 7, -1), tensor_split(x, Dims{1, 7, 3}), tensor_split(y, Dims{-3, 2, 9}, 1))
  GOLDEN("hsplit", "randn(4), randn(2, 4)", "*torch.hsplit(x, 2), *torch.hsplit(y, 2), *torch.hsplit(y, (1, 3))", hsplit(x, 2), hsplit(y, 2), hsplit(y, Dims{1, 3}))
  GOLDEN("vsplit", "randn(4, 2)", "*torch.vsplit(x, 2), *torch.vsplit(x, (1, 3))", vsplit(x, 2), vsplit(x, Dims{1, 3}))
  GOLDEN("dsplit", "randn(1, 2, 4)", "*torch.dsplit(x, 2), *torch.dsplit(x, (1, 3))", dsplit(x, 2), dsplit(x, Dims{1, 3}))
  GOLDEN("column_stack", "randn(3), randn(3, 2), randn()", "torch.column_stack([x, y]), torch.column_stack([z, z])", column_stack({x, y}), column_stack({z, z}))
  GOLDEN("dstack", "randn(3), randn(3), randn(2, 3), randn(2, 3, 2)", "torch.dstack([x, y]), torch.dstack([z, u])", dstack({x, y}), dstack({z, u}))
  GOLDEN("block_diag", "randn(2, 3), randn(), randn(2), ints(0, 5, 2, 1)", "torch.block_diag(x, y, z), torch.block_diag(u, x)", block_diag({x, y, z}), block_diag({u, x}))
  GOLDEN("diagflat", "randn(2, 2)", "torch.diagflat(x), torch.diagflat(x, 1)", diagflat(x), diagflat(x, 1))

  // --- windows ---
  GOLDEN("hann_window", "const(randn(1))", "torch.hann_window(6, dtype=x.dtype), torch.hann_window(7, False, dtype=x.dtype), torch.hann_window(1, dtype=x.dtype), torch.hann_window(0)", hann_window(6, true, {.dtype = x.dtype()}), hann_window(7, false, {.dtype = x.dtype()}), hann_window(1, true, {.dtype = x.dtype()}), hann_window(0))
  GOLDEN("hamming_window", "const(randn(1))", "torch.hamming_window(6, dtype=x.dtype), torch.hamming_window(7, False, 0.6, 0.3, dtype=x.dtype)", hamming_window(6, true, 0.54, 0.46, {.dtype = x.dtype()}), hamming_window(7, false, 0.6, 0.3, {.dtype = x.dtype()}))
  GOLDEN("blackman_window", "const(randn(1))", "torch.blackman_window(6, dtype=x.dtype), torch.blackman_window(7, False, dtype=x.dtype)", blackman_window(6, true, {.dtype = x.dtype()}), blackman_window(7, false, {.dtype = x.dtype()}))
  GOLDEN("bartlett_window", "const(randn(1))", "torch.bartlett_window(6, dtype=x.dtype), torch.bartlett_window(7, False, dtype=x.dtype)", bartlett_window(6, true, {.dtype = x.dtype()}), bartlett_window(7, false, {.dtype = x.dtype()}))
  GOLDEN("kaiser_window", "const(randn(1))", "torch.kaiser_window(6, dtype=x.dtype), torch.kaiser_window(7, False, 5., dtype=x.dtype)", kaiser_window(6, true, 12, {.dtype = x.dtype()}), kaiser_window(7, false, 5, {.dtype = x.dtype()}))
};

}  // namespace mantissa::test
