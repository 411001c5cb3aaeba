// Single cases of operators that the samples of the registry do not reach: PyTorch gives the same.
#include <cmath>

#include "autograd/backward.h"
#include "core/ops.h"
#include "core/ops_numeric.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

TEST_CASE("linspace ends exactly where it is told to, and a histogram counts its largest value") {
  for (int i = 0; i < 200; ++i) {
    const double begin = random_tensor({1}, static_cast<std::uint64_t>(i), -5, 5).item<double>(), end = begin + 1.4 + i;
    const std::vector<double> v = linspace(begin, end, 11, {.dtype = f64}).to_vector<double>();
    CHECK(v.front() == begin);
    CHECK(v.back() == end);
  }
  CHECK(histogram(tensor({-2.0, -0.6}, {.dtype = f64}), 10).hist.sum().item<double>() == 2);
}

TEST_CASE("the gradient of a power of an integer number has all digits of f64") {
  Tensor x = tensor({0.5, 3.0}, {.dtype = f64}).requires_grad_();
  pow(Tensor(2), x).sum().backward();
  const std::vector<double> g = x.grad().to_vector<double>();
  CHECK(std::abs(g[0] - std::sqrt(2) * std::log(2)) < 1e-15);
  CHECK(std::abs(g[1] - 8 * std::log(2)) < 1e-14);
}

TEST_CASE("functions that have nothing to do give a copy") {
  const Tensor x = random_tensor({2, 3, 4, 4}, 1), n = tensor({1, 2});
  for (const Tensor& y : {interpolate(x, {.size = {4, 4}}), interpolate(x, {.size = {4, 4}, .mode = "bilinear"}),
                          pad(x, {0, 0}, "reflect"), pad(x, {0, 0, 0, 0}, "circular"), pad(x, {0, 0}, "constant")}) {
    CHECK(same_bits(x, y));
    CHECK(y.raw_data() != x.raw_data());
  }
  CHECK(nan_to_num(n).raw_data() != n.raw_data());
}

TEST_CASE("empty inputs, many dimensions and an infinite variance") {
  CHECK(std::isnan(median(zeros({0})).item()));
  const Tensor two = cat({zeros({0}, {.dtype = f64}), ones({2, 3})}, 0);
  CHECK(two.sizes() == Dims{2, 3});
  CHECK(two.dtype() == f64);
  const Tensor five = random_tensor({2, 1, 3, 2, 2}, 1), many = repeat(five, {2, 3, 2, 2, 2});
  CHECK(many.sizes() == Dims{4, 3, 6, 4, 4});
  Tensor corner = many;
  for (int d = 0; d < 5; ++d) corner = slice(corner, d, many.size(d) - five.size(d), many.size(d));
  CHECK(same_bits(corner, five));
  const Tensor loss = gaussian_nll_loss(zeros({1}), ones({1}), full({1}, INFINITY));
  CHECK(loss.item() == INFINITY);
}

TEST_CASE("scatter_add has second derivatives with an index smaller than its source") {
  Tensor source = random_tensor({3, 4}, 1).requires_grad_(), w = random_tensor({5, 4}, 2).requires_grad_();
  const Tensor index = tensor({{0, 4}, {2, 2}});
  const Tensor y = scatter_add(zeros({5, 4}, {.dtype = f64}), 0, index, source);
  const Tensor first = grad(sum(y * w * w), {source}, {.create_graph = true})[0];
  CHECK(first.sizes() == source.sizes());
  const Tensor second = grad(sum(first), {w})[0];
  CHECK(all_close(second[2], 2.0 * w.detach()[2] * tensor({1.0, 1, 0, 0}, {.dtype = f64})));
}
