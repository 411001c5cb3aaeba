// scaled_dot_product_attention (Vaswani et al., 2017) and rotary_embedding (Su et al., 2021), made of
// products and softmax. Halves outside autocast are computed in f32 and rounded once.
#include <cmath>

#include "core/ops.h"
#include "ops/compose.h"

namespace mantissa {
namespace {

// True where query i may look at key j <= i.
Tensor causal_mask(std::int64_t queries, std::int64_t keys, Device device) {
  const TensorOptions whole{.dtype = i64, .device = device};
  return arange(queries, whole).unsqueeze(1) >= arange(keys, whole);
}
Tensor masked_scores(const Tensor& scores, const Tensor& mask) {
  if (mask.dtype() == boolean) return where(mask, scores, Tensor(-INFINITY));
  return scores + cast(mask, scores.dtype());
}
void check_shapes(const Tensor& q, const Tensor& k, const Tensor& v) {
  const char* name = "scaled_dot_product_attention: ";
  check(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2, name, "query, key and value need at least 2 dimensions, got ", q, ", ", k, ", ", v);
  check(q.is_floating() && q.dtype() == k.dtype() && q.dtype() == v.dtype(), name, "query, key and value must have one floating dtype, got ",
        q.dtype(), ", ", k.dtype(), ", ", v.dtype());
  check(q.size(-1) == k.size(-1), name, "query ", q, " and key ", k, " differ in the last dimension");
  check(k.size(-2) == v.size(-2), name, "key ", k, " and value ", v, " differ in length");
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& attn_mask,
                                    const AttentionOptions& o) {
  const Composite in("scaled_dot_product_attention", CastPolicy::lower, {&query, &key, &value, &attn_mask});
  check_shapes(in[0], in[1], in[2]);
  check(!(o.is_causal && attn_mask.defined()), "scaled_dot_product_attention: is_causal and attn_mask exclude each other");
  // Contiguous: a product may round differently when it reads a transposed layout.
  const bool widen = is_half(in[0].dtype()) && !in.in_region();
  const auto wide = [&](const Tensor& x) { return widen ? cast(x, f32) : x; };
  Tensor q = wide(in[0]), k = contiguous(wide(in[1])), v = contiguous(wide(in[2]));
  if (o.enable_gqa) {  // each head of key and value serves a group of query heads
    check(q.dim() >= 3 && k.dim() >= 3 && k.size(-3) > 0 && q.size(-3) % k.size(-3) == 0, "scaled_dot_product_attention: ",
          "the heads of query ", q, " are no multiple of those of key ", k);
    k = repeat_interleave(k, q.size(-3) / k.size(-3), -3);
    v = repeat_interleave(v, q.size(-3) / v.size(-3), -3);
  }
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
  Tensor scores = matmul(q * scale, transpose(k));
  const Tensor mask = o.is_causal ? causal_mask(q.size(-2), k.size(-2), q.device()) : in[3];
  Tensor weights;
  if (o.is_causal) {
    weights = softmax(masked_scores(scores, mask), -1);  // each query may look at the first key
  } else if (mask.defined() && scores.numel() > 0) {
    scores = masked_scores(scores, mask);
    // A query that may look at nothing gets zeros, not the NaN of 0 / 0.
    const Tensor blind = amax(scores.detach(), {-1}, true) == -INFINITY;
    weights = where(blind, Tensor(0.0), softmax(where(blind, Tensor(0.0), scores), -1));
  } else {
    weights = softmax(scores, -1);
  }
  return in.result(cast(matmul(dropout(cast(weights, v.dtype()), o.dropout_p), v), in[0].dtype()));
}

Tensor rotary_embedding(const Tensor& x, std::int64_t start, double base, bool interleaved) {
  check(x.dim() >= 2 && x.is_floating(), "rotary_embedding: needs floating x [..., T, D], got ", x);
  check(x.size(-1) % 2 == 0, "rotary_embedding: the last dimension must be even, got ", x);
  const std::int64_t length = x.size(-2), half = x.size(-1) / 2;
  std::vector<double> cosines, sines;
  for (std::int64_t t = 0; t < length; ++t) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(start + t) * std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
  }
  const Dtype dtype = compute_dtype(x.dtype());
  const Tensor cosine = cast(from_data(cosines, {length, half}), dtype).to(x.device()), sine = cast(from_data(sines, {length, half}), dtype).to(x.device());
  const Tensor wide = cast(x, dtype);
  const Tensor a = interleaved ? slice(wide, -1, 0, INT64_MAX, 2) : slice(wide, -1, 0, half);
  const Tensor b = interleaved ? slice(wide, -1, 1, INT64_MAX, 2) : slice(wide, -1, half);
  const Tensor turned_a = a * cosine - b * sine, turned_b = b * cosine + a * sine;
  const Tensor y = interleaved ? flatten(stack({turned_a, turned_b}, -1), -2) : cat({turned_a, turned_b}, -1);
  return cast(y, x.dtype());
}

namespace {

using F = Tensor (*)(const Tensors&);
void add(Samples& s, Tensors inputs, F f) { s.call(std::move(inputs), [f](const Tensors& x) { return Tensors{f(x)}; }); }
void refuse(Samples& s, Tensors inputs, F f, const char* fragment) {
  s.error_call(std::move(inputs), [f](const Tensors& x) { return Tensors{f(x)}; }, fragment);
}
void attention_samples(Samples& s) {
  const F plain = [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); };
  const F masked = [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2], x[3]); };
  const F causal = [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2], {}, {.is_causal = true, .scale = 0.7}); };
  const F grouped = [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2], {}, {.enable_gqa = true}); };
  add(s, {s.randn({2, 3, 4}), s.randn({2, 5, 4}), s.randn({2, 5, 2})}, plain);
  add(s, {s.randn({3, 4}), s.randn({5, 4}), s.randn({5, 4})}, plain);
  add(s, {s.randn({2, 2, 4, 3}), s.randn({2, 2, 4, 3}), s.randn({2, 2, 4, 3})}, causal);
  add(s, {s.randn({2, 3, 4}), s.randn({2, 5, 4}), s.randn({2, 5, 2}), s.booleans({3, 5})}, masked);
  add(s, {s.randn({2, 3, 4}), s.randn({2, 2, 4}), s.randn({2, 2, 2}), tensor({{1, 0}, {0, 0}, {1, 1}}) == 1}, masked);  // one is blind
  add(s, {s.randn({2, 3, 4}), s.randn({2, 5, 4}), s.randn({2, 5, 2}), s.randn({3, 5})}, masked);
  add(s, {s.randn({1, 4, 3, 2}), s.randn({1, 2, 5, 2}), s.randn({1, 2, 5, 2})}, grouped);
  refuse(s, {s.randn({3, 4}), s.randn({5, 3}), s.randn({5, 3})}, plain, "differ in the last dimension");
  refuse(s, {s.randn({3, 4}), s.randn({5, 4}), s.randn({6, 4})}, plain, "differ in length");
  refuse(s, {s.randn({4}), s.randn({4}), s.randn({4})}, plain, "at least 2 dimensions");
  refuse(s, {s.randn({1, 3, 3, 2}), s.randn({1, 2, 5, 2}), s.randn({1, 2, 5, 2})}, grouped, "no multiple");
}
void rotary_embedding_samples(Samples& s) {
  add(s, {s.randn({2, 3, 4})}, [](const Tensors& x) { return rotary_embedding(x[0]); });
  add(s, {s.randn({5, 6})}, [](const Tensors& x) { return rotary_embedding(x[0], 3, 100, true); });
  refuse(s, {s.randn({2, 3})}, [](const Tensors& x) { return rotary_embedding(x[0]); }, "must be even");
}
MANTISSA_COMPOSITE(scaled_dot_product_attention, attention_samples, .autocast = CastPolicy::lower, .has_policy = true)
MANTISSA_COMPOSITE(rotary_embedding, rotary_embedding_samples)

}  // namespace
}  // namespace mantissa
