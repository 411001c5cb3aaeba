// Golden cases of reductions, running sums, sorting and softmax. tests/golden/case.h explains a line.
// clang-format off
#pragma once

#include "tests/golden/case.h"

namespace mantissa::test {

inline constexpr Case reduce_cases[] = {
  GOLDEN("sum", "randn(2, 3, 4)", "x.sum()", sum(x))
  GOLDEN("sum.dims", "randn(2, 3, 4)", "x.sum((0, -1)), x.sum(1), x.sum(-2)", sum(x, {0, -1}), sum(x, {1}), sum(x, {-2}))
  GOLDEN("sum.keepdim", "randn(2, 3, 4)", "x.sum((0, 2), keepdim=True)", sum(x, {0, 2}, true))
  GOLDEN("sum.integers", "ints(-9, 9, 2, 3), bools(2, 3)", "x.sum(), x.sum(0), y.sum(), y.sum(1)", sum(x), sum(x, {0}), sum(y), sum(y, {1}))
  GOLDEN("sum.empty", "randn(0, 3)", "x.sum(), x.sum(0)", sum(x), sum(x, {0}))
  GOLDEN("sum.scalar", "randn()", "x.sum()", sum(x))
  GOLDEN("sum.dtype", "ints(-9, 9, 2, 3), const(randn(4))", "x.sum(dtype=torch.float32), x.sum(0, dtype=torch.float32), y.sum(dtype=torch.float32)", sum(x, {}, false, f32), sum(x, {0}, false, f32), sum(y, {}, false, f32))
  GOLDEN("mean.dtype", "ints(-9, 9, 2, 3)", "x.mean(dtype=torch.float32)", mean(x, {}, false, f32))
  GOLDEN("mean", "randn(2, 3, 4)", "x.mean()", mean(x))
  GOLDEN("mean.dims", "randn(2, 3, 4)", "x.mean((0, -1)), x.mean(1, keepdim=True)", mean(x, {0, -1}), mean(x, {1}, true))
  GOLDEN("mean.empty", "randn(0, 3)", "x.mean(), x.mean(0)", mean(x), mean(x, {0}))
  GOLDEN("var", "randn(2, 3, 4)", "x.var()", var(x))
  GOLDEN("var.dims", "randn(2, 3, 4)", "x.var((0, -1)), x.var(1, keepdim=True), x.var(1, correction=0), x.var((0, 1, 2), correction=2)", var(x, {0, -1}), var(x, {1}, true), var(x, {1}, false, 0), var(x, {0, 1, 2}, false, 2))
  GOLDEN("var.one_element", "const(randn(1, 3))", "x.var(0), x.var(0, correction=0)", var(x, {0}), var(x, {0}, false, 0))
  GOLDEN("std", "randn(2, 3, 4)", "x.std()", mantissa::std(x))
  GOLDEN("std.dims", "randn(2, 3, 4)", "x.std((0, -1)), x.std(1, keepdim=True), x.std(1, correction=0)", mantissa::std(x, {0, -1}), mantissa::std(x, {1}, true), mantissa::std(x, {1}, false, 0))
  GOLDEN("amax", "distinct(2, 3, 4)", "x.amax(), x.amax(1), x.amax((0, -1), keepdim=True)", amax(x), amax(x, {1}), amax(x, {0, -1}, true))
  GOLDEN("amax.ties", "of(1., 3., 3., 2., 3.), of(1., nan, 2.), ints(-9, 9, 5)", "x.amax(), y.amax(), z.amax(0)", amax(x), amax(y), amax(z, {0}))
  GOLDEN("amin", "distinct(2, 3, 4)", "x.amin(), x.amin(1), x.amin((0, -1), keepdim=True)", amin(x), amin(x, {1}), amin(x, {0, -1}, true))
  GOLDEN("amin.ties", "of(1., 3., 1., 2., 1.), of(1., nan, 2.)", "x.amin(), y.amin()", amin(x), amin(y))
  GOLDEN("max", "distinct(2, 3, 4)", "*x.max(1), *x.max(-1, keepdim=True)", max(x, 1), max(x, -1, true))
  GOLDEN("max.all", "distinct(2, 3), const(of(1., nan, 2., nan)), ints(-9, 9, 5)", "x.max(), y.max(), *y.max(0), z.max()", x.max(), y.max(), max(y, 0), z.max())
  GOLDEN("min", "distinct(2, 3, 4)", "*x.min(1), *x.min(-1, keepdim=True)", min(x, 1), min(x, -1, true))
  GOLDEN("min.all", "distinct(2, 3), const(of(1., nan, 2., nan))", "x.min(), y.min(), *y.min(0)", x.min(), y.min(), min(y, 0))
  GOLDEN("argmax", "const(distinct(2, 3, 4))", "x.argmax(1), x.argmax(-1, keepdim=True)", argmax(x, 1), argmax(x, -1, true))
  GOLDEN("argmin", "const(distinct(2, 3, 4))", "x.argmin(1), x.argmin(-1, keepdim=True)", argmin(x, 1), argmin(x, -1, true))
  GOLDEN("prod", "randn(2, 3, 4)", "x.prod(), x.prod(1), x.prod(-1, keepdim=True)", prod(x), prod(x, {1}), prod(x, {-1}, true))
  GOLDEN("prod.zeros", "of(1., 0., 3., 4.), of(0., 2., 0.), ints(-4, 4, 5)", "x.prod(), y.prod(), z.prod()", prod(x), prod(y), prod(z))
  GOLDEN("prod.dtype", "ints(-4, 4, 2, 3)", "x.prod(dtype=torch.float32), x.cumsum(0, dtype=torch.float32), x.cumprod(1, dtype=torch.float32), x.softmax(1, dtype=torch.float32)", prod(x, {}, false, f32), cumsum(x, 0, f32), cumprod(x, 1, f32), softmax(x, 1, f32))
  GOLDEN("norm", "randn(2, 3, 4)", "torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, dim=(0, 1))", norm(x), norm(x, 2, {0, 1}))
  GOLDEN("norm.p", "randn(3, 4)", "torch.linalg.vector_norm(x, 1, dim=1), torch.linalg.vector_norm(x, 3, dim=0, keepdim=True), torch.linalg.vector_norm(x, 0.5)", norm(x, 1, {1}), norm(x, 3, {0}, true), norm(x, 0.5))
  GOLDEN("norm.infinite", "distinct(3, 4)", "torch.linalg.vector_norm(x, inf, dim=1), torch.linalg.vector_norm(x, -inf, dim=1)", norm(x, HUGE_VAL, {1}), norm(x, -HUGE_VAL, {1}))
  GOLDEN("norm.count", "const(of(0., 1., -2., 0.))", "torch.linalg.vector_norm(x, 0)", norm(x, 0))
  GOLDEN("norm.zero", "of(0., 0.)", "torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, 1)", norm(x), norm(x, 1))
  GOLDEN("logsumexp", "randn(2, 3, 4)", "x.logsumexp((0, 1, 2)), x.logsumexp(1), x.logsumexp((0, -1), keepdim=True)", logsumexp(x), logsumexp(x, {1}), logsumexp(x, {0, -1}, true))
  GOLDEN("logsumexp.infinite", "const(of(-inf, -inf)), const(of(inf, 1.)), const(of(1000., 1000.))", "x.logsumexp(0), y.logsumexp(0), z.logsumexp(0)", logsumexp(x), logsumexp(y), logsumexp(z))
  GOLDEN("any", "bools(2, 3), ints(0, 2, 2, 3), const(of(0., nan))", "x.any(), x.any(1), y.any(0, keepdim=True), z.any()", any(x), any(x, {1}), any(y, {0}, true), any(z))
  GOLDEN("all", "bools(2, 3), ints(0, 2, 2, 3), const(of(1., nan))", "x.all(), x.all(1), y.all(0, keepdim=True), z.all()", all(x), all(x, {1}), all(y, {0}, true), all(z))
  GOLDEN("count_nonzero", "ints(0, 2, 2, 3), bools(2, 3), const(of(0., nan, -0.))", "x.count_nonzero(), x.count_nonzero(1), y.count_nonzero((0, 1)), z.count_nonzero()", count_nonzero(x), count_nonzero(x, {1}), count_nonzero(y, {0, 1}), count_nonzero(z))
  GOLDEN("cumsum", "randn(2, 3, 4)", "x.cumsum(1), x.cumsum(-1)", cumsum(x, 1), cumsum(x, -1))
  GOLDEN("cumsum.integers", "ints(-9, 9, 2, 3), bools(5)", "x.cumsum(0), y.cumsum(0)", cumsum(x, 0), cumsum(y, 0))
  GOLDEN("cumprod", "randn(2, 3, 4)", "x.cumprod(1), x.cumprod(-1)", cumprod(x, 1), cumprod(x, -1))
  GOLDEN("cumprod.zeros", "of(2., 0., 3., 4.), of(2., 0., 3., 0., 5.)", "x.cumprod(0), y.cumprod(0)", cumprod(x, 0), cumprod(y, 0))
  GOLDEN("sum_to", "randn(2, 3, 4)", "x.sum_to_size(3, 1), x.sum_to_size(4)", sum_to(x, {3, 1}), sum_to(x, {4}))
  GOLDEN("softmax", "randn(2, 3, 4)", "x.softmax(1), x.softmax(-1), x.softmax(0)", softmax(x, 1), softmax(x, -1), softmax(x, 0))
  GOLDEN("softmax.infinite", "const(of(-inf, 1., 2.)), const(of(1000., 999., -1000.)), const(of(-inf, -inf))", "x.softmax(0), y.softmax(0), z.softmax(0)", softmax(x, 0), softmax(y, 0), softmax(z, 0))
  GOLDEN("softmin", "randn(2, 3, 4)", "F.softmin(x, 1), F.softmin(x, -1)", softmin(x, 1), softmin(x, -1))
  GOLDEN("log_softmax", "randn(2, 3, 4)", "x.log_softmax(1), x.log_softmax(-1), x.log_softmax(0)", log_softmax(x, 1), log_softmax(x, -1), log_softmax(x, 0))
  GOLDEN("log_softmax.infinite", "const(of(-inf, 1., 2.)), const(of(1000., 999., -1000.))", "x.log_softmax(0), y.log_softmax(0)", log_softmax(x, 0), log_softmax(y, 0))

  // --- sorting and searching ---
  GOLDEN("sort", "distinct(2, 3, 4)", "*x.sort(), *x.sort(1, descending=True)", sort(x), sort(x, 1, true))
  GOLDEN("sort.stable", "const(of(2., 1., nan, 1., 2., -inf, inf)), ints(0, 3, 9)", "*x.sort(stable=True), *x.sort(descending=True, stable=True), *y.sort(stable=True)", sort(x), sort(x, -1, true), sort(y))
  GOLDEN("argsort", "const(distinct(3, 4)), ints(0, 3, 9)", "x.argsort(), x.argsort(0, descending=True), y.argsort(stable=True)", argsort(x), argsort(x, 0, true), argsort(y))
  GOLDEN("topk", "distinct(3, 5)", "*x.topk(2), *x.topk(2, 0, largest=False)", topk(x, 2), topk(x, 2, 0, false))
  GOLDEN("searchsorted", "const(of(1., 3., 3., 5.)), const(of(0., 1., 3., 4., 6.))", "torch.searchsorted(x, y), torch.searchsorted(x, y, right=True)", searchsorted(x, y), searchsorted(x, y, true))
  GOLDEN("searchsorted.rows", "const(randn(2, 4).sort(-1)[0]), const(randn(2, 3))", "torch.searchsorted(x, y)", searchsorted(x, y))
  GOLDEN("bincount", "of(1, 3, 1, 0), randn(4)", "x.bincount(), x.bincount(minlength=6), x.bincount(const(y))", bincount(x), bincount(x, {}, 6), bincount(x, y))
  GOLDEN("nonzero", "bools(3, 4), ints(0, 2, 5), const(of(0., nan, 1.))", "x.nonzero(), y.nonzero(), z.nonzero()", nonzero(x), nonzero(y), nonzero(z))
  GOLDEN("one_hot", "of(1, 3, 0)", "F.one_hot(x), F.one_hot(x, 5), F.one_hot(x.reshape(3, 1), 4)", one_hot(x), one_hot(x, 5), one_hot(x.reshape({3, 1}), 4))
};

}  // namespace mantissa::test
