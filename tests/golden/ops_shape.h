// Golden cases of indexing, rearranging, views and copies. tests/golden/case.h explains a line.
// clang-format off
#pragma once

#include "tests/golden/case.h"

namespace mantissa::test {

inline constexpr Case shape_cases[] = {
  // --- indexing ---
  GOLDEN("embedding", "randn(5, 3), ints(0, 5, 2, 4)", "F.embedding(y, x)", embedding(x, y))
  GOLDEN("gather", "randn(3, 4), ints(0, 3, 2, 4), ints(0, 4, 3, 5)", "x.gather(0, y), x.gather(-1, z)", gather(x, 0, y), gather(x, -1, z))
  GOLDEN("scatter", "randn(3, 4), of([0, 2, 1, 0], [1, 0, 2, 2]), randn(2, 4)", "x.scatter(0, y, z), x.scatter(0, y, 1.5)", scatter(x, 0, y, z), scatter(x, 0, y, 1.5))
  GOLDEN("scatter.dim", "randn(2, 5), of([0, 4, -5 + 7], [3, 1, 0]), randn(2, 3)", "x.scatter(-1, y, z)", scatter(x, -1, y, z))
  GOLDEN("scatter_add", "randn(3, 4), ints(0, 3, 5, 4), randn(5, 4)", "x.scatter_add(0, y, z)", scatter_add(x, 0, y, z))
  GOLDEN("scatter_add.dim", "randn(2, 3), ints(0, 3, 2, 5), randn(2, 5)", "x.scatter_add(-1, y, z)", scatter_add(x, -1, y, z))
  GOLDEN("index_select", "randn(3, 4), of(2, 0, 2)", "x.index_select(0, y), x.index_select(-1, y)", index_select(x, 0, y), index_select(x, -1, y))
  GOLDEN("index_add", "randn(3, 4), of(2, 0, 2), randn(3, 4), randn(3, 3)", "x.index_add(0, y, z), x.index_add(1, y, u, alpha=-0.5)", index_add(x, 0, y, z), index_add(x, 1, y, u, -0.5))
  GOLDEN("index_copy", "randn(3, 4), of(2, 0), randn(2, 4), randn(3, 2)", "x.index_copy(0, y, z), x.index_copy(-1, y, u)", index_copy(x, 0, y, z), index_copy(x, -1, y, u))
  GOLDEN("index_fill", "randn(3, 4), of(2, 0)", "x.index_fill(0, y, 2.5), x.index_fill(-1, y, -1)", index_fill(x, 0, y, 2.5), index_fill(x, -1, y, -1))
  GOLDEN("index", "randn(3, 4, 2), of(2, 0, -1), of(1, -4, 3)", "x[y], x[y, z]", index(x, {y}), index(x, {y, z}))
  GOLDEN("index.broadcast", "randn(3, 4), of([0], [2]), of(1, 3, 0)", "x[y, z]", index(x, {y, z}))
  GOLDEN("index.mask", "randn(3, 4), bools(3), bools(3, 4)", "x[y], x[z]", index(x, {y}), index(x, {z}))
  GOLDEN("index_put", "randn(3, 4), of(2, 0), randn(2, 4), of(1, 3), randn()", "x.index_put((y,), z), x.index_put((y, u), v)", index_put(x, {y}, z), index_put(x, {y, u}, v))
  GOLDEN("index_put.accumulate", "randn(3, 4), of(2, 0, 2), randn(3, 4)", "x.index_put((y,), z, accumulate=True)", index_put(x, {y}, z, true))
  GOLDEN("index_put.mask", "randn(3, 4), bools(3, 4), randn()", "x.index_put((y,), z)", index_put(x, {y}, z))
  GOLDEN("take", "randn(3, 4), of([0, 11], [-1, 5])", "x.take(y)", take(x, y))
  GOLDEN("masked_fill", "randn(3, 4), bools(3, 4), bools(4)", "x.masked_fill(y, 2.5), x.masked_fill(z, -inf)", masked_fill(x, y, 2.5), masked_fill(x, z, -HUGE_VAL))
  GOLDEN("masked_select", "randn(3, 4), bools(3, 4), bools(4)", "x.masked_select(y), x.masked_select(z)", masked_select(x, y), masked_select(x, z))
  GOLDEN("select", "randn(3, 4)", "x.select(0, 1), x.select(-1, -2), x[2], x[0, -1]", select(x, 0, 1), select(x, -1, -2), x[2], x[{0, -1}])
  GOLDEN("slice", "randn(5, 6)", "x[1:4], x[:, -3:], x[:, 1:6:2], x[::2, 4]", slice(x, 0, 1, 4), slice(x, 1, -3), slice(x, 1, 1, 6, 2), x[{slice(0, 5, 2), 4}])
  GOLDEN("slice.outside", "randn(5, 2)", "x[3:99], x[4:2], x[-99:1]", slice(x, 0, 3, 99), slice(x, 0, 4, 2), slice(x, 0, -99, 1))
  GOLDEN("slice.newaxis", "randn(3, 4)", "x[..., None, 1], x[None, :, 2:]", x[{ellipsis, newaxis, 1}], x[{newaxis, all, slice(2)}])

  // --- joining and splitting ---
  GOLDEN("cat", "randn(2, 3), randn(2, 1), randn(2, 2)", "torch.cat([x, y, z], 1), torch.cat([x, x], 0), torch.cat([y, z], -1)", cat({x, y, z}, 1), cat({x, x}), cat({y, z}, -1))
  GOLDEN("cat.mixed", "ints(0, 5, 2), randn(3), randn(0)", "torch.cat([x, y]), torch.cat([y, z])", cat({x, y}), cat({y, z}))
  GOLDEN("stack", "randn(2, 3), randn(2, 3)", "torch.stack([x, y]), torch.stack([x, y], 1), torch.stack([x, y], -1)", stack({x, y}), stack({x, y}, 1), stack({x, y}, -1))
  GOLDEN("split", "randn(5, 4)", "*x.split(2), *x.split(3, -1)", split(x, 2), split(x, 3, -1))
  GOLDEN("chunk", "randn(5, 4)", "*x.chunk(3), *x.chunk(2, -1), *x.chunk(7, 1)", chunk(x, 3), chunk(x, 2, -1), chunk(x, 7, 1))
  GOLDEN("unbind", "randn(2, 3)", "*x.unbind(), *x.unbind(-1)", unbind(x), unbind(x, -1))
  GOLDEN("meshgrid", "randn(2), randn(3)", "*torch.meshgrid(x, y, indexing='ij'), *torch.meshgrid(x, y, indexing='xy')", meshgrid(Results{x, y}), meshgrid(Results{x, y}, "xy"))

  // --- rearranging ---
  GOLDEN("flip", "randn(2, 3, 4)", "x.flip(0), x.flip(0, -1)", flip(x, {0}), flip(x, {0, -1}))
  GOLDEN("roll", "randn(3, 4)", "x.roll(1), x.roll(-2, 1), x.roll((1, 5), (0, -1))", roll(x, {1}), roll(x, {-2}, {1}), roll(x, {1, 5}, {0, -1}))
  GOLDEN("repeat", "randn(2, 3)", "x.repeat(2, 2), x.repeat(3, 1, 2)", repeat(x, {2, 2}), repeat(x, {3, 1, 2}))
  GOLDEN("tile", "randn(2, 3)", "x.tile(2), x.tile(2, 1, 2)", tile(x, {2}), tile(x, {2, 1, 2}))
  GOLDEN("repeat_interleave", "randn(2, 3)", "x.repeat_interleave(2, 0), x.repeat_interleave(3, -1)", repeat_interleave(x, 2, 0), repeat_interleave(x, 3, -1))
  GOLDEN("pad", "randn(2, 3)", "F.pad(x, (1, 2)), F.pad(x, (1, 0, 2, 1), value=1.5), F.pad(x, (-1, 2))", pad(x, {1, 2}), pad(x, {1, 0, 2, 1}, "constant", 1.5), pad(x, {-1, 2}))
  GOLDEN("pad.reflect", "randn(1, 2, 4), randn(1, 2, 3, 4)", "F.pad(x, (2, 3), 'reflect'), F.pad(y, (1, 2, 2, 0), 'reflect')", pad(x, {2, 3}, "reflect"), pad(y, {1, 2, 2, 0}, "reflect"))
  GOLDEN("pad.replicate", "randn(1, 2, 4), randn(1, 2, 3, 4)", "F.pad(x, (2, 5), 'replicate'), F.pad(y, (1, 2, 2, 0), 'replicate')", pad(x, {2, 5}, "replicate"), pad(y, {1, 2, 2, 0}, "replicate"))
  GOLDEN("pad.circular", "randn(1, 2, 4), randn(1, 2, 3, 4)", "F.pad(x, (2, 4), 'circular'), F.pad(y, (1, 2, 2, 0), 'circular')", pad(x, {2, 4}, "circular"), pad(y, {1, 2, 2, 0}, "circular"))

  // --- copies and views ---
  GOLDEN("cast", "randn(4), const(of(1.7, -1.7, 0., 300.)), ints(-3, 3, 4), bools(4)", "x.double() if x.dtype == torch.float64 else x, y.long(), y.bool(), z.bool(), u.long(), z.float()", cast(x, x.dtype()), cast(y, i64), cast(y, boolean), cast(z, boolean), cast(u, i64), cast(z, f32))
  GOLDEN("contiguous", "randn(2, 3)", "x.t().contiguous()", contiguous(x.t()))
  GOLDEN("clone", "randn(2, 3)", "x.clone()", clone(x))
  GOLDEN("reshape", "randn(2, 3, 4)", "x.reshape(6, 4), x.reshape(-1), x.reshape(4, -1, 3), x.transpose(0, 2).reshape(4, 6)", reshape(x, {6, 4}), reshape(x, {-1}), reshape(x, {4, -1, 3}), reshape(transpose(x, 0, 2), {4, 6}))
  GOLDEN("flatten", "randn(2, 3, 4), randn()", "x.flatten(), x.flatten(1), x.flatten(0, 1), x.flatten(-2, -1), y.flatten()", flatten(x), flatten(x, 1), flatten(x, 0, 1), flatten(x, -2, -1), flatten(y))
  GOLDEN("transpose", "randn(2, 3, 4)", "x.transpose(0, 2), x.transpose(-1, 1), x.mT", transpose(x, 0, 2), transpose(x, -1, 1), transpose(x))
  GOLDEN("permute", "randn(2, 3, 4)", "x.permute(2, 0, 1), x.permute(-1, 1, 0)", permute(x, {2, 0, 1}), permute(x, {-1, 1, 0}))
  GOLDEN("expand", "randn(2, 1), randn()", "x.expand(2, 3), x.expand(4, -1, 3), y.expand(2, 2)", expand(x, {2, 3}), expand(x, {4, -1, 3}), expand(y, {2, 2}))
  GOLDEN("unsqueeze", "randn(2, 3)", "x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(1)", unsqueeze(x, 0), unsqueeze(x, -1), unsqueeze(x, 1))
  GOLDEN("squeeze", "randn(1, 3, 1)", "x.squeeze(), x.squeeze(0), x.squeeze(-1), x.squeeze(1)", squeeze(x), squeeze(x, 0), squeeze(x, -1), squeeze(x, 1))
  GOLDEN("dropout", "randn(3, 4)", "F.dropout(x, 0.5, training=False), F.dropout(x, 0.), F.dropout(x, 1.)", dropout(x, 0.5, false), dropout(x, 0), dropout(x, 1))
  GOLDEN("split.sizes", "randn(2, 5)", "*x.split([2, 0, 3], 1)", split(x, Dims{2, 0, 3}, 1))
  GOLDEN("unfold.windows", "randn(2, 7)", "x.unfold(1, 3, 2), x.unfold(0, 2, 1)", unfold(x, 1, 3, 2), unfold(x, 0, 2, 1))
  GOLDEN("narrow", "randn(3, 5)", "x.narrow(1, -4, 3)", narrow(x, 1, -4, 3))
  GOLDEN("movedim", "randn(2, 3, 4)", "x.movedim((0, -1), (1, 0)), x.movedim(0, -1)", movedim(x, {0, -1}, {1, 0}), movedim(x, {0}, {-1}))
  GOLDEN("rot90", "randn(2, 3)", "x.rot90(), x.rot90(2), x.rot90(3), x.rot90(-1, (1, 0))", rot90(x), rot90(x, 2), rot90(x, 3), rot90(x, -1, {1, 0}))
  GOLDEN("unflatten", "randn(2, 6)", "x.unflatten(1, (2, -1))", unflatten(x, 1, {2, -1}))
  GOLDEN("broadcast_to", "randn(3, 1)", "x.broadcast_to(2, 3, 4)", broadcast_to(x, {2, 3, 4}))
  GOLDEN("channel_shuffle", "randn(2, 6, 3)", "F.channel_shuffle(x, 2)", channel_shuffle(x, 2))
  GOLDEN("hstack", "randn(2, 3), randn(2, 1), randn(2)", "torch.hstack([x, y]), torch.hstack([z, z])", hstack({x, y}), hstack({z, z}))
  GOLDEN("vstack", "randn(2, 3), randn(3)", "torch.vstack([x, y])", vstack({x, y}))
  GOLDEN("full_like", "const(randn(2, 3))", "torch.full_like(x, 0.5)", full_like(x, 0.5))
  GOLDEN("logspace", "const(randn(1))", "torch.logspace(-1, 2, 4, 2, dtype=torch.float64)", logspace(-1, 2, 4, 2, {.dtype = x.dtype()}))
  GOLDEN("tril_indices", "const(randn(1))", "torch.tril_indices(3, 4, -1)", tril_indices(3, 4, -1))
  GOLDEN("triu_indices", "const(randn(1))", "torch.triu_indices(3, 4, 1)", triu_indices(3, 4, 1))
  GOLDEN("scatter_reduce", "uniform(0.5, 2, 2, 4), ints(0, 3, 2, 5), uniform(0.5, 2, 2, 5)", "*[x.scatter_reduce(1, y, z, r) for r in ('sum', 'mean', 'prod', 'amax', 'amin')]", scatter_reduce(x, 1, y, z, "sum"), scatter_reduce(x, 1, y, z, "mean"), scatter_reduce(x, 1, y, z, "prod"), scatter_reduce(x, 1, y, z, "amax"), scatter_reduce(x, 1, y, z, "amin"))
  GOLDEN("scatter_reduce.alone", "uniform(0.5, 2, 2, 4), ints(0, 3, 2, 5), uniform(0.5, 2, 2, 5)", "*[x.scatter_reduce(1, y, z, r, include_self=False) for r in ('sum', 'mean', 'prod', 'amax', 'amin')]", scatter_reduce(x, 1, y, z, "sum", false), scatter_reduce(x, 1, y, z, "mean", false), scatter_reduce(x, 1, y, z, "prod", false), scatter_reduce(x, 1, y, z, "amax", false), scatter_reduce(x, 1, y, z, "amin", false))
  GOLDEN("scatter_reduce.ties", "of(1.0, 2.0, 0.0), of(0, 0, 1, 2, 2), of(1.0, 1.0, 2.0, 0.0, 3.0)", "x.scatter_reduce(0, y, z, 'amax'), x.scatter_reduce(0, y, z, 'prod')", scatter_reduce(x, 0, y, z, "amax"), scatter_reduce(x, 0, y, z, "prod"))
  GOLDEN("take_along_dim", "randn(3, 4), ints(0, 4, 1, 2), ints(0, 12, 5)", "x.take_along_dim(y, 1), x.take_along_dim(z)", take_along_dim(x, y, 1), take_along_dim(x, z))
  GOLDEN("masked_scatter", "randn(2, 3), of(True, False, True), randn(5)", "x.masked_scatter(y, z)", masked_scatter(x, y, z))
  GOLDEN("bucketize", "const(randn(2, 3)), const(of(-1.0, 0.0, 0.5, 1.5))", "torch.bucketize(x, y), torch.bucketize(x, y, right=True)", bucketize(x, y), bucketize(x, y, true))
  GOLDEN("unique", "ints(0, 4, 3, 5)", "*torch.unique(x, return_inverse=True, return_counts=True)", unique(x))
  GOLDEN("unique_consecutive", "ints(0, 2, 12)", "*torch.unique_consecutive(x, return_inverse=True, return_counts=True)", unique_consecutive(x))
  GOLDEN("scatter_reduce.extremes", "distinct(3, 4), ints(0, 3, 5, 4), randn(5, 4)", "x.scatter_reduce(0, y, z, 'amax'), x.scatter_reduce(0, y, z, 'amin')", scatter_reduce(x, 0, y, z, "amax"), scatter_reduce(x, 0, y, z, "amin"))
  GOLDEN("scatter_reduce.without_self", "randn(2, 3), ints(0, 3, 2, 5), randn(2, 5)", "x.scatter_reduce(1, y, z, 'sum', include_self=False), x.scatter_reduce(1, y, z, 'mean', include_self=False), x.scatter_reduce(-1, y, z, 'amax', include_self=False)", scatter_reduce(x, 1, y, z, "sum", false), scatter_reduce(x, 1, y, z, "mean", false), scatter_reduce(x, -1, y, z, "amax", false))
  GOLDEN("dropout1d", "randn(2, 3, 4)", "F.dropout1d(x, 0.5, training=False), F.dropout1d(x, 0.), F.dropout1d(x, 1.)", dropout1d(x, 0.5, false), dropout1d(x, 0), dropout1d(x, 1))
  GOLDEN("dropout2d", "randn(2, 3, 4, 2)", "F.dropout2d(x, 0.5, training=False), F.dropout2d(x, 0.), F.dropout2d(x, 1.)", dropout2d(x, 0.5, false), dropout2d(x, 0), dropout2d(x, 1))
  GOLDEN("dropout3d", "randn(2, 3, 2, 2, 2)", "F.dropout3d(x, 0.5, training=False), F.dropout3d(x, 0.), F.dropout3d(x, 1.)", dropout3d(x, 0.5, false), dropout3d(x, 0), dropout3d(x, 1))
  GOLDEN("alpha_dropout", "randn(3, 4)", "F.alpha_dropout(x), F.alpha_dropout(x, 0., training=True)", alpha_dropout(x), alpha_dropout(x, 0, true))
  GOLDEN("feature_alpha_dropout", "randn(2, 3, 4)", "F.feature_alpha_dropout(x), F.feature_alpha_dropout(x, 0., training=True)", feature_alpha_dropout(x), feature_alpha_dropout(x, 0, true))
};

}  // namespace mantissa::test
