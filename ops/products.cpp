// Products of vectors, matrices and tensors composed of matmul and broadcasting: bmm, mv, outer, dot, inner, tensordot,
// kron, cross, bilinear. Read first: ops/matmul.cpp. By subscripts: ops/einsum.cpp.
#include <algorithm>

#include "ops/compose.h"

namespace mantissa {
namespace {

struct Dot {
  static constexpr auto name = "dot";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr auto autocast = CastPolicy::promote;
  static constexpr bool differentiable = true;
  static constexpr bool widens_itself = true;  // f16 and bf16 products already accumulate in f32

  static Tensor compose(const Dot&, const Tensor& a, const Tensor& b) {
    check(a.dim() == 1 && b.dim() == 1, "needs two vectors, got ", a, " and ", b);
    check(a.numel() == b.numel(), "lengths ", a.numel(), " and ", b.numel(), " differ");
    check(a.dtype() == b.dtype(), "dtypes ", a.dtype(), " and ", b.dtype(), " differ; cast one of them");
    return a.is_floating() ? matmul(a, b) : cast(sum(a * b), a.dtype());
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({5}), s.randn({5})}, Dot{});
    composed(s, {s.randn({0}), s.randn({0})}, Dot{});
    composed(s, {s.integers({5}, 0, 9), s.integers({5}, 0, 9)}, Dot{});
    composed_error(s, {s.randn({2}), s.randn({3})}, Dot{}, "lengths 2 and 3 differ");
    composed_error(s, {s.randn({2, 2}), s.randn({2})}, Dot{}, "needs two vectors");
    composed_error(s, {cast(s.randn({2}), f16), cast(s.randn({2}), f32)}, Dot{}, "dtypes f16 and f32 differ");
  }
};

struct Cross {
  static constexpr auto name = "cross";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr auto autocast = CastPolicy::promote;
  static constexpr bool differentiable = true;
  int dim = -1;
  static Tensor compose(const Cross& op, const Tensor& a, const Tensor& b) {
    const Dims sizes = broadcast(a.sizes(), b.sizes());
    const int d = wrap_dim(op.dim, sizes.rank());
    check(sizes.rank() > 0 && sizes[d] == 3, "dim ", op.dim, " must have size 3, the shapes broadcast to ", sizes);
    const Tensor x = expand(a, sizes), y = expand(b, sizes);
    const Dims one{1}, two{2}, dims{d};
    return roll(x, two, dims) * roll(y, one, dims) - roll(x, one, dims) * roll(y, two, dims);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({2, 3}), s.randn({2, 3})}, Cross{});
    composed(s, {s.randn({3, 4}), s.randn({3, 1})}, Cross{0});
    composed_error(s, {s.randn({2, 4}), s.randn({2, 4})}, Cross{}, "dim -1 must have size 3");
  }
};

struct Bilinear {
  static constexpr auto name = "bilinear";
  static constexpr const char* args[] = {"x1", "x2", "weight", "bias"};
  static constexpr auto autocast = CastPolicy::promote;
  static constexpr bool differentiable = true;
  static Tensor compose(const Bilinear&, const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
    check(weight.dim() == 3, "weight must be [out, in1, in2]");
    const std::int64_t out = weight.size(0), in1 = weight.size(1), in2 = weight.size(2);
    check(x1.dim() >= 1 && x1.dim() == x2.dim() && x1.size(-1) == in1 && x2.size(-1) == in2, "x1 must end in ", in1,
          " and x2 in ", in2, ", with as many dimensions");
    Dims sizes = x1.sizes();
    for (int d = 0; d + 1 < x1.dim(); ++d) check(sizes[d] == x2.sizes()[d], "x1 and x2 differ in dimension ", d);
    sizes.back() = out;
    const std::int64_t rows = numel_of(x1.sizes()) / std::max<std::int64_t>(in1, 1);
    const Tensor first = matmul(reshape(x1, {rows, in1}), reshape(permute(weight, {1, 0, 2}), {in1, out * in2}));
    const Tensor y = sum(reshape(first, {rows, out, in2}) * reshape(x2, {rows, 1, in2}), {2});
    if (bias.defined()) check(bias.sizes() == Dims{out}, "bias must be [", out, "]");
    return reshape(bias.defined() ? y + bias : y, sizes);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({4, 2}), s.randn({4, 3}), s.randn({5, 2, 3}), s.randn({5})}, Bilinear{});
    composed(s, {s.randn({2, 3, 2}), s.randn({2, 3, 2}), s.randn({1, 2, 2}), Tensor()}, Bilinear{});
    composed_error(s, {s.randn({4, 2}), s.randn({4, 2}), s.randn({5, 2, 3}), Tensor()}, Bilinear{},
                   "x1 must end in 2 and x2 in 3");
    composed_error(s, {s.randn({4, 2}), s.randn({3, 3}), s.randn({5, 2, 3}), Tensor()}, Bilinear{},
                   "differ in dimension 0");
    composed_error(s, {s.randn({4, 2}), s.randn({4, 3}), s.randn({5, 2, 3}), s.randn({4})}, Bilinear{},
                   "bias must be [5]");
  }
};

}  // namespace

MANTISSA_OP(Dot)
MANTISSA_OP(Cross)
MANTISSA_OP(Bilinear)

Tensor bmm(const Tensor& a, const Tensor& b) {
  check(a.dim() == 3 && b.dim() == 3, "bmm: needs two batches of matrices, got ", a, " and ", b);
  check(a.size(0) == b.size(0), "bmm: batches ", a.size(0), " and ", b.size(0), " differ");
  const Composite in("bmm", CastPolicy::lower, {&a, &b});
  return in.result(matmul(in[0], in[1]));
}
Tensor mv(const Tensor& a, const Tensor& b) {
  check(a.dim() == 2 && b.dim() == 1, "mv: needs a matrix and a vector, got ", a, " and ", b);
  const Composite in("mv", CastPolicy::lower, {&a, &b});
  return in.result(matmul(in[0], in[1]));
}
Tensor dot(const Tensor& a, const Tensor& b) { return apply_composed(Dot{}, a, b); }
Tensor outer(const Tensor& a, const Tensor& b) {
  check(a.dim() == 1 && b.dim() == 1, "outer: needs two vectors, got ", a, " and ", b);
  return unsqueeze(a, 1) * b;
}
// Under autocast the following two run in the widest input dtype, as on CUDA in PyTorch.
Tensor inner(const Tensor& a, const Tensor& b) {
  if (a.dim() == 0 || b.dim() == 0) return a * b;
  check(a.size(-1) == b.size(-1), "inner: the last dimensions of ", a, " and ", b, " differ");
  Dims sizes;
  for (const Tensor* t : {&a, &b}) for (int d = 0; d + 1 < t->dim(); ++d) sizes.push_back(t->sizes()[d]);
  const std::int64_t n = a.size(-1);
  std::int64_t rows = 1, columns = 1;  // not numel / n: n may be 0, and empty sums are 0
  for (int d = 0; d + 1 < a.dim(); ++d) rows *= a.sizes()[d];
  for (int d = 0; d + 1 < b.dim(); ++d) columns *= b.sizes()[d];
  const Composite in("inner", CastPolicy::promote, {&a, &b});
  return in.result(reshape(matmul(reshape(in[0], {rows, n}), transpose(reshape(in[1], {columns, n}))), sizes));
}
Tensor tensordot(const Tensor& a, const Tensor& b, int dims) {
  check(dims >= 0 && dims <= a.dim() && dims <= b.dim(), "tensordot: cannot contract ", dims, " dimensions of ", a,
        " and ", b);
  Dims sizes;
  std::int64_t rows = 1, n = 1, columns = 1;
  for (int d = 0; d < a.dim() - dims; ++d) sizes.push_back(a.sizes()[d]), rows *= a.sizes()[d];
  for (int d = 0; d < dims; ++d) {
    check(a.sizes()[a.dim() - dims + d] == b.sizes()[d], "tensordot: contracted dimensions of ", a, " and ", b,
          " differ");
    n *= b.sizes()[d];
  }
  for (int d = dims; d < b.dim(); ++d) sizes.push_back(b.sizes()[d]), columns *= b.sizes()[d];
  const Composite in("tensordot", CastPolicy::promote, {&a, &b});
  return in.result(reshape(matmul(reshape(in[0], {rows, n}), reshape(in[1], {n, columns})), sizes));
}
Tensor kron(const Tensor& a, const Tensor& b) {
  const int rank = std::max(a.dim(), b.dim());
  check(2 * rank <= Dims::max_rank, "kron: at most ", Dims::max_rank / 2, " dimensions, got ", a, " and ", b);
  Dims left, right, sizes;
  for (int d = 0; d < rank; ++d) {
    const int i = d - (rank - a.dim()), j = d - (rank - b.dim());
    const std::int64_t m = i < 0 ? 1 : a.sizes()[i], n = j < 0 ? 1 : b.sizes()[j];
    left.push_back(m), left.push_back(1);
    right.push_back(1), right.push_back(n);
    sizes.push_back(m * n);
  }
  return reshape(reshape(a, left) * reshape(b, right), sizes);
}
Tensor cross(const Tensor& a, const Tensor& b, int dim) { return apply_composed(Cross{dim}, a, b); }
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
  return apply_composed(Bilinear{}, x1, x2, weight, bias);
}

namespace {

// --- samples of functions composed of matmul and where ---
template <class F>
void pair_samples(Samples& s, const Dims& a, const Dims& b, const Dims& wrong, const char* fragment, F f) {
  const auto call = [f](const Tensors& x) { return f(x[0], x[1]); };
  s.call({s.randn(a), s.randn(b)}, call);
  s.error_call({s.randn(a), s.randn(wrong)}, call, fragment);
}
void bmm_samples(Samples& s) {
  pair_samples(s, {2, 3, 4}, {2, 4, 5}, {1, 4, 5}, "bmm: batches 2 and 1 differ", bmm);
  pair_samples(s, {2, 3, 4}, {2, 4, 1}, {4, 5}, "bmm: needs two batches of matrices", bmm);
}
void mv_samples(Samples& s) { pair_samples(s, {3, 4}, {4}, {4, 1}, "mv: needs a matrix and a vector", mv); }
void outer_samples(Samples& s) { pair_samples(s, {3}, {4}, {4, 1}, "outer: needs two vectors", outer); }
void inner_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return inner(x[0], x[1]); };
  s.call({s.randn({2, 3}), s.randn({4, 3})}, f);
  s.call({s.randn({3}), s.randn({})}, f);
  s.error_call({s.randn({2, 3}), s.randn({3, 2})}, f, "the last dimensions of");
}
void tensordot_samples(Samples& s) {
  s.call({s.randn({2, 3, 4}), s.randn({3, 4, 2})}, [](const Tensors& x) { return tensordot(x[0], x[1]); });
  s.call({s.randn({2}), s.randn({3})}, [](const Tensors& x) { return tensordot(x[0], x[1], 0); });
  s.error_call(
      {s.randn({2, 3}), s.randn({2, 3})}, [](const Tensors& x) { return tensordot(x[0], x[1], 1); },
      "contracted dimensions");
  s.error_call(
      {s.randn({2}), s.randn({2})}, [](const Tensors& x) { return tensordot(x[0], x[1]); },
      "cannot contract 2 dimensions");
}
void kron_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return kron(x[0], x[1]); };
  s.call({s.randn({2, 3}), s.randn({3, 2})}, f);
  s.call({s.randn({2}), s.randn({2, 2})}, f);
  s.error_call({s.randn({1, 1, 1, 1, 1}), s.randn({2})}, f, "at most 4 dimensions");
}
MANTISSA_COMPOSITE(bmm, bmm_samples, .autocast = CastPolicy::lower, .has_policy = true)
MANTISSA_COMPOSITE(mv, mv_samples, .autocast = CastPolicy::lower, .has_policy = true)
MANTISSA_COMPOSITE(outer, outer_samples)
MANTISSA_COMPOSITE(inner, inner_samples, .autocast = CastPolicy::promote, .has_policy = true)
MANTISSA_COMPOSITE(tensordot, tensordot_samples, .autocast = CastPolicy::promote, .has_policy = true)
MANTISSA_COMPOSITE(kron, kron_samples)

}  // namespace
}  // namespace mantissa
