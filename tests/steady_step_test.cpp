// A training step in its steady state allocates nothing from the C library. And gradients are accumulated in place only
// where nothing else sees them.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "core/allocator.h"
#include "core/ops.h"
#include "core/random.h"
#include "nn/conv.h"
#include "nn/embedding.h"
#include "nn/functions.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "optim/adam.h"
#include "tests/testing.h"

using namespace mantissa;

namespace {
Tensor ramp(std::int64_t n = 1000) { return linspace(-1, 1, n); }
}  // namespace

TEST_CASE("steady step: a gradient that arrives by several ways is summed in the memory of one of them") {
  constexpr std::int64_t n = 1 << 18;  // 1 MiB
  Tensor x = ramp(n).requires_grad_();
  const auto run = [&](const std::function<Tensor(const Tensor&)>& f) {
    x.set_grad({});
    const Tensor y = f(x * 2.0), start = ones_like(y);
    reset_peak_memory_stats();
    const std::int64_t before = memory_stats().allocated;
    backward(y, start);
    return memory_stats().peak_allocated - before;
  };
  CHECK(run([](const Tensor& h) { return h * 3.0 + h * 5.0; }) <= (2 << 20) + 4096);
  CHECK(x.grad().to_vector<float>() == std::vector<float>(n, 16));
  CHECK(run([](const Tensor& h) { return h + h * 5.0; }) <= (2 << 20) + 4096);  // one of the two is the root's
  CHECK(x.grad().to_vector<float>() == std::vector<float>(n, 12));
  CHECK(run([](const Tensor& h) { return (h * 2.0 + h) + (h + h * 3.0); }) <= (3 << 20) + 4096);
  CHECK(x.grad().to_vector<float>() == std::vector<float>(n, 14));
}

TEST_CASE("steady step: gradients that others hold are not overwritten") {
  Tensor x = ramp().requires_grad_();
  Tensor seen;
  Tensor h = x * 2.0;
  h.on_grad([&](const Tensor& g) {
    seen = g;
    return Tensor();
  });
  const Tensor root = relu(relu(h)) + h;
  const Tensor start = full({1000}, 1.0);
  backward(root, start, {.retain_graph = true});
  const auto first = x.grad().to_vector<float>();
  const auto hooked = seen.to_vector<float>();
  CHECK(start.to_vector<float>() == std::vector<float>(1000, 1));
  x.set_grad({});
  backward(root, start);
  CHECK(x.grad().to_vector<float>() == first);
  CHECK(seen.to_vector<float>() == hooked);
  for (std::size_t i = 0; i < 1000; ++i) REQUIRE(hooked[i] == (i < 500 ? 1 : 2));
}

// --- no malloc in the steady state ---
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {
std::atomic<bool> counting{false};
std::atomic<int> calls{0};
}  // namespace
void* operator new(std::size_t bytes) {
  if (counting) ++calls;
  if (void* p = std::malloc(bytes > 0 ? bytes : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

// Runs `step` until it is steady, then counts.
void check_steady(const std::function<void()>& step) {
  for (int i = 0; i < 8; ++i) step();
  const MemoryStats before = memory_stats();
  calls = 0;
  counting = true;
  for (int i = 0; i < 10; ++i) step();
  counting = false;
  CHECK(calls == 0);
  CHECK(memory_stats().system_calls == before.system_calls);
}
// A training step and an evaluation of `net`, in f32 and under autocast in bf16.
template <class Net> void check_net(Net& net, const Tensor& x, const Tensor& y) {
  optim::Adam optimizer(nn::parameters(net));
  for (const bool half : {false, true}) {
    INFO((half ? "bf16" : "f32"));
    const auto forward = [&] { return half ? amp::autocast(bf16, [&] { return net(x); }) : net(x); };
    check_steady([&] {
      optimizer.zero_grad();
      backward(cross_entropy(forward(), y));
      optimizer.step();
    });
    const InferenceMode on;
    nn::train(net, false);
    check_steady([&] { (void)forward(); });
    nn::train(net, true);
  }
}

TEST_CASE("steady step: perceptrons make no object on the heap in their steady state") {
  manual_seed(1);
  struct Net {
    nn::Linear a{16, 32}, b{32, 4};
    MANTISSA_FIELDS(a, b)
    Tensor operator()(const Tensor& x) const { return b(relu(a(x))); }
  } net;
  check_net(net, randn({8, 16}), randint(0, 4, {8}));
}

TEST_CASE("steady step: nor do transformers") {
  manual_seed(3);
  struct Net {
    nn::Embedding token{20, 32};
    nn::LayerNorm norm1{32}, norm2{32};
    nn::Linear query{32, 32}, key{32, 32}, value{32, 32}, out{32, 32}, up{32, 64}, down{64, 32}, head{32, 20};
    MANTISSA_FIELDS(token, norm1, norm2, query, key, value, out, up, down, head)
    Tensor operator()(const Tensor& tokens) const {
      Tensor x = token(tokens);
      const auto heads = [](const Tensor& t) { return t.reshape({4, 16, 2, 16}).transpose(1, 2); };
      const Tensor h = norm1(x);
      const Tensor a = scaled_dot_product_attention(rotary_embedding(heads(query(h))), rotary_embedding(heads(key(h))),
                                                    heads(value(h)), {}, {.is_causal = true});
      x = x + out(flatten(a.transpose(1, 2), 2));
      return flatten(head(x + down(gelu(up(norm2(x)), "tanh"))), 0, 1);
    }
  } net;
  check_net(net, randint(0, 20, {4, 16}), randint(0, 20, {64}));
}
#endif
