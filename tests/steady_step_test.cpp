// What a training step in its steady state asks the C library for: nothing. And gradients that are summed in place only
// where nobody else sees them.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

#include "autograd/backward.h"
#include "autograd/hooks.h"
#include "core/allocator.h"
#include "core/ops.h"
#include "core/random.h"
#include "nn/functions.h"
#include "nn/linear.h"
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

TEST_CASE("steady step: a training step in its steady state makes no object on the heap") {
  manual_seed(1);
  struct Net {
    nn::Linear a{16, 32}, b{32, 4};
    MANTISSA_FIELDS(a, b)
  } net;
  optim::Adam optimizer(nn::parameters(net));
  const Tensor x = randn({8, 16}), y = randint(0, 4, {8});
  const auto step = [&] {
    optimizer.zero_grad();
    backward(cross_entropy(net.b(relu(net.a(x))), y));
    optimizer.step();
  };
  for (int i = 0; i < 5; ++i) step();
  const MemoryStats before = memory_stats();
  calls = 0;
  counting = true;
  for (int i = 0; i < 10; ++i) step();
  counting = false;
  CHECK(calls == 0);
  CHECK(memory_stats().system_calls == before.system_calls);
}
#endif
