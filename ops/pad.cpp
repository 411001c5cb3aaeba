// pad: constant padding (an operator whose gradient is a slice), and padding from the tensor's own elements (reflect,
// replicate, circular): one copy for the last two dimensions, on a GPU the last three, and one index_select for each
// other dimension.
#include <algorithm>

#include "core/ops.h"
#include "ops/compose.h"
#include "ops/device_table.h"
#include "ops/length.h"
#include "ops/resample.h"

namespace mantissa {

MANTISSA_KERNEL(constant_pad, const View& y, const View& x, const Dims& before, double value)

namespace {

struct ConstantPad {
  static constexpr auto name = "constant_pad";
  static constexpr const char* args[] = {"x"};
  Dims before, after;  // per dimension, not negative
  double value = 0;

  Spec infer(const Tensor& x) const {
    Dims sizes = x.sizes();
    check(before.rank() == x.dim() && after.rank() == x.dim(), "needs a border for each of ", x.dim(), " dimensions");
    for (int d = 0; d < x.dim(); ++d) {
      check(before[d] >= 0 && after[d] >= 0, "borders ", before, " and ", after, " must not be negative");
      const bool overflow = __builtin_add_overflow(sizes[d], before[d], &sizes[d]) ||
                            __builtin_add_overflow(sizes[d], after[d], &sizes[d]);
      check(!overflow, "the result is too large");
    }
    return like_layout(x, sizes);
  }
  void run(const View& y, const View& x) const { kernels::constant_pad(y.device, y, x, before, value); }
  static constexpr auto vjp() {
    return rules([](const ConstantPad& op, Grad g, Shape<0> x) {
      Tensor inner = g;
      for (int d = 0; d < g.dim(); ++d) inner = slice(inner, d, op.before[d], op.before[d] + x.sizes[d]);
      return inner;
    });
  }
  void onnx(OnnxCall& c) const {
    if (c.x(0).dim() == 0) return c.result(c.in(0));
    std::vector<std::int64_t> borders(before.begin(), before.end());
    borders.insert(borders.end(), after.begin(), after.end());
    c.result(c.node("Pad", {c.in(0), c.ints(borders), c.number(value, c.x(0).dtype())}));
  }
  static void samples(Samples& s) {
    s({s.randn({2, 3})}, ConstantPad{{1, 0}, {0, 2}, 0.5});
    s({s.randn({2, 3, 4, 3})}, ConstantPad{{0, 0, 1, 2}, {0, 0, 1, 0}, 0});
    s({s.randn({2, 1, 3})}, ConstantPad{{0, 1, 1}, {0, 1, 0}, 0});
    s({s.randn({0, 3})}, ConstantPad{{1, 1}, {1, 1}, 2});
    s({s.randn({})}, ConstantPad{{}, {}, 2});
    s.error({s.randn({2, 3})}, ConstantPad{{1}, {0}, 0}, "needs a border for each of 2 dimensions");
    s.error({s.randn({2})}, ConstantPad{{-1}, {0}, 0}, "must not be negative");
  }
};
MANTISSA_OP(ConstantPad)

// The source index in [0, n) for padded position i, which may be outside.
std::int64_t source_of(std::string_view mode, std::int64_t i, std::int64_t n) {
  if (mode == "replicate") return std::clamp<std::int64_t>(i, 0, n - 1);
  if (mode == "circular") return (i % n + n) % n;
  return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
}
void check_borders(const Tensor& x, int d, std::int64_t before, std::int64_t after, std::string_view mode) {
  const std::int64_t n = x.sizes()[d], most = std::max(before, after);
  check(n > 0 || most <= 0, "pad: mode ", mode, " needs elements in dimension ", d, " of ", x);
  check(mode != "reflect" || most < n, "pad: a reflected border of ", most,
        " needs more than that many elements; dimension ", d, " of ", x, " has ", n);
  check(mode != "circular" || most <= n, "pad: a circular border of ", most, " is longer than dimension ", d, " of ",
        x);
  check(before + n + after >= 0, "pad: borders ", before, " and ", after, " leave nothing of dimension ", d, " of ", x);
}
// The source indices of a padded dimension of n elements.
std::vector<std::int64_t> padded(std::int64_t n, std::int64_t before, std::int64_t after, std::string_view mode) {
  std::vector<std::int64_t> at;
  for (std::int64_t i = -before; i < n + after; ++i) at.push_back(source_of(mode, i, n));
  return at;
}
Taps choosing(const std::vector<std::int64_t>& at, std::int64_t n) {
  Taps taps;
  taps.in = n;
  for (const std::int64_t i : at) taps.add(i, 1), taps.end_result();
  return taps;
}
// For a line longer than the number of lines: the border is sliced out and concatenated, since an index table would
// take longer than the copy.
Tensor pad_long_line(const Tensor& x, int d, std::int64_t before, std::int64_t after, std::string_view mode) {
  const std::int64_t n = x.size(d);
  const auto border = [&](std::int64_t begin, std::int64_t size) {  // of positions from `begin` on, all outside x
    if (mode == "circular") {
      const std::int64_t first = begin < 0 ? begin + n : begin - n;
      return slice(x, d, first, first + size);
    }
    if (mode == "reflect") {
      const std::int64_t last = begin < 0 ? -begin : 2 * (n - 1) - begin;
      return flip(slice(x, d, last - size + 1, last + 1), {d});
    }
    Dims sizes = x.sizes();
    sizes[d] = size;
    return expand(slice(x, d, begin < 0 ? 0 : n - 1, begin < 0 ? 1 : n), sizes);
  };
  std::vector<Tensor> parts;
  if (before > 0) parts.push_back(border(-before, before));
  parts.push_back(slice(x, d, std::max<std::int64_t>(-before, 0), n - std::max<std::int64_t>(-after, 0)));
  if (after > 0) parts.push_back(border(n, after));
  return cat(parts, d);
}
Tensor pad_with_elements(const Tensor& x, const Dims& before, const Dims& after, std::string_view mode) {
  constexpr std::int64_t long_line = 1024;
  const int most = x.dim() == 5 && !x.device().is_cpu() ? 3 : 2;  // dimensions at once
  Tensor y = x;
  std::vector<Taps> taps(static_cast<std::size_t>(most));
  Dims sizes = x.sizes();
  for (int d = 0; d < x.dim(); ++d) {
    if (before[d] == 0 && after[d] == 0) continue;
    check_borders(x, d, before[d], after[d], mode);
    const std::int64_t n = x.size(d);
    sizes[d] = before[d] + n + after[d];
    if (n >= long_line && n > x.numel() / n) {
      y = pad_long_line(y, d, before[d], after[d], mode);
      continue;
    }
    const std::vector<std::int64_t> at = padded(n, before[d], after[d], mode);
    const int k = d - (x.dim() - most);
    if (k >= 0 && !at.empty()) taps[static_cast<std::size_t>(k)] = choosing(at, n);
    else y = index_select(y, d, device_table(at, {sizes[d]}, x.device()));
  }
  if (std::ranges::all_of(taps, [](const Taps& t) { return t.out() == 0; })) return y.impl() == x.impl() ? clone(x) : y;
  if (x.dim() == most + 2) return resample(y, std::move(taps));
  const std::int64_t width = y.size(-1), height = x.dim() > 1 ? y.size(-2) : 1;
  const std::int64_t planes = width * height == 0 ? 0 : y.numel() / (width * height);
  return reshape(resample(reshape(y, {1, planes, height, width}), std::move(taps)), sizes);
}
Tensor pad_constant(Tensor x, const Dims& before, const Dims& after, double value) {
  Dims low = before, high = after;
  for (int d = 0; d < x.dim(); ++d) {  // a negative border cuts off
    const std::int64_t begin = std::max<std::int64_t>(-low[d], 0),
                       end = x.sizes()[d] - std::max<std::int64_t>(-high[d], 0);
    check(begin <= end, "pad: borders ", low[d], " and ", high[d], " leave nothing of dimension ", d, " of ", x);
    if (begin > 0 || end < x.sizes()[d]) x = slice(x, d, begin, end);
    low[d] = std::max<std::int64_t>(low[d], 0);
    high[d] = std::max<std::int64_t>(high[d], 0);
  }
  return apply(ConstantPad{low, high, value}, x);
}

}  // namespace

Tensor pad(const Tensor& x, const Dims& borders, std::string_view mode, double value) {
  check(borders.rank() % 2 == 0, "pad: borders ", borders, " must be pairs, the last dimension's first");
  check(borders.rank() / 2 <= x.dim(), "pad: ", borders.rank() / 2, " pairs of borders for ", x);
  check(mode == "constant" || mode == "reflect" || mode == "replicate" || mode == "circular",
        "pad: mode must be constant, reflect, replicate or circular, got \"", mode, "\"");
  for (std::int64_t b : borders) check_length("pad", "a border of", b);
  Dims before = Dims::filled(x.dim(), 0), after = before;
  for (int i = 0; i < borders.rank() / 2; ++i) {
    before[x.dim() - 1 - i] = borders[2 * i];
    after[x.dim() - 1 - i] = borders[2 * i + 1];
  }
  // PyTorch's autocast list for the CPU names two of the modes.
  const Composite in(mode == "reflect"     ? "reflection_pad"
                     : mode == "replicate" ? "replication_pad"
                                           : "pad",
                     CastPolicy::keep, {&x});
  if (mode == "constant") return in.result(pad_constant(in[0], before, after, value));
  return in.result(pad_with_elements(in[0], before, after, mode));
}

namespace {

void pad_samples(Samples& s) {
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return pad(x[0], {1, 2}, "constant", 1.5); });
  s.error_call(
      {s.randn({2, 3})},
      [](const Tensors& x) {
        return pad(x[0], {INT64_MIN, 0});
      },
      "pad: a border of -9");
  s.error_call(
      {s.randn({2, 3})},
      [](const Tensors& x) {
        return pad(x[0], {0, INT64_MAX}, "replicate");
      },
      "pad: a border of 9");
  s.call({s.randn({2, 5})}, [](const Tensors& x) { return pad(x[0], {-1, 2, 1, -1}); });
  s.call({s.randn({2, 3, 4})}, [](const Tensors& x) { return pad(x[0], {3, 1, 2, 0}, "reflect"); });
  s.call({s.randn({2, 3, 4})}, [](const Tensors& x) { return pad(x[0], {5, 1, 2, 0}, "replicate"); });
  s.call({s.randn({2, 3, 4})}, [](const Tensors& x) { return pad(x[0], {4, 1, 2, -1}, "circular"); });
  for (const char* mode : {"reflect", "replicate", "circular"}) {  // a long line
    s.call({s.randn({2, 1024})}, [=](const Tensors& x) { return pad(x[0], {3, 1, 1, 0}, mode); });
    s.call({s.randn({1024})}, [=](const Tensors& x) { return pad(x[0], {-1, 2}, mode); });
  }
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return pad(x[0], {1}); }, "must be pairs");
  s.error_call(
      {s.randn({3})},
      [](const Tensors& x) {
        return pad(x[0], {1, 1, 1, 1});
      },
      "2 pairs of borders for");
  s.error_call(
      {s.randn({2, 3})},
      [](const Tensors& x) {
        return pad(x[0], {3, 0}, "reflect");
      },
      "a reflected border of 3");
  s.error_call(
      {s.randn({2, 3})},
      [](const Tensors& x) {
        return pad(x[0], {4, 0}, "circular");
      },
      "a circular border of 4");
  s.error_call(
      {s.randn({2, 3})},
      [](const Tensors& x) {
        return pad(x[0], {1, 0}, "mirror");
      },
      "mode must be");
  s.error_call(
      {s.randn({2, 3})},
      [](const Tensors& x) {
        return pad(x[0], {-2, -2});
      },
      "leave nothing");
}
MANTISSA_COMPOSITE(pad, pad_samples, .has_policy = true)
const bool announced = (amp::announce_operator("reflection_pad", CastPolicy::keep),
                        amp::announce_operator("replication_pad", CastPolicy::keep), true);

}  // namespace
}  // namespace mantissa
