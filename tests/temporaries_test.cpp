// Results written over temporaries: when that happens, when it must not, that the numbers stay the same, and that a
// training step in its steady state asks the C library for no memory.
#include <atomic>
#include <cstdlib>

#include "amp/autocast.h"
#include "autograd/anomaly.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/allocator.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "core/random.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "optim/adam.h"
#include "tests/testing.h"

using namespace mantissa;

namespace {

Tensor ramp(std::int64_t n = 1000) { return linspace(-1, 1, n); }
// The memory that f uses at most beyond what is in use before.
template <class F> std::int64_t peak_of(F&& f) {
  reset_peak_memory_stats();
  const std::int64_t before = memory_stats().allocated;
  f();
  return memory_stats().peak_allocated - before;
}
constexpr std::int64_t kilo = 1 << 10;

}  // namespace


TEST_CASE("temporaries: a chain of elementwise operators needs memory for one result") {
  const Tensor a = ramp(64 * kilo), b = ramp(64 * kilo);  // 256 KiB each
  const Tensor expected = add(mul(sub(a, b), a), b);
  CHECK(peak_of([&] {
          const Tensor y = (a - b) * a + b;
          CHECK(y.to_vector<float>() == expected.to_vector<float>());
        }) < 2 * 260 * kilo);  // to_vector makes a copy
  CHECK(peak_of([&] { const Tensor y = relu(tanh(a * 2.0) - 1.0); }) < 260 * kilo);
  CHECK(peak_of([&] { const Tensor y = 1.0 - b * (a + 3.0); }) < 260 * kilo);
}

TEST_CASE("temporaries: what has a name, a view or another owner is left alone") {
  const auto values = ramp().to_vector<float>();
  const Tensor x = ramp();
  Tensor named = ramp();
  const Tensor y = relu(named);
  CHECK(named.to_vector<float>() == values);
  CHECK((named + 1.0).to_vector<float>() != values);
  CHECK(named.to_vector<float>() == values);
  const Tensor view = named.slice(0, 0, 10);
  const Tensor z = relu(std::move(named));  // the view still sees it
  CHECK(view.to_vector<float>() == std::vector<float>(values.begin(), values.begin() + 10));
  const auto identity = [&]() -> Tensor { return x; };
  const Tensor w = identity() * 2.0;
  CHECK(x.to_vector<float>() == values);
  CHECK(relu(x.reshape({10, 100})).size(0) == 10);
  CHECK(x.to_vector<float>() == values);

  float outside[4] = {-1, -2, -3, -4};
  const auto borrowed = [&] {
    Tensor t = empty({4});
    t.impl()->storage = Storage::borrow(outside, sizeof outside, cpu, [](void*) {}, nullptr);
    t.impl()->data = outside;
    return t;
  };
  CHECK(relu(borrowed()).to_vector<float>() == std::vector<float>(4, 0));
  CHECK(outside[0] == -1);
}

TEST_CASE("temporaries: other dtypes, sizes and strides get memory of their own") {
  CHECK((ramp(6).reshape({2, 3}).t() + full({3, 2}, 1)).is_contiguous());
  CHECK((arange(3) + full({3}, 0.5)).dtype() == f32);
  CHECK((full({1}, 1) + full({3}, 2)).to_vector<float>() == std::vector<float>(3, 3));
  CHECK((full({2, 1}, 1) * full({3}, 2)).numel() == 6);
  CHECK((Tensor(2.0) * Tensor(3.0)).item() == 6);
  CHECK(!(Tensor(2.0) * Tensor(3.0)).is_weak_scalar());
  CHECK((full({3}, 1, {.dtype = f16}) + full({}, 2)).dtype() == f16);
}

TEST_CASE("temporaries: what backward needs is kept") {
  Tensor x = ramp().requires_grad_();
  // square keeps its input, tanh its result, mul both.
  const auto f = [](const Tensor& t) { return sum(square(t * 2.0) * tanh(t + 1.0) * exp(-(t * t)) + relu(t * 3.0)); };
  const auto g = [](const Tensor& t) {  // the same with a name for everything
    const Tensor a = mul(t, Tensor(2.0)), b = square(a), c = add(t, Tensor(1.0)), d = tanh(c), e = mul(t, t), h = neg(e), i = exp(h);
    const Tensor j = mul(b, d), k = mul(j, i), l = mul(t, Tensor(3.0)), m = relu(l);
    return sum(add(k, m));
  };
  backward(f(x));
  const auto found = x.grad().to_vector<float>();
  x.set_grad({});
  backward(g(x));
  CHECK(found == x.grad().to_vector<float>());

  const Tensor y = grad(f(x), {x}, {.create_graph = true})[0];
  const Tensor z = grad(g(x), {x}, {.create_graph = true})[0];
  CHECK(grad(sum(y), {x})[0].to_vector<float>() == grad(sum(z), {x})[0].to_vector<float>());
}

TEST_CASE("temporaries: gradients that others hold are not overwritten") {
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

TEST_CASE("temporaries: anomaly mode still tells where a NaN came from") {
  const AnomalyMode anomaly;
  CHECK_THAT(test::message_of([] { (void)sqrt(full({3}, 1.0) * -1.0); }), !Catch::Matchers::Contains("an input already does"));
}

TEST_CASE("temporaries: a layer of Sequential writes over the one before, and never over the input") {
  const NoGrad no_grad;
  const nn::Sequential net{nn::ReLU{}, nn::Tanh{}, [](const Tensor& x) { return x * 2.0; }};
  const Tensor x = ramp(64 * kilo);
  const auto before = x.to_vector<float>();
  CHECK(peak_of([&] { (void)net(x); }) < 2 * 260 * kilo);
  CHECK(x.to_vector<float>() == before);
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

TEST_CASE("temporaries: a training step in its steady state makes no object on the heap") {
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
