// Discrete Fourier transforms. The gradient, which is the transposed map, is the transform in the other direction: that
// of a real-input transform is a real inverse that counts the frequencies between the ends once. Therefore both have a
// parameter for how often these count.
#include "core/fft.h"

#include "core/ops_fft.h"
#include "ops/apply.h"
#include "ops/device_table.h"
#include "ops/length.h"
#include "ops/registry.h"

namespace mantissa {
namespace {

using fourier::root;

View with_last(View v, int dim, int target) {  // moves dim to position target, counted from the end
  const std::int64_t size = v.sizes[dim], stride = v.strides[dim];
  v.sizes.erase(dim), v.strides.erase(dim);
  v.sizes.insert(v.sizes.rank() + target, size), v.strides.insert(v.strides.rank() + target, stride);
  return v;
}
View pairs_of(const View& v, int dim) { return with_last(v, dim, -1); }
View numbers_of(const View& v, int dim) { return with_last(v, dim, 0); }

// The definition of a transform: rows of x times a matrix `table`.
Tensor by_table(const Tensor& x, int dim, bool from_pairs, bool to_pairs, const std::vector<double>& table,
                std::int64_t columns) {
  Tensor rows = movedim(x, {dim}, {from_pairs ? -2 : -1});
  if (from_pairs) rows = flatten(rows, -2);
  const std::int64_t n = rows.size(-1);
  Tensor y = matmul(rows, device_table(table, {n, columns}, x.dtype(), x.device()));
  if (!to_pairs) return movedim(y, {-1}, {dim});
  return movedim(unflatten(y, -1, {columns / 2, 2}), {-2}, {dim});
}

// Fields of all transforms: dim counts from the front and excludes the pair dimension; results are multiplied by scale.
struct Transform {
  int dim = 0;
  double scale = 1;
};

void check_pairs(const Tensor& x, int dim) {
  check(x.is_floating(), "needs a floating dtype");
  check(x.dim() > 1 && x.size(-1) == 2, "needs pairs of real and imaginary part [..., n, 2]");
  check(dim >= 0 && dim < x.dim() - 1, "dim ", dim, " is out of range for ", x.dim() - 1, " dimensions of pairs");
  check(x.size(dim) > 0, "there is nothing to be transformed along dim ", dim);
}

// --- ONNX: up to this length a product with a table, which every runtime supports; beyond it the DFT operator ---
constexpr std::int64_t longest_product = 512;
OnnxId product(OnnxCall& c, int dim, bool from_pairs, bool to_pairs, const std::vector<double>& table,
               std::int64_t columns) {
  const auto rows = static_cast<int>(c.x(0).dim()) - (from_pairs ? 2 : 1);  // dims other than the transformed one
  std::vector<std::int64_t> order, back;
  for (int d = 0; d <= rows; ++d)
    if (d != dim) order.push_back(d);
  order.push_back(dim);
  for (int d = 0; d <= rows; ++d) back.push_back(d < dim ? d : d == dim ? rows : d - 1);
  const auto turned = [&](OnnxId v, std::vector<std::int64_t> to, bool pairs) {
    if (pairs) to.push_back(rows + 1);
    return dim == rows ? v : c.node("Transpose", {v}, {{"perm", to}});
  };
  const auto shaped = [&](OnnxId v, std::initializer_list<std::int64_t> last) {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(rows), 0);  // 0: unchanged
    sizes.insert(sizes.end(), last);
    return c.node("Reshape", {v, c.ints(sizes)});
  };
  OnnxId v = turned(c.in(0, c.y().dtype()), order, from_pairs);
  const auto n = static_cast<std::int64_t>(table.size()) / columns;
  if (from_pairs) v = shaped(v, {n});
  v = c.node("MatMul", {v, c.table(table, {n, columns}, c.y().dtype())});
  return turned(to_pairs ? shaped(v, {columns / 2, 2}) : v, back, to_pairs);
}
// DFT needs a batch dimension in front of the transformed one. `f` is called with the resulting dim.
template <class F> OnnxId behind_batch(OnnxCall& c, OnnxId x, int dim, const F& f) {
  if (dim > 0) return f(x, dim);
  return c.node("Squeeze", {f(c.node("Unsqueeze", {x, c.ints({0})}), 1), c.ints({0})});
}
OnnxId dft(OnnxCall& c, OnnxId x, int dim, bool inverse, bool onesided) {
  const auto flags = [&](bool axis) {
    std::vector<OnnxAttribute> a{{"inverse", inverse}, {"onesided", onesided}};
    if (axis) a.push_back({"axis", dim});
    return a;
  };
  if (c.opset() < 20) return c.node("DFT", {x}, flags(true));
  return c.node("DFT", {x, -1, c.constant(scalar(dim, {.dtype = i64}))}, flags(false));
}
OnnxId scaled(OnnxCall& c, OnnxId y, double scale) {
  return scale == 1 ? y : c.node("Mul", {y, c.number(scale, c.y().dtype())});
}

Tensor transformed(const Tensor& x, const Transform& t, bool inverse);
Tensor spectrum_of(const Tensor& x, const Transform& t, double between);
Tensor signal_of(const Tensor& x, const Transform& t, std::int64_t n, double between);

struct Fft : Transform {
  static constexpr auto name = "fft";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32;
  bool inverse = false;

  Spec infer(const Tensor& x) const {
    check_pairs(x, dim);
    return like(x);
  }
  void run(const View& y, const View& x) const {
    kernels::fft_complex(y.device, pairs_of(y, dim), pairs_of(x, dim), scale, inverse);
  }
  static constexpr auto vjp() {
    return rules([](const Fft& op, Grad g) { return transformed(g, op, !op.inverse); });
  }
  std::vector<double> table(std::int64_t n) const {
    std::vector<double> table(static_cast<std::size_t>(4 * n * n));
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t k = 0; k < n; ++k) {
        const auto w = root(j * k % n, n);
        const double re = w.re * scale, im = (inverse ? -w.im : w.im) * scale;
        double* const at = table.data() + 4 * j * n + 2 * k;
        at[0] = re, at[1] = im, at[2 * n] = -im, at[2 * n + 1] = re;
      }
    }
    return table;
  }
  static Tensor reference(const Fft& op, const Tensor& x) {
    const std::int64_t n = x.size(op.dim);
    return by_table(x, op.dim, true, true, op.table(n), 2 * n);
  }
  void onnx(OnnxCall& c) const {
    const std::int64_t n = c.x(0).size(dim);
    if (n <= longest_product) return c.result(product(c, dim, true, true, table(n), 2 * n));
    const double factor = inverse ? scale * static_cast<double>(n) : scale;
    c.result(scaled(
        c, behind_batch(c, c.in(0, c.y().dtype()), dim, [&](OnnxId x, int d) { return dft(c, x, d, inverse, false); }),
        factor));
  }
  static void samples(Samples& s) {
    for (const std::int64_t n : {1, 2, 3, 5, 8, 12, 67}) s({s.randn({3, n, 2})}, Fft{{1}, false});
    s({s.randn({30, 2})}, Fft{{0, 0.5}, true});
    s({s.randn({2, 6, 3, 2})}, Fft{{1, 1.0 / 6}, true});
    s({s.randn({7, 20, 2})}, Fft{{0}, false});
    s({s.randn({0, 3, 2})}, Fft{{1}, false});
    s.error({s.randn({4, 3})}, Fft{{0}}, "needs pairs of real and imaginary part [..., n, 2]");
    s.error({s.randn({4, 2})}, Fft{{1}}, "dim 1 is out of range for 1 dimensions of pairs");
    s.error({s.randn({0, 2})}, Fft{{0}}, "there is nothing to be transformed along dim 0");
    s.error({s.integers({4, 2}, 0, 3)}, Fft{{0}}, "needs a floating dtype");
  }
};

struct Rfft : Transform {
  static constexpr auto name = "rfft";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32;
  double between = 1;

  Spec infer(const Tensor& x) const {
    check(x.is_floating(), "needs a floating dtype");
    check(dim >= 0 && dim < x.dim(), "dim ", dim, " is out of range for ", x.dim(), " dimensions");
    check(x.size(dim) > 0, "there is nothing to be transformed along dim ", dim);
    Dims sizes = x.sizes();
    sizes[dim] = sizes[dim] / 2 + 1;
    check(sizes.rank() < Dims::max_rank, "the result would have ", Dims::max_rank + 1, " dimensions");
    sizes.push_back(2);
    return like(x, sizes);
  }
  void run(const View& y, const View& x) const {
    kernels::fft_real(y.device, pairs_of(y, dim), numbers_of(x, dim), scale, between);
  }
  static constexpr auto vjp() {
    return rules([](const Rfft& op, Grad g, Shape<0> x) { return signal_of(g, op, x.sizes[op.dim], op.between); });
  }
  static double weight(std::int64_t k, std::int64_t n, double scale, double between) {
    return k == 0 || 2 * k == n ? scale : scale * between;
  }
  std::vector<double> table(std::int64_t n) const {
    const std::int64_t count = n / 2 + 1;
    std::vector<double> table;
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t k = 0; k < count; ++k) {
        const auto w = root(j * k % n, n);
        const double factor = weight(k, n, scale, between);
        table.push_back(w.re * factor);
        table.push_back(2 * k == n ? 0 : w.im * factor);
      }
    }
    return table;
  }
  static Tensor reference(const Rfft& op, const Tensor& x) {
    const std::int64_t n = x.size(op.dim);
    return by_table(x, op.dim, false, true, op.table(n), 2 * (n / 2 + 1));
  }
  void onnx(OnnxCall& c) const {
    const std::int64_t n = c.x(0).size(dim);
    if (n <= longest_product) return c.result(product(c, dim, false, true, table(n), 2 * (n / 2 + 1)));
    if (between != 1) c.refuse("the gradient of an inverse transform");
    const OnnxId pairs = c.node("Unsqueeze", {c.in(0, c.y().dtype()), c.ints({-1})});
    c.result(scaled(c, behind_batch(c, pairs, dim, [&](OnnxId x, int d) { return dft(c, x, d, false, true); }), scale));
  }
  static void samples(Samples& s) {
    for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 9, 16, 67, 134}) s({s.randn({3, n})}, Rfft{{1}});
    s({s.randn({20})}, Rfft{{0, 0.5}});
    s({s.randn({2, 6, 3})}, Rfft{{1, 0.25}, 3});
    s({s.randn({7, 20})}, Rfft{{0, 1}, 0.5});
    s({s.randn({0, 3})}, Rfft{{1}});
    s.error({s.randn({4, 3})}, Rfft{{2}}, "dim 2 is out of range for 2 dimensions");
    s.error({s.randn({3, 0})}, Rfft{{1}}, "there is nothing to be transformed along dim 1");
    s.error({s.integers({4}, 0, 3)}, Rfft{{0}}, "needs a floating dtype");
  }
};

struct Irfft : Transform {
  static constexpr auto name = "irfft";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32;
  std::int64_t n = 1;
  double between = 2;

  Spec infer(const Tensor& x) const {
    check_pairs(x, dim);
    check(x.size(dim) == n / 2 + 1, "a signal of ", n, " has ", n / 2 + 1, " frequencies");
    Dims sizes = x.sizes();
    sizes.erase(sizes.rank() - 1);
    sizes[dim] = n;
    return like(x, sizes);
  }
  void run(const View& y, const View& x) const {
    kernels::fft_real_inverse(y.device, numbers_of(y, dim), pairs_of(x, dim), scale, between);
  }
  static constexpr auto vjp() {
    return rules([](const Irfft& op, Grad g) { return spectrum_of(g, op, op.between); });
  }
  std::vector<double> table() const {
    const std::int64_t count = n / 2 + 1;
    std::vector<double> table;
    for (std::int64_t k = 0; k < count; ++k) {
      const double factor = Rfft::weight(k, n, scale, between);
      for (std::int64_t j = 0; j < n; ++j) table.push_back(root(j * k % n, n).re * factor);
      for (std::int64_t j = 0; j < n; ++j) table.push_back(k == 0 || 2 * k == n ? 0 : root(j * k % n, n).im * factor);
    }
    return table;
  }
  static Tensor reference(const Irfft& op, const Tensor& x) {
    return by_table(x, op.dim, true, false, op.table(), op.n);
  }
  // DFT takes full spectra: the one-sided spectrum of a real signal is mirrored.
  void onnx(OnnxCall& c) const {
    if (n <= longest_product) return c.result(product(c, dim, true, false, table(), n));
    std::vector<std::int64_t> from;
    std::vector<double> signs;
    for (std::int64_t k = 0; k < n; ++k) {
      const bool mirrored = k > n / 2, end = k == 0 || 2 * k == n;
      from.push_back(mirrored ? n - k : k);
      signs.push_back(end ? 1 : between / 2);
      signs.push_back(end ? 0 : mirrored ? -between / 2 : between / 2);
    }
    const OnnxId real = behind_batch(c, c.in(0, c.y().dtype()), dim, [&](OnnxId x, int d) {
      Dims sizes{n};
      for (int i = dim + 1; i < c.x(0).dim() - 1; ++i) sizes.push_back(1);
      sizes.push_back(2);
      const OnnxId all = c.node("Gather", {x, c.ints(from)}, {{"axis", d}});
      return dft(c, c.node("Mul", {all, c.table(signs, sizes, c.y().dtype())}), d, true, false);
    });
    const OnnxId y = c.node("Gather", {real, c.constant(scalar(0, {.dtype = i64}))}, {{"axis", c.x(0).dim() - 1}});
    c.result(scaled(c, y, scale * static_cast<double>(n)));
  }
  static void samples(Samples& s) {
    for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 9, 16, 67, 134})
      s({s.randn({3, n / 2 + 1, 2})}, Irfft{{1, 1 / static_cast<double>(n)}, n});
    s({s.randn({11, 2})}, Irfft{{0, 0.5}, 20});
    s({s.randn({2, 4, 3, 2})}, Irfft{{1, 0.25}, 7, 1});
    s({s.randn({4, 20, 2})}, Irfft{{0, 1}, 6});
    s({s.randn({0, 3, 2})}, Irfft{{1}, 4});
    s.error({s.randn({4, 2})}, Irfft{{0}, 8}, "a signal of 8 has 5 frequencies");
    s.error({s.randn({4, 3})}, Irfft{{0}, 6}, "needs pairs of real and imaginary part [..., n, 2]");
    s.error({s.integers({4, 2}, 0, 3)}, Irfft{{0}, 6}, "needs a floating dtype");
  }
};

Tensor transformed(const Tensor& x, const Transform& t, bool inverse) { return apply(Fft{t, inverse}, x); }
Tensor spectrum_of(const Tensor& x, const Transform& t, double between) { return apply(Rfft{t, between}, x); }
Tensor signal_of(const Tensor& x, const Transform& t, std::int64_t n, double between) {
  return apply(Irfft{t, n, between}, x);
}

// --- the functions of torch.fft ---
double scale_of(const char* name, std::string_view norm, std::int64_t n, bool inverse) {
  const auto count = static_cast<double>(n);
  if (norm == "ortho") return 1 / std::sqrt(count);
  check(norm == "backward" || norm == "forward", name, ": norm must be \"backward\", \"forward\" or \"ortho\", got \"",
        norm, "\"");
  return (norm == "backward") == inverse ? 1 / count : 1;
}
Tensor floating(const Tensor& x) { return x.is_floating() ? x : cast(x, f32); }
void check_pairs(const char* name, const Tensor& x) {
  check(x.dim() > 1 && x.size(-1) == 2, name, ": needs pairs of real and imaginary part [..., n, 2], got ", x,
        x.dim() > 0 ? "; to_complex(x) makes them of real numbers" : "");
}
// Truncates or zero-pads x to n elements along dim.
Tensor resized(const char* name, const Tensor& x, int dim, std::int64_t n) {
  check(n > 0, name, ": a signal of ", n, " elements cannot be transformed; x is ", x);
  check_length(name, "n", n);
  if (x.size(dim) == n) return x;
  if (x.size(dim) > n) return slice(x, dim, 0, n);
  Dims rest = x.sizes();
  rest[dim] = n - x.size(dim);
  return cat({x, zeros(rest, {.dtype = x.dtype(), .device = x.device()})}, dim);
}
int place(const char* name, const Tensor& x, std::int64_t dim, int rank) {
  check(dim >= -rank && dim < rank, name, ": dim ", dim, " is out of range for ", rank, " dimensions of x = ", x);
  return static_cast<int>(dim < 0 ? dim + rank : dim);
}

struct Along {
  std::int64_t dim;
  std::optional<std::int64_t> n;
};
Tensor complex_to_complex(const char* name, const Tensor& given, const Along& a, std::string_view norm, bool inverse) {
  check_pairs(name, given);
  const int dim = place(name, given, a.dim, given.dim() - 1);
  const Tensor x = resized(name, floating(given), dim, a.n.value_or(given.size(dim)));
  return transformed(x, {dim, scale_of(name, norm, x.size(dim), inverse)}, inverse);
}
Tensor real_to_complex(const char* name, const Tensor& given, const Along& a, std::string_view norm, bool inverse) {
  check(given.dim() > 0, name, ": needs at least one dimension, got ", given);
  const int dim = place(name, given, a.dim, given.dim());
  const Tensor x = resized(name, floating(given), dim, a.n.value_or(given.size(dim)));
  return spectrum_of(x, {dim, scale_of(name, norm, x.size(dim), inverse)}, 1);
}
Tensor complex_to_real(const char* name, const Tensor& given, const Along& a, std::string_view norm, bool inverse) {
  check_pairs(name, given);
  const int dim = place(name, given, a.dim, given.dim() - 1);
  const std::int64_t n = a.n.value_or(2 * (given.size(dim) - 1));
  check(n > 0, name, ": a signal of ", n, " elements cannot be transformed; x is ", given);
  const Tensor x = resized(name, floating(given), dim, n / 2 + 1);
  return signal_of(x, {dim, scale_of(name, norm, n, inverse)}, n, 2);
}

// The checked dimensions of an n-d transform: each counted from the front, with its number of elements.
std::vector<Along> dims_of(const char* name, const Tensor& x, const fft::FftnOptions& o, int rank) {
  const int count = o.dim.rank() > 0 ? o.dim.rank() : o.s.rank() > 0 ? o.s.rank() : rank;
  check(o.s.rank() == 0 || o.s.rank() == count, name, ": s and dim must have one length, got ", o.s, " and ", o.dim);
  check(count <= rank, name, ": ", count, " dimensions are more than x has: ", x);
  std::vector<Along> all;
  bool seen[Dims::max_rank] = {};
  for (int i = 0; i < count; ++i) {
    const int dim = place(name, x, o.dim.rank() > 0 ? o.dim[i] : rank - count + i, rank);
    check(!seen[dim], name, ": dim ", dim, " appears twice in ", o.dim);
    seen[dim] = true;
    Along a{dim, {}};
    if (o.s.rank() > 0 && o.s[i] != -1) a.n = o.s[i];
    all.push_back(a);
  }
  check(!all.empty(), name, ": there is no dimension to be transformed in ", x);
  return all;
}
fft::FftnOptions over_two(fft::FftnOptions o) {
  if (o.dim.rank() == 0) o.dim = {-2, -1};
  return o;
}
// f16 and bf16 are converted to f32 before the first of several transforms. Under autocast the result stays f32, as
// that of a single transform does.
Tensor widened(const Tensor& x) { return is_half(x.dtype()) ? cast(x, f32) : x; }
Tensor rounded(const Tensor& y, const Tensor& x) {
  return is_half(x.dtype()) && !context().autocast.any() ? cast(y, x.dtype()) : y;
}
Tensor complex_n(const char* name, const Tensor& x, const fft::FftnOptions& o, bool inverse) {
  check_pairs(name, x);
  Tensor y = widened(x);
  for (const Along& a : dims_of(name, x, o, x.dim() - 1)) y = complex_to_complex(name, y, a, o.norm, inverse);
  return rounded(y, x);
}
Tensor real_n(const char* name, const Tensor& x, const fft::FftnOptions& o) {
  std::vector<Along> dims = dims_of(name, x, o, x.dim());
  const Along last = dims.back();
  dims.pop_back();
  Tensor y = real_to_complex(name, widened(x), last, o.norm, false);
  for (const Along& a : dims) y = complex_to_complex(name, y, a, o.norm, false);
  return rounded(y, x);
}
Tensor inverse_real_n(const char* name, const Tensor& x, const fft::FftnOptions& o) {
  check_pairs(name, x);
  std::vector<Along> dims = dims_of(name, x, o, x.dim() - 1);
  const Along last = dims.back();
  dims.pop_back();
  Tensor y = widened(x);
  for (const Along& a : dims) y = complex_to_complex(name, y, a, o.norm, true);
  return rounded(complex_to_real(name, y, last, o.norm, true), x);
}

}  // namespace

namespace fft {

Tensor fft(const Tensor& x, const FftOptions& o) { return complex_to_complex("fft", x, {o.dim, o.n}, o.norm, false); }
Tensor ifft(const Tensor& x, const FftOptions& o) { return complex_to_complex("ifft", x, {o.dim, o.n}, o.norm, true); }
Tensor rfft(const Tensor& x, const FftOptions& o) { return real_to_complex("rfft", x, {o.dim, o.n}, o.norm, false); }
Tensor irfft(const Tensor& x, const FftOptions& o) { return complex_to_real("irfft", x, {o.dim, o.n}, o.norm, true); }
Tensor hfft(const Tensor& x, const FftOptions& o) {
  check_pairs("hfft", x);
  return complex_to_real("hfft", complex_conj(floating(x)), {o.dim, o.n}, o.norm, false);
}
Tensor ihfft(const Tensor& x, const FftOptions& o) {
  return complex_conj(real_to_complex("ihfft", x, {o.dim, o.n}, o.norm, true));
}
Tensor fftn(const Tensor& x, const FftnOptions& o) { return complex_n("fftn", x, o, false); }
Tensor ifftn(const Tensor& x, const FftnOptions& o) { return complex_n("ifftn", x, o, true); }
Tensor rfftn(const Tensor& x, const FftnOptions& o) { return real_n("rfftn", x, o); }
Tensor irfftn(const Tensor& x, const FftnOptions& o) { return inverse_real_n("irfftn", x, o); }
Tensor fft2(const Tensor& x, const FftnOptions& o) { return complex_n("fft2", x, over_two(o), false); }
Tensor ifft2(const Tensor& x, const FftnOptions& o) { return complex_n("ifft2", x, over_two(o), true); }
Tensor rfft2(const Tensor& x, const FftnOptions& o) { return real_n("rfft2", x, over_two(o)); }
Tensor irfft2(const Tensor& x, const FftnOptions& o) { return inverse_real_n("irfft2", x, over_two(o)); }

namespace {

// Element i of `count`: place(i) / (n d).
template <class F>
Tensor frequencies(const char* name, std::int64_t n, std::int64_t count, double d, const TensorOptions& o, F place) {
  check(is_floating(o.dtype), name, ": needs a floating dtype, got ", o.dtype);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = static_cast<double>(place(i)) / (static_cast<double>(n) * d);
  Tensor y = clone(device_table(values, {count}, o.dtype, o.device));
  if (o.requires_grad) y.requires_grad_();
  return y;
}
void check_count(const char* name, std::int64_t n) {
  check(n > 0, name, ": n must be positive, got ", n);
  check_length(name, "n", n);
}
// Rolls each of dims by half its size.
Tensor shifted(const char* name, const Tensor& x, const Dims& given, bool back) {
  Dims dims = given, shifts;
  if (dims.rank() == 0)
    for (int d = 0; d < x.dim(); ++d) dims.push_back(d);
  if (dims.rank() == 0) return x;
  for (int i = 0; i < dims.rank(); ++i) {
    dims[i] = place(name, x, dims[i], x.dim());
    const std::int64_t size = x.size(dims[i]);
    shifts.push_back(back ? (size + 1) / 2 : size / 2);
  }
  return roll(x, shifts, dims);
}

}  // namespace

Tensor fftfreq(std::int64_t n, double d, TensorOptions o) {
  check_count("fftfreq", n);
  return frequencies("fftfreq", n, n, d, o, [n](std::int64_t i) { return i < (n + 1) / 2 ? i : i - n; });
}
Tensor rfftfreq(std::int64_t n, double d, TensorOptions o) {
  check_count("rfftfreq", n);
  return frequencies("rfftfreq", n, n / 2 + 1, d, o, [](std::int64_t i) { return i; });
}
Tensor fftshift(const Tensor& x, const Dims& dim) { return shifted("fftshift", x, dim, false); }
Tensor ifftshift(const Tensor& x, const Dims& dim) { return shifted("ifftshift", x, dim, true); }

}  // namespace fft

namespace {

void hfft_samples(Samples& s) {
  s.call({s.randn({2, 4, 2})}, [](const Tensors& x) { return fft::hfft(x[0]); });
  s.call({s.randn({2, 3, 2})}, [](const Tensors& x) { return fft::hfft(x[0], {.n = 5, .dim = 0, .norm = "ortho"}); });
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return fft::hfft(x[0]); }, "hfft: needs pairs");
}
void ihfft_samples(Samples& s) {
  s.call({s.randn({2, 6})}, [](const Tensors& x) { return fft::ihfft(x[0]); });
  s.call({s.randn({2, 6})}, [](const Tensors& x) { return fft::ihfft(x[0], {.n = 5, .norm = "forward"}); });
  s.error_call(
      {s.randn({})}, [](const Tensors& x) { return fft::ihfft(x[0]); }, "ihfft: needs at least one dimension");
}
void ifft_samples(Samples& s) {
  s.call({s.randn({2, 4, 2})}, [](const Tensors& x) { return fft::ifft(x[0]); });
  s.call({s.randn({4, 3, 2})}, [](const Tensors& x) { return fft::ifft(x[0], {.n = 3, .dim = 0}); });
  s.error_call(
      {s.randn({3, 2})}, [](const Tensors& x) { return fft::ifft(x[0], {.n = 0}); }, "a signal of 0 elements");
  s.error_call(
      {s.randn({3, 2})}, [](const Tensors& x) { return fft::ifft(x[0], {.norm = "none"}); },
      "norm must be \"backward\"");
}
template <class F> void pair_samples(Samples& s, const char* name, F f) {
  s.call({s.randn({3, 4, 2})}, [f](const Tensors& x) { return f(x[0], fft::FftnOptions{}); });
  s.call({s.randn({2, 3, 4, 2})}, [f](const Tensors& x) {
    return f(x[0], fft::FftnOptions{.s = {5, 2}, .dim = {2, 0}, .norm = "ortho"});
  });
  s.error_call(
      {s.randn({3, 4, 2})},
      [f](const Tensors& x) {
        return f(x[0], fft::FftnOptions{.dim = {0, -2}});
      },
      "dim 0 appears twice");
  s.error_call(
      {s.randn({3, 4, 2})},
      [f](const Tensors& x) {
        return f(x[0], fft::FftnOptions{.dim = {0, 2}});
      },
      std::string(name) + ": dim 2 is out of range for 2 dimensions");
}
template <class F> void real_samples(Samples& s, const char* name, F f) {
  s.call({s.randn({3, 4})}, [f](const Tensors& x) { return f(x[0], fft::FftnOptions{}); });
  s.call({s.randn({2, 3, 4})}, [f](const Tensors& x) {
    return f(x[0], fft::FftnOptions{.s = {5, -1}, .dim = {2, 0}, .norm = "forward"});
  });
  s.error_call(
      {s.randn({3, 4})},
      [f](const Tensors& x) {
        return f(x[0], fft::FftnOptions{.s = {2, 3, 4}, .dim = {0, 1}});
      },
      std::string(name) + ": s and dim must have one length");
}
void fftn_samples(Samples& s) { pair_samples(s, "fftn", fft::fftn); }
void ifftn_samples(Samples& s) { pair_samples(s, "ifftn", fft::ifftn); }
void irfftn_samples(Samples& s) { pair_samples(s, "irfftn", fft::irfftn); }
void rfftn_samples(Samples& s) { real_samples(s, "rfftn", fft::rfftn); }
void fft2_samples(Samples& s) { pair_samples(s, "fft2", fft::fft2); }
void ifft2_samples(Samples& s) { pair_samples(s, "ifft2", fft::ifft2); }
void irfft2_samples(Samples& s) { pair_samples(s, "irfft2", fft::irfft2); }
void rfft2_samples(Samples& s) { real_samples(s, "rfft2", fft::rfft2); }
void fftfreq_samples(Samples& s) {
  s.call({}, [](const Tensors&) { return fft::fftfreq(5, 0.5, {.dtype = f64}); });
  s.error_call(
      {}, [](const Tensors&) { return fft::fftfreq(0); }, "fftfreq: n must be positive, got 0");
}
void rfftfreq_samples(Samples& s) {
  s.call({}, [](const Tensors&) { return fft::rfftfreq(6, 2, {.dtype = f64}); });
  s.error_call(
      {}, [](const Tensors&) { return fft::rfftfreq(4, 1, {.dtype = i64}); }, "needs a floating dtype, got i64");
}
template <class F> void shift_samples(Samples& s, F f) {
  s.call({s.randn({3, 4})}, [f](const Tensors& x) { return f(x[0], Dims{}); });
  s.call({s.randn({3, 5, 2})}, [f](const Tensors& x) { return f(x[0], Dims{0, 1}); });
  s.error_call(
      {s.randn({3, 4})}, [f](const Tensors& x) { return f(x[0], Dims{2}); }, "dim 2 is out of range for 2 dimensions");
}
void fftshift_samples(Samples& s) { shift_samples(s, fft::fftshift); }
void ifftshift_samples(Samples& s) { shift_samples(s, fft::ifftshift); }

}  // namespace

MANTISSA_OP(Fft)
MANTISSA_OP(Rfft)
MANTISSA_OP(Irfft)
MANTISSA_COMPOSITE(ifft, ifft_samples)
MANTISSA_COMPOSITE(hfft, hfft_samples)
MANTISSA_COMPOSITE(ihfft, ihfft_samples)
MANTISSA_COMPOSITE(fftn, fftn_samples)
MANTISSA_COMPOSITE(ifftn, ifftn_samples)
MANTISSA_COMPOSITE(rfftn, rfftn_samples)
MANTISSA_COMPOSITE(irfftn, irfftn_samples)
MANTISSA_COMPOSITE(fft2, fft2_samples)
MANTISSA_COMPOSITE(ifft2, ifft2_samples)
MANTISSA_COMPOSITE(rfft2, rfft2_samples)
MANTISSA_COMPOSITE(irfft2, irfft2_samples)
MANTISSA_COMPOSITE(fftfreq, fftfreq_samples, .differentiable = false)
MANTISSA_COMPOSITE(rfftfreq, rfftfreq_samples, .differentiable = false)
MANTISSA_COMPOSITE(fftshift, fftshift_samples)
MANTISSA_COMPOSITE(ifftshift, ifftshift_samples)

}  // namespace mantissa
