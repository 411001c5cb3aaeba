// beta * x + alpha * product(a, b): addmm, baddbmm, addmv, addr and addbmm, which differ only in the product. Read
// first: ops/matmul.cpp.
#include "core/ops_matrix.h"
#include "ops/compose.h"
#include "ops/pointwise.h"
#include "ops/wide_matmul.h"

namespace mantissa {
namespace {

// bf16 (and f16 on a GPU) is multiplied without a cast, giving an f32 product; f16 on the CPU is cast to f32 first.
Tensor wide(const Tensor& t) { return is_half(t.dtype()) ? cast(t, f32) : t; }
Tensor product_of(const Tensor& a, const Tensor& b) {
  const bool as_they_are = a.dtype() == b.dtype() && (a.dtype() != f16 || !a.device().is_cpu());
  return as_they_are ? wide_matmul(a, b) : matmul(wide(a), wide(b));
}

// x + product, rounded to this dtype.
struct RoundedSum {
  static constexpr auto name = "add";
  static constexpr const char* args[] = {"x", "product"};
  Dtype dtype;
  Spec infer(const Tensor&, const Tensor& product) const { return like(product, dtype); }
  void run(const View& y, const View& x, const View& product) const {
    const View* inputs[] = {&x, &product};
    pointwise::run_formula(pointwise::Add{}, product.dtype, y, inputs);
  }
  static constexpr auto vjp() {
    return rules([](Grad g) { return g; }, [](Grad g) { return g; });
  }
  void onnx(OnnxCall& c) const { c.result(c.node("Add", {c.in(0, c.y().dtype()), c.in(1, c.y().dtype())})); }
};

template <class Product> struct Added {
  static constexpr auto name = Product::name;
  static constexpr const char* args[] = {"x", "a", "b"};
  static constexpr auto autocast = CastPolicy::lower;
  static constexpr bool differentiable = true, widens_itself = true;
  double beta = 1, alpha = 1;

  static Tensor compose(const Added& op, const Tensor& x, const Tensor& a, const Tensor& b) {
    const Tensor product = Product::of(a, b), scaled = op.alpha == 1 ? product : op.alpha * product;
    check(broadcast(x.sizes(), product.sizes()) == product.sizes(), "x of shape ", x.sizes(), " does not broadcast to ",
          product.sizes());
    if (op.beta == 0) return scaled;  // x is not read, so its NaN do not propagate
    if (op.beta != 1) return op.beta * wide(x) + scaled;
    const bool rounds = is_half(x.dtype()) && a.dtype() == x.dtype() && b.dtype() == x.dtype();
    return rounds ? apply(RoundedSum{x.dtype()}, x, scaled) : x + scaled;
  }
  static void samples(Samples& s) {
    const auto [x, a, b, wrong_a, fragment] = Product::example();
    for (const double scale : {1.0, 0.5}) composed(s, {s.randn(x), s.randn(a), s.randn(b)}, Added{scale, 2 * scale});
    for (const Dims& smaller : {Dims{}, Dims{x.back()}})
      composed(s, {s.randn(smaller), s.randn(a), s.randn(b)}, Added{});
    composed_error(s, {s.randn({7, 7, 7, 7}), s.randn(a), s.randn(b)}, Added{}, "broadcast");
    composed_error(s, {s.randn(x), s.randn(wrong_a), s.randn(b)}, Added{}, fragment);
  }
};
struct Example {
  Dims x, a, b, wrong_a;
  const char* fragment;
};

struct Addmm {
  static constexpr auto name = "addmm";
  static Tensor of(const Tensor& a, const Tensor& b) {
    check(a.dim() == 2 && b.dim() == 2, "a and b must be matrices, got ", a, " and ", b);
    return product_of(a, b);
  }
  static Example example() { return {{2, 4}, {2, 3}, {3, 4}, {3}, "a and b must be matrices"}; }
};
Tensor batches(const Tensor& a, const Tensor& b) {
  check(a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0), "needs two batches of as many matrices, got ", a,
        " and ", b);
  return product_of(a, b);
}
struct Baddbmm {
  static constexpr auto name = "baddbmm";
  static Tensor of(const Tensor& a, const Tensor& b) { return batches(a, b); }
  static Example example() {
    return {{5, 2, 4}, {5, 2, 3}, {5, 3, 4}, {1, 2, 3}, "needs two batches of as many matrices"};
  }
};
struct Addmv {
  static constexpr auto name = "addmv";
  static Tensor of(const Tensor& a, const Tensor& b) {
    check(a.dim() == 2 && b.dim() == 1, "a must be a matrix and b a vector, got ", a, " and ", b);
    return product_of(a, b);
  }
  static Example example() { return {{2}, {2, 3}, {3}, {3}, "a must be a matrix and b a vector"}; }
};
struct Addr {
  static constexpr auto name = "addr";
  static Tensor of(const Tensor& a, const Tensor& b) {
    check(a.dim() == 1 && b.dim() == 1, "a and b must be vectors, got ", a, " and ", b);
    return unsqueeze(wide(a), 1) * wide(b);
  }
  static Example example() { return {{2, 3}, {2}, {3}, {2, 1}, "a and b must be vectors"}; }
};
struct Addbmm {
  static constexpr auto name = "addbmm";
  static Tensor of(const Tensor& a, const Tensor& b) { return sum(batches(a, b), {0}); }
  static Example example() {
    return {{2, 4}, {5, 2, 3}, {5, 3, 4}, {4, 2, 3}, "needs two batches of as many matrices"};
  }
};

}  // namespace

#define MANTISSA_ADDED(Product, function)                                                         \
  MANTISSA_OP(Added<Product>)                                                                     \
  Tensor function(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) { \
    return apply_composed(Added<Product>{beta, alpha}, x, a, b);                                  \
  }
MANTISSA_ADDED(Addmm, addmm)
MANTISSA_ADDED(Baddbmm, baddbmm)
MANTISSA_ADDED(Addmv, addmv)
MANTISSA_ADDED(Addr, addr)
MANTISSA_ADDED(Addbmm, addbmm)

}  // namespace mantissa
