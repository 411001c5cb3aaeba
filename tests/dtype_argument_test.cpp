// The argument `dtype` of reductions, cumulative sums and softmax: the input is cast first, the gradient has the
// input's dtype, and autocast does not affect a call that specifies its dtype.
#include "amp/autocast.h"
#include "autograd/backward.h"
#include "core/ops.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {
using Call = Tensor (*)(const Tensor&, std::optional<Dtype>);
struct Named { const char* name; Call call; };
const Named calls[] = {
    {"sum", [](const Tensor& x, std::optional<Dtype> d) { return sum(x, {1}, false, d); }},
    {"mean", [](const Tensor& x, std::optional<Dtype> d) { return mean(x, {1}, false, d); }},
    {"prod", [](const Tensor& x, std::optional<Dtype> d) { return prod(x, {1}, false, d); }},
    {"norm", [](const Tensor& x, std::optional<Dtype> d) { return norm(x, 2, {1}, false, d); }},
    {"cumsum", [](const Tensor& x, std::optional<Dtype> d) { return cumsum(x, 1, d); }},
    {"cumprod", [](const Tensor& x, std::optional<Dtype> d) { return cumprod(x, 1, d); }},
    {"softmax", [](const Tensor& x, std::optional<Dtype> d) { return softmax(x, 1, d); }},
    {"log_softmax", [](const Tensor& x, std::optional<Dtype> d) { return log_softmax(x, 1, d); }},
    {"softmin", [](const Tensor& x, std::optional<Dtype> d) { return softmin(x, 1, d); }},
};
}  // namespace

TEST_CASE("dtype casts the input first and the gradient back") {
  for (const Named& op : calls) {
    INFO(op.name);
    for (Dtype from : {f64, f32, f16, bf16}) {
      for (Dtype to : {f64, f32, f16, bf16}) {
        Tensor x = cast(random_tensor({3, 5}, 7), from);
        CHECK(same_bits(op.call(x, to), op.call(cast(x, to), {})));
        x.requires_grad_();
        sum(op.call(x, to)).backward();
        CHECK(x.grad().dtype() == from);
      }
    }
  }
}

TEST_CASE("sums and products of integers take the dtype that is asked for") {
  const Tensor x = tensor({{1, 2, 3}, {0, 5, 6}});
  CHECK(sum(x, {}, false, i32).dtype() == i32);
  CHECK(sum(x, {}, false, i32).item<int>() == 17);
  CHECK(prod(x, {1}, false, f32).to_vector<float>() == std::vector<float>{6, 0});
  CHECK(cumsum(x, 1, u8).dtype() == u8);
  CHECK(softmax(x, 1, f32).dtype() == f32);
  CHECK(mean(x, {}, false, f64).item<double>() == 17.0 / 6);
  CHECK_THROWS_WITH(mean(x, {}, false, i32), Catch::Matchers::Contains("needs a floating dtype"));
  CHECK_THROWS_WITH(softmax(x, 1, i64), Catch::Matchers::Contains("needs a floating dtype"));
}

TEST_CASE("autocast leaves a call alone that names its dtype") {
  for (const Named& op : calls) {
    INFO(op.name);
    const Tensor low = cast(random_tensor({3, 5}, 9), bf16);
    const amp::AutocastOptions as_torch{.dtype = bf16, .policies = amp::Policies::torch_cuda()};
    const auto [given, wide] = amp::autocast(as_torch, [&] { return std::pair(op.call(low, bf16), op.call(low, {})); });
    CHECK(given.dtype() == bf16);
    CHECK(same_bits(given, op.call(low, bf16)));
    if (std::string_view(op.name) != "mean") CHECK(wide.dtype() == f32);
  }
}

TEST_CASE("all is a reduction and an index") {
  const Tensor x = tensor({{1, 2, 3}, {0, 5, 6}});
  CHECK_FALSE(all(x).item<bool>());
  CHECK(all(x, {1}).to_vector<int>() == std::vector<int>{1, 0});
  CHECK(all(x, {0}, true).sizes() == Dims{1, 3});
  CHECK(all(zeros({0, 2}), {0}).to_vector<int>() == std::vector<int>{1, 1});
  CHECK(x[{all, 1}].to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 5});
}
