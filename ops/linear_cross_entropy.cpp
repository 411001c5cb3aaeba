// linear_cross_entropy: losses and gradients of x @ weight^T + bias chunk by chunk, computed in the forward pass. Logit
// gradients are scaled by `unit`: 1 / total for a mean; in f16, where that would underflow, a power of two that makes
// the largest about 2^14. Backward multiplies the f32 sums by the incoming gradient and by `rest`, the factor that unit
// lacks, in the same pass that rounds them. Read first: core/linear_cross_entropy.h.
#include "core/linear_cross_entropy.h"

#include <algorithm>

#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/gemm_fused.h"
#include "core/linear_cross_entropy_kernels.h"
#include "ops/pointwise.h"

namespace mantissa {

MANTISSA_KERNEL(add_in_place, const View& y, const View& x, double alpha)
MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)
MANTISSA_KERNEL(reduce_sum, const View& y, const View& x, double divisor)

std::int64_t linear_cross_entropy_chunk(std::int64_t rows, std::int64_t classes, Dtype dtype, Device device) {
  constexpr std::int64_t whole = 128;
  const std::int64_t limit = (device.is_cpu() ? 128 : 256) * std::int64_t{1 << 20};
  const std::int64_t row = std::max<std::int64_t>(1, classes) * static_cast<std::int64_t>(size_of(dtype));
  std::int64_t most = std::max<std::int64_t>(1, limit / row);
  if (most >= rows) return std::max<std::int64_t>(1, rows);
  if (most >= whole) most = most / whole * whole;
  const std::int64_t chunks = (rows + most - 1) / most, equal = (rows + chunks - 1) / chunks;
  return most >= whole ? (equal + whole - 1) / whole * whole : equal;
}

namespace {

Dims without_last(Dims d) {
  d.erase(d.rank() - 1);
  return d;
}
CrossEntropyOptions loss_options(const LinearCrossEntropyOptions& o) {
  return {o.label_smoothing, o.ignore_index, o.reduction};
}

// Rows [first, first + count) of a matrix or vector; turned(): the transposed matrix.
View rows_of(View v, std::int64_t first, std::int64_t count) {
  v.data = v.as<char>() + first * v.strides[0] * static_cast<std::int64_t>(size_of(v.dtype));
  v.sizes[0] = count;
  return v;
}
View turned(View v) {
  std::swap(v.sizes[0], v.sizes[1]);
  std::swap(v.strides[0], v.strides[1]);
  return v;
}
// v, or a contiguous copy of it in `dtype`, held by `keep`.
View dense(const View& v, Dtype dtype, Tensor& keep) {
  if (!v || (v.dtype == dtype && v.is_contiguous())) return v;
  keep = Tensor::allocate(v.sizes, dtype, v.device);
  kernels::copy(v.device, keep.view(), v);
  return keep.view();
}
// Sums [n] over the rows of a [n, k], written or added.
void sum_rows(const View& sums, const View& a, bool add) {
  View column = sums;
  column.sizes = {sums.size(0), 1};
  column.strides = {sums.strides[0], 1};
  if (!add) return kernels::reduce_sum(a.device, column, a, 1.0);
  const Tensor more = Tensor::allocate(column.sizes, sums.dtype, a.device);
  kernels::reduce_sum(a.device, more.view(), a, 1.0);
  kernels::add_in_place(a.device, column, more.view(), 1.0);
}

// saved * factor, rounded once: turns the sums from the forward pass into the gradient of an input.
struct LinearCrossEntropyBackward {
  static constexpr auto name = "linear_cross_entropy_backward";
  static constexpr const char* args[] = {"saved", "factor"};
  Dtype dtype = f32;

  Spec infer(const Tensor& saved, const Tensor& factor) const {
    check_sizes(factor, "factor", {});
    return like(saved, dtype);
  }
  void run(const View& y, const View& saved, const View& factor) const {
    const View* inputs[] = {&saved, &factor};
    pointwise::run_formula(pointwise::Mul{}, saved.dtype, y, inputs);
  }
  static Tensor reference(const LinearCrossEntropyBackward& op, const Tensor& saved, const Tensor& factor) {
    return cast(saved * factor, op.dtype);
  }
  static void samples(Samples& s) {
    const auto call = [](const Tensors& x) {
      return Samples::list(apply(LinearCrossEntropyBackward{x[0].dtype()}, x[0], x[1]));
    };
    const auto meaning = [](const Tensors& x) { return Samples::list(x[0] * x[1]); };
    for (const Dims& d : {Dims{3, 5}, Dims{7}, Dims{0, 4}, Dims{2, 700}})
      s.call({s.randn(d), s.randn({})}, call, meaning);
    s.error_call({s.randn({3}), s.randn({3})}, call, "the factor has shape [3]");
  }
};

// x [N, in], weight [C, in], target [N], bias [C] or undefined.
struct LinearCrossEntropy {
  static constexpr auto name = "linear_cross_entropy";
  static constexpr const char* args[] = {"x", "weight", "target", "bias"};
  static constexpr auto autocast = CastPolicy::lower;
  static constexpr bool halves = false;  // logits are rounded, as linear does: tests/cuda_linear_cross_entropy_test.cpp
  static constexpr std::uint64_t constants = 1 << 4;  // for the samples, which call the public function: class weights
  LinearCrossEntropyOptions options = {};
  Tensor class_weight = {};      // not an input: autocast would round it
  mutable KeptWeight kept = {};  // set by infer for run

  // Results: the loss; gradients of x, weight and bias, or empty; factors for the kernels and backward.
  std::array<Spec, 5> infer(const Tensor& x, const Tensor& weight, const Tensor& target, const Tensor& bias) const {
    check(x.is_floating() && weight.is_floating(), "needs floating dtypes; cast integers first, as in cast(x, f32)");
    check(x.dtype() == weight.dtype() && (!bias.defined() || bias.dtype() == x.dtype()),
          "dtypes differ; cast x or the parameters");
    check(weight.dim() == 2 && weight.size(0) > 0, "weight must be [classes, in]");
    check(x.size(-1) == weight.size(1), "x has ", x.size(-1), " features, weight expects ", weight.size(1),
          x.size(-1) == weight.size(0) ? "; weight is [classes, in]" : "");
    const Dims classes{weight.size(0)};
    check(!bias.defined() || bias.sizes() == classes, "bias must be ", classes, ", one number per class");
    if (class_weight.defined()) {
      check(class_weight.sizes() == classes && class_weight.is_floating(), "class_weight is ", class_weight,
            ", expected one floating number per class, ", classes);
      check(class_weight.device() == x.device(), "class_weight is on ", class_weight.device(), ", x on ", x.device());
      check(!class_weight.requires_grad() || !grad_enabled(),
            "class_weight requires a gradient, which class weights do not get; pass class_weight.detach()");
    }
    const double smoothing = options.label_smoothing;
    check(smoothing >= 0 && smoothing <= 1, "label_smoothing must be in [0, 1], got ", smoothing);
    check(options.batch_chunk_size >= 0, "batch_chunk_size must be positive, or 0 for the default, got ",
          options.batch_chunk_size);
    const auto gradient_of = [&](const Tensor& t) {
      const bool wanted = t.defined() && t.requires_grad() && grad_enabled();
      return like(x, wanted ? t.sizes() : Dims{0});
    };
    std::array<Spec, 5> y{like(x, options.reduction == Reduction::none ? target.sizes() : Dims{}), gradient_of(x),
                          gradient_of(weight), gradient_of(bias), like(x, Dims{4})};
    for (int i = 1; i < 5; ++i) y[i].dtype = compute_dtype(x.dtype());
    if (is_half(x.dtype()) && amp::is_enabled(x.device())) y[0].dtype = f32;  // like cross_entropy's
    kept = KeptWeight(weight);
    return y;
  }

  void run(const std::array<View, 5>& y, const View& given_x, const View& given_weight, const View& target,
           const View& bias) const {
    Tensor x_copy, dense_weight;  // on the CPU, copies of strided operands give the same bits
    const View x = given_x.device.is_cpu() ? dense(given_x, given_x.dtype, x_copy) : given_x;
    const View weight = given_x.device.is_cpu() ? dense(given_weight, given_weight.dtype, dense_weight) : given_weight;
    const KeptWeight packed = dense_weight.defined() ? KeptWeight() : kept;
    const auto& [loss, dx, dweight, dbias, factors] = y;
    const bool to_x = dx.dim() == 2, to_weight = dweight.dim() == 2, to_bias = dbias.numel() > 0;
    const bool gradient = to_x || to_weight || to_bias;
    const std::int64_t rows = x.size(0), classes = weight.size(0);
    const Device device = x.device;
    const CrossEntropyOptions o = loss_options(options);
    Tensor label_copy, weight_copy;
    const View labels = dense(target, i64, label_copy);
    const View weights = dense(class_weight.view(), factors.dtype, weight_copy);
    kernels::linear_cross_entropy_factors(device, factors, labels, weights, classes, gradient && x.dtype == f16, o);
    const std::int64_t wish = options.batch_chunk_size;
    const std::int64_t chunk = wish > 0 ? std::min(wish, std::max<std::int64_t>(rows, 1))
                                        : linear_cross_entropy_chunk(rows, classes, x.dtype, device);
    const Tensor losses = Tensor::allocate({rows}, factors.dtype, device);
    const Tensor logits = Tensor::allocate({std::min(chunk, rows), classes}, x.dtype, device);
    for (std::int64_t first = 0; first < rows; first += chunk) {
      const std::int64_t count = std::min(chunk, rows - first);
      const View part = rows_of(logits.view(), 0, count), in = rows_of(x, first, count);
      const bool add = first > 0;
      kernels::gemm(device, part, in, turned(weight), bias, packed);
      kernels::linear_cross_entropy_rows(device, rows_of(losses.view(), first, count), part,
                                         rows_of(labels, first, count), weights, factors, gradient, o);
      if (to_x) kernels::gemm(device, rows_of(dx, first, count), part, weight, {}, {});
      const bool both = to_bias && dweight.numel() > 0;
      if (both) kernels::gemm_and_sums(device, dweight, dbias, turned(part), in, add);
      else if (to_weight) kernels::gemm(device, dweight, turned(part), in, {}, {}, add);
      if (to_bias && !both) sum_rows(dbias, turned(part), add);
    }
    for (const View& d : {dweight, dbias}) if (rows == 0 && d.numel() > 0) kernels::fill(device, d, 0.0);
    if (options.reduction == Reduction::none) kernels::copy(device, loss, losses.view());
    else kernels::linear_cross_entropy_loss(device, loss, losses.view(), factors, options.reduction);
  }

  static constexpr auto vjp() {
    return joint([](const LinearCrossEntropy& op, Needs needs, Grad g, In<0> x, In<1> weight, In<2> target, In<3> bias,
                    Into<0> to_x, Into<1> to_weight, Into<3> to_bias, Out<1> dx, Out<2> dweight, Out<3> dbias,
                    Out<4> factors) {
      if (grad_enabled()) return op.recorded_gradients(needs, g, x, weight, target, bias);
      const Tensor factor = cast(g, factors.dtype()) * select(factors, 0, 3);
      const bool one = factor.device().is_cpu() && factor.item<double>() == 1;  // not read from a GPU: no waiting
      const auto scaled = [&](Tensor& saved, const Destination& to) {
        if (one && saved.dtype() == to.dtype) return std::move(saved);
        return apply_over({&saved}, LinearCrossEntropyBackward{to.dtype}, saved, factor);
      };
      std::array<Tensor, 4> d;
      if (needs[0]) d[0] = scaled(dx, to_x);
      if (needs[1]) d[1] = scaled(dweight, to_weight);
      if (needs[3]) d[3] = scaled(dbias, to_bias);
      return d;
    });
  }
  // The same by the two operators, for backward passes that are themselves recorded.
  std::array<Tensor, 4> recorded_gradients(Needs needs, const Tensor& g, const Tensor& x, const Tensor& weight,
                                           const Tensor& target, const Tensor& bias) const {
    std::array<Tensor, 4> inputs{x, weight, Tensor(), bias}, d;
    Tensors wanted;
    for (int i = 0; i < 4; ++i) {
      if (!inputs[i].defined() || !needs[i]) continue;
      inputs[i] = inputs[i] * 1.0;  // a separate node, even if the same tensor is two inputs
      wanted.push_back(inputs[i]);
    }
    const Tensor loss = reference_loss(inputs[0], inputs[1], target, inputs[3]);
    const Tensors found = mantissa::grad(std::span(&loss, 1), wanted, std::span(&g, 1), {.create_graph = true});
    for (int i = 0, next = 0; i < 4; ++i) if (inputs[i].defined() && needs[i]) d[i] = found[next++];
    return d;
  }
  Tensor reference_loss(const Tensor& x, const Tensor& weight, const Tensor& target, const Tensor& bias) const {
    const Tensor logits = linear(x, weight, bias);
    return cross_entropy(cast(logits, compute_dtype(x.dtype())), target, loss_options(options), class_weight);
  }
  static void samples(Samples& s);
};

// The two operators; weight may have more dimensions.
Tensor composed(const Tensor& x, const Tensor& weight, const Tensor& target, const Tensor& bias,
                const LinearCrossEntropyOptions& o, const Tensor& class_weight) {
  const std::int64_t in = weight.size(-1), out = numel_of(without_last(weight.sizes()));
  const Tensor y = linear(x, reshape(weight, {out, in}), bias.defined() ? reshape(bias, {bias.numel()}) : bias);
  Dims logits = without_last(x.sizes());
  for (const std::int64_t d : without_last(weight.sizes())) logits.push_back(d);
  return cross_entropy(reshape(y, logits), target, loss_options(o), class_weight);
}

void check_shapes(const Tensor& x, const Tensor& weight, const Tensor& target, const Tensor& bias) {
  check(x.dim() >= 1 && x.dim() <= 3, "x must be [in], [N, in] or [B, T, in]");
  check(weight.dim() >= 2, "weight must be [classes, in]");
  if (weight.dim() > 2) {
    check(x.dim() == 2, "a weight of more than two dimensions needs x [N, in]");
    check(!bias.defined() || bias.sizes() == without_last(weight.sizes()), "bias must be ",
          without_last(weight.sizes()));
    return;
  }
  check(target.is_floating() || target.dtype() == i64, "target is ", target.dtype(),
        ", expected class labels of dtype i64 or floating probabilities");
  Dims expected = without_last(x.sizes());
  if (target.is_floating()) expected.push_back(weight.size(0));
  check(target.sizes() == expected, "target has shape ", target.sizes(), ", expected ", expected);
}

void LinearCrossEntropy::samples(Samples& s) {
  const Tensor none;
  // Calls the public function: Reduction::none has a gradient there, and more shapes.
  const auto add = [&](const Tensor& x, const Tensor& weight, const Tensor& target, const Tensor& bias,
                       const LinearCrossEntropyOptions& o, const Tensor& class_weight = {}) -> Sample& {
    const auto with = [=](auto&& f) {
      return [=](const Tensors& t) { return Samples::list(f(t[0], t[1], t[2], t[3], o, t[4])); };
    };
    const auto meaning = [](const Tensor& a, const Tensor& b, const Tensor& label, const Tensor& c, const auto& op,
                            const Tensor& w) {
      const Tensor logits = linear(a, b, c);
      if (a.dim() < 3) return cross_entropy(logits, label, loss_options(op), w);
      const Tensor loss = cross_entropy(flatten(logits, 0, 1), flatten(label), loss_options(op), w);
      return loss.dim() > 0 ? reshape(loss, label.sizes()) : loss;
    };
    return s.call({x, weight, target, bias, class_weight}, with(linear_cross_entropy), with(meaning));
  };
  for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
    add(s.randn({5, 4}), s.randn({6, 4}), s.integers({5}, 0, 6), none, {.reduction = r});
    add(s.randn({5, 4}), s.randn({6, 4}), s.integers({5}, 0, 6), s.randn({6}),
        {.label_smoothing = 0.1, .ignore_index = 2, .reduction = r, .batch_chunk_size = 2}, s.uniform({6}, 0.5, 2));
    add(s.randn({2, 3, 4}), s.randn({6, 4}), s.integers({2, 3}, 0, 6), none, {.reduction = r, .batch_chunk_size = 4});
  }
  add(s.randn({4}), s.randn({6, 4}), s.integers({}, 0, 6), s.randn({6}), {});
  add(s.randn({3, 1}), s.randn({1, 1}), s.integers({3}, 0, 1), none, {});
  add(s.randn({0, 4}), s.randn({6, 4}), s.integers({0}, 0, 6), s.randn({6}), {.reduction = Reduction::sum});
  add(s.randn({3, 0}), s.randn({6, 0}), s.integers({3}, 0, 6), s.randn({6}), {});
  add(s.randn({7, 5}), s.randn({701, 5}), s.integers({7}, 0, 701), none,
      {.label_smoothing = 0.2, .batch_chunk_size = 3});
  add(s.randn({3, 3}), s.randn({1040, 3}), s.integers({3}, 0, 1040), s.randn({1040}), {});
  add(s.randn({130, 40}), s.randn({96, 40}), s.integers({130}, 0, 96), none, {.batch_chunk_size = 65}).flops =
      2.0 * 130 * 40 * 96;

  const auto error = [&](Tensors x, const LinearCrossEntropyOptions& o, std::string fragment) {
    x.resize(5);
    s.error_call(std::move(x), [=](const Tensors& t) {
      return Samples::list(linear_cross_entropy(t[0], t[1], t[2], t[3], o, t[4]));
    }, std::move(fragment));
  };
  const Tensor x = s.randn({2, 4}), weight = s.randn({3, 4}), target = s.integers({2}, 0, 3);
  error({x, weight, s.integers({2}, 3, 4), none}, {},
        "label 3 at position 0 of the target is out of range for 3 classes");
  error({x, weight, s.integers({3}, 0, 3), none}, {}, "target has shape [3], expected [2]");
  error({x, weight, s.randn({2}), none}, {}, "target has shape [2], expected [2, 3]");
  error({x, s.randn({3, 5}), target, none}, {}, "x has 4 features, weight expects 5");
  error({x, s.randn({4, 3}), target, none}, {}, "weight is [classes, in]");
  error({x, weight, target, s.randn({2})}, {}, "bias must be [3], one number per class");
  error({s.integers({2, 4}, 0, 3), weight, target, none}, {}, "needs floating dtypes");
  error({x, weight, target, none}, {.label_smoothing = 1.5}, "label_smoothing must be in [0, 1]");
  error({x, weight, target, none}, {.batch_chunk_size = -1}, "batch_chunk_size must be positive");
  error({x, weight, target, none, s.randn({2})}, {}, "expected one floating number per class, [3]");
}

}  // namespace

MANTISSA_OP(LinearCrossEntropy)
MANTISSA_OP(LinearCrossEntropyBackward)

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target, const Tensor& bias,
                            const LinearCrossEntropyOptions& o, const Tensor& class_weight) {
  const Tensor* const inputs[] = {&x, &weight, &target, &bias};
  try {
    check_shapes(x, weight, target, bias);
  } catch (Error& e) {
    detail::add_operator_context(e, LinearCrossEntropy::name, LinearCrossEntropy::args, inputs);
    throw;
  }
  if (weight.dim() > 2) return composed(x, weight, target, bias, o, class_weight);
  const Dims shape = without_last(x.sizes());
  const std::int64_t rows = numel_of(shape);
  const auto as_rows = [&](const Tensor& t, const Dims& sizes) { return x.dim() == 2 ? t : reshape(t, sizes); };
  const Tensor all = as_rows(x, {rows, x.size(-1)});
  const bool recorded = detail::should_record(inputs), each = o.reduction == Reduction::none;
  const Tensor wanted = as_rows(target, target.is_floating() ? Dims{rows, weight.size(0)} : Dims{rows});
  const bool by_two = target.is_floating() || (each && recorded);
  const Tensor loss = by_two ? composed(all, weight, wanted, bias, o, class_weight)
                             : apply(LinearCrossEntropy{o, class_weight}, all, weight, wanted, bias)[0];
  return each ? as_rows(loss, shape) : loss;
}

}  // namespace mantissa
