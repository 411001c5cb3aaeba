// Matrix product by PyTorch's rules: a vector is a row on the left and a column on the right, and that dimension is
// dropped from the result; leading dimensions are batches and broadcast. Transposed views are read in place, without a
// copy. Next: core/gemm.h.
#include "core/gemm.h"
#include "core/ops.h"
#include "ops/apply.h"
#include "ops/parameter_gradient.h"
#include "ops/registry.h"
#include "ops/wide_matmul.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace {

// `v` as a matrix, or a batch of them: a vector becomes a row (on the left) or a column.
View as_matrix(const View& v, bool left) {
  View m = v;
  if (v.dim() == 1) {
    m.sizes.insert(left ? 0 : 1, 1);
    m.strides.insert(left ? 0 : 1, 0);
  }
  return m;
}
Dims batch_of(const Dims& sizes) {
  Dims batch = sizes;
  for (int i = 0; i < 2 && !batch.empty(); ++i) batch.erase(batch.rank() - 1);
  return batch;
}
Dims append(Dims batch, std::int64_t rows, std::int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}
View expand_batch(const View& v, const Dims& batch) {
  View e = v;
  e.sizes = append(batch, v.size(v.dim() - 2), v.size(v.dim() - 1));
  e.strides = broadcast_strides(v.sizes, v.strides, e.sizes);
  // A size of 1 in the matrix itself is not broadcast.
  for (int i = 1; i <= 2; ++i) e.strides[e.dim() - i] = v.strides[v.dim() - i];
  return e;
}

struct Matmul {
  static constexpr auto name = "matmul";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr auto autocast = CastPolicy::lower;

  Spec infer(const Tensor& a, const Tensor& b) const {
    check(a.dim() > 0 && b.dim() > 0, "needs at least 1 dimension on both sides; multiply by a number with *");
    check(a.is_floating() && b.is_floating(), "needs floating dtypes; cast integers first, as in cast(x, f32)");
    check(a.dtype() == b.dtype(), "dtypes ", a.dtype(), " and ", b.dtype(), " differ; cast one of them");
    const std::int64_t inner_a = a.sizes().back(), inner_b = b.size(b.dim() == 1 ? 0 : -2);
    if (inner_a != inner_b) fail_inner(a.sizes(), b.sizes(), inner_a, inner_b);
    Dims y = broadcast(batch_of(a.sizes()), batch_of(b.sizes()));
    if (a.dim() > 1) y.push_back(a.size(-2));
    if (b.dim() > 1) y.push_back(b.size(-1));
    return like(a, y);
  }

  void run(const View& y, const View& a, const View& b) const {
    if (y.numel() == 0) return;
    View left = as_matrix(a, true), right = as_matrix(b, false), out = y;
    const std::int64_t m = left.size(left.dim() - 2), k = left.size(left.dim() - 1), n = right.size(right.dim() - 1);
    Dims strides;
    Tensor rows;
    const bool one_matrix = right.dim() == 2 && left.dim() > 2 && left.numel() > 0;
    const bool rows_apart = one_matrix && view_strides(left.sizes, left.strides, {left.numel() / k, k}, &strides);
    if (one_matrix && (rows_apart || y.device.is_cpu())) {
      if (!rows_apart) {
        rows = Tensor::allocate(left.sizes, left.dtype, left.device);
        kernels::copy(left.device, rows.view(), left);
        left.data = rows.raw_data();
        strides = {k, 1};
      }
      left.sizes = {left.numel() / k, k};  // one matrix for the whole batch: a single tall product
      left.strides = strides;
      out.sizes = {left.sizes[0], n};
      out.strides = {n, 1};
    } else {
      const Dims batch = broadcast(batch_of(left.sizes), batch_of(right.sizes));
      left = expand_batch(left, batch);
      right = expand_batch(right, batch);
      out.sizes = append(batch, m, n);
      out.strides = contiguous_strides(out.sizes);
    }
    kernels::gemm(y.device, out, left, right, View{});
  }

  // With vectors as matrices: da = g @ b^T, db = a^T @ g; the node sums over broadcast batch dimensions.
  static constexpr auto vjp() {
    return rules([](Grad g, In<1> b, Shape<0> a, Into<0> to) { return gradient_a(g, b, a.sizes, to); },
                 [](Grad g, In<0> a, Shape<1> b, Into<1> to) { return gradient_b(g, a, b.sizes, to); });
  }
  void onnx(OnnxCall& c) const { c.result(c.node("MatMul", {c.in(0), c.in(1)})); }
  static Tensor gradient_as_matrix(Tensor g, int a_rank, int b_rank) {
    if (b_rank == 1) g = unsqueeze(g, -1);
    return a_rank == 1 ? unsqueeze(g, -2) : g;
  }
  // An operand of the forward product, transposed. An f32 operand that the product cannot read in place is copied
  // first, so that a view and its contiguous copy have the same orientation in the product, and so the same bits.
  static Tensor turned(const Tensor& t) {
    const std::int64_t rows = t.size(-2), columns = t.size(-1), row = t.strides()[t.dim() - 2],
                       column = t.strides().back();
    const bool lies_well = (column == 1 && row >= columns) || (row == 1 && column >= rows);
    return transpose(t.dtype() != f32 || !t.device().is_cpu() || lies_well ? t : contiguous(t));
  }
  static Tensor gradient_a(const Tensor& g, const Tensor& b, const Dims& a, const Destination& to) {
    const Tensor right = b.dim() == 1 ? unsqueeze(b, 1) : b;
    const Tensor gm = gradient_as_matrix(g, a.rank(), b.dim());
    return a.rank() == 1 ? squeeze(matmul(gm, turned(right)), -2) : product_into(to, gm, turned(right));
  }
  static Tensor gradient_b(const Tensor& g, const Tensor& a, const Dims& b, const Destination& to) {
    Tensor left = a.dim() == 1 ? unsqueeze(a, 0) : a;
    Tensor gm = gradient_as_matrix(g, a.dim(), b.rank());
    if (b.rank() <= 2 && left.dim() > 2) {  // the sum over the batch becomes part of one tall product
      std::int64_t rows = 1;
      for (int d = 0; d + 1 < left.dim(); ++d) rows *= left.size(d);
      left = reshape(left, {rows, left.size(-1)});
      gm = reshape(gm, {rows, gm.size(-1)});
    }
    return b.rank() == 1 ? squeeze(matmul(turned(left), gm), -1) : product_into(to, turned(left), gm);
  }

  [[noreturn]] static void fail_inner(const Dims& a, const Dims& b, std::int64_t inner_a, std::int64_t inner_b) {
    const char* advice = "";
    if (b.rank() >= 2 && b.back() == inner_a) advice = "; did you mean matmul(a, transpose(b))?";
    else if (a.rank() >= 2 && a[a.rank() - 2] == inner_b) advice = "; did you mean matmul(transpose(a), b)?";
    fail("inner sizes ", inner_a, " and ", inner_b, " differ", advice);
  }

  static void samples(Samples& s) {
    s({s.randn({3, 4}), s.randn({4, 5})}, Matmul{});
    s({s.randn({4}), s.randn({4})}, Matmul{});
    s({s.randn({4}), s.randn({4, 3})}, Matmul{});
    s({s.randn({3, 4}), s.randn({4})}, Matmul{});
    s({s.randn({2, 3, 4}), s.randn({4})}, Matmul{});
    s({s.randn({4}), s.randn({2, 4, 3})}, Matmul{});
    s({s.randn({2, 3, 4}), s.randn({4, 2})}, Matmul{});
    s({s.randn({2, 1, 3, 4}), s.randn({3, 4, 2})}, Matmul{});
    s({s.randn({1, 1}), s.randn({1, 1})}, Matmul{});
    s({s.randn({0, 4}), s.randn({4, 3})}, Matmul{});
    s({s.randn({3, 0}), s.randn({0, 4})}, Matmul{});
    s({s.randn({0, 3, 4}), s.randn({0, 4, 2})}, Matmul{});
    s({s.randn({0, 3, 4}), s.randn({4, 2})}, Matmul{});
    s({s.randn({9, 33}), s.randn({33, 21})}, Matmul{});
    s({s.randn({140, 70}), s.randn({70, 150})}, Matmul{}).flops = 2.0 * 140 * 70 * 150;
    s.error({s.randn({3, 4}), s.randn({5, 4})}, Matmul{},
            "inner sizes 4 and 5 differ; did you mean matmul(a, transpose(b))?");
    s.error({s.randn({4, 3}), s.randn({4, 5})}, Matmul{}, "did you mean matmul(transpose(a), b)?");
    s.error({s.randn({2, 3, 4}), s.randn({5, 4, 3})}, Matmul{}, "do not broadcast");
    s.error({s.randn({}), s.randn({4})}, Matmul{}, "at least 1 dimension");
    s.error({s.integers({2, 2}, 0, 3), s.integers({2, 2}, 0, 3)}, Matmul{}, "cast integers first");
    s.error({cast(s.randn({2, 2}), f32), s.randn({2, 2})}, Matmul{}, "dtypes f32 and f64 differ");
  }
};

// The product of f16 or bf16 in f32, its accumulation dtype: for operators that round only after adding to it.
struct WideMatmul : Matmul {
  Spec infer(const Tensor& a, const Tensor& b) const {
    Spec y = Matmul::infer(a, b);
    y.dtype = compute_dtype(y.dtype);
    return y;
  }
  static constexpr auto vjp() {
    return joint([](const WideMatmul&, Needs needs, Grad g, In<0> a, In<1> b, Into<0> to_a, Into<1> to_b) {
      const Tensor rounded = cast(g, a.dtype());
      return std::array<Tensor, 2>{needs[0] ? gradient_a(rounded, b, a.sizes(), to_a) : Tensor(),
                                   needs[1] ? gradient_b(rounded, a, b.sizes(), to_b) : Tensor()};
    });
  }
  void onnx(OnnxCall& c) const {
    const Dtype dtype = c.y().dtype();
    c.result(c.node("MatMul", {c.in(0, dtype), c.in(1, dtype)}));
  }
};

}  // namespace

MANTISSA_OP(Matmul)
Tensor matmul(const Tensor& a, const Tensor& b) { return apply(Matmul{}, a, b); }
Tensor wide_matmul(const Tensor& a, const Tensor& b) { return apply(WideMatmul{}, a, b); }

}  // namespace mantissa
