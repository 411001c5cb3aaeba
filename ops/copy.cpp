// Operators that copy elements without arithmetic: cast, clone, cat and functions composed of them.
#include <algorithm>
#include <iterator>

#include "core/formula_recorder.h"
#include "core/ops.h"
#include "ops/apply.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace {

void copy_elements(const View& y, const View& x) {
  if (pointwise::formula_recorder) [[unlikely]] pointwise::formula_recorder->copy(y, x);
  kernels::copy(y.device, y, x);
}

struct Cast {
  static constexpr auto name = "cast";
  static constexpr const char* args[] = {"x"};
  Dtype to;

  Spec infer(const Tensor& x) const { return like_layout(x, to); }
  void run(const View& y, const View& x) const { copy_elements(y, x); }
  static constexpr auto vjp() {  // the node casts back
    return rules([](Grad g) -> Tensor { return g; });
  }
  void onnx(OnnxCall& c) const { c.result(c.in(0, to)); }
  static void samples(Samples& s) {
    s({s.randn({3, 4})}, Cast{f64});
    s({s.integers({5}, -3, 3)}, Cast{f64});
    s({s.randn({})}, Cast{f32}).differentiable = false;  // f32 is too coarse for finite differences
    s({s.randn({0})}, Cast{f16}).differentiable = false;
    s({s.randn({6})}, Cast{i64}).exact_only = true;
  }
};

struct Clone {
  static constexpr auto name = "clone";
  static constexpr const char* args[] = {"x"};
  Layout layout = Layout::contiguous;
  Spec infer(const Tensor& x) const {
    Spec y = like(x);
    y.layout = layout;
    return y;
  }
  void run(const View& y, const View& x) const { copy_elements(y, x); }
  void onnx(OnnxCall& c) const { c.result(c.in(0)); }
  static constexpr auto vjp() {
    return rules([](Grad g) -> Tensor { return g; });
  }
  static void samples(Samples& s) {
    s({s.randn({2, 3, 4, 2})}, Clone{Layout::channels_last});
    s({s.randn({3, 4})}, Clone{});
    s({s.randn({})}, Clone{});
    s({s.randn({0, 2})}, Clone{});
  }
};

// Copies between devices; the gradient is copied back.
struct ToDevice {
  static constexpr auto name = "to";
  static constexpr const char* args[] = {"x"};
  Device target, source;
  Spec infer(const Tensor& x) const { return in_layout_of({x.sizes(), x.dtype(), target}, x); }
  void run(const View& y, const View& x) const { kernels::copy(y.device.is_cpu() ? x.device : y.device, y, x); }
  static constexpr auto vjp() {
    return rules([](const ToDevice& op, Grad g) { return g.to(op.source); });
  }
  void onnx(OnnxCall& c) const { c.result(c.in(0)); }
  static void samples(Samples& s) {
    s({s.randn({3, 4})}, ToDevice{cpu, cpu});
    if (cuda_is_available()) s({s.randn({2, 5})}, ToDevice{cuda, cpu}).reference = [](const Tensors& x) { return x; };
  }
};

struct Cat {
  static constexpr auto name = "cat";
  static constexpr const char* args[] = {"tensors"};
  static constexpr auto autocast = CastPolicy::promote;
  int dim;

  Spec infer(std::span<const Tensor> x) const {
    check(!x.empty(), "needs at least one tensor");
    check(x[0].dim() > 0, "scalars cannot be concatenated; use stack");
    const int d = wrap_dim(dim, x[0].dim());
    Spec out = like(x[0]);
    for (const Tensor& t : x) out = in_layout_of(out, t);
    for (std::size_t i = 1; i < x.size(); ++i) {
      Dims expected = x[0].sizes();
      if (x[i].dim() == x[0].dim()) expected[d] = x[i].sizes()[d];
      check(x[i].sizes() == expected, "tensor ", static_cast<int>(i), " is ", x[i], ", the first ", x[0],
            "; sizes must agree in all but dimension ", d);
      check(!__builtin_add_overflow(out.sizes[d], x[i].sizes()[d], &out.sizes[d]), "the result is too large");
      out.dtype = promote(out.dtype, x[i].dtype());
    }
    return out;
  }
  void run(const View& y, std::span<const View> x) const {
    const int d = wrap_dim(dim, y.dim());
    View part = y;
    for (const View& v : x) {
      part.sizes[d] = v.sizes[d];
      if (v.numel() > 0) kernels::copy(y.device, part, v);
      part.data =
          static_cast<char*>(part.data) + v.sizes[d] * y.strides[d] * static_cast<std::int64_t>(size_of(y.dtype));
    }
  }
  static constexpr auto vjp() {
    return joint([](const Cat& op, Grad g, Shapes x) {
      std::vector<Tensor> grads;
      std::int64_t at = 0;
      for (const InputMeta& m : x) {
        const std::int64_t n = m.sizes[wrap_dim(op.dim, g.dim())];
        grads.push_back(slice(g, op.dim, at, at + n));
        at += n;
      }
      return grads;
    });
  }
  void onnx(OnnxCall& c) const {
    std::vector<OnnxId> parts;
    for (int i = 0; i < c.inputs(); ++i) parts.push_back(c.in(i, c.y().dtype()));
    c.result(c.node("Concat", parts, {{"axis", wrap_dim(dim, c.y().dim())}}));
  }
  static void samples(Samples& s) {
    const auto along = [](int dim) { return [dim](const Tensors& x) { return cat(x, dim); }; };
    s.call({s.randn({2, 3}), s.randn({4, 3}), s.randn({0, 3})}, along(0));
    s.call({s.randn({2, 3}), s.randn({2, 1})}, along(-1));
    s.call({s.randn({2})}, along(0));
    s.error_call({s.randn({2, 3}), s.randn({2, 4})}, along(0), "sizes must agree in all but dimension 0");
    s.error_call({s.randn({})}, along(0), "use stack");
  }
};

MANTISSA_OP(Cast)
MANTISSA_OP(Clone)
MANTISSA_OP(ToDevice)
MANTISSA_OP(Cat)

}  // namespace

Tensor cast(const Tensor& x, Dtype dtype) {
  return x.dtype() == dtype && !x.is_weak_scalar() ? x : apply(Cast{dtype}, x);
}
Tensor Tensor::to(Device target) const { return target == device() ? *this : apply(ToDevice{target, device()}, *this); }
Tensor clone(const Tensor& x) { return apply(Clone{x.layout()}, x); }
Tensor contiguous(const Tensor& x) { return x.is_contiguous() ? x : apply(Clone{}, x); }
Tensor channels_last(const Tensor& x) {
  check(x.dim() == 4 || x.dim() == 5, "channels_last: needs images [N, C, H, W] or volumes [N, C, D, H, W], got ", x);
  return is_channels_last(x.sizes(), x.strides()) ? x : apply(Clone{Layout::channels_last}, x);
}
Tensor cat(std::span<const Tensor> tensors, int dim) {
  // As in PyTorch, empty vectors among tensors of other shapes do not count: lists begin with one.
  const auto counts = [](const Tensor& t) { return !(t.defined() && t.sizes() == Dims{0}); };
  const auto is_wide = [](const Tensor& t) { return t.defined() && t.dim() > 1; };
  const auto wide = std::ranges::find_if(tensors, is_wide);
  if (!std::ranges::all_of(tensors, counts) && wide != tensors.end()) {
    Dims none = wide->sizes();
    none[wrap_dim(dim, none.rank())] = 0;
    std::vector<Tensor> others;
    for (const Tensor& t : tensors) {
      if (counts(t)) others.push_back(t);
      else if (t.requires_grad()) others.push_back(reshape(t, none));  // for its gradient, which is empty, too
    }
    Dtype dtype = tensors[0].dtype();  // of all of them
    for (const Tensor& t : tensors) dtype = promote(dtype, t.dtype());
    const Tensor y = apply_list(Cat{dim}, others);
    return y.dtype() == dtype ? y : cast(y, dtype);
  }
  return apply_list(Cat{dim}, tensors);
}

namespace {

void contiguous_samples(Samples& s) {
  s.call({s.randn({3, 4})}, [](const Tensors& x) { return contiguous(transpose(x[0])); });
  s.call({s.randn({3})}, [](const Tensors& x) { return contiguous(x[0]); });
}
void channels_last_samples(Samples& s) {
  s.call({s.randn({2, 3, 4, 5})}, [](const Tensors& x) { return channels_last(x[0]); });
  s.call({s.randn({2, 1, 4, 1})}, [](const Tensors& x) { return channels_last(x[0]); });
  s.call({s.randn({2, 3, 2, 4, 5})}, [](const Tensors& x) { return channels_last(x[0]); });
  s.error_call(
      {s.randn({2, 3, 4})}, [](const Tensors& x) { return channels_last(x[0]); }, "needs images [N, C, H, W]");
}
MANTISSA_COMPOSITE(contiguous, contiguous_samples)
MANTISSA_COMPOSITE(channels_last, channels_last_samples)

}  // namespace
}  // namespace mantissa
