// A product differentiates the activation that made its input (find_activation in autograd/backward.cpp), but nobody
// notices: hooks, grad(), other consumers of the activation, errors and memory are as if the activation had run.
#include <cmath>

#include "autograd/backward.h"
#include "core/allocator.h"
#include "core/ops.h"
#include "mantissa.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

Tensor wanted(const Dims& sizes, std::uint64_t stream) { return random_tensor(sizes, stream).requires_grad_(); }
// Lets the activation that made t run by itself.
Tensor seen(const Tensor& t) {
  t.on_grad([](const Tensor&) {});
  return t;
}
struct Net {
  Tensor x = wanted({5, 4}, 1), w1 = wanted({6, 4}, 2), w2 = wanted({3, 6}, 3);
};

}  // namespace

TEST_CASE("gradients of all consumers of an activation arrive, whichever is recorded first") {
  for (const bool product_first : {true, false}) {
    const auto gradients = [&](auto&& look_at) {
      const Net n;
      const Tensor hidden = look_at(gelu(linear(n.x, n.w1)));
      Tensor one, two;
      if (product_first) one = linear(hidden, n.w2).sum();
      two = square(hidden).sum();
      if (!product_first) one = linear(hidden, n.w2).sum();
      (one + two + linear(hidden, n.w2).square().sum()).backward();
      return std::vector<Tensor>{n.x.grad(), n.w1.grad(), n.w2.grad()};
    };
    const auto found = gradients([](const Tensor& t) { return t; }), expected = gradients(seen);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(all_close(found[i], expected[i], {1e-12, 1e-12}));
  }
}

TEST_CASE("hooks and grad() see the gradient between an activation and its product, also those set later") {
  const Net n;
  const Tensor hidden = relu(linear(n.x, n.w1)), y = linear(hidden, n.w2).sum();
  const Tensor expected = matmul(ones({5, 3}, {.dtype = f64}), n.w2.detach());
  const std::vector<Tensor> both = grad(y, {hidden, n.x}, {.retain_graph = true});
  CHECK(all_close(both[0], expected));
  CHECK(all_close(both[1], grad(y, {n.x}, {.retain_graph = true})[0]));
  Tensor found;
  hidden.on_grad([&](const Tensor& g) { found = g; });
  y.backward();
  CHECK(all_close(found, expected));
  CHECK(all_close(n.x.grad(), both[1]));
}

TEST_CASE("a second backward through an activation that its product differentiated is an error as any other") {
  const Net n;
  const Tensor hidden = relu(linear(n.x, n.w1));
  const Tensor one = linear(hidden, n.w2).sum(), two = linear(hidden, n.w2).sum(), other = square(hidden).sum();
  one.backward();
  CHECK_THROWS_WITH(two.backward(), Catch::Contains("retain_graph"));
  CHECK_THROWS_WITH(other.backward(), Catch::Contains("retain_graph"));
}

TEST_CASE("an activation's result that was changed in place is found by the product that differentiates it") {
  const Net n;
  const Tensor hidden = relu(linear(n.x, n.w1)), y = linear(hidden, n.w2.detach()).sum();
  {
    const NoGrad no_grad;
    Tensor made = hidden;
    made.mul_(2.0);
  }
  CHECK_THROWS_WITH(y.backward(), Catch::Contains("relu") && Catch::Contains("mul_"));
}

TEST_CASE("what a skipped activation saved is released while the graph is still held") {
  const std::int64_t before = memory_stats().allocated;
  const Tensor x = random_tensor({1000, 4}, 1), w1 = wanted({200, 4}, 2), w2 = wanted({3, 200}, 3);
  const Tensor y = linear(gelu(linear(x, w1)), w2).sum();
  const std::int64_t hidden = 1000 * 200 * 8;
  CHECK(memory_stats().allocated - before > 2 * hidden);  // what gelu saved, and what the product saved
  y.backward();
  CHECK(memory_stats().allocated - before < hidden);
}

TEST_CASE("a maximum over windows differentiates the activation before it, at its own size if it is relu") {
  const auto on_each = [](auto&& compare) {
    for (const auto act : {+[](const Tensor& t) { return relu(t); }, +[](const Tensor& t) { return gelu(t); }}) {
      for (const Dtype dtype : {f64, f32, bf16}) {
        compare(act, dtype, Dims{2, 3, 7, 6},
                [](const Tensor& t) { return max_pool2d(t, 3, {.stride = 2, .padding = 1}); });
        compare(act, dtype, Dims{2, 3, 4, 7, 6}, [](const Tensor& t) { return max_pool3d(t, 2, {.stride = 1}); });
      }
    }
  };
  on_each([](auto&& act, Dtype dtype, const Dims& sizes, auto&& pool) {
    for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
      const auto gradient = [&](bool is_seen, bool changes) {
        const Tensor values = cast(random_tensor(sizes, 5), dtype);
        Tensor x = layout == Layout::channels_last ? channels_last(values) : values;
        x.requires_grad_();
        const Tensor made = act(x), y = pool(is_seen ? seen(made) : made);
        const Tensor g = cast(random_tensor(y.sizes(), 6), dtype);
        if (changes) {  // as a user may: the gradient does not need the result
          const NoGrad no_grad;
          Tensor result = y;
          result.fill_(-1.0);
        }
        y.backward(g);
        return x.grad();
      };
      const Tensor expected = gradient(true, false);
      CHECK(all_close(gradient(false, false), expected, {0, 0}));
      CHECK(all_close(gradient(false, true), expected, {0, 0}));
    }
  });
}

TEST_CASE("a NaN that relu and a maximum let pass lets the gradient pass") {
  Tensor x = full({1, 1, 2, 2}, NAN);
  x.requires_grad_();
  max_pool2d(relu(x), 2).backward();
  CHECK(x.grad().sum().item<float>() == 1);
}
