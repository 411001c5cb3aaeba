// CPU kernels at sizes that select other code paths than the registry's samples: the same results.
#include <algorithm>
#include <limits>
#include <numeric>

#include "autograd/backward.h"
#include "core/ops.h"
#include "core/random.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

Tensor drawn(const Dims& sizes, std::uint64_t stream, Dtype dtype) {
  const Tensor x = random_tensor(sizes, stream);
  return cast(is_floating(dtype) ? x : x * 100.0, dtype);
}

}  // namespace

TEST_CASE("lines of integers are ordered stably, whatever their range") {
  MANTISSA_PRINT_SEED();
  const std::int64_t most = std::numeric_limits<std::int64_t>::max(), n = 700;
  for (const bool wide : {false, true}) {
    std::vector<std::int64_t> v = cast(random_tensor({n}, 1, -40, 40), i64).to_vector<std::int64_t>();
    if (wide) v[3] = -most - 1, v[100] = most, v[101] = most;
    const Tensor x = from_data<std::int64_t>(v, {n});
    for (const bool descending : {false, true}) {
      std::vector<std::int64_t> order(v.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
        const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
        return descending ? v[i] > v[j] : v[i] < v[j];
      });
      CHECK(argsort(x, 0, descending).to_vector<std::int64_t>() == order);
      order.resize(20);
      CHECK(topk(x, 20, 0, descending).indices.to_vector<std::int64_t>() == order);
    }
  }
}

TEST_CASE("operands that lie across or repeat give the bits of their copies") {
  for (const Dtype dtype : {f32, f64, bf16, f16, i64, i32}) {
    INFO(name_of(dtype));
    const auto same = [&](const Tensor& a, const Tensor& b) {
      CHECK(same_bits(a * b, contiguous(expand(a, b.sizes())) * b));
      CHECK(same_bits(b - a, b - contiguous(expand(a, b.sizes()))));
    };
    const Tensor b = drawn({67, 129}, 1, dtype), images = drawn({2, 20, 33, 31}, 2, dtype);
    same(transpose(drawn({129, 67}, 3, dtype)), b);
    for (const std::int64_t columns : {48, 50, 63, 65})
      same(drawn({5, 1, 9, 1}, 4, dtype), drawn({5, 3, 9, columns}, 5, dtype));
    same(channels_last(drawn({2, 20, 33, 31}, 6, dtype)), images);
    const Tensor last = channels_last(images), product = last * drawn({2, 20, 33, 31}, 7, dtype);
    CHECK(same_bits(contiguous(product), images * drawn({2, 20, 33, 31}, 7, dtype)));
  }
}

TEST_CASE("batches of rows and columns, and one column with a bias, are right") {
  for (const Dtype dtype : {f32, bf16, f16}) {
    INFO(name_of(dtype));
    const auto wide = [](const Tensor& t) { return cast(t, f64); };
    const Tensor a = drawn({30, 70, 90}, 1, dtype), column = drawn({30, 90, 1}, 2, dtype),
                 row = drawn({30, 1, 70}, 3, dtype);
    const Tolerance t = tolerance_for(dtype, 90);
    CHECK(difference(matmul(a, column), matmul(wide(a), wide(column)), t) == "");
    CHECK(difference(matmul(row, a), matmul(wide(row), wide(a)), t) == "");
    CHECK(difference(matmul(row, transpose(row, 1, 2)), matmul(wide(row), wide(transpose(row, 1, 2))), t) == "");
    const Tensor x = drawn({200, 90}, 4, dtype), w = drawn({1, 90}, 5, dtype), bias = drawn({1}, 6, dtype);
    CHECK(difference(linear(x, w, bias), linear(wide(x), wide(w), wide(bias)), t) == "");
  }
}

TEST_CASE("transposed convolutions of halves with a bias are rounded once") {
  for (const Dtype dtype : {bf16, f16}) {
    for (const int stride : {1, 2}) {
      INFO(name_of(dtype) << ", stride " << stride);
      std::vector<Tensor> x{drawn({2, 24, 12, 12}, 1, dtype), drawn({24, 32, 3, 3}, 2, dtype), drawn({32}, 3, dtype)},
          exact;
      for (Tensor& t : x) exact.push_back(cast(t, f64).requires_grad_()), t.requires_grad_();
      const auto run = [&](const std::vector<Tensor>& v) {
        return conv_transpose2d(v[0], v[1], v[2], {.stride = {stride, stride}, .padding = {1, 1}});
      };
      const Tensor y = run(x), wanted = run(exact);
      // Winograd is less accurate than a matrix product (docs/experiments.md).
      CHECK(difference(y.detach(), wanted.detach(), tolerance_for(dtype, stride == 1 ? 4000 : 216)) == "");
      const Tensor g = drawn(y.sizes(), 4, dtype), wide = cast(g, f64);
      const std::vector<Tensor> d = grad(std::span(&y, 1), x, std::span(&g, 1)),
                                e = grad(std::span(&wanted, 1), exact, std::span(&wide, 1));
      for (std::size_t i = 0; i < d.size(); ++i) CHECK(difference(d[i], e[i], {2e-2, 2e-2}) == "");
    }
  }
}

TEST_CASE("a wrong index among many is named") {
  Tensor index = zeros({50, 2000}, {.dtype = i64});
  index[31][1999].fill_(7);
  CHECK_THAT(message_of([&] {
               gather(zeros({50, 7}), 1, index);
             }),
             Catch::Matchers::Contains("index 7 is out of range"));
  index[31][1999].fill_(-1);
  CHECK_THAT(message_of([&] {
               gather(zeros({50, 7}), 1, index);
             }),
             Catch::Matchers::Contains("index -1 is out of range"));
}

TEST_CASE("distances of many points: NaN stays, and equal points have the gradient 0") {
  Tensor a = cast(random_tensor({40, 3}, 1), f32);
  a[5].fill_(NAN);
  CHECK(isnan(cdist(a, a)[5][0]).item<bool>());
  const Tensor x = zeros({30, 3}).requires_grad_(), y = sum(cdist(x, zeros({30, 3})));
  backward(y);
  CHECK(amax(abs(x.grad())).item<float>() == 0);
}

TEST_CASE("element i of rand is word i % 4 of counter i / 4") {
  manual_seed(11);
  const std::int64_t n = 1003;
  const std::vector<float> v = rand({n}).to_vector<float>();
  for (std::int64_t i = 0; i < n; ++i) {
    const Philox::Words w = Philox{11}(static_cast<std::uint64_t>(i / 4));
    REQUIRE(v[static_cast<std::size_t>(i)] == uniform_from_bits(w.v[i % 4]));
  }
}
