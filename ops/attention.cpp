// scaled_dot_product_attention (Vaswani et al., 2017) and rotary_embedding (Su et al., 2021).
// Attention is one kernel (core/attention.h). It is composed of products and softmax in f64 on the CPU, for very wide
// heads on CUDA, for a mask that needs a gradient and for second derivatives. Outside autocast f16 and bf16 are
// computed in f32 and rounded once.
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include "autograd/grad_mode.h"
#include "autograd/part.h"
#include "core/attention.h"
#include "core/flops.h"
#include "core/ops.h"
#include "core/recording.h"
#include "ops/compose.h"
#include "ops/dropout.h"
#include "ops/length.h"

namespace mantissa {

MANTISSA_KERNEL(rotary, const View& y, const View& x, const View& cosine, const View& sine, int position,
                bool interleaved, bool inverse)
MANTISSA_CUDA_KERNEL(rotary_tables, const View& cosine, const View& sine, std::int64_t start, double base)

namespace {

// True where query i may attend to key j <= i.
Tensor causal_mask(std::int64_t queries, std::int64_t keys, Device device) {
  return arange(queries, {.device = device}).unsqueeze(1) >= arange(keys, {.device = device});
}
Tensor masked_scores(const Tensor& scores, const Tensor& mask) {
  if (mask.dtype() == boolean) return where(mask, scores, Tensor(-INFINITY));
  return scores + cast(mask, scores.dtype());
}
void check_shapes(const Tensor& q, const Tensor& k, const Tensor& v) {
  const char* name = "scaled_dot_product_attention: ";
  check(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2, name, "query, key and value need at least 2 dimensions, got ", q,
        ", ", k, ", ", v);
  check(q.is_floating() && q.dtype() == k.dtype() && q.dtype() == v.dtype(), name,
        "query, key and value must have one floating dtype, got ", q.dtype(), ", ", k.dtype(), ", ", v.dtype());
  check(q.size(-1) == k.size(-1), name, "query ", q, " and key ", k, " differ in the last dimension");
  check(k.size(-2) == v.size(-2), name, "key ", k, " and value ", v, " differ in length");
}

// The weights before dropout; q and k are contiguous and have the same number of heads.
Tensor attention_weights(const Tensor& q, const Tensor& k, const Tensor& given_mask, bool causal, double scale) {
  Tensor scores = matmul(q * scale, transpose(k));
  if (causal) {  // each query may attend to the first key
    return softmax(masked_scores(scores, causal_mask(q.size(-2), k.size(-2), q.device())), -1);
  }
  if (!given_mask.defined() || scores.numel() == 0) return softmax(scores, -1);
  scores = masked_scores(scores, given_mask);
  // A query with every key masked gets zeros, not the NaN of 0 / 0.
  const Tensor blind = amax(scores.detach(), {-1}, true) == -INFINITY;
  return where(blind, Tensor(0.0), softmax(where(blind, Tensor(0.0), scores), -1));
}

// --- one kernel ---
// Of products between queries and keys, or of weights and values, whose widths add up to `width`.
double scores_flops(const View& query, const View& key, std::int64_t width) {
  const std::int64_t scores =
      query.numel() / std::max<std::int64_t>(1, query.size(query.dim() - 1)) * key.size(key.dim() - 2);
  return 2.0 * static_cast<double>(scores) * static_cast<double>(width);
}
// With `length_first` the tensors are [..., L, H, D], the layout a projection produces, and so are results and
// gradients: no copy is needed to split and merge the heads.
struct FusedAttention {
  static constexpr auto name = "scaled_dot_product_attention";
  static constexpr const char* args[] = {"query", "key", "value", "attn_mask"};
  AttentionSettings settings;
  bool length_first = false;

  template <class T> T heads_first(const T& x) const {  // a View or a Tensor
    if constexpr (std::is_same_v<T, Tensor>) {
      return length_first && x.dim() > 2 ? transpose(x, -3, -2) : x;
    } else {
      View v = x;
      if (!length_first || v.dim() < 3) return v;
      std::swap(v.sizes[v.dim() - 3], v.sizes[v.dim() - 2]);
      std::swap(v.strides[v.dim() - 3], v.strides[v.dim() - 2]);
      return v;
    }
  }
  static View expanded(const View& mask, const View& query, const View& key) {
    if (!mask) return mask;
    View m = mask;
    m.sizes = query.sizes;
    m.sizes[m.sizes.rank() - 1] = key.size(key.dim() - 2);
    m.strides = broadcast_strides(mask.sizes, mask.strides, m.sizes);
    return m;
  }

  std::array<Spec, 2> infer(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&) const {
    check(settings.dropout_p >= 0 && settings.dropout_p <= 1, "dropout_p must be a probability, got ",
          settings.dropout_p);
    Dims y = q.sizes(), rows = heads_first(q).sizes();
    y.back() = v.size(-1);
    rows.erase(rows.rank() - 1);
    return {like(q, y), Spec{rows, compute_dtype(q.dtype()), q.device()}};
  }
  void run(const std::array<View, 2>& y, const View& q, const View& k, const View& v, const View& mask) const {
    const View query = heads_first(q), key = heads_first(k);
    const CountedFlops counted(scores_flops(query, key, q.size(q.dim() - 1) + v.size(v.dim() - 1)));
    kernels::attention(q.device, heads_first(y[0]), y[1], query, key, heads_first(v), expanded(mask, query, key),
                       settings);
  }
  static constexpr auto vjp();
};

struct FusedAttentionBackward {
  static constexpr auto name = "scaled_dot_product_attention_backward";
  static constexpr const char* args[] = {"gradient", "query", "key", "value", "attn_mask", "y", "log_sum"};
  FusedAttention of;

  std::array<Spec, 3> infer(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&,
                            const Tensor& y, const Tensor&) const {
    check_sizes(g, "gradient", y.sizes());
    return {like(q), like(k), like(v)};
  }
  void run(const std::array<View, 3>& d, const View& g, const View& q, const View& k, const View& v, const View& mask,
           const View& y, const View& log_sum) const {
    const auto turn = [this](const View& x) { return of.heads_first(x); };
    const View query = turn(q), key = turn(k);
    // The scores once more, the gradient of the weights, and the gradients of query, key and value.
    const CountedFlops counted(scores_flops(query, key, 3 * q.size(q.dim() - 1) + 2 * v.size(v.dim() - 1)));
    kernels::attention_backward(q.device, turn(d[0]), turn(d[1]), turn(d[2]), turn(g), query, key, turn(v),
                                FusedAttention::expanded(mask, query, key), turn(y), log_sum, of.settings);
  }
  // With P the weights and M the dropout mask: dV = (P M)^T g, dS = P (M (g V^T) - the sum of P M (g V^T)).
  static std::array<Tensor, 3> reference(const FusedAttentionBackward& op, const Tensor& g, const Tensor& q,
                                         const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor&,
                                         const Tensor&) {
    const AttentionSettings& s = op.of.settings;
    const auto turn = [&](const Tensor& x) { return op.of.heads_first(x); };
    const auto wide = [&](const Tensor& x) { return contiguous(cast(turn(x), compute_dtype(x.dtype()))); };
    const std::int64_t served = q.dim() > 2 ? turn(q).size(-3) / turn(k).size(-3) : 1;
    const auto spread = [&](const Tensor& x) { return served > 1 ? repeat_interleave(wide(x), served, -3) : wide(x); };
    const auto gather = [&](const Tensor& x, const Tensor& like) {  // sums over the query heads that share a key head
      Dims shape = turn(like).sizes();
      if (served > 1) shape.insert(shape.rank() - 2, served);
      return turn(cast(served > 1 ? sum(reshape(x, shape), {-3}) : x, like.dtype()));
    };
    const Tensor query = wide(q), key = spread(k), value = spread(v), gradient = wide(g);
    const Tensor p = attention_weights(query, key, mask, s.causal, s.scale);
    const Tensor kept = s.dropout_p > 0 ? dropout_at(ones_like(p), s.dropout_p, {s.seed, s.offset}) : Tensor(1.0);
    const Tensor dp = matmul(gradient, transpose(value)) * kept, ds = p * (dp - sum(p * dp, {-1}, true)) * s.scale;
    return {turn(cast(matmul(ds, key), q.dtype())), gather(matmul(transpose(ds), query), k),
            gather(matmul(transpose(p * kept), gradient), v)};
  }
};

// Memory for the gradients if q, k and v (or only k and v) are slices of one tensor; else undefined.
std::array<Tensor, 3> packed_gradients(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor* const all[] = {&q, &k, &v};
  std::array<Tensor, 3> d;
  if (autograd::gradients_in_place(all, d)) return d;
  if (autograd::gradients_in_place(std::span(all).subspan(1), std::span(d).subspan(1))) {
    d[0] = Tensor::allocate(q.sizes(), q.dtype(), q.device());
    return d;
  }
  return {};
}

constexpr auto FusedAttention::vjp() {
  return joint([](const FusedAttention& op, Grad g, In<0> q, In<1> k, In<2> v, In<3> mask, Out<0> y, Out<1> log_sum) {
    const FusedAttentionBackward backward{op};
    if (!grad_enabled()) {
      if (const auto [dq, dk, dv] = packed_gradients(q, k, v); dq.defined()) {
        backward.run({dq.view(), dk.view(), dv.view()}, g.view(), q.view(), k.view(), v.view(), mask.view(), y.view(),
                     log_sum.view());
        return std::array<Tensor, 4>{dq, dk, dv, Tensor()};
      }
    }
    const auto [dq, dk, dv] = apply(backward, g, q, k, v, mask, y, log_sum);
    return std::array<Tensor, 4>{dq, dk, dv, Tensor()};
  });
}

// Whether the kernel supports this: equal batches, and equal numbers of heads or, with GQA, a divisor for key and
// value.
bool fits_kernel(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const AttentionOptions& o) {
  if (context().autocast.traced) return false;  // exported as products and softmax
  if (q.numel() == 0 || k.numel() == 0 || v.numel() == 0) return false;
  const std::int64_t width = std::max(q.size(-1), v.size(-1));
  if (q.device().is_cpu() ? q.dtype() == f64 : width > most_cuda_attention_width(q.dtype())) return false;
  if (q.dim() != k.dim() || q.dim() != v.dim()) return false;
  for (int d = 0; d < q.dim() - 2; ++d) {
    const bool heads = o.enable_gqa && d == q.dim() - 3;
    if (k.size(d) != v.size(d) || (heads ? q.size(d) % k.size(d) != 0 : q.size(d) != k.size(d))) return false;
  }
  if (!mask.defined()) return true;
  Dims scores = q.sizes();
  scores.back() = k.size(-2);
  return !mask.requires_grad() && mask.dim() <= q.dim() && broadcast(mask.sizes(), scores) == scores;
}
// The mask in a dtype that kernels read (core/attention.h).
Tensor readable_mask(const Tensor& mask, Dtype dtype) {
  const bool readable = !mask.defined() || mask.dtype() == boolean || mask.dtype() == dtype;
  return readable || mask.dtype() == compute_dtype(dtype) ? mask : cast(mask, compute_dtype(dtype));
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask, const AttentionOptions& o) {
  const Composite in("scaled_dot_product_attention", CastPolicy::lower, {&query, &key, &value, &attn_mask});
  check_shapes(in[0], in[1], in[2]);
  check(!(o.is_causal && attn_mask.defined()),
        "scaled_dot_product_attention: is_causal and attn_mask exclude each other");
  check(!attn_mask.defined() || attn_mask.dtype() == boolean || attn_mask.is_floating(),
        "scaled_dot_product_attention: attn_mask must be bool, "
        "true where a query may look, or floating, got ",
        attn_mask, "; of one that is 1 where tokens are, pass mask == 1");
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(in[0].size(-1))));
  if (fits_kernel(in[0], in[1], in[2], in[3], o)) {
    const Tensor& x = in[0];
    const RngState at = o.dropout_p > 0 ? reserve_dropout(x.numel() / x.size(-1) * in[1].size(-2)) : RngState{};
    const bool length_first = x.dim() > 2 && x.stride(-3) < x.stride(-2);
    const bool in_region = in.in_region(in[0].device());
    const FusedAttention op{{scale, o.is_causal, o.dropout_p, at.seed, at.offset, in_region}, length_first};
    const auto turn = [&](const Tensor& t) { return length_first ? transpose(t, -3, -2) : t; };
    const Tensor mask = readable_mask(in[3], x.dtype());
    return in.result(turn(apply(op, turn(x), turn(in[1]), turn(in[2]), mask)[0]));
  }
  // Contiguous, because a product may round differently for a transposed layout.
  const bool widen = is_half(in[0].dtype()) && !in.in_region(in[0].device());
  const auto wide = [&](const Tensor& x) { return widen ? cast(x, f32) : x; };
  Tensor q = wide(in[0]), k = contiguous(wide(in[1])), v = contiguous(wide(in[2]));
  if (o.enable_gqa) {  // each head of key and value serves a group of query heads
    check(q.dim() >= 3 && k.dim() >= 3 && k.size(-3) > 0 && q.size(-3) % k.size(-3) == 0,
          "scaled_dot_product_attention: ", "the heads of query ", q, " are no multiple of those of key ", k);
    k = repeat_interleave(k, q.size(-3) / k.size(-3), -3);
    v = repeat_interleave(v, q.size(-3) / v.size(-3), -3);
  }
  const Tensor weights = attention_weights(q, k, in[3], o.is_causal, scale);
  return in.result(cast(matmul(dropout(cast(weights, v.dtype()), o.dropout_p), v), in[0].dtype()));
}

// --- rotary_embedding ---
namespace {

struct RotaryTables { Tensor cosine, sine; };  // [length, half], in `dtype`
RotaryTables make_tables(std::int64_t start, double base, std::int64_t length, std::int64_t half, Dtype dtype) {
  std::vector<double> cosines, sines;
  for (std::int64_t t = 0; t < length; ++t) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(start + t) * std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
  }
  const Dims shape{length, half};
  return {cast(from_data(cosines, shape), dtype), cast(from_data(sines, shape), dtype)};
}
// All layers of a model ask for the same tables: the last ones are cached.
RotaryTables tables_for(std::int64_t start, double base, std::int64_t length, std::int64_t half, Dtype dtype) {
  using Key = std::tuple<std::int64_t, double, std::int64_t, std::int64_t, Dtype>;
  struct Last {
    std::mutex mutex;
    Key key;
    RotaryTables tables;
  };
  static Last& last = *new Last;  // never destroyed: tensors must not outlive the allocator
  const Key key{start, base, length, half, dtype};
  const std::lock_guard lock(last.mutex);
  if (!last.tables.cosine.defined() || last.key != key) {
    last.tables = make_tables(start, base, length, half, dtype);
    last.key = key;
  }
  return last.tables;
}

RotaryTables make_tables_on(Device device, std::int64_t start, double base, std::int64_t length, std::int64_t half,
                            Dtype dtype) {
  const Dims shape{length, half};
  const RotaryTables tables{Tensor::allocate(shape, dtype, device), Tensor::allocate(shape, dtype, device)};
  cuda_backend::prepare(&cuda_backend::rotary_tables, device)(tables.cosine.view(), tables.sine.view(), start, base);
  return tables;
}
// A GPU computes them itself. Tables that start at position 0 are cached, up to 16 MiB, until the process ends, because
// captured graphs read them. Others are computed each time (text generation has another start in every call), as are
// those of a step captured before it has ever run: they are in the graph's memory.
RotaryTables tables_on(Device device, std::int64_t start, double base, std::int64_t length, std::int64_t half,
                       Dtype dtype) {
  if (device.is_cpu()) return tables_for(start, base, length, half, dtype);
  if (start != 0) return make_tables_on(device, start, base, length, half, dtype);
  using Key = std::tuple<int, double, std::int64_t, std::int64_t, Dtype>;
  struct Kept {
    std::mutex mutex;
    std::map<Key, RotaryTables> tables;
    std::size_t bytes = 0;
  };
  static Kept& kept = *new Kept;  // never destroyed, as above
  const Key key{device.index, base, length, half, dtype};
  const std::lock_guard lock(kept.mutex);
  if (const auto at = kept.tables.find(key); at != kept.tables.end()) return at->second;
  const RotaryTables tables = make_tables_on(device, start, base, length, half, dtype);
  const std::size_t bytes = 2 * static_cast<std::size_t>(length * half) * size_of(dtype);
  if (is_recording(device) || kept.bytes + bytes > (16 << 20)) return tables;
  wait_for_own_work(device);  // so that any stream that asks next can use them
  kept.bytes += bytes;
  return kept.tables.emplace(key, tables).first->second;
}

// One kernel. Its gradient is the inverse rotation by the same operator, so second derivatives need nothing else.
struct Rotary {
  static constexpr auto name = "rotary_embedding";
  static constexpr const char* args[] = {"x", "cosine", "sine"};
  int position;  // the dimension of x that is the position
  bool interleaved, inverse = false;

  Spec infer(const Tensor& x, const Tensor&, const Tensor&) const { return like(x); }
  void run(const View& y, const View& x, const View& cosine, const View& sine) const {
    kernels::rotary(x.device, y, x, cosine, sine, position, interleaved, inverse);
  }
  static Tensor turned_back(const Rotary& op, const Tensor& g, const Tensor& cosine, const Tensor& sine);
  static constexpr auto vjp() {
    return rules([](const Rotary& op, Grad g, In<1> cosine, In<2> sine) { return turned_back(op, g, cosine, sine); },
                 no_gradient, no_gradient);
  }
  // (a, b) to (a cos - b sin, a sin + b cos), in f32 for f16 and bf16.
  void onnx(OnnxCall& c) const {
    const int last = c.x(0).dim() - 1;
    const std::int64_t half = c.x(0).size(-1) / 2;
    const Dtype dtype = c.x(1).dtype();
    std::vector<std::int64_t> between;  // tables [T, D / 2], with T at x's position dimension
    for (int d = position + 1; d < last; ++d) between.push_back(d - position);
    const auto table = [&](int i) {
      return between.empty() ? c.in(i) : c.node("Unsqueeze", {c.in(i), c.ints(between)});
    };
    const OnnxId x = c.in(0, dtype), cosine = table(1), sine = inverse ? c.node("Neg", {table(2)}) : table(2);
    const auto part = [&](std::int64_t from, std::int64_t to, std::int64_t step) {
      return c.node("Slice", {x, c.ints({from}), c.ints({to}), c.ints({last}), c.ints({step})});
    };
    const OnnxId a = interleaved ? part(0, INT64_MAX, 2) : part(0, half, 1),
                 b = interleaved ? part(1, INT64_MAX, 2) : part(half, INT64_MAX, 1);
    const auto mul = [&](OnnxId p, OnnxId q) { return c.node("Mul", {p, q}); };
    const OnnxId first = c.node("Sub", {mul(a, cosine), mul(b, sine)}),
                 second = c.node("Add", {mul(a, sine), mul(b, cosine)});
    OnnxId y;
    if (interleaved) {
      const auto apart = [&](OnnxId v) { return c.node("Unsqueeze", {v, c.ints({last + 1})}); };
      y = c.node("Concat", {apart(first), apart(second)}, {{"axis", last + 1}});
      y = c.node("Reshape", {y, c.ints(c.y().sizes())});
    } else {
      y = c.node("Concat", {first, second}, {{"axis", last}});
    }
    c.result(dtype == c.y().dtype() ? y : c.cast(y, c.y().dtype()));
  }
};
Tensor Rotary::turned_back(const Rotary& op, const Tensor& g, const Tensor& cosine, const Tensor& sine) {
  return apply(Rotary{op.position, op.interleaved, !op.inverse}, g, cosine, sine);
}

}  // namespace

Tensor rotary_embedding(const Tensor& x, std::int64_t start, double base, bool interleaved) {
  check(x.dim() >= 2 && x.is_floating(), "rotary_embedding: needs floating x [..., T, D], got ", x);
  check(x.size(-1) % 2 == 0, "rotary_embedding: the last dimension must be even, got ", x);
  check_length("rotary_embedding", "the start", start);
  const std::int64_t length = x.size(-2), half = x.size(-1) / 2;
  const RotaryTables tables = [&] {
    const Untraced own;  // the tables may be cached or new: constants for the trace
    return tables_on(x.device(), start, base, length, half, compute_dtype(x.dtype()));
  }();
  // Memory in the order [..., T, H, D], as a projection produces it, keeps that order.
  const bool length_first = x.dim() > 2 && x.stride(-3) < x.stride(-2);
  const auto turn = [&](const Tensor& t) { return length_first ? transpose(t, -3, -2) : t; };
  return turn(apply(Rotary{x.dim() - (length_first ? 3 : 2), interleaved}, turn(x), tables.cosine, tables.sine));
}

namespace {

void attention_samples(Samples& s) {
  const auto plain = [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); };
  const auto masked = [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2], x[3]); };
  const auto causal = [](const Tensors& x) {
    return scaled_dot_product_attention(x[0], x[1], x[2], {}, {.is_causal = true, .scale = 0.7});
  };
  const auto grouped = [](const Tensors& x) {
    return scaled_dot_product_attention(x[0], x[1], x[2], {}, {.enable_gqa = true});
  };
  s.call({s.randn({2, 3, 4}), s.randn({2, 5, 4}), s.randn({2, 5, 2})}, plain);
  s.call({s.randn({3, 4}), s.randn({5, 4}), s.randn({5, 4})}, plain);
  s.call({s.randn({2, 2, 4, 3}), s.randn({2, 2, 4, 3}), s.randn({2, 2, 4, 3})}, causal);
  s.call({s.randn({2, 3, 4}), s.randn({2, 5, 4}), s.randn({2, 5, 2}), s.booleans({3, 5})}, masked);
  // one query has every key masked
  s.call({s.randn({2, 3, 4}), s.randn({2, 2, 4}), s.randn({2, 2, 2}), tensor({{1, 0}, {0, 0}, {1, 1}}) == 1}, masked);
  s.call({s.randn({2, 3, 4}), s.randn({2, 5, 4}), s.randn({2, 5, 2}), s.randn({3, 5})}, masked);
  s.call({s.randn({1, 4, 3, 2}), s.randn({1, 2, 5, 2}), s.randn({1, 2, 5, 2})}, grouped);
  s.error_call({s.randn({3, 4}), s.randn({5, 3}), s.randn({5, 3})}, plain, "differ in the last dimension");
  s.error_call({s.randn({3, 4}), s.randn({5, 4}), s.randn({6, 4})}, plain, "differ in length");
  s.error_call({s.randn({4}), s.randn({4}), s.randn({4})}, plain, "at least 2 dimensions");
  s.error_call({s.randn({3, 4}), s.randn({5, 4}), s.randn({5, 4}), tensor({{1, 1, 1, 0, 0}})}, masked,
               "must be bool, true where a query may look");
  s.error_call({s.randn({1, 3, 3, 2}), s.randn({1, 2, 5, 2}), s.randn({1, 2, 5, 2})}, grouped, "no multiple");
}
void rotary_embedding_samples(Samples& s) {
  s.call({s.randn({2, 3, 4})}, [](const Tensors& x) { return rotary_embedding(x[0]); });
  s.call({s.randn({5, 6})}, [](const Tensors& x) { return rotary_embedding(x[0], 3, 100, true); });
  s.call({s.randn({2, 3, 5, 32})}, [](const Tensors& x) { return rotary_embedding(x[0]); });
  s.call({s.randn({2, 5, 3, 16})},
         [](const Tensors& x) { return rotary_embedding(transpose(x[0], 1, 2), 2, 1000, true); });
  s.call({s.randn({2, 3, 32})}, [](const Tensors& x) { return rotary_embedding(x[0], 1, 1000, true); });
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return rotary_embedding(x[0]); }, "must be even");
}
MANTISSA_COMPOSITE(scaled_dot_product_attention, attention_samples, .autocast = CastPolicy::lower, .has_policy = true)
MANTISSA_COMPOSITE(rotary_embedding, rotary_embedding_samples)

}  // namespace
}  // namespace mantissa
