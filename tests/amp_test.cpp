// Autocast: regions, policies, cached casts of weights (shadows), and their interaction with autograd. Test names carry
// the numbers of the mixed-precision contract that they check. The policy of each operator is checked in op_test.cpp.
#include <atomic>
#include <optional>
#include <thread>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "autograd/checkpoint.h"
#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "autograd/node.h"
#include "core/allocator.h"
#include "core/ops.h"
#include "data/pipeline.h"
#include "data/synthetic.h"
#include "nn/activation.h"
#include "nn/functions.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::Autocast;
using Catch::Matchers::Contains;

namespace {

Tensor input(const Dims& sizes, std::uint64_t stream, Dtype dtype = f32) {
  return random_tensor(sizes, stream).to(dtype);
}
Tensor weight(const Dims& sizes, std::uint64_t stream) { return input(sizes, stream).requires_grad_(); }
std::uint64_t casts_in(auto&& body) {
  const std::uint64_t before = amp::cast_count();
  body();
  return amp::cast_count() - before;
}

}  // namespace

TEST_CASE("A1 A2 A3: the innermost region decides, and ends with its scope", "[amp]") {
  const Tensor a = input({3, 4}, 1), b = input({4, 5}, 2);
  CHECK(!amp::is_enabled());
  CHECK(matmul(a, b).dtype() == f32);
  {
    const Autocast outer(f16);
    CHECK(amp::is_enabled());
    CHECK(matmul(a, b).dtype() == f16);
    {
      const Autocast inner(bf16);
      CHECK(matmul(a, b).dtype() == bf16);
    }
    CHECK(matmul(a, b).dtype() == f16);
  }
  CHECK(matmul(a, b).dtype() == f32);
  CHECK(amp::autocast(bf16, [&] { return matmul(a, b); }).dtype() == bf16);
}

TEST_CASE("A4: a disabled region runs in the dtypes that come in", "[amp]") {
  const Tensor a = input({3, 4}, 1), b = input({4, 5}, 2);
  const Autocast outer(f16);
  {
    const Autocast off(amp::disabled);
    CHECK(!amp::is_enabled());
    CHECK(matmul(a, b).dtype() == f32);
    CHECK(matmul(a.to(f16), b.to(f16)).dtype() == f16);
  }
  CHECK(matmul(a, b).dtype() == f16);
}

TEST_CASE("A5: an exception restores the state", "[amp]") {
  const Autocast outer(bf16);
  const AutocastState before = amp::capture();
  CHECK_THROWS(amp::autocast(f16, [&] { return matmul(zeros({2, 3}), zeros({2, 3})); }));
  CHECK(amp::capture() == before);
}

TEST_CASE("A6 A10: a thread starts outside and can apply a captured state", "[amp]") {
  const Autocast region(f16);
  const AutocastState state = amp::capture();
  bool inside = true, applied = false, after = true;
  std::thread([&] {
    inside = amp::is_enabled();
    {
      const Autocast scope(state);
      applied = amp::capture() == state && matmul(zeros({2, 2}), zeros({2, 2})).dtype() == f16;
    }
    after = amp::is_enabled();
  }).join();
  CHECK(!inside);
  CHECK(applied);
  CHECK(!after);
}

TEST_CASE("A6 A10: a loader's transforms run in the region that the loader was made in, on any thread",
          "[amp][threads]") {
  for (const int threads : {0, 2}) {
    std::atomic<int> inside{0}, batches{0};
    const auto make = [&] {
      return data::Pipeline(data::synthetic_digits(16)).batch(4).threads(threads).map([&](data::Batch&, data::Draws&) {
        inside += amp::is_enabled();
        ++batches;
      }).loader();
    };
    const auto run = [](data::Loader loader) {
      data::Batch b;
      while (loader.next(b)) {}
    };
    data::Loader outside = make();
    amp::autocast(bf16, [&] { run(std::move(outside)); });
    CHECK(inside == 0);
    CHECK(batches >= 4);
    batches = 0;
    std::optional<data::Loader> made;
    amp::autocast(bf16, [&] { made.emplace(make()); });
    run(std::move(*made));
    CHECK(inside == batches);
    CHECK(batches >= 4);
  }
}

TEST_CASE("A7 A22: a region of one device does not touch tensors of another", "[amp]") {
  const Tensor a = input({2, 2}, 1);
  const Autocast gpu(cuda, f16);
  CHECK(amp::is_enabled(cuda));
  CHECK(!amp::is_enabled(cpu));
  CHECK(matmul(a, a).dtype() == f32);
  const Autocast both(cpu, bf16);
  CHECK(amp::capture().dtype_on(cuda) == f16);
  CHECK(matmul(a, a).dtype() == bf16);
}

TEST_CASE("A8: f16 and bf16 are accepted, f32 makes the region inert, others are refused", "[amp]") {
  const Tensor a = input({2, 2}, 1);
  CHECK(AutocastState{}.dtype_on(cpu) == bf16);
  CHECK(AutocastState{}.dtype_on(cuda) == f16);
  const Autocast outer(f16);
  {
    const Autocast inert(f32);
    CHECK(!amp::is_enabled());
    CHECK(matmul(a, a).dtype() == f32);
  }
  CHECK_THAT(message_of([] { const Autocast scope(f64); }), Contains("must be f16, bf16 or f32, got f64"));
  CHECK_THAT(message_of([] { const Autocast scope(i64); }), Contains("got i64"));
  const Autocast off(amp::AutocastOptions{.dtype = f64, .enabled = false});  // the dtype is never used
  CHECK(matmul(a, a).dtype() == f32);
}

TEST_CASE("A13: lower operators equal casting by hand, bit by bit", "[amp]") {
  for (Dtype low : {f16, bf16}) {
    const Tensor x = input({5, 8}, 1), w = weight({6, 8}, 2), b = weight({6}, 3);
    const Tensor auto_linear = amp::autocast(low, [&] { return linear(x, w, b); });
    CHECK(same_bits(auto_linear, linear(x.to(low), w.to(low), b.to(low))));
    CHECK(same_bits(amp::autocast(low, [&] { return matmul(x, w.t()); }), matmul(x.to(low), w.t().to(low))));
    const Tensor image = input({2, 3, 6, 6}, 4), kernel = weight({4, 3, 3, 3}, 5);
    CHECK(same_bits(amp::autocast(low, [&] { return conv2d(image, kernel); }), conv2d(image.to(low), kernel.to(low))));
  }
}

TEST_CASE("A14 A16: f32 operators on low inputs equal .to(f32) by hand", "[amp]") {
  const Tensor x = input({4, 7}, 1, bf16), target = tensor({1, 0, 6, 3});
  const Autocast region(amp::AutocastOptions{.dtype = bf16, .policies = amp::Policies::torch_cuda()});
  CHECK(same_bits(softmax(x, 1), softmax(x.to(f32), 1)));
  CHECK(same_bits(sum(x), sum(x.to(f32))));
  CHECK(same_bits(exp(x), exp(x.to(f32))));
  CHECK(same_bits(cross_entropy(x, target), cross_entropy(x.to(f32), target)));
  CHECK(softmax(x, 1).dtype() == f32);
}

TEST_CASE("A15 A16: sums, products, softmax and norms give f32, but for a dtype that the call names", "[amp]") {
  using Call = Tensor (*)(const Tensor&, std::optional<Dtype>);
  const std::pair<const char*, Call> calls[] = {
      {"sum", [](const Tensor& x, std::optional<Dtype> d) { return sum(x, {1}, false, d); }},
      {"sum of all", [](const Tensor& x, std::optional<Dtype> d) { return sum(x, {}, false, d); }},
      {"prod", [](const Tensor& x, std::optional<Dtype> d) { return prod(x, {1}, false, d); }},
      {"cumsum", [](const Tensor& x, std::optional<Dtype> d) { return cumsum(x, 1, d); }},
      {"cumprod", [](const Tensor& x, std::optional<Dtype> d) { return cumprod(x, 1, d); }},
      {"softmax", [](const Tensor& x, std::optional<Dtype> d) { return softmax(x, 1, d); }},
      {"log_softmax", [](const Tensor& x, std::optional<Dtype> d) { return log_softmax(x, 1, d); }},
      {"norm", [](const Tensor& x, std::optional<Dtype> d) { return norm(x, 2, {1}, false, d); }},
  };
  for (Dtype low : {f16, bf16}) {
    for (const auto& [name, call] : calls) {
      INFO(name << " in a region of " << name_of(low));
      const Tensor x = input({3, 5}, 1, low), d = input({3, 5}, 1, f64), i = arange(6).reshape({2, 3});
      const Autocast region(amp::AutocastOptions{.dtype = low, .policies = amp::Policies::torch_cuda()});
      const auto outside = [&](const Tensor& t, std::optional<Dtype> dtype) {
        const Autocast off(amp::disabled);
        return call(t, dtype);
      };
      CHECK(call(x, {}).dtype() == f32);
      CHECK(same_bits(call(x, {}), outside(x.to(f32), {})));
      CHECK(call(x, low).dtype() == low);
      CHECK(same_bits(call(x, low), outside(x, low)));
      CHECK(call(x, f64).dtype() == f64);
      CHECK(same_bits(call(d, {}), outside(d, {})));
      if (std::string_view(name).find("softmax") != std::string_view::npos || std::string_view(name) == "norm")
        continue;
      CHECK(same_bits(call(i, {}), outside(i, {})));
    }
  }
}

TEST_CASE("A17 A18 A19: mixed inputs promote to the widest, in any order; two halves do not mix", "[amp]") {
  const Tensor low = input({2, 3}, 1, f16), wide = input({2, 3}, 2), other = input({2, 3}, 3, bf16);
  const Autocast region(f16);
  CHECK(add(low, wide).dtype() == f32);
  CHECK(add(wide, low).dtype() == f32);
  CHECK(mul(low, low).dtype() == f16);
  CHECK(lt(low, wide).dtype() == boolean);
  CHECK(cat({low, wide}).dtype() == f32);
  CHECK(cat({wide, low}).dtype() == f32);
  CHECK(stack({low, low}).dtype() == f16);
  const std::string message = message_of([&] { cat({low, other}); });
  CHECK_THAT(message, Contains("cat") && Contains("f16") && Contains("bf16"));
}

TEST_CASE("A21: double, integer and bool keep their dtype under every policy", "[amp]") {
  const Autocast region(bf16);
  const Tensor d = input({3, 3}, 1, f64), i = arange(6).reshape({2, 3});
  CHECK(matmul(d, d).dtype() == f64);
  CHECK(softmax(d, 0).dtype() == f64);
  CHECK(sum(i).dtype() == i64);
  CHECK(add(i, i).dtype() == i64);
  CHECK(where(i > 2.0, i, i).dtype() == i64);
}

TEST_CASE("A24 A25 A26: absent and optional arguments, low inputs, empty and zero-dim tensors", "[amp]") {
  const Tensor x = input({5, 4}, 1), w = weight({3, 4}, 2), bias = weight({3}, 3);
  const Autocast region(bf16);
  CHECK(linear(x, w).dtype() == bf16);
  CHECK(linear(x, w, bias).dtype() == bf16);
  const Tensor low = x.to(bf16);
  amp::shadow(w, bf16);
  CHECK(casts_in([&] { linear(low, w); }) == 0);
  CHECK(matmul(zeros({0, 4}), w.t()).sizes() == Dims{0, 3});
  CHECK(exp(scalar(1, {.dtype = bf16})).dtype() == f32);
  CHECK(amp::shadow(w, bf16).requires_grad());
  CHECK(amp::shadow(w, bf16).sizes() == w.sizes());
}

TEST_CASE("A26: a cast keeps the layout of a dense tensor, its gradient and device", "[amp]") {
  const Tensor base = input({2, 3, 4}, 1).requires_grad_();
  const Tensor turned = base.permute({2, 0, 1}), sliced = base.slice(1, 0, 2);
  const Autocast region(bf16);
  const Tensor cast = amp::lowered(turned);
  CHECK(cast.dtype() == bf16);
  CHECK(cast.sizes() == turned.sizes());
  CHECK(cast.strides() == turned.strides());
  CHECK(cast.device() == turned.device());
  CHECK(cast.requires_grad());
  CHECK(same_bits(cast.detach(), turned.detach().to(bf16)));
  CHECK(amp::lowered(sliced).is_contiguous());
  CHECK(!amp::lowered(turned.detach()).requires_grad());
  CHECK(amp::lowered(zeros({0, 3})).sizes() == Dims{0, 3});
  CHECK(amp::lowered(scalar(2)).dim() == 0);
  const Tensor low = turned.detach().to(bf16);
  CHECK(amp::lowered(low).is_same(low));
  backward(amp::lowered(turned), input({4, 2, 3}, 2, bf16));
  CHECK(same_bits(base.grad(), input({4, 2, 3}, 2, bf16).to(f32).permute({1, 2, 0}).contiguous()));
}

TEST_CASE("A23: in-place functions are outside autocast", "[amp]") {
  const Autocast region(bf16);
  Tensor x = ones({2});
  x.add_(ones({2}, {.dtype = bf16}));
  CHECK(x.dtype() == f32);
  CHECK(same_bits(x, full({2}, 2)));
}

TEST_CASE("A31: a weight is cast once however often it is used", "[amp]") {
  const Tensor w = weight({4, 4}, 1), x = input({2, 4}, 2, bf16);
  const Autocast region(bf16);
  CHECK(casts_in([&] { for (int i = 0; i < 5; ++i) linear(x, w); }) == 1);
}

TEST_CASE("A31: with the cache off each use makes a cast of its own", "[amp]") {
  const Tensor w = weight({4, 4}, 1), x = input({2, 4}, 2, bf16);
  const Autocast region(amp::AutocastOptions{.dtype = bf16, .cache = amp::CastCache::off});
  Tensor sum;
  CHECK(casts_in([&] { for (int i = 0; i < 5; ++i) sum = sum.defined() ? sum + linear(x, w) : linear(x, w); }) == 5);
  backward(sum, ones_like(sum));
  CHECK(w.grad().dtype() == f32);
  const Tensor parameters[] = {w};
  CHECK(amp::shadow_bytes(parameters) == 0);
}

TEST_CASE("a region that is enabled by a flag", "[amp]") {
  const Tensor w = weight({4, 4}, 1);
  for (const bool use_amp : {false, true}) {
    const Autocast scope({.dtype = f16, .enabled = use_amp});
    CHECK(linear(w, w).dtype() == (use_amp ? f16 : f32));
  }
}

TEST_CASE("A32: casts kept until the outermost region ends go then, and not before", "[amp]") {
  const Tensor w = weight({64, 64}, 1), x = input({8, 64}, 2, bf16);
  const Tensor parameters[] = {w};
  const amp::AutocastOptions options{.dtype = bf16, .cache = amp::CastCache::until_exit};
  const std::int64_t before = memory_stats().allocated;
  {
    const Autocast outer(options);
    CHECK(casts_in([&] { linear(x, w); }) == 1);
    { const Autocast inner(bf16); CHECK(casts_in([&] { linear(x, w); }) == 0); }
    { const Autocast off(amp::disabled); }
    { const Autocast other{AutocastState(amp::capture())}; }
    CHECK(amp::shadow_bytes(parameters) == 64 * 64 * 2);
    CHECK(casts_in([&] { linear(x, w); }) == 0);
    CHECK_THROWS(amp::autocast(options, [&]() -> Tensor { linear(x, w); throw Error("stop"); }));
    CHECK(casts_in([&] { linear(x, w); }) == 0);
  }
  CHECK(amp::shadow_bytes(parameters) == 0);
  CHECK(memory_stats().allocated == before);
  { const Autocast kept(bf16); linear(x, w); }
  CHECK(amp::shadow_bytes(parameters) == 64 * 64 * 2);
}

TEST_CASE("A41: a thread that leaves does not take the casts of another", "[amp]") {
  const Tensor w = weight({16, 16}, 1), x = input({4, 16}, 2, bf16);
  const Tensor parameters[] = {w};
  const amp::AutocastOptions options{.dtype = bf16, .cache = amp::CastCache::until_exit};
  const Autocast region(options);
  linear(x, w);
  std::thread([&] { amp::autocast(options, [&] { linear(x, w); }); }).join();
  CHECK(amp::shadow_bytes(parameters) == 16 * 16 * 2);
  CHECK(casts_in([&] { linear(x, w); }) == 0);
}

TEST_CASE("A33: only leaves that want a gradient have shadows", "[amp]") {
  const Tensor w = weight({4, 4}, 1), frozen = input({4, 4}, 3), x = input({2, 4}, 2, bf16);
  const Autocast region(bf16);
  CHECK(casts_in([&] { for (int i = 0; i < 3; ++i) linear(x, frozen); }) == 3);
  const Tensor not_leaf = w * 1.0, view = w.t();
  CHECK(casts_in([&] { for (int i = 0; i < 3; ++i) linear(x, not_leaf); }) == 3);
  CHECK(casts_in([&] { for (int i = 0; i < 3; ++i) linear(x, view); }) == 3);
}

TEST_CASE("A34: a first use under NoGrad does not poison training", "[amp]") {
  const auto gradient = [](bool use_before) {
    Tensor w = weight({4, 4}, 1);
    const Tensor x = input({2, 4}, 2);
    Tensor loss;
    {
      const Autocast region(bf16);
      if (use_before) {
        const NoGrad no_grad;
        CHECK(!linear(x, w).requires_grad());
      }
      loss = linear(x, w).sum();
    }
    backward(loss);
    return w.grad();
  };
  REQUIRE(gradient(true).defined());
  CHECK(same_bits(gradient(true), gradient(false)));
}

TEST_CASE("A35: a first use in inference mode does not poison training", "[amp]") {
  const auto gradient = [](bool use_before) {
    Tensor w = weight({4, 4}, 1);
    const Tensor x = input({2, 4}, 2);
    Tensor loss;
    {
      const Autocast region(bf16);
      if (use_before) {
        const InferenceMode inference;
        const EnableGrad no_way_out;  // as in a layer that enables gradients by itself
        CHECK(inference_mode_enabled());
        CHECK(!grad_enabled());
        CHECK(!linear(x, w).requires_grad());
      }
      CHECK(grad_enabled());
      loss = linear(x, w).sum();
    }
    backward(loss);
    return w.grad();
  };
  REQUIRE(gradient(true).defined());
  CHECK(same_bits(gradient(true), gradient(false)));
}

TEST_CASE("A32 A36: evaluation passes do not accumulate memory", "[amp]") {
  const Tensor x = input({8, 64}, 2);
  const std::int64_t before_weight = memory_stats().allocated;
  {
    const Tensor w = weight({64, 64}, 1);
    const Autocast region(bf16);
    const NoGrad no_grad;
    for (int i = 0; i < 2; ++i) linear(x, w);  // whose second call keeps the weight's panels (core/packed_weights.h)
    const std::int64_t after_first = memory_stats().allocated;
    for (int i = 0; i < 1000; ++i) linear(x, w);
    CHECK(memory_stats().allocated == after_first);
  }
  CHECK(memory_stats().allocated == before_weight);  // the shadow is freed with its weight
}

TEST_CASE("A37: backward makes no second cast of a weight", "[amp]") {
  const Tensor w = weight({4, 4}, 1), x = weight({2, 4}, 2);
  Tensor y = amp::autocast(bf16, [&] { return linear(x, w); });
  CHECK(casts_in([&] { backward(y, ones_like(y)); }) == 0);
  CHECK(w.grad().dtype() == f32);
}

TEST_CASE("A38: a new weight never gets the cast of a freed one", "[amp]") {
  const Tensor x = eye(4, {.dtype = bf16});
  const Autocast region(bf16);
  for (int i = 0; i < 50; ++i) {
    const Tensor w = full({4, 4}, i).requires_grad_();
    CHECK(linear(x, w).to_vector<float>()[0] == static_cast<float>(i));
  }
}

TEST_CASE("A39: a weight changed inside the region is seen", "[amp]") {
  Tensor w = full({2, 2}, 1).requires_grad_();
  const Tensor x = eye(2, {.dtype = bf16});
  const Autocast region(bf16);
  linear(x, w);
  {
    const NoGrad no_grad;
    w.fill_(3);
  }
  CHECK(same_bits(linear(x, w), full({2, 2}, 3, {.dtype = bf16})));
}

TEST_CASE("A40: regions of both halves share a weight without mixing dtypes", "[amp]") {
  for (bool f16_first : {true, false}) {
    const Tensor w = weight({3, 3}, 1), x = input({2, 3}, 2);
    const Dtype first = f16_first ? f16 : bf16, second = f16_first ? bf16 : f16;
    const Autocast outer(first);
    CHECK(same_bits(linear(x, w), linear(x.to(first), w.detach().to(first))));
    {
      const Autocast inner(second);
      CHECK(same_bits(linear(x, w), linear(x.to(second), w.detach().to(second))));
    }
    CHECK(linear(x, w).dtype() == first);
  }
}

TEST_CASE("A41: regions of several threads share a weight", "[amp]") {
  const Tensor w = weight({16, 16}, 1), x = input({4, 16}, 2, bf16);
  const Tensor expected = linear(x, w.detach().to(bf16));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const Autocast region(bf16);
        if (!same_bits(linear(x, w), expected)) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

namespace {
struct Gradients {
  Tensor w, x;
};
// Gradients of a two-layer function recorded under bf16; `where` calls backward.
template <class F> Gradients gradients(F&& where) {
  Tensor w = weight({4, 4}, 1), x = weight({3, 4}, 2);
  const Tensor loss = amp::autocast(bf16, [&] { return square(relu(linear(linear(x, w), w))).sum(); });
  where([&] { backward(loss); });
  return {w.grad(), x.grad()};
}
}  // namespace

TEST_CASE("A45 A46: backward runs in the forward's dtypes wherever it is called", "[amp]") {
  const Gradients outside = gradients([](auto&& run) { run(); });
  CHECK(outside.w.dtype() == f32);
  CHECK(outside.x.dtype() == f32);
  const auto check_equal = [&](const Gradients& g) {
    CHECK(same_bits(g.w, outside.w));
    CHECK(same_bits(g.x, outside.x));
  };
  check_equal(gradients([](auto&& run) { amp::autocast(f16, run); }));
  check_equal(gradients([](auto&& run) {
    const Autocast off(amp::disabled);
    run();
  }));
  check_equal(gradients([](auto&& run) { std::thread(run).join(); }));
}

TEST_CASE("A45: gradients equal those of casting by hand", "[amp]") {
  const Gradients automatic = gradients([](auto&& run) { run(); });
  Tensor w = weight({4, 4}, 1), x = weight({3, 4}, 2);
  const Tensor wl = w.to(bf16), low = x.to(bf16), first = linear(low, wl), second = linear(first, wl);
  Tensor of_weight = zeros({4, 4}, {.dtype = f64});  // not rounded to bf16 on its way to an f32 parameter
  const auto add_product = [&](const Tensor& in) {
    return [&of_weight, in = in.detach().to(f64)](const Tensor& g) {
      of_weight = of_weight + matmul(transpose(g.to(f64)), in);
    };
  };
  first.on_grad(add_product(low));
  second.on_grad(add_product(first));
  backward(square(relu(second).to(f32)).sum());
  CHECK(same_bits(automatic.x, x.grad()));
  CHECK(difference(automatic.w, of_weight, tolerance_for(f32, 6)) == "");
}

TEST_CASE("A47: a gradient penalty built in a region equals the control cast by hand", "[amp]") {
  const auto penalised = [](bool automatic) {
    Tensor w = weight({3, 4}, 1);
    const Tensor x = input({2, 4}, 2);
    const auto forward = [&] { return automatic ? linear(x, w) : linear(x.to(bf16), w.to(bf16)); };
    const Tensor y = automatic ? amp::autocast(bf16, forward) : forward();
    const Tensor g = grad(square(y.to(f32)).sum(), {w}, {.create_graph = true})[0];
    backward(square(g).sum());
    return w.grad();
  };
  const Tensor automatic = penalised(true), control = penalised(false);
  CHECK(automatic.dtype() == f32);
  CHECK(difference(automatic, control.to(f64), tolerance_for(bf16)) == "");
}

TEST_CASE("A48: a checkpointed recompute repeats the forward's dtypes", "[amp]") {
  const auto gradient = [](bool checkpointed) {
    Tensor w = weight({4, 4}, 1), x = weight({3, 4}, 2);
    std::vector<Dtype> seen;
    const auto body = [&](const Tensor& t) {
      const Tensor y = linear(t, w);
      seen.push_back(y.dtype());
      return y;
    };
    const Tensor y = amp::autocast(bf16, [&] { return checkpointed ? checkpoint(body, x) : body(x); });
    amp::autocast(f16, [&] { backward(y, ones_like(y)); });
    for (Dtype d : seen) CHECK(d == bf16);
    CHECK(seen.size() == (checkpointed ? 2u : 1u));
    return w.grad();
  };
  CHECK(same_bits(gradient(true), gradient(false)));
}

TEST_CASE("a steady training step casts no weight", "[amp]") {
  for (Dtype low : {f16, bf16}) {
    const nn::Sequential net{nn::Linear{8, 16}, nn::ReLU{}, nn::Linear{16, 16}, nn::ReLU{}, nn::Linear{16, 4}};
    optim::Adam opt(nn::parameters(net), {.lr = 0.01});
    const Tensor x = input({5, 8}, 1, low), target = tensor({1, 0, 3, 2, 1});
    std::uint64_t casts = 0;
    for (int step = 0; step < 4; ++step) {
      Tensor logits;
      casts = casts_in([&] { logits = amp::autocast(low, [&] { return net(x); }); });
      CHECK(casts == (step == 0 ? 6 : 0));  // three weights, three biases
      casts = casts_in([&] {
        backward(cross_entropy(logits.to(f32), target));
        opt.step();
        opt.zero_grad();
      });
      CHECK(casts == 0);
      CHECK(casts_in([&] {
              for (const Tensor& p : nn::parameters(net))
                CHECK(same_bits(amp::shadow(p, low).detach(), p.detach().to(low)));
            }) == 0);
    }
  }
}

TEST_CASE("training in bf16 by shadows equals training with casts by hand, bit by bit", "[amp]") {
  const auto train = [](bool automatic) {
    Tensor w = weight({4, 8}, 1);
    optim::Sgd opt({w}, {.lr = 0.1, .momentum = 0.9});
    const Tensor x = input({5, 8}, 2), target = tensor({1, 0, 3, 2, 1});
    for (int step = 0; step < 5; ++step) {
      Tensor low = w.detach().to(bf16).requires_grad_();
      static_cast<autograd::LeafNode*>(low.impl()->node.get())->set_dtype(f32, cpu);  // its gradient is summed in f32
      const Tensor logits = automatic ? amp::autocast(bf16, [&] { return linear(x, w); }) : linear(x.to(bf16), low);
      backward(cross_entropy(logits.to(f32), target));
      if (!automatic) w.set_grad(low.grad());
      opt.step();
      opt.zero_grad();
    }
    return w;
  };
  CHECK(same_bits(train(true).detach(), train(false).detach()));
}
