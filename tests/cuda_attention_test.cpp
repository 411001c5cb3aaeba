// Fused attention (cuda/attention.h) on a GPU or the CPU shim. Results and gradients are compared with products and
// softmax in f64 on the CPU from the same rounded inputs, for every dtype, head size, mask and tail.
#include <cmath>
#include <optional>
#include <vector>

#include "core/accelerator.h"
#include "core/attention.h"
#include "cuda/attention.h"
#include "mantissa.h"
#include "tests/catch_compat.h"
#include "tests/devices.h"

using namespace mantissa;
using cuda_backend::AttentionProblem;
using cuda_backend::AttentionRows;

namespace {

enum class Mask { none, boolean_rows, boolean_full, added, added_wide, causal };
struct Case {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, width = 1, v_width = 1;
  Mask mask = Mask::none;
  double dropout = 0;
  bool transposed = false;  // heads beside each other in memory: [batch, length, heads, width]
  double size = 1;          // of the elements of q
  bool exact = false;       // f16 and bf16 weights are not rounded
  double gradient_size = 1;
};

std::string describe(const Case& c, Dtype dtype) {
  std::string text(name_of(dtype));
  for (const std::int64_t n : {c.batch, c.heads, c.kv_heads, c.queries, c.keys, c.width, c.v_width})
    text += " " + std::to_string(n);
  text += " mask " + std::to_string(static_cast<int>(c.mask));
  return text + (c.dropout > 0 ? " dropout" : "") + (c.transposed ? " transposed" : "") + (c.exact ? " exact" : "");
}

AttentionRows rows_of(const Tensor& t) {
  const View v = t.view();
  return {v.data, v.strides[0], v.strides[1], v.strides[2]};
}
std::vector<double> numbers(const Tensor& t) { return contiguous(cast(t.to(cpu), f64)).to_vector<double>(); }

// The largest difference relative to the largest expected value; NaN where only one has it.
double difference(const Tensor& got, const Tensor& expected) {
  const std::vector<double> x = numbers(got), y = numbers(expected);
  double worst = 0, largest = 1e-30;
  for (const double v : y) largest = std::max(largest, std::isfinite(v) ? std::abs(v) : 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])) ? 0 : std::abs(x[i] - y[i]) / largest;
    if (std::isnan(d)) return d;
    worst = std::max(worst, d);
  }
  return x.size() == y.size() ? worst : 1e30;
}

// The largest error of an element beyond what rounding explains, relative to the largest one.
double beyond_rounding(const Tensor& got, const Tensor& exact) {
  const std::vector<double> x = numbers(got), y = numbers(exact);
  const int digits = got.dtype() == f16 ? 11 : 8, smallest = got.dtype() == f16 ? -13 : -125;
  double worst = 0, largest = 1e-30;
  for (std::size_t i = 0; i < y.size(); ++i) {
    int exponent;
    (void)std::frexp(y[i], &exponent);
    const double half_unit = std::ldexp(0.5, std::max(exponent, smallest) - digits);
    worst = std::max(worst, std::abs(x[i] - y[i]) - half_unit);
    largest = std::max(largest, std::abs(y[i]));
  }
  return worst / largest;
}

struct Result { Tensor y, lse, dq, dk, dv; };
constexpr std::uint64_t seed = 11, offset = 5;

Result run(const Case& c, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& g) {
  const Dtype dtype = q.dtype(), wide = dtype == f64 ? f64 : f32;
  const auto like = [&](std::int64_t heads, std::int64_t length, std::int64_t width) {  // what is not written stays NaN
    return full({c.batch, heads, length, width}, NAN, {.dtype = dtype}).to(cuda);
  };
  const auto per_row = [&] { return full({c.batch, c.heads, c.queries}, NAN, {.dtype = wide}).to(cuda); };
  Result r{like(c.heads, c.queries, c.v_width), per_row(), like(c.heads, c.queries, c.width),
           like(c.kv_heads, c.keys, c.width), like(c.kv_heads, c.keys, c.v_width)};
  AttentionProblem p;
  p.dtype = dtype;
  p.batch = c.batch, p.heads = c.heads, p.kv_heads = c.kv_heads, p.queries = c.queries, p.keys = c.keys;
  p.width = static_cast<int>(c.width), p.v_width = static_cast<int>(c.v_width);
  p.q = rows_of(q), p.k = rows_of(k), p.v = rows_of(v), p.y = rows_of(r.y), p.dy = rows_of(g);
  p.dq = rows_of(r.dq), p.dk = rows_of(r.dk), p.dv = rows_of(r.dv);
  Tensor whole;
  if (mask.defined()) {
    whole = expand(mask, {c.batch, c.heads, c.queries, c.keys});
    p.mask = whole.view().data, p.mask_dtype = mask.dtype();
    for (int d = 0; d < 4; ++d) p.mask_strides[d] = whole.view().strides[d];
  }
  p.causal = c.mask == Mask::causal;
  p.scale = 1 / std::sqrt(static_cast<double>(c.width));
  p.dropout = c.dropout;
  p.rounds_weights = !c.exact;
  p.random = {seed, offset, nullptr};
  const Tensor delta = per_row();
  p.lse = r.lse.view().data, p.delta = delta.view().data;
  cuda_backend::attention_forward(p);
  cuda_backend::attention_backward(p);
  return r;
}

// The definition, in f64.
Result expected_of(const Case& c, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                   const Tensor& g) {
  const Tensor x = cast(q, f64).requires_grad_(), y = cast(k, f64).requires_grad_(), z = cast(v, f64).requires_grad_();
  const auto repeated = [&](const Tensor& t) { return repeat_interleave(t, c.heads / c.kv_heads, 1); };
  Tensor scores = matmul(x, transpose(repeated(y))) / std::sqrt(static_cast<double>(c.width));
  const Tensor i = arange(c.queries, {.dtype = i64}).unsqueeze(1), j = arange(c.keys, {.dtype = i64});
  const Tensor seen = c.mask == Mask::causal ? i >= j : mask;
  if (seen.defined()) {
    scores = seen.dtype() == boolean ? where(seen, scores, Tensor(-INFINITY)) : scores + cast(seen, f64);
  }
  const Tensor blind = amax(scores.detach(), {-1}, true) == -INFINITY, safe = where(blind, Tensor(0.0), scores);
  Tensor weights = where(blind, Tensor(0.0), softmax(safe, -1));
  const Tensor lse = where(blind.squeeze(-1), Tensor(INFINITY), logsumexp(safe, {-1}));
  if (c.dropout > 0) {
    std::vector<double> keep(static_cast<std::size_t>(weights.numel()));
    for (std::size_t n = 0; n < keep.size(); ++n) {
      const float drawn = uniform_from_bits(Philox{seed}(offset + n / 4).v[n % 4]);
      keep[n] = drawn >= static_cast<float>(c.dropout) ? 1 / (1 - c.dropout) : 0;
    }
    weights = weights * from_data(keep, weights.sizes());
  }
  const Tensor result = matmul(weights, repeated(z));
  const auto gradients = grad(sum(result * cast(g, f64)), {x, y, z});
  return {result.detach(), lse.detach(), gradients[0], gradients[1], gradients[2]};
}

void check_case(const Case& c, Dtype dtype) {
  INFO(describe(c, dtype));
  manual_seed(3);
  const auto draw = [&](std::int64_t heads, std::int64_t length, std::int64_t width, double size = 1) {
    const Dims sizes = c.transposed ? Dims{c.batch, length, heads, width} : Dims{c.batch, heads, length, width};
    const Tensor t = cast(randn(sizes) * size, dtype);
    return c.transposed ? transpose(t, 1, 2) : t;
  };
  const Tensor q = draw(c.heads, c.queries, c.width, c.size), k = draw(c.kv_heads, c.keys, c.width);
  const Tensor v = draw(c.kv_heads, c.keys, c.v_width), g = draw(c.heads, c.queries, c.v_width, c.gradient_size);
  Tensor mask;
  if (c.mask == Mask::boolean_rows) mask = rand({c.batch, 1, 1, c.keys}) < 0.7;
  if (c.mask == Mask::boolean_full)
    mask = rand({c.batch, c.heads, c.queries, c.keys}) < 0.1;  // some queries see nothing
  if (c.mask == Mask::added) mask = cast(randn({c.heads, c.queries, c.keys}), dtype);
  if (c.mask == Mask::added_wide) mask = cast(randn({c.heads, c.queries, c.keys}), dtype == f64 ? f64 : f32);

  const Tensor dq = q.to(cuda), dk = k.to(cuda), dv = v.to(cuda), dg = g.to(cuda);
  const Tensor dmask = mask.defined() ? mask.to(cuda) : mask;
  const Result r = run(c, dq, dk, dv, dmask, dg), again = run(c, dq, dk, dv, dmask, dg);
  const Result expected = expected_of(c, q, k, v, mask, g);
  if (c.exact) {  // as f32, rounded once; what it adds is a small part of the rounding
    const double added = dtype == f16 ? 0x1p-14 : 0x1p-12;
    CHECK(beyond_rounding(r.y, expected.y) <= 0x1p-17);
    CHECK(beyond_rounding(r.dq, expected.dq) <= added);
    CHECK(beyond_rounding(r.dk, expected.dk) <= added);
    CHECK(beyond_rounding(r.dv, expected.dv) <= added);
  }
  // The rounding of a score becomes a relative error of exp(score): with scores in the hundreds, f32 gets the tolerance
  // of sums over the keys, 2e-6 * sqrt(keys), for gradients and half of it for results.
  const double f32_unit = c.size > 1 ? 5e-7 * std::sqrt(static_cast<double>(c.keys)) : 2e-6;
  const double unit = dtype == f64 ? 1e-13 : dtype == f32 ? f32_unit : dtype == f16 ? 0x1p-10 : 0x1p-7;
  CHECK(difference(r.y, expected.y) <= 2 * unit);
  CHECK(difference(r.lse, expected.lse) <= (dtype == f64 ? 1e-13 : 2e-6));
  CHECK(difference(r.dq, expected.dq) <= 4 * unit);
  CHECK(difference(r.dk, expected.dk) <= 4 * unit);
  CHECK(difference(r.dv, expected.dv) <= 4 * unit);
  const auto same = [](const Tensor& a, const Tensor& b) { return numbers(a) == numbers(b); };
  CHECK((same(r.y, again.y) && same(r.dq, again.dq) && same(r.dk, again.dk) && same(r.dv, again.dv)));
}

}  // namespace

TEST_CASE("fused attention agrees with f64 in every dtype, width of heads and mask") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Case cases[] = {
      {.batch = 2, .heads = 2, .kv_heads = 2, .queries = 5, .keys = 7, .width = 8, .v_width = 8},
      {.queries = 70, .keys = 131, .width = 16, .v_width = 24, .mask = Mask::causal},
      // rows of odd length, which cannot be copied 16 bytes at a time
      {.queries = 131, .keys = 70, .width = 40, .v_width = 33, .mask = Mask::causal, .transposed = true},
      {.batch = 2, .heads = 4, .kv_heads = 2, .queries = 33, .keys = 66, .width = 64, .v_width = 64,
       .mask = Mask::boolean_rows},
      {.heads = 2, .queries = 20, .keys = 17, .width = 8, .v_width = 8, .mask = Mask::boolean_full},
      {.heads = 2, .kv_heads = 2, .queries = 9, .keys = 65, .width = 128, .v_width = 100,
       .mask = Mask::added, .transposed = true},
      {.heads = 2, .kv_heads = 2, .queries = 35, .keys = 70, .width = 64, .v_width = 64, .mask = Mask::added_wide,
       .dropout = 0.2},
      {.heads = 2, .kv_heads = 2, .queries = 35, .keys = 70, .width = 128, .v_width = 128, .mask = Mask::causal},
      {.queries = 17, .keys = 40, .width = 256, .v_width = 130, .mask = Mask::causal},
      {.queries = 17, .keys = 40, .width = 256, .v_width = 256, .mask = Mask::boolean_rows},
      {.batch = 2, .heads = 2, .queries = 19, .keys = 33, .width = 16, .v_width = 16,
       .mask = Mask::causal, .dropout = 0.3},
      {.queries = 40, .keys = 200, .width = 8, .v_width = 8, .size = 30},  // weights near 0 and 1
  };
  for (const Dtype dtype : {f32, f64, f16, bf16}) {
    for (const Case& c : cases) {
      if (std::max(c.width, c.v_width) <= most_cuda_attention_width(dtype)) check_case(c, dtype);
    }
  }
}

TEST_CASE("a mask may have any floating dtype") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  manual_seed(5);
  const Tensor q = randn({2, 5, 8}), k = randn({2, 7, 8}), v = randn({2, 7, 8});
  const Tensor mask = cast(cast(randn({5, 7}), bf16), f64);  // exact in each of these dtypes
  for (const Dtype dtype : {f32, f64, f16, bf16}) {
    const auto of = [&](const Tensor& t) { return cast(t, dtype).to(cuda); };
    const Tensor expected = scaled_dot_product_attention(of(q), of(k), of(v), of(mask));
    for (const Dtype given : {f32, f64, bf16}) {
      INFO(dtype << ", mask " << given);
      CHECK(numbers(scaled_dot_product_attention(of(q), of(k), of(v), cast(mask, given).to(cuda))) ==
            numbers(expected));
    }
  }
}

TEST_CASE("wide heads on a GPU with 99 KiB of shared memory") {
  if (!test::on_shim()) { WARN("only the shim can take shared memory away: skipped"); return; }
  cuda_shim::set_shared_limit(99 * 1024);  // sm_86, sm_89, sm_120
  const Case wide{.heads = 2, .kv_heads = 2, .queries = 35, .keys = 70, .width = 128, .v_width = 128,
                  .mask = Mask::causal};
  const Case wider{.queries = 17, .keys = 40, .width = 256, .v_width = 256, .mask = Mask::boolean_rows};
  Case masked = wide, exact = wider;
  masked.mask = Mask::boolean_rows;
  exact.exact = true;
  for (const Case& c : {wide, masked})
    for (const Dtype dtype : {f32, f64, f16, bf16}) check_case(c, dtype);
  for (const Dtype dtype : {f32, f16, bf16}) check_case(wider, dtype);
  for (const Dtype dtype : {f16, bf16}) check_case(exact, dtype);
  cuda_shim::set_shared_limit(227 * 1024);
}

TEST_CASE("without autocast's leave to round, attention of halves is that of f32, rounded once") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Case cases[] = {
      {.batch = 2, .heads = 2, .kv_heads = 1, .queries = 35, .keys = 70, .width = 32, .v_width = 32},
      {.queries = 131, .keys = 131, .width = 64, .v_width = 64, .mask = Mask::causal, .transposed = true},
      {.queries = 35, .keys = 70, .width = 64, .v_width = 64, .mask = Mask::boolean_rows},
      {.heads = 2, .kv_heads = 2, .queries = 33, .keys = 40, .width = 128, .v_width = 72, .mask = Mask::added},
      {.queries = 33, .keys = 40, .width = 128, .v_width = 128, .mask = Mask::causal},
      {.queries = 17, .keys = 40, .width = 256, .v_width = 256},
      {.queries = 17, .keys = 40, .width = 256, .v_width = 130, .mask = Mask::boolean_rows},
      {.queries = 33, .keys = 50, .width = 16, .v_width = 16, .dropout = 0.3},
      {.queries = 40, .keys = 200, .width = 8, .v_width = 8, .size = 30},
      // gradients that overflow f16 between the products, and some that are nearly zero
      {.queries = 20, .keys = 33, .width = 16, .v_width = 16, .mask = Mask::causal, .gradient_size = 4000},
      {.queries = 20, .keys = 33, .width = 16, .v_width = 16, .mask = Mask::causal, .gradient_size = 1e-5},
  };
  for (const Dtype dtype : {f16, bf16}) {
    for (Case c : cases) {
      c.exact = true;
      check_case(c, dtype);
    }
  }
}

TEST_CASE("a query that may look at nothing gets zeros, and NaN stays where it belongs") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  for (const Dtype dtype : {f32, f64, f16, bf16}) {
    INFO(name_of(dtype));
    const Case c{.queries = 3, .keys = 4, .width = 8, .v_width = 8};
    manual_seed(3);
    std::vector<double> elements = numbers(randn({24}));
    elements[8] = NAN;  // of query 1
    const auto draw = [&](std::int64_t length) { return cast(randn({1, 1, length, 8}), dtype).to(cuda); };
    const Tensor q = cast(from_data(elements, {1, 1, 3, 8}), dtype).to(cuda), k = draw(4), v = draw(4), g = draw(3);
    const Tensor mask = (tensor({{0, 0, 0, 0}, {1, 1, 1, 1}, {1, 0, 1, 1}}) == 1).to(cuda);
    const Result r = run(c, q, k, v, mask, g);
    const std::vector<double> y = numbers(r.y), dq = numbers(r.dq);
    for (std::size_t i = 0; i < 8; ++i) {
      CHECK((y[i] == 0 && dq[i] == 0));
      CHECK(std::isnan(y[8 + i]));
      CHECK((std::isfinite(y[16 + i]) && std::isfinite(dq[16 + i])));
    }
    CHECK(numbers(r.lse)[0] == INFINITY);
  }
}

namespace {

// scaled_dot_product_attention and the gradients of its inputs, on one device.
struct Call {
  double dropout = 0;
  bool causal = false, grouped = false, autocast = false;
};
using Tensors = std::vector<Tensor>;
Tensors attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& g,
               const Call& call) {
  Tensor y;
  {
    std::optional<amp::Autocast> region;
    if (call.autocast) region.emplace(f16);
    manual_seed(21);
    const AttentionOptions o{.dropout_p = call.dropout, .is_causal = call.causal, .enable_gqa = call.grouped};
    y = scaled_dot_product_attention(q, k, v, mask, o);
  }
  Tensors all{y.detach()};
  for (const Tensor& d : grad(sum(cast(y, f64) * cast(g, f64).to(q.device())), {q, k, v})) all.push_back(d);
  return all;
}

}  // namespace

TEST_CASE("scaled_dot_product_attention of halves: packed heads, groups, masks, dropout, inside and outside autocast") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  constexpr std::int64_t batch = 2, length = 37, heads = 2, width = 16;
  for (const Dtype dtype : {f16, bf16}) {
    for (const std::int64_t kv_heads : {heads, std::int64_t{1}}) {
      manual_seed(4);
      // one product gives the heads of q, k and v side by side: they are read without a copy
      const Tensor packed = cast(randn({batch, length, (heads + 2 * kv_heads) * width}), dtype);
      const Tensor g = cast(randn({batch, heads, length, width}), dtype);
      const auto part = [&](const Tensor& of, std::int64_t first, std::int64_t count) {
        const Tensor slice_of = slice(of, -1, first * width, (first + count) * width);
        return transpose(slice_of.as_strided({batch, length, count, width}, {of.stride(0), of.stride(1), width, 1}), 1,
                         2);
      };
      const auto split = [&](const Tensor& of) {
        Tensors parts{part(of, 0, heads), part(of, heads, kv_heads), part(of, heads + kv_heads, kv_heads)};
        for (Tensor& t : parts) t.requires_grad_();
        return parts;
      };
      const Tensor rows = rand({batch, 1, 1, length}) < 0.7, full = rand({batch, heads, length, length}) < 0.5;
      const Tensor added = cast(randn({heads, length, length}), dtype);
      for (int kind = 0; kind < 5; ++kind) {
        const Tensor mask = kind == 1 ? rows : kind == 2 ? full : kind == 3 ? added : Tensor();
        for (const double dropout : {0.0, 0.25}) {
          for (const bool autocast : {false, true}) {
            if (autocast && dtype != f16) continue;
            INFO(name_of(dtype) << ", " << kv_heads << " heads of k, mask " << kind << ", dropout " << dropout
                                << (autocast ? ", autocast" : ""));
            Call call{.dropout = dropout, .causal = kind == 4, .grouped = kv_heads != heads, .autocast = autocast};
            const Tensors on_device = split(packed.to(cuda)), exact = split(cast(packed, f64));
            const Tensor m = mask.defined() ? mask.to(cuda) : mask, wide = kind == 3 ? cast(mask, f64) : mask;
            const Tensors got = attend(on_device[0], on_device[1], on_device[2], m, g, call);
            Tensors again;
            if (dropout > 0) again = attend(on_device[0], on_device[1], on_device[2], m, g, call);
            call.autocast = false;
            const Tensors expected = attend(exact[0], exact[1], exact[2], wide, g, call);
            const double unit = dtype == f16 ? 0x1p-10 : 0x1p-7;
            for (std::size_t i = 0; i < got.size(); ++i) {
              INFO("result " << i);
              CHECK(got[i].dtype() == dtype);
              CHECK(difference(got[i], expected[i]) <= 4 * unit);
              if (!autocast) CHECK(beyond_rounding(got[i], expected[i]) <= 0x1p-16);
              if (dropout > 0) CHECK(numbers(got[i]) == numbers(again[i]));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("attention of halves never holds its matrix of weights") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  constexpr std::int64_t length = 512;
  for (const bool autocast : {false, true}) {
    const auto draw = [] { return cast(randn({1, 1, length, 8}), f16).to(cuda).requires_grad_(); };
    const Tensor q = draw(), k = draw(), v = draw(), g = cast(ones({1, 1, length, 8}), f16);
    reset_peak_memory_stats(cuda);
    const std::int64_t before = memory_stats(cuda).peak_allocated;
    (void)attend(q, k, v, {}, g, {.causal = true, .autocast = autocast});
    CHECK(memory_stats(cuda).peak_allocated - before < length * length);
  }
}
