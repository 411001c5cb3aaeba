// Moving elements without arithmetic: flip, and roll, rot90, repeat and others composed of views and copies. Read
// first: ops/view.cpp, ops/copy.cpp.
#include <algorithm>

#include "core/ops_special.h"
#include "ops/apply.h"
#include "ops/named.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace {

struct Flip {
  static constexpr auto name = "flip";
  static constexpr const char* args[] = {"x"};
  Dims dims;

  Spec infer(const Tensor& x) const {
    unsigned seen = 0;
    for (std::int64_t d : dims) {
      const int at = wrap_dim(d, x.dim());
      check(!(seen >> at & 1), "dims ", dims, " name dimension ", at, " twice");
      seen |= 1u << at;
    }
    return like(x);
  }
  void run(const View& y, const View& x) const {  // a copy with negative strides
    if (x.numel() == 0) return;
    View from = x;
    for (std::int64_t d : dims) {
      if (x.dim() == 0) break;
      const int at = wrap_dim(d, x.dim());
      from.data = static_cast<char*>(from.data) +
                  (x.sizes[at] - 1) * x.strides[at] * static_cast<std::int64_t>(size_of(x.dtype));
      from.strides[at] = -x.strides[at];
    }
    kernels::copy(y.device, y, from);
  }
  static constexpr auto vjp() {
    return rules([](const Flip& op, Grad g) { return flip(g, op.dims); });
  }
  void onnx(OnnxCall& c) const {  // slices with negative steps
    const std::vector<std::int64_t> back(static_cast<std::size_t>(dims.rank()), -1),
        all(static_cast<std::size_t>(dims.rank()), INT64_MIN);
    if (dims.empty() || c.x(0).dim() == 0) return c.result(c.in(0));
    c.result(c.node("Slice", {c.in(0), c.ints(back), c.ints(all), c.ints(dims), c.ints(back)}));
  }
  static void samples(Samples& s) {
    s({s.randn({3, 4})}, Flip{{1}});
    s({s.randn({2, 3, 5})}, Flip{{0, -1}});
    s({s.randn({2, 3})}, Flip{{0, 1}});
    s({s.randn({})}, Flip{{0}});
    s({s.randn({0, 3})}, Flip{{0}});
    s.error({s.randn({2, 3})}, Flip{{1, -1}}, "name dimension 1 twice");
    s.error({s.randn({2, 3})}, Flip{{2}}, "dim 2 is out of range");
  }
};
MANTISSA_OP(Flip)

Tensor roll_one(const Tensor& x, std::int64_t shift, int dim) {
  const std::int64_t size = x.size(dim);
  if (size == 0) return clone(x);
  const std::int64_t first = (size - shift % size) % size;  // the index that becomes the first element
  return first == 0 ? clone(x) : cat({slice(x, dim, first), slice(x, dim, 0, first)}, dim);
}

}  // namespace

Tensor flip(const Tensor& x, const Dims& dims) { return apply(Flip{dims}, x); }
Tensor fliplr(const Tensor& x) {
  check(x.dim() >= 2, "fliplr: needs at least 2 dimensions, got ", x);
  return flip(x, {1});
}
Tensor flipud(const Tensor& x) {
  check(x.dim() >= 1, "flipud: needs at least 1 dimension, got ", x);
  return flip(x, {0});
}
Tensor rot90(const Tensor& x, int k, const Dims& dims) {
  check(dims.rank() == 2 && x.dim() >= 2, "rot90: needs 2 dimensions of x ", x, ", got ", dims);
  const int a = named_dim("rot90", x, dims[0]), b = named_dim("rot90", x, dims[1]);
  check(a != b, "rot90: dims ", dims, " name dimension ", a, " twice");
  switch ((k % 4 + 4) % 4) {
    case 1: return flip(transpose(x, a, b), {a});
    case 2: return flip(x, {a, b});
    case 3: return flip(transpose(x, a, b), {b});
    default: return clone(x);
  }
}
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims) {
  if (dims.empty() && shifts.rank() == 1) return reshape(roll_one(flatten(x), shifts[0], 0), x.sizes());
  check(shifts.rank() == dims.rank(), "roll: ", shifts.rank(), " shifts for ", dims.rank(), " dimensions");
  check(x.dim() > 0, "roll: a scalar has no dimensions");
  Tensor y = x;
  for (int i = 0; i < dims.rank(); ++i) y = roll_one(y, shifts[i], named_dim("roll", x, dims[i]));
  return y;
}
Tensor repeat(const Tensor& x, const Dims& repeats) {
  const int extra = repeats.rank() - x.dim();
  check(extra >= 0, "repeat: ", repeats, " names fewer dimensions than ", x, " has");
  const auto repeated = static_cast<int>(std::ranges::count_if(repeats, [](std::int64_t r) { return r != 1; }));
  if (x.dim() + repeated > Dims::max_rank && repeated > 1) {  // one dimension after the other
    Tensor y = x;
    for (int i = repeats.rank() - 1; i >= 0; --i) {
      if (repeats[i] == 1) continue;
      Dims one = Dims::filled(repeats.rank(), 1);
      one[i] = repeats[i];
      y = repeat(y, one);
    }
    return y;
  }
  if (x.dim() + repeated > Dims::max_rank) {  // of eight dimensions one: those before and after it count as one each
    int at = 0;
    while (repeats[at] == 1) ++at;
    check(repeats[at] >= 0, "repeat: repeats ", repeats, " must not be negative");
    Dims sizes = x.sizes();
    std::int64_t outer = 1;
    for (int i = 0; i < at; ++i) outer *= sizes[i];
    const Tensor rows = reshape(x, {outer, 1, outer == 0 ? 0 : x.numel() / outer});
    check(!__builtin_mul_overflow(sizes[at], repeats[at], &sizes[at]), "repeat: the result is too large");
    return reshape(clone(expand(rows, {outer, repeats[at], rows.size(2)})), sizes);
  }
  Dims apart, wide, sizes;  // each dimension as a pair (repeats, size)
  for (int i = 0; i < repeats.rank(); ++i) {
    check(repeats[i] >= 0, "repeat: repeats ", repeats, " must not be negative");
    const std::int64_t size = i < extra ? 1 : x.sizes()[i - extra];
    std::int64_t total = 0;
    check(!__builtin_mul_overflow(size, repeats[i], &total), "repeat: the result is too large");
    sizes.push_back(total);
    if (repeats[i] != 1) apart.push_back(1), wide.push_back(repeats[i]);
    if (i >= extra) apart.push_back(size), wide.push_back(size);
  }
  return reshape(clone(expand(reshape(x, apart), wide)), sizes);
}
Tensor tile(const Tensor& x, const Dims& repeats) {
  Dims all = Dims::filled(std::max(0, x.dim() - repeats.rank()), 1);
  for (std::int64_t r : repeats) all.push_back(r);
  return repeat(x, all);
}
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, int dim) {
  check(repeats >= 0, "repeat_interleave: repeats ", repeats, " must not be negative");
  check(x.dim() > 0, "repeat_interleave: a scalar has no dimensions");
  const int d = named_dim("repeat_interleave", x, dim);
  Dims wide = x.sizes(), sizes = x.sizes();
  wide.insert(d + 1, repeats);
  check(!__builtin_mul_overflow(sizes[d], repeats, &sizes[d]), "repeat_interleave: the result is too large");
  return reshape(clone(expand(unsqueeze(x, d + 1), wide)), sizes);
}
Tensor channel_shuffle(const Tensor& x, int groups) {
  check(x.dim() >= 3, "channel_shuffle: x must be [N, C, ...], got ", x);
  check(groups >= 1 && x.size(1) % groups == 0, "channel_shuffle: ", x.size(1), " channels do not divide into ", groups,
        " groups");
  return flatten(transpose(unflatten(x, 1, {groups, x.size(1) / groups}), 1, 2), 1, 2);
}

namespace {

void fliplr_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return fliplr(x[0]); };
  s.call({s.randn({2, 3})}, f);
  s.call({s.randn({2, 3, 2})}, f);
  s.error_call({s.randn({3})}, f, "needs at least 2 dimensions");
}
void flipud_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return flipud(x[0]); };
  s.call({s.randn({3})}, f);
  s.call({s.randn({2, 3})}, f);
  s.error_call({s.randn({})}, f, "needs at least 1 dimension");
}
void rot90_samples(Samples& s) {
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return rot90(x[0]); });
  s.call({s.randn({2, 3, 2})}, [](const Tensors& x) { return rot90(x[0], -1, {1, 2}); });
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return rot90(x[0], 2); });
  s.error_call(
      {s.randn({2, 3})},
      [](const Tensors& x) {
        return rot90(x[0], 1, {1, -1});
      },
      "name dimension 1 twice");
}
void roll_samples(Samples& s) {
  s.call({s.randn({3, 4})}, [](const Tensors& x) { return roll(x[0], {1, -2}, {0, 1}); });
  s.call({s.randn({3, 4})}, [](const Tensors& x) { return roll(x[0], {5}); });
  s.error_call(
      {s.randn({3, 4})},
      [](const Tensors& x) {
        return roll(x[0], {1, 2}, {0});
      },
      "2 shifts for 1 dimensions");
}
void repeat_samples(Samples& s) {
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return repeat(x[0], {2, 1, 3}); });
  s.call({s.randn({2})}, [](const Tensors& x) { return repeat(x[0], {0}); });
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return repeat(x[0], {2}); }, "fewer dimensions");
  s.error_call(
      {s.randn({2})}, [](const Tensors& x) { return repeat(x[0], {-1}); }, "must not be negative");
}
void tile_samples(Samples& s) {
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return tile(x[0], {2}); });
  s.call({s.randn({3})}, [](const Tensors& x) { return tile(x[0], {2, 2}); });
}
void repeat_interleave_samples(Samples& s) {
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return repeat_interleave(x[0], 2, 0); });
  s.error_call(
      {s.randn({2})}, [](const Tensors& x) { return repeat_interleave(x[0], -1, 0); }, "must not be negative");
}
void channel_shuffle_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return channel_shuffle(x[0], 2); };
  s.call({s.randn({2, 6, 3})}, f);
  s.error_call({s.randn({2, 5, 3})}, f, "5 channels do not divide into 2 groups");
}
MANTISSA_COMPOSITE(fliplr, fliplr_samples)
MANTISSA_COMPOSITE(flipud, flipud_samples)
MANTISSA_COMPOSITE(rot90, rot90_samples)
MANTISSA_COMPOSITE(roll, roll_samples)
MANTISSA_COMPOSITE(repeat, repeat_samples)
MANTISSA_COMPOSITE(tile, tile_samples)
MANTISSA_COMPOSITE(repeat_interleave, repeat_interleave_samples)
MANTISSA_COMPOSITE(channel_shuffle, channel_shuffle_samples)

}  // namespace
}  // namespace mantissa
