// Operator policies: compared with PyTorch's lists, replaced for a region from code or JSON, explained in a table, and
// counted. Next: tests/amp_test.cpp for regions and shadows.
#include <limits>
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

Tensor input(const Dims& sizes, std::uint64_t stream, Dtype dtype = f32) {
  return random_tensor(sizes, stream).to(dtype);
}
Tensor weight(const Dims& sizes, std::uint64_t stream) { return input(sizes, stream).requires_grad_(); }

}  // namespace

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
  CHECK(amp::autocast(AutocastOptions{.dtype = f16, .policies = p}, [] {
          return softmax(ones({2, 2}), 1);
        }).dtype() == f16);
  Policies q;
  CHECK_THAT(message_of([&] { q.set("sofmax", CastPolicy::keep); }),
             Contains("no operator \"sofmax\"; did you mean \"softmax\"?"));
  CHECK(q.entries().empty());
  const auto message = [](const char* text) { return message_of([&] { Policies::from_json(text, "policies.json"); }); };
  CHECK_THAT(message(R"({"matmull": "keep"})"), Contains("policies.json") && Contains("did you mean \"matmul\"?"));
  CHECK_THAT(message(R"({"matmul": "f23"})"), Contains("no cast policy \"f23\"; did you mean \"f32\"?"));
  CHECK_THAT(message(R"({"matmul": 3})"), Contains("must be a string"));
  for (const char* bad : {"[]", "null", "3"}) CHECK_THAT(message(bad), Contains("expected a JSON object"));
  for (const char* bad : {"", "{", R"({"matmul": "keep")"})
    CHECK_THAT(message(bad), Contains("not valid JSON at byte"));
  CHECK_THAT(message(R"({"exp": "keep", "exp": "f32"})"), Contains("has the member \"exp\" twice"));
}

TEST_CASE("norms and softmax in f32 inside give what came in, within one rounding", "[amp]") {
  MANTISSA_PRINT_SEED();
  for (Dtype low : {f16, bf16}) {
    const Tensor x = input({6, 64}, 1, low), w = weight({64}, 2), b = weight({64}, 3);
    const auto run = [&](const Policies& p, auto f) {
      return amp::autocast(AutocastOptions{.dtype = low, .policies = p}, f);
    };
    const auto check = [&](auto f) {
      const Tensor wide = run(Policies::torch_cuda(), f), same = run(Policies(), f);
      CHECK(wide.dtype() == f32);
      CHECK(same.dtype() == low);
      CHECK(same_bits(same.detach(), wide.detach().to(low)));
    };
    check([&] { return softmax(x, 1); });
    check([&] { return log_softmax(x, 1); });
    check([&] { return layer_norm(x, {64}, w, b); });
    check([&] { return rms_norm(x, {64}, w, 1e-6); });
    check([&] { return group_norm(x, 4, w, b); });
    const std::uint64_t before = amp::cast_count();
    const Tensor y = run(Policies(), [&] { return layer_norm(x, {64}, w, b); });
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
        {"softmax", "f32_inside", "the operator's own", "bf16", "bf16", 2, 0, 0},
        {"exp", "keep", "the region's policies", "bf16", "bf16", 2, 0, 0}};
    const std::vector<amp::Decision>& got = explain.decisions();
    CHECK(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size() && i < expected.size(); ++i) {
      INFO(explain.table());
      CHECK((got[i] == expected[i]));
    }
    CHECK_THAT(
        explain.table(),
        Contains("operator  policy      reason") &&
            Contains("softmax   f32_inside  the operator's own     bf16         bf16    2      0           0\n"));
  }
  CHECK(outer.decisions().empty());
}

TEST_CASE("A27: what runs without a policy can be listed, and where results lie is counted per dtype", "[amp]") {
  const Tensor x = input({5, 8}, 1), w = weight({4, 8}, 2);
  amp::Explain explain;
  amp::autocast(f16, [&] { return exp(relu(linear(x, w)) + 1.0); });
  CHECK(explain.without_policy() == std::vector<std::string>{"relu", "add"});
  CHECK(explain.result_bytes()[static_cast<std::size_t>(f16)] == 3 * 20 * 2);
  CHECK(explain.result_bytes()[static_cast<std::size_t>(f32)] == 20 * 4);
}

namespace {
std::vector<Device> devices() {
  std::vector<Device> all{cpu};
  try {
    Tensor::allocate({1}, f32, cuda);
    all.push_back(cuda);
  } catch (const Error&) {
  }
  return all;
}
}  // namespace

// Without CUDA this compares a region of the CPU with one of all devices; with CUDA, the two devices.
TEST_CASE("A30: every device makes the same decisions in regions of one dtype", "[amp]") {
  if (devices().size() == 1) WARN("only the CPU's decisions are held against the table: there is no CUDA device");
  for (Dtype low : {f16, bf16}) {
    const auto decisions = [&](Device device, bool of_all) {
      const Tensor x = input({4, 8}, 1).to(device), w = weight({8, 8}, 2).to(device), b = weight({8}, 3).to(device);
      const Tensor target = tensor({1, 0, 6, 3}).to(device);
      amp::Explain explain;
      const Autocast region(of_all ? AutocastOptions{.dtype = low} : AutocastOptions{.dtype = low, .device = device});
      Tensor y = layer_norm(gelu(linear(x, w, b)), {8}, b);
      y = matmul(softmax(matmul(y, y.t()), -1), y) + x;
      cross_entropy(log(exp(y)), target);
      y.sum();
      return explain.decisions();
    };
    const std::vector<amp::Decision> expected = decisions(cpu, true);
    CHECK(expected.size() >= 10);
    for (const Device device : devices()) {
      for (const bool of_all : {true, false}) {
        const std::vector<amp::Decision> got = decisions(device, of_all);
        INFO(name_of(low) << " on " << concat(device));
        REQUIRE(got.size() == expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          INFO(got[i].op << " after " << (i ? expected[i - 1].op : "nothing"));
          CHECK(got[i].op == expected[i].op);
          CHECK(got[i].policy == expected[i].policy);
          CHECK(got[i].inputs == expected[i].inputs);
          CHECK(got[i].output == expected[i].output);
          for (const OpInfo& op : registry()) {
            if (got[i].op == op.name) CHECK(got[i].policy == amp::name_of(op.autocast));
          }
        }
      }
    }
  }
}

TEST_CASE("A43: hits, misses, casts and bytes are exact; shadows can be weighed and dropped", "[amp][A43]") {
  Tensor w = weight({4, 8}, 1);
  const Tensor x = input({5, 8}, 2);
  const Tensor parameters[] = {w};
  const amp::CastStatistics before = amp::cast_statistics();
  const auto counts = [&] {
    const amp::CastStatistics s = amp::cast_statistics();
    return std::vector<std::int64_t>{static_cast<std::int64_t>(s.casts - before.casts),
                                     static_cast<std::int64_t>(s.misses - before.misses),
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

TEST_CASE("A43: with a byte budget the peak stays below it, results and gradients are the same", "[amp]") {
  const Tensor a = weight({16, 16}, 1), b = weight({16, 16}, 2), c = weight({16, 16}, 3), x = input({2, 16}, 4);
  const auto forward = [&] { return amp::autocast(bf16, [&] { return linear(linear(linear(x, a), b), c); }); };
  const auto gradients = [&] { return grad(sum(forward().to(f32)), {a, b, c}); };
  const Tensor expected = forward();
  const std::vector<Tensor> wanted = gradients();
  const Tensor all[] = {a, b, c};
  amp::drop_shadows(all);
  const std::int64_t before = amp::shadow_memory().bytes;
  amp::reset_peak_shadow_memory();
  amp::set_shadow_budget(before + 2 * 512);
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t casts = amp::cast_count();
    CHECK(same_bits(forward(), expected));
    CHECK(amp::cast_count() - casts == (i == 0 ? 4 : 2));  // x and c each time, a and b once
    CHECK(amp::shadow_memory().peak_bytes <= before + 2 * 512);
    CHECK(amp::shadow_bytes(all) == 2 * 512);
    const std::vector<Tensor> found = gradients();
    for (std::size_t k = 0; k < 3; ++k) {
      CHECK(found[k].dtype() == f32);  // not rounded on the way back through a cast
      CHECK(same_bits(found[k], wanted[k]));
    }
  }
  amp::set_shadow_budget(std::numeric_limits<std::int64_t>::max());
  CHECK(same_bits(forward(), expected));
  CHECK(amp::shadow_bytes(all) == 3 * 512);
  CHECK_THAT(message_of([] { amp::set_shadow_budget(-1); }), Contains("must not be negative"));
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
