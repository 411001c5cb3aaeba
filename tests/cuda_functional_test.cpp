// jacobian, hessian and their products with vectors: compared with matrices known in closed form and with each other,
// on every device; shapes and messages.
#include <cmath>

#include "autograd/backward.h"
#include "autograd/functional.h"
#include "autograd/grad_mode.h"
#include "autograd/gradcheck.h"
#include "core/ops.h"
#include "core/random.h"
#include "tests/devices.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using Tensors = std::vector<Tensor>;

namespace {

constexpr Tolerance tight{1e-12, 1e-12};
Tensor draw(const Dims& sizes, Device device = cpu) { return randn(sizes, {.dtype = f64}).to(device); }

}  // namespace

TEST_CASE("jacobian of a product is the matrix, of elementwise functions a diagonal") {
  manual_seed(1);
  for (const Device device : devices()) {
    const Tensor w = draw({3, 4}, device), x = draw({4}, device);
    CHECK(difference(jacobian([&](const Tensor& t) { return mv(w, t); }, x), w, tight) == "");
    CHECK(difference(jacobian([](const Tensor& t) { return exp(t); }, x), diag(exp(x)), tight) == "");
    const Tensor m = draw({2, 3}, device), j = jacobian([](const Tensor& t) { return transpose(t); }, m);
    CHECK(j.sizes() == Dims{3, 2, 2, 3});
    for (std::int64_t a = 0; a < 3; ++a) {
      for (std::int64_t b = 0; b < 2; ++b) {
        CHECK(sum(j[{a, b}]).item<double>() == 1);
        CHECK(j[{a, b, b, a}].item<double>() == 1);
      }
    }
    CHECK(jacobian([](const Tensor& t) { return sum(t); }, x).sizes() == Dims{4});
    CHECK(jacobian([](const Tensor& t) { return t.slice(0, 0, 0); }, x).sizes() == Dims{0, 4});
    CHECK(jacobian([](const Tensor& t) { return t * t; }, scalar(3, {.dtype = f64}).to(device)).item<double>() == 6);
  }
}

TEST_CASE("jacobian of several inputs and results has a block for each pair, zeros where one does not matter") {
  manual_seed(2);
  const Tensor a = draw({2}), b = draw({3});
  const auto f = [](const Tensors& x) { return Tensors{outer(x[0], x[1]), x[1] * 2.0, ones({2}, {.dtype = f64})}; };
  const auto j = jacobian(f, {a, b});
  REQUIRE(j.size() == 3);
  CHECK(j[0][0].sizes() == Dims{2, 3, 2});
  CHECK(difference(j[0][0][{1, all, 1}], b, tight) == "");
  CHECK(difference(diagonal(j[0][1][1]), ones({3}, {.dtype = f64}) * a[1], tight) == "");
  CHECK(equal(j[1][0], zeros({3, 2}, {.dtype = f64})));
  CHECK(equal(j[2][1], zeros({2, 3}, {.dtype = f64})));
  CHECK_THAT(message_of([&] { jacobian(f, {a, b}, {.strict = true}); }),
             Contains("jacobian: the results do not depend on input 0"));
  CHECK_THAT(message_of([&] { jacobian(f, {a, tensor({1, 2})}); }),
             Contains("jacobian: input 1 is i64[2]; only floating tensors"));
  CHECK_THAT(message_of([&] { jacobian(f, Tensors{}); }), Contains("at least one input"));
}

TEST_CASE("nothing outside is touched, and the results are constants unless create_graph is set") {
  manual_seed(3);
  Tensor w = draw({3}).requires_grad_(), x = draw({3}).requires_grad_();
  const auto f = [&](const Tensor& t) { return w * t * t; };
  {
    const NoGrad off;  // the functions record on their own
    CHECK(!jacobian(f, x).requires_grad());
  }
  CHECK(!w.grad().defined());
  CHECK(!x.grad().defined());
  const Tensor j = jacobian(f, x, {.create_graph = true});
  const auto g = grad(sum(j), {w, x});
  CHECK(difference(g[0], 2.0 * x.detach(), tight) == "");
  CHECK(difference(g[1], 2.0 * w.detach(), tight) == "");
  // An input that the function also captures is constant in that use.
  CHECK(difference(jacobian([&](const Tensor& t) { return t * x; }, x, {.create_graph = true}), diag(x.detach()),
                   tight) == "");
  gradcheck([&](const Tensors& in) { return jacobian(f, in[0], {.create_graph = true}); }, {x});
}

TEST_CASE("hessian of a quadratic form is the sum of the matrix and its transpose") {
  manual_seed(4);
  for (const Device device : devices()) {
    const Tensor a = draw({3, 3}, device), x = draw({3}, device);
    const auto f = [&](const Tensor& t) { return dot(t, mv(a, t)); };
    CHECK(difference(hessian(f, x), a + transpose(a), tight) == "");
    const Tensor v = draw({3}, device);
    CHECK(difference(hvp(f, x, v).product, mv(a + transpose(a), v), tight) == "");
    CHECK(difference(vhp(f, x, v).result, f(x), tight) == "");
  }
  const auto f = [](const Tensors& x) { return sum(x[0] * x[0]) * x[1]; };
  const auto h = hessian(f, {draw({2, 2}), scalar(3, {.dtype = f64})});
  CHECK(h[0][0].sizes() == Dims{2, 2, 2, 2});
  CHECK(h[0][0][{1, 0, 1, 0}].item<double>() == 6);
  CHECK(h[0][1].sizes() == Dims{2, 2});
  CHECK(equal(h[0][1], h[1][0]));
  CHECK(h[1][1].item<double>() == 0);
  CHECK(equal(hessian([](const Tensor& t) { return sum(t); }, draw({2})), zeros({2, 2}, {.dtype = f64})));  // linear
  CHECK_THAT(message_of([] { hessian([](const Tensor& t) { return t; }, zeros({2})); }),
             Contains("hessian: the function must have one result of one element"));
}

TEST_CASE("third derivatives, through a hessian with create_graph") {
  Tensor x = tensor({1.0, 2.0, -1.0}, {.dtype = f64, .requires_grad = true});
  const Tensor h = hessian([](const Tensor& t) { return sum(t * t * t * t); }, x, {.create_graph = true});
  CHECK(difference(h, diag(12.0 * x.detach() * x.detach()), tight) == "");
  CHECK(difference(grad(sum(h), {x})[0], 24.0 * x.detach(), tight) == "");
}

TEST_CASE("products with vectors are those of the jacobian") {
  manual_seed(5);
  for (const Device device : devices()) {
    const Tensor w = draw({4, 3}, device), x = draw({2, 3}, device), u = draw({2, 4}, device), v = draw({2, 3}, device);
    const auto f = [&](const Tensor& t) { return tanh(linear(t, w)); };
    const Tensor j = reshape(jacobian(f, x), {8, 6});
    const Product left = vjp(f, x, u), right = jvp(f, x, v);
    CHECK(difference(left.result, f(x), tight) == "");
    CHECK(difference(flatten(left.product), mv(transpose(j), flatten(u)), {1e-10, 1e-12}) == "");
    CHECK(difference(flatten(right.product), mv(j, flatten(v)), {1e-10, 1e-12}) == "");
    CHECK(right.product.sizes() == u.sizes());
    CHECK(!right.product.requires_grad());
  }
  const auto squares = [](const Tensor& t) { return sum(t * t); };
  CHECK(difference(vjp(squares, ones({3})).product, full({3}, 2), tight) == "");
  CHECK_THAT(message_of([&] { vjp([](const Tensor& t) { return t; }, zeros({2})); }),
             Contains("vjp: v may be left out only for"));
  CHECK_THAT(message_of([&] { jvp(squares, zeros({2}), zeros({3})); }),
             Contains("jvp: v 0 is f32[3], its input f32[2]"));
  const Products two = jvp([](const Tensors& x) { return Tensors{x[0] * x[1], x[1]}; }, {full({2}, 3), full({2}, 5)},
                           {ones({2}), ones({2})});
  CHECK(two.products[0].to_vector<float>() == std::vector<float>{8, 8});
  CHECK(two.products[1].to_vector<float>() == std::vector<float>{1, 1});
}
