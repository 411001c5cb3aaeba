// Which policy an operator has: beside PyTorch's lists, replaced for a region from code or JSON, explained
// in a table, and counted. Next: tests/amp_test.cpp for regions and shadows.
#include <map>
#include <thread>

#include "amp/autocast.h"
#include "amp/explain.h"
#include "amp/frozen.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "ops/registry.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::Autocast;
using amp::AutocastOptions;
using amp::Policies;
using Catch::Matchers::Contains;

namespace {

Tensor input(const Dims& sizes, std::uint64_t stream, Dtype dtype = f32) { return random_tensor(sizes, stream).to(dtype); }
Tensor weight(const Dims& sizes, std::uint64_t stream) { return input(sizes, stream).requires_grad_(); }

// PyTorch's lists for CUDA, by its names. What it lets promote by itself (cat, stack) is "promote" here.
const std::map<std::string, CastPolicy>& torch_lists() {
  static const std::map<std::string, CastPolicy> lists = [] {
    std::map<std::string, CastPolicy> m;
    for (const char* op : {"conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
                           "prelu", "addmm", "addmv", "addr", "matmul", "einsum", "mm", "mv", "linalg_vecdot", "linear", "addbmm",
                           "baddbmm", "bmm", "chain_matmul", "linalg_multi_dot", "lstm_cell", "gru_cell", "rnn_tanh_cell",
                           "rnn_relu_cell", "scaled_dot_product_attention"}) {
      m[op] = CastPolicy::lower;
    }
    for (const char* op : {"acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt",
                           "sinh", "tan", "pow", "softplus", "layer_norm", "group_norm", "rms_norm", "cosine_similarity", "dist",
                           "pdist", "cdist", "renorm", "logsumexp", "poisson_nll_loss", "cosine_embedding_loss", "nll_loss",
                           "hinge_embedding_loss", "kl_div", "l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss",
                           "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss",
                           "multi_margin_loss", "binary_cross_entropy_with_logits", "prod", "softmax", "log_softmax", "cumprod",
                           "cumsum", "sum", "norm", "vector_norm",
                           "cross_entropy"}) {  // there made of log_softmax and nll_loss
      m[op] = CastPolicy::f32;
    }
    for (const char* op : {"addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sample", "index_put", "tensordot",
                           "scatter_add", "cat", "stack"}) {
      m[op] = CastPolicy::promote;
    }
    return m;
  }();
  return lists;
}

}  // namespace

TEST_CASE("A13 A14 A17 A27: operators' policies equal PyTorch's lists for CUDA", "[amp][A27]") {
  int both = 0;
  for (const OpInfo& op : registry()) {
    const auto at = torch_lists().find(op.name);
    if (op.composite || at == torch_lists().end()) continue;  // composites do what their parts do
    ++both;
    INFO(op.name << ": " << amp::name_of(op.autocast) << " here, " << amp::name_of(at->second) << " in PyTorch");
    CHECK(op.autocast == at->second);
  }
  CHECK(both >= 15);
}

TEST_CASE("A29: a region's policies change the operators they name, inside it and in nested regions", "[amp][A29]") {
  const Tensor x = input({3, 4}, 1), low = x.to(bf16);
  Policies p;
  p.set("softmax", CastPolicy::lower).set("matmul", CastPolicy::f32);
  {
    const Autocast region(AutocastOptions{.dtype = bf16, .policies = p});
    CHECK(softmax(x, 1).dtype() == bf16);
    CHECK(matmul(low, low.t()).dtype() == f32);
    CHECK(exp(low).dtype() == f32);
    CHECK(linear(x, x).dtype() == bf16);
    {
      const Autocast inner(f16);
      CHECK(softmax(x, 1).dtype() == f16);
      Policies more;
      more.set("softmax", CastPolicy::keep).set("exp", CastPolicy::keep);
      const Autocast innermost(AutocastOptions{.policies = more});
      CHECK(softmax(low, 1).dtype() == bf16);
      CHECK(exp(low).dtype() == bf16);
      CHECK(matmul(low, low.t()).dtype() == f32);
      CHECK(linear(x, x).dtype() == f16);
    }
    CHECK(exp(low).dtype() == f32);
  }
  const Autocast plain(bf16);
  CHECK(softmax(x, 1).dtype() == f32);
  CHECK(matmul(x, x.t()).dtype() == bf16);
}

TEST_CASE("A10 A29: a captured state carries its policies to another thread", "[amp][A10][A29]") {
  AutocastState state;
  {
    Policies p;
    p.set("softmax", CastPolicy::lower);
    const Autocast region(AutocastOptions{.dtype = f16, .policies = p});
    state = amp::capture();
  }
  Dtype seen = f64;
  std::thread([&] {
    const Autocast applied(state);
    seen = softmax(ones({2, 2}), 1).dtype();
  }).join();
  CHECK(seen == f16);
  CHECK(amp::autocast(AutocastOptions{}, [] { return matmul(ones({2, 2}), ones({2, 2})); }).dtype() == bf16);
}

TEST_CASE("A29: policies from JSON, and names that do not exist", "[amp][A29]") {
  const Policies p = Policies::from_json(R"({"softmax": "lower", "exp": "keep"})");
  REQUIRE(p.entries().size() == 2);
  CHECK(p.entries()[0] == Policies::Entry{"exp", CastPolicy::keep});
  CHECK(amp::autocast(AutocastOptions{.dtype = f16, .policies = p}, [] { return softmax(ones({2, 2}), 1); }).dtype() == f16);
  Policies q;
  CHECK_THAT(message_of([&] { q.set("sofmax", CastPolicy::keep); }), Contains("no operator \"sofmax\"; did you mean \"softmax\"?"));
  CHECK(q.entries().empty());
  const auto message = [](const char* text) { return message_of([&] { Policies::from_json(text, "policies.json"); }); };
  CHECK_THAT(message(R"({"matmull": "keep"})"), Contains("policies.json") && Contains("did you mean \"matmul\"?"));
  CHECK_THAT(message(R"({"matmul": "f23"})"), Contains("no cast policy \"f23\"; did you mean \"f32\"?"));
  CHECK_THAT(message(R"({"matmul": 3})"), Contains("must be a string"));
  for (const char* bad : {"", "[]", "{", "null", R"({"matmul": "keep")"}) CHECK_THAT(message(bad), Contains("expected a JSON object"));
}

TEST_CASE("norms and softmax in f32 inside give what came in, within one rounding", "[amp]") {
  MANTISSA_PRINT_SEED();
  for (Dtype low : {f16, bf16}) {
    const Tensor x = input({6, 64}, 1, low), w = weight({64}, 2), b = weight({64}, 3);
    const auto run = [&](const Policies& p, auto f) { return amp::autocast(AutocastOptions{.dtype = low, .policies = p}, f); };
    const auto check = [&](auto f) {
      const Tensor wide = run(Policies::torch(), f), same = run(Policies::f32_inside(), f);
      CHECK(wide.dtype() == f32);
      CHECK(same.dtype() == low);
      CHECK(same_bits(same.detach(), wide.detach().to(low)));
    };
    check([&] { return softmax(x, 1); });
    check([&] { return log_softmax(x, 1); });
    check([&] { return layer_norm(x, {64}, w, b); });
    const std::uint64_t before = amp::cast_count();
    const Tensor y = run(Policies::f32_inside(), [&] { return layer_norm(x, {64}, w, b); });
    CHECK(amp::cast_count() == before);
    backward(y, ones_like(y));
    CHECK(w.grad().dtype() == f32);
  }
}

TEST_CASE("A27 A43: explain tells policy, reason, dtypes, bytes and hits of every operator", "[amp][A27]") {
  const Tensor x = input({5, 8}, 1), w = weight({4, 8}, 2), b = weight({4}, 3);
  amp::Explain outer;
  {
    amp::Explain explain;
    Policies p;
    p.set("exp", CastPolicy::keep);
    for (int i = 0; i < 2; ++i) {
      const Autocast region(AutocastOptions{.dtype = bf16, .policies = p});
      exp(softmax(relu(linear(x, w, b)), 1));
    }
    relu(x);  // outside: not noted
    const std::vector<amp::Decision> expected{
        {"linear", "lower", "the operator's own", "f32 f32 f32", "bf16", 2, 2 * (2 * 40) + 2 * (32 + 4), 2},
        {"relu", "keep", "no policy of its own", "bf16", "bf16", 2, 0, 0},
        {"softmax", "f32", "the operator's own", "bf16", "f32", 2, 2 * 4 * 20, 0},
        {"exp", "keep", "the region's policies", "f32", "f32", 2, 0, 0}};
    const std::vector<amp::Decision>& got = explain.decisions();
    CHECK(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size() && i < expected.size(); ++i) {
      INFO(explain.table());
      CHECK((got[i] == expected[i]));
    }
    CHECK_THAT(explain.table(), Contains("operator  policy  reason") &&
                                    Contains("softmax   f32     the operator's own     bf16         f32     2      160         0\n"));
  }
  CHECK(outer.decisions().empty());
}

TEST_CASE("A43: hits, misses, casts and bytes are exact; shadows can be weighed and dropped", "[amp][A43]") {
  Tensor w = weight({4, 8}, 1);
  const Tensor x = input({5, 8}, 2);
  const Tensor parameters[] = {w};
  const amp::CastStatistics before = amp::cast_statistics();
  const auto counts = [&] {
    const amp::CastStatistics s = amp::cast_statistics();
    return std::vector<std::int64_t>{static_cast<std::int64_t>(s.casts - before.casts), static_cast<std::int64_t>(s.misses - before.misses),
                                     static_cast<std::int64_t>(s.hits - before.hits), s.bytes - before.bytes};
  };
  using V = std::vector<std::int64_t>;
  const Autocast region(f16);
  CHECK(amp::shadow_bytes(parameters) == 0);
  linear(x, w);
  CHECK(counts() == V{1, 1, 0, 2 * 40 + 2 * 32});
  linear(x, w);
  CHECK(counts() == V{2, 1, 1, 4 * 40 + 2 * 32});
  CHECK(amp::shadow_bytes(parameters) == 64);
  amp::drop_shadows(parameters);
  CHECK(amp::shadow_bytes(parameters) == 0);
  linear(x.to(f16), w);
  CHECK(counts() == V{2, 2, 1, 4 * 40 + 4 * 32});
  {
    const NoGrad no_grad;
    w.fill_(1);
  }
  linear(x.to(f16), w);
  CHECK(counts() == V{2, 3, 1, 4 * 40 + 6 * 32});
}

TEST_CASE("A42: frozen weights that are named are cast once, and again after a change", "[amp][A42]") {
  Tensor w = input({4, 8}, 1), other = input({4, 8}, 2);
  const Tensor x = input({5, 8}, 3, bf16);
  const std::uint64_t before = amp::cast_count();
  const auto use = [&](const Tensor& weights, Dtype dtype) {
    const Tensor y = amp::autocast(dtype, [&] { return linear(x.to(dtype), weights); });
    CHECK(same_bits(y, linear(x.to(dtype), weights.to(dtype))));
    return amp::cast_count() - before;
  };
  {
    const amp::FrozenCasts casts({w});
    CHECK(casts.bytes() == 0);
    for (int i = 0; i < 100; ++i) CHECK(use(w, bf16) == 1);
    CHECK(casts.bytes() == 64);
    w.fill_(2);
    for (int i = 0; i < 3; ++i) CHECK(use(w, bf16) == 2);
    for (int i = 0; i < 3; ++i) CHECK(use(w, f16) == 3);
    CHECK(use(other, bf16) == 4);
    CHECK(use(other, bf16) == 5);
    std::thread([&] { amp::autocast(f16, [&] { linear(x.to(f16), w); }); }).join();
    CHECK(use(w, f16) == 5);
  }
  CHECK(use(w, f16) == 6);
  CHECK(use(w, f16) == 7);
}
