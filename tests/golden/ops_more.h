// Golden cases of what is made of other operators in a line or two (core/ops_special.h). tests/golden/case.h explains a line.
// clang-format off
#pragma once

#include "core/ops_special.h"
#include "core/indexing.h"
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

  // --- special functions (core/special.h) ---
  GOLDEN("i0", "uniform(-20, 20, 2, 5), of(0., 7.5, 8., 8.5, 60.), ints(0, 4, 4)", "torch.special.i0(x), torch.special.i0(y), torch.special.i0(z)", i0(x), i0(y), i0(z))
  GOLDEN("i0e", "uniform(-20, 20, 2, 5), of(7.5, 8., -8.5, 1e5), ints(0, 4, 4)", "torch.special.i0e(x), torch.special.i0e(y), torch.special.i0e(z)", i0e(x), i0e(y), i0e(z))
  GOLDEN("i1", "uniform(-20, 20, 2, 5), of(0., 7.5, 8., -8.5, 60.), ints(0, 4, 4)", "torch.special.i1(x), torch.special.i1(y), torch.special.i1(z)", i1(x), i1(y), i1(z))
  GOLDEN("i1e", "uniform(-20, 20, 2, 5), of(7.5, 8., -8.5, 1e5), ints(0, 4, 4)", "torch.special.i1e(x), torch.special.i1e(y), torch.special.i1e(z)", i1e(x), i1e(y), i1e(z))
  GOLDEN("erfcx", "uniform(-2, 5, 2, 5), of(0., 19.5, 20., 1000.)", "torch.special.erfcx(x), torch.special.erfcx(y)", erfcx(x), erfcx(y))
  GOLDEN("ndtr", "randn(2, 5), ints(-3, 4, 4)", "torch.special.ndtr(x), torch.special.ndtr(y)", ndtr(x), ndtr(y))
  GOLDEN("log_ndtr", "randn(2, 5), of(-1., 0., -30., -200., 6.)", "torch.special.log_ndtr(x), torch.special.log_ndtr(y)", log_ndtr(x), log_ndtr(y))
  GOLDEN("ndtri", "uniform(0.01, 0.99, 2, 5), const(of(0., 0.5, 1., 2., 1e-30, nan))", "torch.special.ndtri(x), torch.special.ndtri(y)", ndtri(x), ndtri(y))
  GOLDEN("entr", "uniform(0.1, 3, 2, 5), const(of(0., -1., nan, 1.)), ints(0, 4, 4)", "torch.special.entr(x), torch.special.entr(y), torch.special.entr(z)", entr(x), entr(y), entr(z))
  GOLDEN("xlog1py", "uniform(-1, 1, 2, 5), uniform(-0.8, 2, 5), const(of(0., 0., 1.)), const(of(-1., nan, -1.))", "torch.special.xlog1py(x, y), torch.special.xlog1py(z, u)", xlog1py(x, y), xlog1py(z, u))
  GOLDEN("zeta", "ints(2, 7, 2, 5), uniform(0.3, 20, 5), const(of(1., 0.5, 2., 2.5, 3., 2.5)), const(of(2., 2., 0., -1.5, -1.5, 1.5))", "torch.special.zeta(x, y), torch.special.zeta(z, u)", zeta(x, y), zeta(z, u))
  GOLDEN("igamma", "const(uniform(0.2, 9, 2, 5)), uniform(0.1, 12, 5), const(of(0., 0., 1., 60., 300., 300.)), const(of(0., 1., 0., 50., 290., 350.))", "torch.igamma(x, y), torch.igamma(z, u)", igamma(x, y), igamma(z, u))
  GOLDEN("igammac", "const(uniform(0.2, 9, 2, 5)), uniform(0.1, 12, 5), const(of(0., 0., 1., 60., 300., 300.)), const(of(0., 1., 0., 50., 290., 350.))", "torch.igammac(x, y), torch.igammac(z, u)", igammac(x, y), igammac(z, u))

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

  // --- reductions ---
  GOLDEN("aminmax", "distinct(3, 4), ints(0, 9, 3, 4)", "*torch.aminmax(x), *torch.aminmax(x, dim=-1), *torch.aminmax(y, dim=0, keepdim=True)", aminmax(x), aminmax(x, -1), aminmax(y, 0, true))
  GOLDEN("std_mean", "randn(2, 3, 4)", "*torch.std_mean(x), *torch.std_mean(x, (0, -1), correction=0), *torch.std_mean(x, 1, keepdim=True)", std_mean(x), std_mean(x, {0, -1}, false, 0), std_mean(x, {1}, true))
  GOLDEN("var_mean", "randn(2, 3, 4)", "*torch.var_mean(x), *torch.var_mean(x, (0, -1), correction=0), *torch.var_mean(x, 1, keepdim=True)", var_mean(x), var_mean(x, {0, -1}, false, 0), var_mean(x, {1}, true))
  GOLDEN("dist", "randn(3, 4), randn(4)", "torch.dist(x, y), torch.dist(x, y, 1), torch.dist(x, y, 3), torch.dist(x, y, inf)", dist(x, y), dist(x, y, 1), dist(x, y, 3), dist(x, y, HUGE_VAL))
  GOLDEN("nanmedian", "distinct(3, 6), of([3.5, nan, 1.5, 2.5], [nan, nan, nan, 5.], [4., 3., 2., 1.]), ints(0, 9, 5)", "*x.nanmedian(1), *y.nanmedian(-1, True), x.nanmedian(), y.nanmedian(), z.nanmedian()", nanmedian(x, 1), nanmedian(y, -1, true), nanmedian(x), nanmedian(y), nanmedian(z))
  GOLDEN("nanmedian.nothing", "const(of([nan, nan], [nan, 1.])), const(randn(0))", "x.nanmedian(1).values, x[0].nanmedian(), y.nanmedian()", nanmedian(x, 1).values, nanmedian(x[0]), nanmedian(y))
  GOLDEN("histc", "const(of(0.3, 1., 2.1, 3., 4.2, 5., 5., nan)), const(of(1., 2., 2.5, 4.)), const(of(2., 2.)), const(randn(0))", "x.histc(4, 1, 5), y.histc(3), z.histc(4), u.histc(3), y.histc(2, 3, 3)", histc(x, 4, 1, 5), histc(y, 3), histc(z, 4), histc(u, 3), histc(y, 2, 3, 3))
  GOLDEN("histogram", "const(of(0.3, 1., 2.1, 3., 4.2, 5., 5., nan)), const(of([1., 2.], [2.5, 4.])), const(of([1., 2.], [0.5, 1.5])), const(of(1., 2., 4.)), const(randn(0))", "*torch.histogram(x, 4, range=(1, 5)), *torch.histogram(y, 3), *torch.histogram(y, 3, weight=z), *torch.histogram(y, u, density=True), *torch.histogram(v, 2)", histogram(x, 4, {{1, 5}}), histogram(y, 3), histogram(y, 3, {}, z), histogram(y, u, {}, true), histogram(v, 2))
  GOLDEN("histogramdd", "const(of([0.3, 1.], [2.1, 3.], [4.2, 5.], [5., nan], [1., 2.5])), const(of(1., 2., 0.5, 1., 4.)), const(of(0., 1., 4., 5.)), const(of(1., 2.5, 3.))", "torch.histogramdd(x[:3], [2, 3])[0], torch.histogramdd(x, [2, 2], range=[0., 4., 1., 3.], weight=y, density=True)[0], torch.histogramdd(x, [z, u], weight=y)[0], *torch.histogramdd(x[:3], [2, 3])[1]", histogramdd(x.slice(0, 0, 3), {2, 3}).hist, histogramdd(x, {2, 2}, {{0, 4}, {1, 3}}, y, true).hist, histogramdd(x, std::vector<Tensor>{z, u}, y).hist, histogramdd(x.slice(0, 0, 3), {2, 3}).bin_edges[0], histogramdd(x.slice(0, 0, 3), {2, 3}).bin_edges[1])
  GOLDEN("cov", "randn(3, 5), randn(5), of(1, 2, 1, 3, 1), uniform(0.5, 1, 5), ints(0, 9, 2, 4)", "x.cov(), x.cov(correction=0), y.cov(), x.cov(fweights=z), x.cov(aweights=u.detach()), x.cov(correction=0, fweights=z, aweights=u.detach()), x.cov(fweights=z, aweights=u.detach()), v.cov()", cov(x), cov(x, 0), cov(y), cov(x, 1, z), cov(x, 1, {}, u.detach()), cov(x, 0, z, u.detach()), cov(x, 1, z, u.detach()), cov(v))
  GOLDEN("corrcoef", "randn(3, 5), ints(0, 9, 2, 4)", "x.corrcoef(), y.corrcoef()", corrcoef(x), corrcoef(y))
  GOLDEN("renorm", "randn(3, 4), randn(2, 3, 2)", "x.renorm(2, 0, 1.5), x.renorm(1, -1, 2), y.renorm(3, 1, 0.5)", renorm(x, 2, 0, 1.5), renorm(x, 1, -1, 2), renorm(y, 3, 1, 0.5))

  // --- indexing ---
  GOLDEN("index.mixed", "randn(3, 4, 5), of(2, 0, -1), of([1, 3], [0, -4]), bools(4, 5)", "x[:, y], x[..., y], x[0, :, y], x[y, :, y], x[:, y, 1:4:2], x[:, y, y], x[None, :, z], x[:, u], x[1:, z, None], x[-1, z], x[y, None, :, y], x[u.T[:3, :]], x[:, :, y[0]]", index(x, {all, y}), index(x, {ellipsis, y}), index(x, {0, all, y}), index(x, {y, all, y}), index(x, {all, y, slice(1, 4, 2)}), index(x, {all, y, y}), index(x, {newaxis, all, z}), index(x, {all, u}), index(x, {slice(1), z, newaxis}), index(x, {-1, z}), index(x, {y, newaxis, all, y}), index(x, {u.t()[{slice(0, 3), all}]}), index(x, {all, all, y[0]}))
  GOLDEN("index_put.mixed", "randn(3, 4, 5), of(2, 0), randn(3, 2, 5), randn(4, 1), bools(4, 5), randn()", "put_at(x, z, slice(None), y), put_at(x, u, 1, slice(None), y), put_at(x, w, slice(1, None), v), put_at(x, 2., ..., y), torch.ops.aten.index_put(x, [None, y], z, True)", index_put(x, {all, y}, z), index_put(x, {1, all, y}, u), index_put(x, {slice(1), v}, w), index_put(x, {ellipsis, y}, 2), index_put(x, {all, y}, z, true))
  GOLDEN("put", "randn(3, 4), of([1, -1], [5, 0]), randn(2, 2), of(1, 1, 2, 2)", "torch.put(x, y, z), torch.put(x, u, z, True)", put(x, y, z), put(x, u, z, true))
  GOLDEN("index_reduce", "uniform(0.5, 2, 4, 2), of(1, 3, 1), uniform(0.5, 2, 3, 2)", "x.index_reduce(0, y, z, 'prod'), x.index_reduce(0, y, z, 'mean'), x.index_reduce(0, y, z, 'amax', include_self=False), x.index_reduce(0, y, z, 'amin'), x.t().index_reduce(-1, y, z.t(), 'mean', include_self=False)", index_reduce(x, 0, y, z, "prod"), index_reduce(x, 0, y, z, "mean"), index_reduce(x, 0, y, z, "amax", false), index_reduce(x, 0, y, z, "amin"), index_reduce(x.t(), -1, y, z.t(), "mean", false))
  GOLDEN("unravel_index", "ints(0, 24, 2, 3)", "*torch.unravel_index(x, (2, 3, 4)), *torch.unravel_index(x, (24,))", unravel_index(x, {2, 3, 4}), unravel_index(x, {24}))
  GOLDEN("combinations", "randn(4), ints(0, 9, 3)", "torch.combinations(x), torch.combinations(x, 3), torch.combinations(y, 2, True), torch.combinations(y, 0), torch.combinations(y, 4)", combinations(x), combinations(x, 3), combinations(y, 2, true), combinations(y, 0), combinations(y, 4))
  GOLDEN("cartesian_prod", "randn(2), randn(3)", "torch.cartesian_prod(x, y, x), torch.cartesian_prod(y)", cartesian_prod({x, y, x}), cartesian_prod({y}))

  // --- windows ---
  GOLDEN("hann_window", "const(randn(1))", "torch.hann_window(6, dtype=x.dtype), torch.hann_window(7, False, dtype=x.dtype), torch.hann_window(1, dtype=x.dtype), torch.hann_window(0)", hann_window(6, true, {.dtype = x.dtype()}), hann_window(7, false, {.dtype = x.dtype()}), hann_window(1, true, {.dtype = x.dtype()}), hann_window(0))
  GOLDEN("hamming_window", "const(randn(1))", "torch.hamming_window(6, dtype=x.dtype), torch.hamming_window(7, False, 0.6, 0.3, dtype=x.dtype)", hamming_window(6, true, 0.54, 0.46, {.dtype = x.dtype()}), hamming_window(7, false, 0.6, 0.3, {.dtype = x.dtype()}))
  GOLDEN("blackman_window", "const(randn(1))", "torch.blackman_window(6, dtype=x.dtype), torch.blackman_window(7, False, dtype=x.dtype)", blackman_window(6, true, {.dtype = x.dtype()}), blackman_window(7, false, {.dtype = x.dtype()}))
  GOLDEN("bartlett_window", "const(randn(1))", "torch.bartlett_window(6, dtype=x.dtype), torch.bartlett_window(7, False, dtype=x.dtype)", bartlett_window(6, true, {.dtype = x.dtype()}), bartlett_window(7, false, {.dtype = x.dtype()}))
  GOLDEN("kaiser_window", "const(randn(1))", "torch.kaiser_window(6, dtype=x.dtype), torch.kaiser_window(7, False, 5., dtype=x.dtype)", kaiser_window(6, true, 12, {.dtype = x.dtype()}), kaiser_window(7, false, 5, {.dtype = x.dtype()}))

  // --- calculus on samples ---
  GOLDEN("trapezoid", "randn(2, 4), randn(4), randn(2, 4), ints(0, 9, 5), randn(2, 0)", "torch.trapezoid(x), torch.trapezoid(x, dx=0.5, dim=0), torch.trapezoid(x, y), torch.trapezoid(x, z), torch.trapezoid(u), torch.trapezoid(const(v))", trapezoid(x), trapezoid(x, 0.5, 0), trapezoid(x, y), trapezoid(x, z), trapezoid(u), trapezoid(v.detach()))
  GOLDEN("trapezoid.broadcast", "randn(2, 3, 4), randn(3, 1), randn(3), of(1., nan, 2.)", "torch.trapezoid(x, y, dim=1), torch.trapezoid(x, z, dim=1), torch.trapezoid(const(u))", trapezoid(x, y, 1), trapezoid(x, z, 1), trapezoid(u.detach()))
  GOLDEN("cumulative_trapezoid", "randn(2, 4), randn(4), randn(2, 4), ints(0, 9, 5), randn(2, 1)", "torch.cumulative_trapezoid(x), torch.cumulative_trapezoid(x, dx=0.5, dim=0), torch.cumulative_trapezoid(x, y), torch.cumulative_trapezoid(x, z), torch.cumulative_trapezoid(u), torch.cumulative_trapezoid(const(v))", cumulative_trapezoid(x), cumulative_trapezoid(x, 0.5, 0), cumulative_trapezoid(x, y), cumulative_trapezoid(x, z), cumulative_trapezoid(u), cumulative_trapezoid(v.detach()))
  GOLDEN("gradient", "randn(4, 5), ints(0, 9, 4)", "*torch.gradient(x), *torch.gradient(x, spacing=0.5, dim=1), *torch.gradient(x, dim=(1, 0), edge_order=2), *torch.gradient(y)", gradient(x), gradient(x, 0.5, {1}), gradient(x, 1, {1, 0}, 2), gradient(y))
  GOLDEN("gradient.coordinates", "randn(4, 3), const(of(0., 1., 3., 3.5)), const(of(-1., 1., 2.))", "*torch.gradient(x, spacing=(y, z)), *torch.gradient(x, spacing=(y,), dim=0, edge_order=2), *torch.gradient(x, spacing=(z, y), dim=(1, 0), edge_order=2)", gradient(x, {y, z}), gradient(x, {y}, {0}, 2), gradient(x, {z, y}, {1, 0}, 2))

  // --- quantiles of what is not NaN ---
  GOLDEN("nanquantile", "distinct(3, 6), const(of(0., 0.25, 0.5, 1.)), const(of(1., nan, 3., nan, nan, nan, 2., 5., nan).reshape(3, 3))", "torch.nanquantile(x, y, dim=1), torch.nanquantile(x, 0.5), torch.nanquantile(z, y, dim=1), torch.nanquantile(z, y, dim=0, keepdim=True), torch.nanquantile(z, 0.25), torch.nanquantile(z, 0.5, keepdim=True)", nanquantile(x, y, 1), nanquantile(x, 0.5), nanquantile(z, y, 1), nanquantile(z, y, 0, true), nanquantile(z, 0.25), nanquantile(z, 0.5, {}, true))
  GOLDEN("nanquantile.interpolation", "const(of(1., nan, 3., -2., nan, 5., 0.5, nan)).reshape(2, 4), const(of(0.25, 0.5))", "torch.nanquantile(x, y, dim=1, interpolation='lower'), torch.nanquantile(x, y, dim=1, interpolation='higher'), torch.nanquantile(x, y, dim=1, interpolation='midpoint'), torch.nanquantile(x, y, dim=1, interpolation='nearest')", nanquantile(x, y, 1, false, "lower"), nanquantile(x, y, 1, false, "higher"), nanquantile(x, y, 1, false, "midpoint"), nanquantile(x, y, 1, false, "nearest"))
  GOLDEN("nanquantile.gradient", "of(1., nan, 3., -2., nan, 5., 0.5, 4.)", "torch.nanquantile(x.reshape(2, 4), 0.5, dim=1), torch.nanquantile(x, 0.75)", nanquantile(reshape(x, {2, 4}), 0.5, 1), nanquantile(x, 0.75))
};

}  // namespace mantissa::test
