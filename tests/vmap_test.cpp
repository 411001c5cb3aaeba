// vmap: a function of single examples applied to a batch.
#include "autograd/vmap.h"

#include "autograd/backward.h"
#include "core/operators.h"
#include "core/random.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

TEST_CASE("vmap gives what the function of a whole batch gives, along any dims") {
  manual_seed(seed());
  MANTISSA_PRINT_SEED();
  const Tensor a = randn({4, 5, 3}), b = randn({5, 4}), w = randn({3, 2});
  const auto f = [](const Tensor& x, const Tensor& y, const Tensor& w) { return tanh(matmul(x, w)) * y.unsqueeze(1); };
  const auto expected = tanh(matmul(a, w)) * transpose(b, 0, 1).unsqueeze(2);  // [4, 5, 2]
  CHECK(allclose(vmap(f, {.in_dims = {0, 1, {}}})(a, b, w), expected));
  CHECK(allclose(vmap(f, {.in_dims = {0, -1, {}}, .out_dim = -1})(a, b, w), permute(expected, {1, 2, 0})));
  CHECK(allclose(vmap([](const Tensor& x) { return dot(x, x); })(w), sum(w * w, {1})));
  const std::vector<Tensor> two = vmap([](const Tensor& x) { return std::vector<Tensor>{x.sum(), x * 2}; })(a);
  CHECK(allclose(two[0], sum(a, {1, 2})));
  CHECK(equal(two[1], a * 2));
  // a function of a function, each element with each
  const auto product = [](const Tensor& x, const Tensor& y) { return x * y; };
  const Tensor u = randn({3}), v = randn({4});
  const auto outer_of = vmap([&](const Tensor& x) { return vmap(product, {.in_dims = {{}, 0}})(x, v); });
  CHECK(equal(outer_of(u), outer(u, v)));
}

TEST_CASE("Gradients go through vmap, and each example's gradient comes from inside") {
  manual_seed(seed());
  MANTISSA_PRINT_SEED();
  const Tensor x = randn({6, 3}), y = randn({6});
  Tensor w = randn({3}, {.requires_grad = true});
  const auto loss = [&](const Tensor& one, const Tensor& target) { return square(dot(one, w) - target); };
  backward(sum(vmap(loss)(x, y)));
  const Tensor residual = 2 * (matmul(x, w.detach()) - y);
  CHECK(allclose(w.grad(), matmul(residual, x), 1e-5, 1e-6));
  const Tensor each = vmap([&](const Tensor& a, const Tensor& b) { return grad(loss(a, b), {w})[0]; })(x, y);
  CHECK(allclose(each, residual.unsqueeze(1) * x, 1e-5, 1e-6));
  manual_seed(seed());
  MANTISSA_PRINT_SEED();
  const Tensor noise = vmap([](const Tensor& a) { return a + randn({2}); })(zeros({2}));
  CHECK(!equal(noise[0], noise[1]));  // random numbers are each slice's own
}

TEST_CASE("Arguments that vmap cannot cut into slices are refused") {
  const auto f = [](const Tensor& x, const Tensor& y) { return x + y; };
  const Tensor a = ones({3, 2}), b = ones({4});
  CHECK_THAT(message_of([&] { vmap(f)(a, b); }),
             Contains("vmap: argument 1, f32[4], has 4 slices along dim 0, argument 0, f32[3, 2], has 3 along dim 0"));
  CHECK_THAT(message_of([&] { vmap(f, {.in_dims = {0}})(a, b); }), Contains("in_dims has 1 entries"));
  CHECK_THAT(message_of([&] { vmap(f, {.in_dims = {{}, {}}})(a, b); }), Contains("no argument has slices"));
  CHECK_THAT(message_of([&] { vmap(f)(a, ones({})); }), Contains("has no dim that slices are of"));
  CHECK_THAT(message_of([&] { vmap(f)(zeros({0, 2}), zeros({0})); }), Contains("has no slices along dim 0"));
  CHECK_THAT(message_of([&] { vmap(f, {.in_dims = {0, 2}})(a, b); }), Contains("out of range"));
  CHECK_THAT(message_of([&] { vmap(f)(a, Tensor()); }), Contains("argument 1 is undefined"));
  bool first = true;
  const auto ragged = [&](const Tensor& x) { return std::vector<Tensor>(std::exchange(first, false) ? 1 : 2, x); };
  CHECK_THAT(message_of([&] { vmap(ragged)(b); }), Contains("1 results for the first slice and 2 for another"));
}
