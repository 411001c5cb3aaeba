// x @ weight^T + bias in one pass: rows of the result start as the bias and the product is added to
// them. Its gradients are plain matrix products. Next: core/gemm.h, nn/linear.h.
#include "core/gemm.h"
#include "core/ops.h"
#include "ops/apply.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace {

// [*, n] as [rows, n].
Tensor as_rows(const Tensor& x) {
  std::int64_t rows = 1;
  for (int d = 0; d + 1 < x.dim(); ++d) rows *= x.size(d);
  return reshape(x, {rows, x.size(-1)});
}

struct Linear {
  static constexpr auto name = "linear";
  static constexpr const char* args[] = {"x", "weight", "bias"};
  static constexpr auto autocast = CastPolicy::lower;
  mutable KeptWeight kept = {};  // made by infer for run

  Spec infer(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    check(weight.dim() == 2, "weight must be [out, in]");
    check(x.dim() > 0, "x needs at least 1 dimension");
    check(x.is_floating() && weight.is_floating(), "needs floating dtypes; cast integers first, as in cast(x, f32)");
    check(x.dtype() == weight.dtype() && (!bias || bias.dtype() == x.dtype()), "dtypes differ; cast the input or the parameters");
    check(x.size(-1) == weight.size(1), "x has ", x.size(-1), " features, weight expects ", weight.size(1),
          x.size(-1) == weight.size(0) ? "; weight is [out, in]" : "");
    check(!bias || bias.sizes() == Dims{weight.size(0)}, "bias must be [", weight.size(0), "], one number per output");
    kept = KeptWeight(weight);
    Dims y = x.sizes();
    y.back() = weight.size(0);
    return like(x, y);
  }

  void run(const View& y, const View& x, const View& weight, const View& bias) const {
    if (y.numel() == 0) return;
    const std::int64_t in = weight.size(1), out = weight.size(0), rows = y.numel() / out;
    View xm = x, wt = weight, ym = y;
    ym.sizes = {rows, out};
    ym.strides = {out, 1};
    wt.sizes = {in, out};
    wt.strides = {weight.strides[1], weight.strides[0]};
    xm.sizes = {rows, in};
    Tensor copy;
    if (!view_strides(x.sizes, x.strides, xm.sizes, &xm.strides)) {
      copy = Tensor::allocate(x.sizes, x.dtype, x.device);
      kernels::copy(x.device, copy.view(), x);
      xm.data = copy.raw_data();
      xm.strides = {in, 1};
    }
    kernels::gemm(y.device, ym, xm, wt, bias, kept);
  }

  static constexpr auto vjp() {
    return rules([](Grad g, In<1> weight) { return matmul(g, weight); },
                 [](Grad g, In<0> x) { return matmul(transpose(as_rows(g)), as_rows(x)); },
                 [](Grad g) -> Tensor { return g; });  // the node sums over rows
  }
  static Tensor reference(const Linear&, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor y = matmul(x, transpose(weight));
    return bias ? y + bias : y;
  }

  static void samples(Samples& s) {
    s({s.randn({3, 4}), s.randn({5, 4}), s.randn({5})}, Linear{});
    s({s.randn({3, 4}), s.randn({5, 4}), Tensor()}, Linear{});
    s({s.randn({4}), s.randn({5, 4}), s.randn({5})}, Linear{});
    s({s.randn({2, 3, 4}), s.randn({2, 4}), s.randn({2})}, Linear{});
    s({s.randn({1, 1}), s.randn({1, 1}), s.randn({1})}, Linear{});
    s({s.randn({0, 4}), s.randn({5, 4}), s.randn({5})}, Linear{});
    s({s.randn({3, 0}), s.randn({5, 0}), s.randn({5})}, Linear{});
    s({s.randn({37, 65}), s.randn({19, 65}), s.randn({19})}, Linear{});
    s({s.randn({130, 90}), s.randn({140, 90}), s.randn({140})}, Linear{}).flops = 2.0 * 130 * 90 * 140;
    s.error({s.randn({3, 5}), s.randn({5, 4}), s.randn({5})}, Linear{}, "x has 5 features, weight expects 4; weight is [out, in]");
    s.error({s.randn({3, 4}), s.randn({5, 4}), s.randn({4})}, Linear{}, "bias must be [5]");
    s.error({s.randn({3, 4}), s.randn({4}), Tensor()}, Linear{}, "weight must be [out, in]");
    s.error({s.integers({3, 4}, 0, 3), s.randn({5, 4}), Tensor()}, Linear{}, "needs floating dtypes");
  }
};

}  // namespace

MANTISSA_OP(Linear)
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) { return apply(Linear{}, x, weight, bias); }

}  // namespace mantissa
