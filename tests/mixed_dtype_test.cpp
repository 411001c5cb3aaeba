// Operands of two dtypes: the result equals that of both cast to the promoted dtype, and so does the gradient of each
// operand, which is rounded once, to the operand's dtype. Also points where a quotient or product inside a function has
// no derivative but the function does.
#include <cmath>
#include <limits>

#include "autograd/backward.h"
#include "core/operators.h"
#include "core/ops.h"
#include "core/ops_special.h"
#include "ops/promotion.h"
#include "tests/testing.h"

using namespace mantissa;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
using Binary = Tensor (*)(const Tensor&, const Tensor&);
struct Named { const char* name; Binary f; };

std::vector<double> gradient_of(Binary f, const Tensor& a, const Tensor& b, const Tensor& wanted) {
  return grad(sum(f(a, b), {}, false, f64), {wanted})[0].to_vector<double>();
}
Tensor leaf(const Tensor& x) {
  Tensor copy = x.clone();
  if (copy.is_floating()) copy.requires_grad_();
  return copy;
}

}  // namespace

TEST_CASE("an operand of a narrower dtype does not lower the gradient of the other") {
  const Named functions[] = {{"add", &add},         {"sub", &sub},         {"mul", &mul},   {"div", &div},
                             {"pow", &pow},         {"atan2", &atan2},     {"fmod", &fmod}, {"remainder", &remainder},
                             {"maximum", &maximum}, {"minimum", &minimum}, {"xlogy", &xlogy}};
  const Tensor narrow = from_data<double>({1, 2, 3, 5, 7, 11}, {6});
  const Tensor wide = from_data<double>({0.3, 1.7, 2.25, 0.6, 3.1, 0.9}, {6});
  for (const Named& n : functions) {
    for (Dtype dtype : {u8, i32, i64, f16, bf16, f32}) {
      INFO(n.name << " with " << name_of(dtype));
      const Tensor low = narrow.to(dtype), x = leaf(wide);
      CHECK(n.f(low, x).dtype() == f64);
      CHECK(gradient_of(n.f, x, low, x) == gradient_of(n.f, x, narrow, x));
      CHECK(gradient_of(n.f, low, x, x) == gradient_of(n.f, narrow, x, x));
      if (!low.is_floating()) continue;
      const Tensor y = leaf(low), same = leaf(narrow);
      CHECK(gradient_of(n.f, y, wide, y) == grad(sum(n.f(same, wide)), {same})[0].to(dtype).to_vector<double>());
    }
  }
}

TEST_CASE("xlogy at 0 has the derivative log(b)") {
  Tensor a = zeros({3}, {.dtype = f64, .requires_grad = true});
  const Tensor b = from_data<double>({2, 0, -1}, {3});
  CHECK(xlogy(a, b).to_vector<double>() == std::vector<double>{0, 0, 0});
  const std::vector<double> g = grad(sum(xlogy(a, b)), {a})[0].to_vector<double>();
  CHECK(g[0] == std::log(2.0));
  CHECK(g[1] == 0);
  CHECK(g[2] == 0);
}

TEST_CASE("logit is steep without bound at both of its ends") {
  Tensor x = from_data<double>({0, 0.25, 1}, {3}).requires_grad_();
  const Tensor y = logit(x);
  CHECK(y.to_vector<double>()[0] == -inf);
  CHECK(y.to_vector<double>()[2] == inf);
  CHECK(grad(sum(y), {x})[0].to_vector<double>() == std::vector<double>{inf, 1 / (0.25 * 0.75), inf});
}

TEST_CASE("floor_divide by infinity") {
  const Tensor a = from_data<double>({-1, 1, -1, 1, -7, 7}, {6});
  const Tensor b = from_data<double>({inf, inf, -inf, -inf, 2, -2}, {6});
  CHECK(floor_divide(a, b).to_vector<double>() == std::vector<double>{-1, 0, 0, -1, -4, -4});
}

TEST_CASE("the sign of a float is copied to an integer in the float's dtype") {
  const Tensor y = copysign(from_data<std::int64_t>({3, -4}, {2}), from_data<double>({-0.5, 0.5}, {2}));
  CHECK(y.dtype() == f64);
  CHECK(y.to_vector<double>() == std::vector<double>{-3, 4});
}

TEST_CASE("products of no terms are zeros in inner, as in matmul") {
  const Tensor y = inner(zeros({0}), zeros({7, 0}));
  CHECK(y.sizes() == Dims{7});
  CHECK(sum(abs(y)).item<float>() == 0);
}

TEST_CASE("counts with integer weights are f64, of integers of any width") {
  const Tensor x = from_data<std::int32_t>({0, 2, 2}, {3}), weights = from_data<std::int64_t>({1, 5, 7}, {3});
  const Tensor y = bincount(x, weights);
  CHECK(y.dtype() == f64);
  CHECK(y.to_vector<double>() == std::vector<double>{1, 0, 12});
}

TEST_CASE("antialiasing places its filter by the pixels' middles, with align_corners too") {
  Tensor x = eye(7, {.dtype = f64}).reshape({7, 1, 1, 7});
  const Tensor y = interpolate(x, {.size = {1, 5}, .mode = "bilinear", .align_corners = true, .antialias = true});
  const std::vector<double> first = y.select(3, 0).flatten().to_vector<double>();
  CHECK(first[0] == Approx(0.625));  // PyTorch 2.15
  CHECK(first[1] == Approx(0.375));
  CHECK(first[2] == 0);
}

TEST_CASE("logaddexp is smooth where both are equal, and knows infinities") {
  Tensor a = from_data<double>({0.5, -inf, inf, inf, 1}, {5}).requires_grad_();
  const Tensor b = from_data<double>({0.5, -inf, inf, 3, -inf}, {5});
  const std::vector<double> y = logaddexp(a, b).to_vector<double>();
  CHECK(y[0] == Approx(0.5 + std::log(2.0)));
  CHECK(std::vector<double>(y.begin() + 1, y.end()) == std::vector<double>{-inf, inf, inf, 1});
  Tensor x = zeros({1}, {.dtype = f64, .requires_grad = true});
  const Tensor first = grad(sum(logaddexp(x, zeros({1}, {.dtype = f64}))), {x}, {.create_graph = true})[0];
  CHECK(first.item<double>() == 0.5);
  CHECK(grad(sum(first), {x})[0].item<double>() == Approx(0.25));
}

TEST_CASE("rms_norm of halves adds the epsilon of f32, in which it is computed") {
  for (Dtype dtype : {f32, f16, bf16}) {
    const Tensor y = rms_norm(full({4}, 1e-3, {.dtype = dtype}), {4});
    CHECK(y.to_vector<double>()[0] == Approx(0.945245).epsilon(4e-3));  // PyTorch 2.15: 0.9453125 in f16 and bf16
  }
}

TEST_CASE("a tensor without dimensions yields to one that has some: torch.result_type") {
  const Dtype all[] = {f64, f32, f16, bf16, i64, i32, u8, boolean};
  // A tensor with dimensions (the row) and a 0-d one (the column): values printed by PyTorch 2.15.
  const Dtype expected[8][8] = {
      {f64, f64, f64, f64, f64, f64, f64, f64},
      {f32, f32, f32, f32, f32, f32, f32, f32},
      {f16, f16, f16, f16, f16, f16, f16, f16},
      {bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16},
      {f64, f32, f16, bf16, i64, i64, i64, i64},
      {f64, f32, f16, bf16, i32, i32, i32, i32},
      {f64, f32, f16, bf16, u8, u8, u8, u8},
      {f64, f32, f16, bf16, i64, i32, u8, boolean},
  };
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      const Tensor x = ones({2}, {.dtype = all[a]}), y = ones({}, {.dtype = all[b]});
      INFO(x << " and " << y);
      CHECK(common_dtype(x, y) == expected[a][b]);
      CHECK(common_dtype(y, x) == expected[a][b]);
      CHECK(common_dtype(x, ones({1}, {.dtype = all[b]})) == promote(all[a], all[b]));
      CHECK(common_dtype(ones({}, {.dtype = all[a]}), y) == promote(all[a], all[b]));
      if (all[a] == boolean && all[b] == boolean) continue;
      CHECK(mul(x, y).dtype() == expected[a][b]);
      CHECK(where(x == 1, x, y).dtype() == expected[a][b]);
      CHECK((x == y).dtype() == boolean);
    }
  }
  // Through composed operators, with each gradient in its own dtype.
  Tensor image = ones({3}, {.dtype = bf16, .requires_grad = true}), temperature = scalar(2, {.requires_grad = true});
  CHECK(lerp(image, image * 2, temperature).dtype() == bf16);
  CHECK(hypot(image, temperature).dtype() == bf16);
  backward(sum(image * exp(temperature)));
  CHECK(image.grad().dtype() == bf16);
  CHECK(temperature.grad().dtype() == f32);
}
