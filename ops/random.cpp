// Random operators: samples shaped by tensors, sampling from weights, channel dropout and alpha dropout for selu
// (Klambauer et al., 2017). All numbers come from the default counter-based generator (core/random.h), so they do not
// depend on the number of threads. Elementwise dropout: ops/dropout.cpp.
#include "core/random.h"

#include <cmath>

#include "ops/compose.h"
#include "ops/named.h"
#include "ops/pointwise.h"

namespace mantissa {
namespace {

TensorOptions options_of(const Tensor& x) { return {.dtype = x.dtype(), .device = x.device()}; }
Dtype exact_dtype(const Tensor& x) { return x.dtype() == f64 ? f64 : f32; }
void check_probability(double p) { check(p >= 0 && p <= 1, "p must be a probability, got ", p); }
// 1 with probability `keep`, in a dtype that represents the scale factors accurately.
Tensor mask_of(const Dims& sizes, double keep, const Tensor& x) {
  const TensorOptions o{.dtype = exact_dtype(x), .device = x.device()};
  return cast(lt(rand(sizes, o), Tensor(keep)), o.dtype);
}
// The sizes of x with 1 for all but the batch and channels. `spatial` is the number of dimensions after the channels.
Dims per_channel(const Tensor& x, int spatial) {
  const bool batched = x.dim() == spatial + 2;
  Dims sizes = Dims::filled(x.dim(), 1);
  for (int d = 0; d < (batched ? 2 : 1); ++d) sizes[d] = x.sizes()[d];
  return sizes;
}

// x times a mask in f32 or f64, rounded once.
Tensor masked(const Tensor& x, const Tensor& mask);
struct Masked {
  static constexpr auto name = "mul";
  static constexpr const char* args[] = {"x", "mask"};
  Spec infer(const Tensor& x, const Tensor&) const { return like_layout(x); }
  void run(const View& y, const View& x, const View& mask) const {
    const View* inputs[] = {&x, &mask};
    pointwise::run_formula(pointwise::Mul{}, compute_dtype(y.dtype), y, inputs);
  }
  static constexpr auto vjp() {
    return rules([](Grad g, In<1> mask) { return masked(g, mask); }, no_gradient);
  }
  void onnx(OnnxCall& c) const { c.result(c.node("Mul", {c.in(0), c.in(1, c.y().dtype())})); }
};
Tensor masked(const Tensor& x, const Tensor& mask) { return apply(Masked{}, x, mask); }

template <int spatial> struct ChannelDropout {
  static constexpr auto name = spatial == 1 ? "dropout1d" : spatial == 2 ? "dropout2d" : "dropout3d";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true, random = true, widens_itself = true;
  double p = 0.5;

  static Tensor compose(const ChannelDropout& op, const Tensor& x) {
    check_probability(op.p);
    check(x.is_floating(), "needs a floating dtype");
    check(x.dim() == spatial + 2 || x.dim() == spatial + 1, "x must have ", spatial + 2,
          " dimensions, [N, C, ...], or ", spatial + 1, " without a batch");
    const double scale = op.p < 1 ? 1 / (1 - op.p) : 0;
    return masked(x, mask_of(per_channel(x, spatial), 1 - op.p, x) * scale);
  }
  static void samples(Samples& s) {
    Dims sizes{3, 4}, single{4};
    for (int d = 0; d < spatial; ++d) sizes.push_back(2), single.push_back(2);
    composed(s, {s.randn(sizes)}, ChannelDropout{});
    composed(s, {s.randn(single)}, ChannelDropout{0.25});
    composed_error(s, {s.randn(sizes)}, ChannelDropout{-0.5}, "p must be a probability, got -0.5");
    composed_error(s, {s.randn({4})}, ChannelDropout{}, "dimensions, [N, C, ...]");
  }
};

// Dropped elements get selu's limit for large negative inputs; a * x + b then restores mean 0 and variance 1.
Tensor alpha_dropped(const Tensor& x, const Tensor& mask, double p) {
  if (p == 1) return x * 0.0;
  constexpr double left = -1.7580993408473766;
  const double a = 1 / std::sqrt((1 - p) * (1 + p * left * left)), b = -a * left * p;
  return x * (mask * a) + ((1.0 - mask) * (left * a) + b);
}
struct AlphaDropout {
  static constexpr auto name = "alpha_dropout";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true, random = true;
  double p = 0.5;
  static Tensor compose(const AlphaDropout& op, const Tensor& x) {
    check_probability(op.p);
    check(x.is_floating(), "needs a floating dtype");
    return alpha_dropped(x, mask_of(x.sizes(), 1 - op.p, x), op.p);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({5, 6})}, AlphaDropout{0.3});
    composed(s, {s.randn({4})}, AlphaDropout{1});
    composed_error(s, {s.randn({4})}, AlphaDropout{2}, "p must be a probability, got 2");
  }
};
struct FeatureAlphaDropout {
  static constexpr auto name = "feature_alpha_dropout";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true, random = true;
  double p = 0.5;
  static Tensor compose(const FeatureAlphaDropout& op, const Tensor& x) {
    check_probability(op.p);
    check(x.is_floating(), "needs a floating dtype");
    check(x.dim() >= 2, "x must be [N, C, ...]");
    return alpha_dropped(x, mask_of(per_channel(x, x.dim() - 2), 1 - op.p, x), op.p);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 4, 2, 2})}, FeatureAlphaDropout{0.4});
    composed_error(s, {s.randn({4})}, FeatureAlphaDropout{}, "x must be [N, C, ...]");
  }
};

struct RRelu {
  static constexpr auto name = "rrelu";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true, random = true;
  double lower = 1.0 / 8, upper = 1.0 / 3;
  bool training = true;
  static Tensor compose(const RRelu& op, const Tensor& x) {
    check(op.lower <= op.upper, "lower ", op.lower, " is above upper ", op.upper);
    if (!op.training) return leaky_relu(x, (op.lower + op.upper) / 2);
    const Tensor slope =
        rand(x.sizes(), {.dtype = exact_dtype(x), .device = x.device()}) * (op.upper - op.lower) + op.lower;
    return where(ge(x, Tensor(0.0)), x, x * slope);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 7})}, RRelu{});
    composed(s, {s.randn({4})}, RRelu{0.1, 0.3, false});
    composed_error(s, {s.randn({4})}, RRelu{0.5, 0.1}, "lower 0.5 is above upper 0.1");
  }
};

struct GumbelSoftmax {
  static constexpr auto name = "gumbel_softmax";
  static constexpr const char* args[] = {"logits"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true, random = true;
  double tau = 1;
  bool hard = false;
  int dim = -1;
  static Tensor compose(const GumbelSoftmax& op, const Tensor& logits) {
    check(op.tau > 0, "tau must be positive, got ", op.tau);
    check(logits.is_floating(), "needs a floating dtype");
    const int d = wrap_dim(op.dim, logits.dim());
    // away from 0 and 1
    const Tensor u = rand(logits.sizes(), {.dtype = f64, .device = logits.device()}) * (1 - 0x1p-30) + 0x1p-31;
    const Tensor soft = softmax((logits + cast(-log(-log(u)), logits.dtype())) * (1 / op.tau), d);
    if (!op.hard) return soft;
    const Tensor chosen = argmax(soft.detach(), d, true);
    const Tensor one = scatter(zeros_like(soft), d, chosen, 1.0);
    return one - soft.detach() + soft;  // the value of one, the gradient of soft
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 5})}, GumbelSoftmax{0.7});
    composed(s, {s.randn({3, 5})}, GumbelSoftmax{1, true, 0}).differentiable = false;  // differences see steps
    composed_error(s, {s.randn({3})}, GumbelSoftmax{0}, "tau must be positive, got 0");
  }
};

}  // namespace

MANTISSA_OP(ChannelDropout<1>)
MANTISSA_OP(ChannelDropout<2>)
MANTISSA_OP(ChannelDropout<3>)
MANTISSA_OP(AlphaDropout)
MANTISSA_OP(FeatureAlphaDropout)
MANTISSA_OP(RRelu)
MANTISSA_OP(GumbelSoftmax)

Tensor dropout1d(const Tensor& x, double p, bool training) {
  return training && p != 0 ? apply_composed(ChannelDropout<1>{p}, x) : x;
}
Tensor dropout2d(const Tensor& x, double p, bool training) {
  return training && p != 0 ? apply_composed(ChannelDropout<2>{p}, x) : x;
}
Tensor dropout3d(const Tensor& x, double p, bool training) {
  return training && p != 0 ? apply_composed(ChannelDropout<3>{p}, x) : x;
}
Tensor alpha_dropout(const Tensor& x, double p, bool training) {
  return training && p != 0 ? apply_composed(AlphaDropout{p}, x) : x;
}
Tensor feature_alpha_dropout(const Tensor& x, double p, bool training) {
  return training && p != 0 ? apply_composed(FeatureAlphaDropout{p}, x) : x;
}
Tensor rrelu(const Tensor& x, double lower, double upper, bool training) {
  return apply_composed(RRelu{lower, upper, training}, x);
}
Tensor gumbel_softmax(const Tensor& logits, double tau, bool hard, int dim) {
  return apply_composed(GumbelSoftmax{tau, hard, dim}, logits);
}

Tensor rand_like(const Tensor& x) { return rand(x.sizes(), options_of(x)); }
Tensor randn_like(const Tensor& x) { return randn(x.sizes(), options_of(x)); }
Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high) {
  return randint(low, high, x.sizes(), options_of(x));
}

Tensor bernoulli(const Tensor& p) {
  check(p.is_floating(), "bernoulli: needs probabilities of a floating dtype, got ", p);
  const Tensor q = p.detach();
  named_check_all("bernoulli", p, logical_and(ge(q, Tensor(0.0)), le(q, Tensor(1.0))), "p holds values outside [0, 1]");
  return cast(lt(rand(q.sizes(), {.dtype = exact_dtype(q), .device = q.device()}), q), q.dtype());
}
Tensor normal(const Tensor& mean, const Tensor& std) {
  check(mean.is_floating() && std.is_floating(), "normal: needs floating dtypes, got ", mean, " and ", std);
  named_check_all("normal", std, logical_not(lt(std.detach(), Tensor(0.0))), "std holds negative values");
  const Dims sizes = broadcast(mean.sizes(), std.sizes());
  const Dtype dtype = promote(mean.dtype(), std.dtype());
  const Tensor z = randn(sizes, {.dtype = dtype == f64 ? f64 : f32, .device = mean.device()});
  return cast(mean.detach() + std.detach() * z, dtype);
}
Tensor normal(double mean, double std, const Dims& sizes, TensorOptions o) {
  check(std >= 0, "normal: std ", std, " is negative");
  check(is_floating(o.dtype), "normal: the dtype must be floating, got ", o.dtype);
  Tensor t = Tensor::allocate(sizes, o.dtype, o.device);
  normal_(t, mean, std);
  if (o.requires_grad) t.requires_grad_();
  return t;
}

// With replacement: by inverting the cumulative distribution. Without: by exponential races (Efraimidis and Spirakis,
// 2006): the largest u^(1 / weight) come first, which is equivalent to drawing by weight one at a time.
Tensor multinomial(const Tensor& x, std::int64_t num_samples, bool replacement) {
  check(x.dim() == 1 || x.dim() == 2, "multinomial: needs weights [categories] or [N, categories], got ", x);
  check(x.is_floating(), "multinomial: needs weights of a floating dtype, got ", x);
  check(num_samples > 0, "multinomial: num_samples must be positive, got ", num_samples);
  const std::int64_t categories = x.size(-1);
  check(replacement || num_samples <= categories, "multinomial: ", num_samples, " samples without replacement from ",
        categories, " categories");
  const Tensor w = cast(x.detach(), f64), total = sum(w, {-1}, true);
  named_check_all("multinomial", x, logical_and(ge(w, Tensor(0.0)), isfinite(w)),
                  "weights must be finite and not negative");
  named_check_all("multinomial", x, gt(total, Tensor(0.0)), "weights sum to 0");
  Dims sizes = x.sizes();
  if (!replacement) {
    const Tensor possible = sum(cast(gt(w, Tensor(0.0)), i64), {-1});
    named_check_all("multinomial", x, ge(possible, Tensor(num_samples)),
                    concat("fewer than ", num_samples, " weights are above 0").c_str());
    const Tensor u = rand(sizes, {.dtype = f64, .device = x.device()});
    const Tensor key = log1p(-u) / w;  // -exponential / weight; -inf (or NaN at u = 0) where the weight is 0
    return topk(where(eq(w, Tensor(0.0)), Tensor(-HUGE_VAL), key), num_samples, -1, true).indices;
  }
  sizes.back() = num_samples;
  const Tensor u = rand(sizes, {.dtype = f64, .device = x.device()}), edges = cumsum(w, -1);
  const Tensor at = searchsorted(edges, u * slice(edges, -1, categories - 1), true);
  return clamp(at, 0, static_cast<double>(categories - 1));
}

namespace {

// Random integers and Bernoulli samples have no reference; tests/random_test.cpp checks distributions.
void rand_like_samples(Samples& s) {
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return cast(cast(rand_like(x[0]), f32) < 2.0, i64); });
}
void randn_like_samples(Samples& s) {
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return cast(abs(randn_like(x[0])) < 9.0, i64); });
}
void randint_like_samples(Samples& s) {
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return randint_like(x[0], -3, 4); }).exact_only = true;
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return randint_like(x[0], 4, 4); }, "low 4 is not below high 4");
}
void bernoulli_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return cast(bernoulli(x[0]), i64); };
  s.call({s.uniform({4, 5}, 0, 1)}, f).exact_only = true;
  s.error_call({s.uniform({2}, 1.5, 2)}, f, "holds values outside [0, 1]");
  s.error_call({s.integers({2}, 0, 2)}, f, "needs probabilities of a floating dtype");
}
void normal_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return cast(normal(x[0], x[1]) * 0.0, i64); };
  s.call({s.randn({3, 4}), s.uniform({4}, 0.5, 2)}, f).exact_only = true;
  s.error_call({s.randn({2}), s.uniform({2}, -2, -1)}, f, "holds negative values");
  s.error_call({s.randn({2}), s.integers({2}, 0, 2)}, f, "needs floating dtypes");
}
void multinomial_samples(Samples& s) {
  s.call({s.uniform({3, 5}, 0, 1)}, [](const Tensors& x) { return multinomial(x[0], 4); }).exact_only = true;
  s.call({s.uniform({5}, 0.1, 1)}, [](const Tensors& x) { return multinomial(x[0], 9, true); }).exact_only = true;
  const auto three = [](const Tensors& x) { return multinomial(x[0], 3); };
  s.error_call({s.uniform({2}, 0, 1)}, three, "3 samples without replacement from 2 categories");
  s.error_call({s.uniform({4}, -2, -1)}, three, "must be finite and not negative");
  s.error_call({zeros({4}, {.dtype = f64})}, three, "sum to 0");
  s.error_call({tensor({1, 0, 0, 0, 1}, {.dtype = f64})}, three, "fewer than 3 weights");
  s.error_call({s.integers({4}, 1, 2)}, three, "needs weights of a floating dtype");
  s.error_call({s.uniform({1, 2, 4}, 0, 1)}, three, "needs weights [categories] or [N, categories]");
}
MANTISSA_COMPOSITE(rand_like, rand_like_samples, .differentiable = false, .random = true)
MANTISSA_COMPOSITE(randn_like, randn_like_samples, .differentiable = false, .random = true)
MANTISSA_COMPOSITE(randint_like, randint_like_samples, .differentiable = false, .random = true)
MANTISSA_COMPOSITE(bernoulli, bernoulli_samples, .differentiable = false, .random = true)
MANTISSA_COMPOSITE(normal, normal_samples, .differentiable = false, .random = true)
MANTISSA_COMPOSITE(multinomial, multinomial_samples, .differentiable = false, .random = true)

}  // namespace
}  // namespace mantissa
