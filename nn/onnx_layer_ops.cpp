// ONNX's convolutions, pooling, norms, attention, resizing, dropout and losses (nn/onnx_program.h).
#include <algorithm>
#include <array>
#include <cmath>

#include "nn/onnx_program.h"
#include "nn/onnx_resize.h"

namespace mantissa::nn::onnx {
namespace {

int narrow_int(std::int64_t v, const char* name) {
  check(v >= 0 && v <= INT32_MAX, name, " is ", v);
  return static_cast<int>(v);
}

// Window attributes of convolutions and pooling. Padding is [before ..., after ...], as in the file.
struct Window {
  std::optional<Integers> kernel, strides, dilations, borders;
  std::string automatic;
  bool ceil;

  explicit Window(Node& n)
      : kernel(n.integers("kernel_shape")), strides(n.integers("strides")), dilations(n.integers("dilations")),
        borders(n.integers("pads")), automatic(n.s("auto_pad", "NOTSET")), ceil(n.i("ceil_mode", 0) != 0) {
    if (automatic != "NOTSET" && automatic != "VALID" && automatic != "SAME_UPPER" && automatic != "SAME_LOWER")
      n.refuse("auto_pad is ", automatic);
  }
  // One number per spatial dimension.
  template <std::size_t n>
  static std::array<int, n> sizes(const std::optional<Integers>& given, const char* name, int otherwise) {
    std::array<int, n> a;
    a.fill(otherwise);
    check(!given || given->size() == n, name, " has ", given ? given->size() : 0, " numbers, there are ", n,
          " dimensions");
    for (std::size_t i = 0; given && i < n; ++i) a[i] = narrow_int((*given)[i], name);
    return a;
  }
  template <std::size_t n> std::array<int, n> stride() const {
    const auto s = sizes<n>(strides, "strides", 1);
    for (const int v : s) check(v >= 1, "a stride is ", v);
    return s;
  }
  template <std::size_t n> std::array<int, n> dilation() const {
    const auto d = sizes<n>(dilations, "dilations", 1);
    for (const int v : d) check(v >= 1, "a dilation is ", v);
    return d;
  }
  template <std::size_t n> std::array<int, n> kernel_of() const {
    check(kernel.has_value(), "the attribute kernel_shape is missing");
    const auto k = sizes<n>(kernel, "kernel_shape", 1);
    for (const int v : k) check(v >= 1, "a size of the kernel is ", v);
    return k;
  }
  template <std::size_t n> std::array<int, 2 * n> border(const Tensor& x, const std::array<int, n>& k) const {
    if (automatic == "NOTSET") return sizes<2 * n>(borders, "pads", 0);
    std::array<int, 2 * n> b{};
    if (automatic == "VALID") return b;
    for (std::size_t i = 0; i < n; ++i) {  // result size = ceil(size / stride)
      const std::int64_t size = x.size(static_cast<std::int64_t>(i) + 2), s = stride<n>()[i];
      const std::int64_t reach = std::int64_t{k[i] - 1} * dilation<n>()[i] + 1;
      const int all = narrow_int(std::max<std::int64_t>(0, ((size + s - 1) / s - 1) * s + reach - size), "pads");
      b[i] = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
      b[i + n] = all - b[i];
    }
    return b;
  }
};
template <std::size_t n> bool is_even(const std::array<int, n>& b) {
  return std::equal(b.begin(), b.begin() + n / 2, b.begin() + n / 2);
}
template <std::size_t n> std::array<int, n / 2> first_half(const std::array<int, n>& b) {
  std::array<int, n / 2> a;
  std::copy_n(b.begin(), n / 2, a.begin());
  return a;
}
template <std::size_t n> Tensor bordered(const Tensor& x, const std::array<int, n>& b, double value) {
  Dims d;
  for (std::size_t i = n / 2; i-- > 0;) d.push_back(b[i]), d.push_back(b[i + n / 2]);
  return std::ranges::all_of(b, [](int v) { return v == 0; }) ? x : pad(x, d, "constant", value);
}

// Calls f with the number of spatial dimensions.
template <class F> Tensors by_rank(const Tensor& x, F&& f) {
  switch (x.dim()) {
    case 3:
      return f.template operator()<1>();
    case 4:
      return f.template operator()<2>();
    case 5:
      return f.template operator()<3>();
    default:
      fail("needs [N, C, ...] with one to three further dimensions, got ", x);
  }
}

Run conv(Node& node) {
  const Window w(node);
  const int groups = narrow_int(node.i("group", 1), "group");
  return [=](const Inputs& in) -> Tensors {
    return by_rank(in[0], [&]<std::size_t n>() -> Tensors {
      Tensor x = in[0];
      const Tensor weight = in[1], bias = in.has(2) ? in[2] : Tensor();
      check(weight.dim() == static_cast<int>(n) + 2, "the weight ", weight, " does not fit ", x);
      std::array<int, n> k, p{};
      for (std::size_t i = 0; i < n; ++i)
        k[i] = narrow_int(weight.size(static_cast<std::int64_t>(i) + 2), "the kernel");
      const auto b = w.border<n>(x, k);
      if (is_even(b)) p = first_half(b);
      else x = bordered(x, b, 0);
      const auto s = w.stride<n>(), d = w.dilation<n>();
      if constexpr (n == 1) return {conv1d(x, weight, bias, {s[0], p[0], d[0], groups})};
      else if constexpr (n == 2) return {conv2d(x, weight, bias, {s, p, d, groups})};
      else return {conv3d(x, weight, bias, {s, p, d, groups})};
    });
  };
}
Run conv_transpose(Node& node) {
  const Window w(node);
  const int groups = narrow_int(node.i("group", 1), "group");
  const auto further = node.integers("output_padding"), wanted = node.integers("output_shape");
  return [=](const Inputs& in) -> Tensors {
    return by_rank(in[0], [&]<std::size_t n>() -> Tensors {
      const Tensor x = in[0], weight = in[1], bias = in.has(2) ? in[2] : Tensor();
      check(weight.dim() == static_cast<int>(n) + 2, "the weight ", weight, " does not fit ", x);
      const auto s = w.stride<n>(), d = w.dilation<n>();
      const auto more = Window::sizes<n>(further, "output_padding", 0);
      auto b = Window::sizes<2 * n>(w.borders, "pads", 0);
      const auto sizes = Window::sizes<n>(wanted, "output_shape", 0);
      std::array<int, n> p{}, extra = more;
      for (std::size_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::int64_t>(i) + 2;
        const std::int64_t whole = (x.size(at) - 1) * s[i] + (weight.size(at) - 1) * d[i] + 1 + more[i];
        const bool same = w.automatic.starts_with("SAME");
        if (wanted || same) {
          const std::int64_t size = wanted ? sizes[i] : x.size(at) * s[i];
          const int all = narrow_int(std::max<std::int64_t>(0, whole - size), "pads");
          b[i] = w.automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
          b[i + n] = all - b[i];
          extra[i] += narrow_int(std::max<std::int64_t>(0, size - whole), "output_padding");
        }
      }
      Tensor y;
      const bool even = is_even(b);
      if (even) p = first_half(b);
      // output_padding beyond what conv_transpose accepts is filled with zeros
      Dims behind;
      for (std::size_t i = n; i-- > 0;) {
        const int fits = std::min(extra[i], std::max(s[i], d[i]) - 1);
        behind.push_back(even ? 0 : -b[i]);
        behind.push_back(extra[i] - fits - (even ? 0 : b[i + n]));
        extra[i] = fits;
      }
      if constexpr (n == 1) y = conv_transpose1d(x, weight, bias, {s[0], p[0], extra[0], d[0], groups});
      else if constexpr (n == 2) y = conv_transpose2d(x, weight, bias, {s, p, extra, d, groups});
      else y = conv_transpose3d(x, weight, bias, {s, p, extra, d, groups});
      const bool as_is = std::ranges::all_of(behind, [](std::int64_t v) { return v == 0; });
      return {as_is ? y : pad(y, behind)};
    });
  };
}

// Options of max_pool and avg_pool for windows that lie entirely within the image.
template <std::size_t n> auto pool_options(const Window& w, const std::array<int, n>& p) {
  const auto s = w.stride<n>(), d = w.dilation<n>();
  if constexpr (n == 1) return Pool1dOptions{s[0], p[0], w.ceil, true, d[0]};
  else if constexpr (n == 2) return Pool2dOptions{s, p, w.ceil, true, d};
  else return Pool3dOptions{s, p, w.ceil, true, d};
}
// Converts indices into planes of `padded`, which is `x` with borders b, to indices into all of x.
template <std::size_t n>
Tensor whole_index(const Tensor& indices, const Tensor& x, const Tensor& padded, const std::array<int, n>& b) {
  Tensor rest = indices, at = indices;
  if (padded.sizes() != x.sizes()) {
    at = zeros_like(indices);
    std::int64_t stride = 1;
    for (int d = x.dim() - 1; d >= 2; --d) {
      at = at + (remainder(rest, Tensor(padded.size(d))) - b[static_cast<std::size_t>(d) - 2]) * stride;
      rest = floor_divide(rest, Tensor(padded.size(d)));
      stride *= x.size(d);
    }
  }
  const std::int64_t planes = x.size(0) * x.size(1);
  Dims plane = Dims::filled(x.dim(), 1);
  plane[0] = x.size(0), plane[1] = x.size(1);
  return at + reshape(arange(planes) * (planes == 0 ? 0 : x.numel() / planes), plane).to(x.device());
}
// With ceil_mode, without the windows that begin behind image x and the border before it.
template <std::size_t n>
Tensor within(Tensor y, const Tensor& x, const Window& w, const std::array<int, 2 * n>& b) {
  const auto s = w.stride<n>();
  for (std::size_t i = 0; i < n && w.ceil; ++i) {
    const int d = static_cast<int>(i) + 2;
    const std::int64_t most = (x.size(d) + b[i] - 1) / s[i] + 1;
    if (y.size(d) > most) y = slice(y, d, 0, most);
  }
  return y;
}
Run max_pool(Node& node) {
  const Window w(node);
  if (node.i("storage_order", 0) != 0) node.refuse("with storage_order 1");
  const bool indices = node.wants(1);
  return [=](const Inputs& in) -> Tensors {
    return by_rank(in[0], [&]<std::size_t n>() -> Tensors {
      const Tensor given = in[0];
      Tensor x = given.is_floating() ? given : cast(given, f32);
      const auto k = w.kernel_of<n>();
      const auto b = w.border<n>(x, k);
      std::array<int, n> p{};
      bool inside = is_even(b);
      for (std::size_t i = 0; i < n; ++i) inside = inside && b[i] <= k[i] / 2;
      if (inside) p = first_half(b);
      else x = bordered(x, b, -HUGE_VAL);
      const auto o = pool_options<n>(w, p);
      if (indices) {
        ValuesIndices r;
        if constexpr (n == 1) r = max_pool1d_with_indices(x, k[0], o);
        else if constexpr (n == 2) r = max_pool2d_with_indices(x, k, o);
        else r = max_pool3d_with_indices(x, k, o);
        return {like(given, within<n>(r.values, given, w, b)),
                whole_index(within<n>(r.indices, given, w, b), given, x, b)};
      }
      const auto pooled = [&] {
        if constexpr (n == 1) return max_pool1d(x, k[0], o);
        else if constexpr (n == 2) return max_pool2d(x, k, o);
        else return max_pool3d(x, k, o);
      };
      return {like(given, within<n>(pooled(), given, w, b))};
    });
  };
}
// Sums over windows, per channel.
template <std::size_t n> Tensor window_sums(const Tensor& x, const Window& w, const std::array<int, n>& k) {
  Dims sizes{x.size(1), 1};
  for (const int v : k) sizes.push_back(v);
  const Tensor weight = ones(sizes, {.dtype = x.dtype(), .device = x.device()});
  const auto s = w.stride<n>(), d = w.dilation<n>();
  const int groups = static_cast<int>(x.size(1));
  if constexpr (n == 1) return conv1d(x, weight, {}, {s[0], 0, d[0], groups});
  else if constexpr (n == 2) return conv2d(x, weight, {}, {s, {0, 0}, d, groups});
  else return conv3d(x, weight, {}, {s, {0, 0, 0}, d, groups});
}
Run average_pool(Node& node) {
  const Window w(node);
  const bool with_borders = node.i("count_include_pad", 0) != 0;
  return [=](const Inputs& in) -> Tensors {
    return by_rank(in[0], [&]<std::size_t n>() -> Tensors {
      const Tensor x = in[0];
      const auto k = w.kernel_of<n>();
      const auto b = w.border<n>(x, k);
      const auto s = w.stride<n>(), d = w.dilation<n>();
      bool inside = is_even(b) && !w.ceil;
      for (std::size_t i = 0; i < n; ++i) inside = inside && b[i] <= k[i] / 2 && d[i] == 1;
      if (inside) {
        auto o = pool_options<n>(w, first_half(b));
        o.count_include_pad = with_borders;
        if constexpr (n == 1) return {avg_pool1d(x, k[0], o)};
        else if constexpr (n == 2) return {avg_pool2d(x, k, o)};
        else return {avg_pool3d(x, k, o)};
      }
      std::array<int, 2 * n> behind{};  // how far the last windows exceed the borders
      for (std::size_t i = 0; i < n && w.ceil; ++i) {
        const std::int64_t size = x.size(static_cast<std::int64_t>(i) + 2) + b[i] + b[i + n];
        const std::int64_t reach = std::int64_t{k[i] - 1} * d[i] + 1, steps = (size - reach + s[i] - 1) / s[i];
        const bool begins_inside = steps * s[i] < x.size(static_cast<std::int64_t>(i) + 2) + b[i];
        if (begins_inside) behind[i + n] = narrow_int(std::max<std::int64_t>(0, steps * s[i] + reach - size), "pads");
      }
      const auto sums = [&](const Tensor& t, double value) {
        return window_sums<n>(bordered(bordered(t, b, value), behind, 0), w, k);
      };
      const Tensor one = ones_like(slice(slice(x, 0, 0, 1), 1, 0, 1));
      return {sums(x, 0) / sums(one, with_borders ? 1 : 0)};
    });
  };
}
Run lp_pool(Node& node) {
  const Window w(node);
  const double p = static_cast<double>(node.i("p", 2));
  return [=](const Inputs& in) -> Tensors {
    return by_rank(in[0], [&]<std::size_t n>() -> Tensors {
      const auto k = w.kernel_of<n>();
      const Tensor x = bordered(pow(abs(in[0]), p), w.border<n>(in[0], k), 0);
      check(!w.ceil, "with ceil_mode");
      return {pow(window_sums<n>(x, w, k), 1 / p)};
    });
  };
}
// All spatial dimensions.
Dims places(const Tensor& x) {
  Dims d;
  for (int i = 2; i < x.dim(); ++i) d.push_back(i);
  check(!d.empty(), "needs [N, C, ...], got ", x);
  return d;
}
Tensor global_average(const Tensor& x) { return mean(x, places(x), true); }
Tensor global_maximum(const Tensor& x) { return amax(x, places(x), true); }
Run global_lp(Node& n) {
  const double p = static_cast<double>(n.i("p", 2));
  return [=](const Inputs& x) -> Tensors { return {norm(x[0], p, places(x[0]), true)}; };
}

// --- norms ---
Run batch_norm_of(Node& n) {
  const double eps = n.f("epsilon", 1e-5), momentum = n.f("momentum", 0.9);
  const bool in_file = n.i("training_mode", 0) != 0;
  if (n.i("spatial", 1) != 1) n.refuse("of each pixel for itself (spatial 0)");
  if (n.opset < 7 && n.i("is_test", 0) == 0) n.refuse("in training, of opset 6");
  if (!in_file && n.outputs() > 1) n.refuse("its statistics as results, of training in old opsets");
  return [=](const Inputs& x) -> Tensors {
    if (!in_file) return {batch_norm(x[0], x[1], x[2], x[3], x[4], x.training, 1 - momentum, eps)};
    // The file requests batch statistics in any mode, and returns them.
    Dims others;
    for (int d = 0; d < x[0].dim(); ++d)
      if (d != 1) others.push_back(d);
    const Tensor y = batch_norm(x[0], x[1], x[2], {}, {}, true, 0, eps);
    return {y, x[3] * momentum + mean(x[0], others) * (1 - momentum),
            x[4] * momentum + var(x[0], others, false, 0) * (1 - momentum)};
  };
}
Run layer_norm_of(Node& n) {
  const std::int64_t axis = n.i("axis", -1);
  const double eps = n.f("epsilon", 1e-5);
  n.ignore("stash_type");  // sums are in f32 or wider
  const bool statistics = n.wants(1) || n.wants(2);
  return [=](const Inputs& in) -> Tensors {
    const Tensor x = in[0], weight = in[1], bias = in.has(2) ? in[2] : Tensor();
    Dims shape, dims;
    for (int d = wrap_dim(axis, x.dim()); d < x.dim(); ++d) shape.push_back(x.size(d)), dims.push_back(d);
    const bool plain = weight.sizes() == shape && (!bias.defined() || bias.sizes() == shape);
    Tensor y = plain ? layer_norm(x, shape, weight, bias, eps) : layer_norm(x, shape, {}, {}, eps) * weight;
    if (!plain && bias.defined()) y = y + bias;
    if (!statistics) return {y};
    return {y, mean(x, dims, true), rsqrt(var(x, dims, true, 0) + eps)};
  };
}
Run rms_norm_of(Node& n) {
  const std::int64_t axis = n.i("axis", -1);
  const double eps = n.f("epsilon", 1e-5);
  n.ignore("stash_type");
  return [=](const Inputs& x) -> Tensors {
    Dims shape;
    for (int d = wrap_dim(axis, x[0].dim()); d < x[0].dim(); ++d) shape.push_back(x[0].size(d));
    if (x[1].sizes() == shape) return {rms_norm(x[0], shape, x[1], eps)};
    return {rms_norm(x[0], shape, {}, eps) * x[1]};
  };
}
Run group_norm_of(Node& n) {
  const std::int64_t groups = n.i("num_groups");
  const double eps = n.f("epsilon", 1e-5);
  const bool by_group = n.opset < 21;  // scale and bias
  n.ignore("stash_type");
  return [=](const Inputs& x) -> Tensors {
    check(groups >= 1 && x[0].dim() >= 2 && x[0].size(1) % groups == 0, "num_groups is ", groups, ", x is ", x[0]);
    const auto wide = [&](const Tensor& v) { return by_group ? repeat_interleave(v, x[0].size(1) / groups, 0) : v; };
    return {group_norm(x[0], groups, wide(x[1]), wide(x[2]), eps)};
  };
}
Run instance_norm_of(Node& n) {
  const double eps = n.f("epsilon", 1e-5);
  return [=](const Inputs& x) -> Tensors { return {instance_norm(x[0], {}, {}, x[1], x[2], true, 0, eps)}; };
}
Run mean_variance_norm(Node& n) {
  const Integers axes = n.integers("axes").value_or(Integers{0, 2, 3});
  return [=](const Inputs& x) -> Tensors {
    const Tensor centred = x[0] - mean(x[0], axes, true);
    return {centred / (sqrt(mean(square(centred), axes, true)) + 1e-9)};
  };
}
Run lp_norm(Node& n) {
  const int axis = n.axis("axis", -1);
  const double p = static_cast<double>(n.i("p", 2));
  return [=](const Inputs& x) -> Tensors { return {normalize(x[0], p, {axis}, 1e-30)}; };
}
Run local_norm(Node& n) {
  const double alpha = n.f("alpha", 1e-4), beta = n.f("beta", 0.75), k = n.f("bias", 1);
  const int size = narrow_int(n.i("size"), "size");
  return [=](const Inputs& x) -> Tensors {
    const auto norm = [&](const Tensor& t) { return local_response_norm(t, size, alpha, beta, k); };
    // Of an even number of channels, the one more than on the other side comes after the centre, here before it.
    return {size % 2 == 0 ? flip(norm(flip(x[0], {1})), {1}) : norm(x[0])};
  };
}
Run dropout_of(Node& n) {
  const double fixed = n.f("ratio", 0.5);
  n.ignore("seed");
  if (n.opset < 7 && n.i("is_test", 0) == 0) n.refuse("in training, of opset 6");
  const bool mask = n.wants(1);
  return [=](const Inputs& x) -> Tensors {
    const double ratio = x.has(1) ? x.number(1) : fixed;
    const bool on = x.training || (x.has(2) && x.number(2) != 0);
    if (!mask) return {dropout(x[0], ratio, on)};
    const Tensor kept = dropout(ones_like(x[0]), ratio, on);
    return {x[0] * kept, ne(kept, Tensor(0.0))};
  };
}

// --- attention ---
Run attention(Node& n) {
  const bool causal = n.i("is_causal", 0) != 0;
  const std::int64_t q_heads = n.i("q_num_heads", 0), kv_heads = n.i("kv_num_heads", 0);
  const std::optional<double> scale = n.has("scale") ? std::optional(n.f("scale")) : std::nullopt;
  if (n.f("softcap", 0) != 0) n.refuse("with softcap");
  if (n.wants(3)) n.refuse("its scores as a result");
  n.ignore("qk_matmul_output_mode");
  n.ignore("softmax_precision");  // f32 or wider
  return [=](const Inputs& in) -> Tensors {
    // [N, T, heads * D] or [N, heads, T, D]
    const auto heads = [](const Tensor& t, std::int64_t count) {
      if (t.dim() != 3) return t;
      check(count >= 1 && t.size(2) % count == 0, "q_num_heads and kv_num_heads do not fit ", t);
      return transpose(reshape(t, {t.size(0), t.size(1), count, t.size(2) / count}), 1, 2);
    };
    const Tensor q = heads(in[0], q_heads);
    Tensor k = heads(in[1], kv_heads), v = heads(in[2], kv_heads), mask = in.has(3) ? in[3] : Tensor();
    if (in.has(4)) k = cat({in[4], k}, -2);
    if (in.has(5)) v = cat({in[5], v}, -2);
    const std::int64_t past = in.has(4) ? in[4].size(-2) : 0, length = q.size(-2), all = k.size(-2);
    if (mask.defined() && mask.size(-1) < all)  // shorter than the keys
      mask = pad(mask.dtype() == boolean ? cast(mask, f32) : mask, {0, all - mask.size(-1)}, "constant",
                 mask.dtype() == boolean ? 0 : -HUGE_VAL);
    if (in.has(3) && in[3].dtype() == boolean && mask.dtype() != boolean) mask = ne(mask, Tensor(0.0));
    const bool by_mask = causal && (past > 0 || mask.defined());
    if (by_mask) {
      const Tensor seen = tril(ones({length, all}, {.dtype = boolean, .device = q.device()}), past);
      if (!mask.defined()) mask = seen;
      else if (mask.dtype() == boolean) mask = logical_and(mask, seen);
      else mask = where(seen, mask, full({}, -HUGE_VAL, {.dtype = mask.dtype(), .device = q.device()}));
    }
    Tensor y = scaled_dot_product_attention(
        q, k, v, mask,
        {.is_causal = causal && !by_mask, .scale = scale, .enable_gqa = q.dim() == 4 && q.size(1) != k.size(1)});
    if (in[0].dim() == 3) y = flatten(transpose(y, 1, 2), 2);
    return {y, k, v};
  };
}

// Rotary embedding of x [N, heads, T, D] or [N, T, heads * D], with cosines and sines from the file.
Run rotary(Node& n) {
  const bool interleaved = n.i("interleaved", 0) != 0;
  const std::int64_t heads = n.i("num_heads", 0), given = n.i("rotary_embedding_dim", 0);
  return [=](const Inputs& in) -> Tensors {
    const bool flat = in[0].dim() == 3;
    check(in[0].dim() == 4 || (flat && heads > 0 && in[0].size(2) % heads == 0), "x is ", in[0]);
    const Tensor x = flat ? reshape(in[0], {in[0].size(0), in[0].size(1), heads, -1}) : transpose(in[0], 1, 2);
    const std::int64_t width = given > 0 ? given : x.size(3);
    const auto angles = [&](int i) {  // [N, T, 1, width / 2]
      return unsqueeze(slice(in.has(3) ? embedding(in[i], cast(in[3], i64)) : in[i], -1, 0, width / 2), 2);
    };
    const Tensor c = angles(1), s = angles(2), turned = slice(x, 3, 0, width);
    const Tensor a = interleaved ? slice(turned, 3, 0, width, 2) : slice(turned, 3, 0, width / 2);
    const Tensor b = interleaved ? slice(turned, 3, 1, width, 2) : slice(turned, 3, width / 2, width);
    const Tensor re = c * a - s * b, im = s * a + c * b;
    Tensor y = interleaved ? flatten(stack({re, im}, -1), 3) : cat({re, im}, 3);
    if (width < x.size(3)) y = cat({y, slice(x, 3, width)}, 3);
    return {flat ? flatten(y, 2) : transpose(y, 1, 2)};
  };
}

// --- images ---
Run pad_of(Node& n) {
  const std::string mode = n.s("mode", "constant");
  const char* ours = mode == "constant"  ? "constant"
                     : mode == "reflect" ? "reflect"
                     : mode == "edge"    ? "replicate"
                     : mode == "wrap"    ? "circular"
                                         : nullptr;
  if (!ours) n.refuse("the mode ", mode);
  const Setting borders = n.setting("pads", 1);
  const double fixed = n.f("value", 0);
  return [=](const Inputs& in) -> Tensors {
    const Tensor x = in[0];
    const auto given = borders(in);
    const auto axes = in.has(3) ? std::optional(in.integers(3)) : std::nullopt;
    const std::size_t count = axes ? axes->size() : static_cast<std::size_t>(x.dim());
    check(given && given->size() == 2 * count, "pads has not two numbers for each dimension");
    Dims b;
    Integers before(static_cast<std::size_t>(x.dim())), after = before;
    for (std::size_t i = 0; i < count; ++i) {
      const auto d = static_cast<std::size_t>(axes ? wrap_dim((*axes)[i], x.dim()) : static_cast<int>(i));
      before[d] = (*given)[i], after[d] = (*given)[i + count];
    }
    std::size_t first = 0;  // pads start with the last dimension; leading dimensions without padding are left out
    while (first < before.size() && before[first] == 0 && after[first] == 0) ++first;
    check(before.size() - first <= 4, "pads more than the last four dimensions of ", x);
    for (std::size_t d = before.size(); d-- > first;) b.push_back(before[d]), b.push_back(after[d]);
    if (b.empty()) return {x};
    return {pad(x, b, ours, in.has(2) ? in.number(2) : fixed)};
  };
}
Run depth_to_space(Node& n) {
  const std::int64_t r = n.i("blocksize");
  const std::string mode = n.s("mode", "DCR");
  return [=](const Inputs& in) -> Tensors {
    const Tensor x = in[0];
    if (mode == "CRD") return {pixel_shuffle(x, narrow_int(r, "blocksize"))};
    check(x.dim() == 4 && r >= 1 && x.size(1) % (r * r) == 0, "blocksize is ", r, ", x is ", x);
    const std::int64_t c = x.size(1) / (r * r), h = x.size(2), w = x.size(3);
    const Tensor parts = permute(reshape(x, {x.size(0), r, r, c, h, w}), {0, 3, 4, 1, 5, 2});
    return {reshape(parts, {x.size(0), c, h * r, w * r})};
  };
}
Run space_to_depth(Node& n) {
  const std::int64_t r = n.i("blocksize");
  const std::string mode = n.s("mode", "DCR");
  return [=](const Inputs& in) -> Tensors {
    const Tensor x = in[0];
    if (mode == "CRD") return {pixel_unshuffle(x, narrow_int(r, "blocksize"))};
    check(x.dim() == 4 && r >= 1 && x.size(2) % r == 0 && x.size(3) % r == 0, "blocksize is ", r, ", x is ", x);
    const std::int64_t h = x.size(2) / r, w = x.size(3) / r;
    const Tensor parts = permute(reshape(x, {x.size(0), x.size(1), h, r, w, r}), {0, 3, 5, 1, 2, 4});
    return {reshape(parts, {x.size(0), x.size(1) * r * r, h, w})};
  };
}
Run grid_sample_of(Node& n) {
  const std::string given = n.s("mode", "linear"), padding = n.s("padding_mode", "zeros");
  const char* mode = given == "linear" || given == "bilinear" ? "bilinear"
                     : given == "cubic" || given == "bicubic" ? "bicubic"
                     : given == "nearest"                     ? "nearest"
                                                              : nullptr;
  if (!mode) n.refuse("the mode ", given);
  const bool align = n.i("align_corners", 0) != 0;
  return [=](const Inputs& x) -> Tensors {
    return {grid_sample(x[0], x[1], {.mode = mode, .padding_mode = padding, .align_corners = align})};
  };
}
Run col2im(Node& n) {
  const auto dilations = n.integers("dilations"), borders = n.integers("pads"), strides = n.integers("strides");
  return [=](const Inputs& x) -> Tensors {
    const auto two = [](const std::optional<Integers>& v, const char* name, int otherwise) {
      return Window::sizes<2>(v, name, otherwise);
    };
    const auto b = Window::sizes<4>(borders, "pads", 0);
    check(is_even(b), "needs equal borders on both sides");
    return {fold(x[0], two(x.integers(1), "image_shape", 0), two(x.integers(2), "block_shape", 0),
                 {two(dilations, "dilations", 1), first_half(b), two(strides, "strides", 1)})};
  };
}

// Centre crop of x, or x centred in zeros, per dimension.
Run center_crop_pad(Node& n) {
  const auto axes = n.integers("axes");
  return [=](const Inputs& in) -> Tensors {
    Tensor x = in[0];
    const Integers sizes = in.integers(1);
    check(sizes.size() == (axes ? axes->size() : static_cast<std::size_t>(x.dim())), "a size for each axis is needed");
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const int d = wrap_dim(axes ? (*axes)[i] : static_cast<std::int64_t>(i), x.dim());
      const std::int64_t more = sizes[i] - x.size(d), half = std::abs(more) / 2;
      if (more < 0) x = narrow(x, d, half, sizes[i]);
      if (more > 0) x = movedim(pad(movedim(x, {d}, {-1}), {half, more - half}), {-1}, {d});
    }
    return {x};
  };
}

// --- losses ---
Reduction reduction_of(Node& n) {
  const std::string r = n.s("reduction", "mean");
  if (r != "mean" && r != "sum" && r != "none") n.refuse("the reduction ", r);
  return r == "mean" ? Reduction::mean : r == "sum" ? Reduction::sum : Reduction::none;
}
template <bool of_scores> Run nll(Node& n) {
  NllOptions o{.reduction = reduction_of(n)};
  if (n.has("ignore_index")) o.ignore_index = n.i("ignore_index");
  return [=](const Inputs& x) -> Tensors {
    const Tensor p = of_scores ? log_softmax(x[0], 1) : x[0];
    return {nll_loss(p, cast(x[1], i64), o, x.has(2) ? x[2] : Tensor()), p};
  };
}

constexpr Operator operators[] = {
    {"AffineGrid", 2, 2,
     [](Node& n) -> Run {
       const bool align = n.i("align_corners", 0) != 0;
       return [=](const Inputs& x) -> Tensors { return {affine_grid(x[0], x.integers(1), align)}; };
     }},
    {"Attention", 3, 6, attention, 4},
    {"AveragePool", 1, 1, average_pool},
    {"BatchNormalization", 5, 5, batch_norm_of, 5},
    {"CenterCropPad", 2, 2, center_crop_pad},
    {"Col2Im", 3, 3, col2im},
    {"Conv", 2, 3, conv},
    {"ConvTranspose", 2, 3, conv_transpose},
    {"DepthToSpace", 1, 1, depth_to_space},
    {"Dropout", 1, 3, dropout_of, 2},
    {"GlobalAveragePool", 1, 1, each<global_average>},
    {"GlobalLpPool", 1, 1, global_lp},
    {"GlobalMaxPool", 1, 1, each<global_maximum>},
    {"GridSample", 2, 2, grid_sample_of},
    {"GroupNormalization", 3, 3, group_norm_of},
    {"InstanceNormalization", 3, 3, instance_norm_of},
    {"LRN", 1, 1, local_norm},
    {"LayerNormalization", 2, 3, layer_norm_of, 3},
    {"LpNormalization", 1, 1, lp_norm},
    {"LpPool", 1, 1, lp_pool},
    {"MaxPool", 1, 1, max_pool, 2},
    {"MeanVarianceNormalization", 1, 1, mean_variance_norm},
    {"NegativeLogLikelihoodLoss", 2, 3, nll<false>},
    {"Pad", 1, 4, pad_of},
    {"RMSNormalization", 2, 2, rms_norm_of},
    {"Resize", 1, 4, resize},
    {"RotaryEmbedding", 3, 4, rotary},
    {"SoftmaxCrossEntropyLoss", 2, 3, nll<true>, 2},
    {"SpaceToDepth", 1, 1, space_to_depth},
    {"Upsample", 1, 2, resize},
};

}  // namespace

std::span<const Operator> layer_operators() { return operators; }

}  // namespace mantissa::nn::onnx
