// Tensor: factories, sharing, reading, in-place writes, printing.
#include "core/tensor.h"

#include <functional>
#include <limits>
#include <sstream>

#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/error.h"
#include "core/from_blob.h"
#include "core/format.h"
#include "core/indexing.h"
#include "core/operators.h"
#include "core/ops.h"
#include "core/ops_special.h"
#include "core/random.h"
#include "core/unpack.h"
#include "nn/param.h"
#include "tests/testing.h"

using namespace mantissa;
using test::message_of;
using Catch::Matchers::Contains;

TEST_CASE("factories give the values, shapes and dtypes they promise") {
  CHECK(zeros({2, 3}).dtype() == f32);
  CHECK(full({2}, 2.5, {.dtype = bf16}).to_vector<float>() == std::vector<float>{2.5f, 2.5f});
  CHECK(arange(5).dtype() == i64);
  CHECK(arange(1, 2, 0.25, {.dtype = f64}).to_vector<double>() == std::vector<double>{1, 1.25, 1.5, 1.75});
  CHECK(arange(3, 0, -1).to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 2, 1});
  CHECK((arange(3) > 1).to_vector<bool>() == std::vector<bool>{false, false, true});
  CHECK(tensor({0.5}).to_vector<Half>()[0] == Half(0.5f));
  CHECK(linspace(0, 1, 3).to_vector<float>() == std::vector<float>{0, 0.5f, 1});
  CHECK(linspace(2, 9, 1).to_vector<float>() == std::vector<float>{2});
  CHECK(eye(2).to_vector<float>() == std::vector<float>{1, 0, 0, 1});
  CHECK(eye(0).numel() == 0);
  CHECK(tensor({1, 2, 3}).dtype() == i64);
  CHECK(tensor({1.5, 2}).dtype() == f32);
  CHECK(tensor({1.5f, 2.5f}).dtype() == f32);
  CHECK(tensor({{1, 2}, {3, 4}}).sizes() == Dims{2, 2});
  CHECK(tensor({{1, 2}, {3, 4}}).dtype() == i64);
  CHECK(tensor({{1}, {2}}).dtype() == i64);
  const std::int64_t exact = (std::int64_t{1} << 53) + 1;
  CHECK(tensor({exact, -exact}).to_vector<std::int64_t>() == std::vector<std::int64_t>{exact, -exact});
  CHECK(tensor({true, false}).dtype() == boolean);
  CHECK(tensor({{true, false}, {true, true}}).sum().item<int>() == 3);
  CHECK(tensor({{1}, {2}}).sizes() == Dims{2, 1});
  CHECK(tensor({{1.0}, {2.0}}).sizes() == Dims{2, 1});
  CHECK(tensor({{1, 2.5}, {3, 4}}).dtype() == f32);
  CHECK(tensor({{1, 2.5}, {3, 4}}).to_vector<float>() == std::vector<float>{1, 2.5f, 3, 4});
  CHECK(tensor({{1, 2}, {3, 4}}, {.dtype = f16}).dtype() == f16);
  CHECK(scalar(3).dim() == 0);
  CHECK(ones({2}, {.requires_grad = true}).requires_grad());
  CHECK_THAT(message_of([] { arange(0, 1, -1); }), Contains("does not lead from 0 to 1"));
  CHECK_THAT(message_of([] { arange(0, 1, 0); }), Contains("step 0"));
  CHECK_THAT(message_of([] { arange(0, 1, 0.25); }),
             Contains("has fractions, which i64 cannot hold; pass {.dtype = f32}"));
  CHECK_THAT(message_of([] { tensor({{1, 2}, {3}}); }), Contains("rows of 2 and 1"));
  CHECK_THAT(message_of([] { from_data<float>(std::vector<float>{1, 2}, {3}); }),
             Contains("needs 3 values, got 2"));
  CHECK_THAT(message_of([] { zeros({2}, {.dtype = i64, .requires_grad = true}); }),
             Contains("only floating tensors have gradients"));
}

TEST_CASE("sizes by name, and methods that call functions") {
  const Tensor x = arange(24).view(2, 3, 4);
  const auto [a, b, c] = x.sizes<3>();
  CHECK((a == 2 && b == 3 && c == 4));
  CHECK(scalar(1).sizes<0>().empty());
  CHECK(message_of([&] { x.sizes<2>(); }) == "sizes<2>(): i64[2, 3, 4] has 3 dimensions");
  CHECK_THAT(message_of([] { Tensor().sizes<1>(); }), Contains("undefined"));
  CHECK(x.narrow(1, 1, 2).is_same(x) == false);
  CHECK(equal(x.narrow(1, 1, 2), x[{all, slice(1, 3)}]));
  CHECK(equal(x.unflatten(2, {2, -1}), x.view(2, 3, 2, 2)));
  CHECK(x.eq(5).sum().item<int>() == 1);
  CHECK(all(x.eq(x)));
}

TEST_CASE("copies share, clones do not, views write through") {
  Tensor a = zeros({2, 2});
  Tensor b = a, c = a.clone(), row = a[1];
  row.fill_(7);
  CHECK(b.to_vector<float>() == std::vector<float>{0, 0, 7, 7});
  CHECK(c.to_vector<float>() == std::vector<float>{0, 0, 0, 0});
  CHECK(b.is_same(a));
  CHECK(a.detach().storage() == a.storage());
  CHECK(a.to(f32).is_same(a));
}

TEST_CASE("item and data check what they are asked") {
  CHECK(tensor({2.5}).item() == 2.5f);
  CHECK(tensor({7}).item<int>() == 7);
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  CHECK(from_data<std::int64_t>(std::vector<std::int64_t>{big}, {1}).item<std::int64_t>() == big);
  CHECK_THAT(message_of([] { zeros({2}).item(); }), Contains("needs a tensor of one element, got f32[2]"));
  CHECK_THAT(message_of([] { Tensor().item(); }), Contains("undefined"));
  CHECK_THAT(message_of([] { Tensor().detach(); }), Contains("an undefined tensor was used"));
  CHECK_THAT(message_of([] { Tensor().requires_grad_(); }), Contains("an undefined tensor was used"));
  CHECK_THAT(message_of([] { Tensor().is_leaf(); }), Contains("an undefined tensor was used"));
  CHECK_THAT(message_of([] { zeros({2}).data<double>(); }),
             Contains("data<f64>: the tensor is f32; convert it with to(f64)"));
}

TEST_CASE("writing in place converts, broadcasts and raises the version") {
  Tensor x = zeros({2, 3}, {.dtype = f16});
  const auto version = x.storage()->version();
  x.add_(tensor({1.0, 2.0, 3.0}), 0.5);
  x.mul_(2);
  x.mul_(tensor({2.0, 3.0}).reshape({2, 1}));
  CHECK(x.to_vector<float>() == std::vector<float>{2, 4, 6, 3, 6, 9});
  CHECK(x.storage()->version() == version + 3);
  CHECK(x.t().copy_(arange(6).reshape({3, 2})).to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(x.to_vector<float>() == std::vector<float>{0, 2, 4, 1, 3, 5});
  CHECK_THAT(message_of([&] { x.copy_(zeros({4})); }),
             Contains("source f32[4] does not broadcast to f16[2, 3]"));
  CHECK_THAT(message_of([&] { x.add_(zeros({5, 2, 3})); }), Contains("does not broadcast"));
  CHECK_THAT(message_of([&] { x.copy_(Tensor()); }), Contains("undefined"));
  CHECK_THAT(message_of([&] { Tensor().fill_(1); }), Contains("undefined"));
  Tensor repeated = zeros({3, 1}).expand({3, 4});
  CHECK_THAT(message_of([&] { repeated.add_(ones({3, 4})); }),
             Contains("clone()"));  // one element, four writes
}

TEST_CASE("in-place changes of a tensor that wants a gradient are errors outside NoGrad") {
  Tensor w = ones({2}, {.requires_grad = true});
  CHECK_THAT(message_of([&] { w.add_(w.detach()); }),
             Contains("add_: f32[2] needs a gradient and in-place changes are not recorded"));
  CHECK_THAT(message_of([&] { w.zero_(); }), Contains("NoGrad"));
  Tensor y = w * 2.0;
  CHECK_THAT(message_of([&] { y.mul_(2); }), Contains("not recorded"));
  const NoGrad guard;
  w.add_(ones({2}));
  CHECK(w.to_vector<float>() == std::vector<float>{2, 2});
}

TEST_CASE("requires_grad is for floating leaves") {
  Tensor i = arange(3), x = ones({2}, {.requires_grad = true}), y = x * 2.0;
  CHECK_THAT(message_of([&] { i.requires_grad_(); }),
             Contains("only floating tensors have gradients, this is i64[3]"));
  CHECK_THAT(message_of([&] { y.requires_grad_(false); }),
             Contains("is the result of an operator; use detach()"));
  CHECK(x.is_leaf());
  CHECK_FALSE(y.is_leaf());
  CHECK_FALSE(y.grad().defined());
  x.requires_grad_(false);
  CHECK_FALSE((x * 2.0).requires_grad());
}

TEST_CASE("a number adopts the dtype of the tensor it meets") {
  CHECK((zeros({2}, {.dtype = f16}) + 1.0).dtype() == f16);
  CHECK((zeros({2}, {.dtype = bf16}) * 3.7).dtype() == bf16);
  CHECK((arange(3) + 1.0).dtype() == f32);  // a floating number beside integers
  CHECK((1.0 - zeros({2}, {.dtype = f64})).dtype() == f64);
  CHECK(pow(ones({3}), 2.0).dtype() == f32);
}

TEST_CASE("integers refuse to take in fractions") {
  Tensor i = arange(4);
  CHECK_THAT(message_of([&] { i.mul_(0.5); }), Contains("mul_: 0.5 into i64[4] would lose its fractions"));
  CHECK_THAT(message_of([&] { i.add_(ones({4})); }), Contains("add_: f32[4] into i64[4]"));
  CHECK_THAT(message_of([&] { i.add_(i, 0.5); }), Contains("times 0.5"));
  CHECK(equal(i, arange(4)));
  CHECK(equal(i.mul_(2).add_(Tensor(1.0)).add_(arange(4), -1), tensor({1, 2, 3, 4})));
}

TEST_CASE("what is written in place is what the function of the same name gives") {
  manual_seed(test::seed());
  MANTISSA_PRINT_SEED();
  for (const Dtype dtype : {f32, f16, f64}) {
    const Tensor start = randn({6, 5}).to(dtype), a = randn({6, 5}).to(dtype), b = rand({5}).to(dtype) + 0.5;
    const Tensor mask = a > 0;
    const auto same = [&](auto write, const Tensor& expected) {
      Tensor dense = start.clone(), wide = zeros({5, 12}, {.dtype = dtype});
      Tensor strided = wide.slice(1, 0, 12, 2).t();  // every other element
      strided.copy_(start);
      write(dense), write(strided);
      CHECK(allclose(dense, expected, 1e-3, 1e-6));
      CHECK(equal(strided, dense));
      CHECK(equal(wide.slice(1, 1, 12, 2), zeros({5, 6}, {.dtype = dtype})));  // and none of those between
    };
    same([&](Tensor& x) { x.div_(b); }, start / b);
    same([&](Tensor& x) { x.div_(3); }, start / 3);
    same([&](Tensor& x) { x.clamp_(-0.5, 0.25); }, clamp(start, -0.5, 0.25));
    same([&](Tensor& x) { x.lerp_(a, 0.1); }, lerp(start, a, Tensor(0.1)));
    same([&](Tensor& x) { x.lerp_(a, b - 0.5); }, lerp(start, a, b - 0.5));
    same([&](Tensor& x) { x.addcmul_(a, b, -2); }, addcmul(start, a, b, -2));
    same([&](Tensor& x) { x.addcdiv_(a, b, 0.5); }, addcdiv(start, a, b, 0.5));
    same([&](Tensor& x) { x.masked_fill_(mask, 7); }, masked_fill(start, mask, 7));
    same([&](Tensor& x) { x.masked_fill_(b > 1, -1); }, masked_fill(start, b > 1, -1));
  }
  Tensor i = arange(4);
  CHECK(equal(i.clamp_(1, HUGE_VAL).masked_fill_(i == 2, -5), tensor({1, 1, -5, 3})));
  CHECK_THAT(message_of([&] { i.div_(2); }), Contains("div_: i64[4] would lose the fractions"));
  CHECK_THAT(message_of([&] { i.clamp_(0.5, 3); }), Contains("between 0.5 and 3 would lose fractions"));
  CHECK_THAT(message_of([&] { i.masked_fill_(i, 3); }), Contains("the mask must be bool, got i64[4]"));
  CHECK_THAT(message_of([&] { Tensor().div_(2); }), Contains("undefined"));
  CHECK_THAT(message_of([&] { ones({2}).lerp_(ones({3}), 0.5); }), Contains("lerp_: f32[3] does not broadcast"));
}

TEST_CASE("a write that is refused leaves the tensor and its version as they were") {
  Tensor x = ones({2});
  const Tensor recorded = ones({2}, {.requires_grad = true}) * 2.0;
  const auto version = x.storage()->version();
  for (const auto& write : std::vector<std::function<void()>>{
           [&] { x.copy_(recorded); }, [&] { x.add_(ones({3})); }, [&] { x.mul_(Tensor()); },
           [&] { x.lerp_(ones({3}), 0.5); }, [&] { x.clamp_(2, 1); }, [&] { x.masked_fill_(x, 3); }})
    CHECK_THROWS_AS(write(), Error);
  CHECK(x.storage()->version() == version);
  CHECK(equal(x, ones({2})));
}

TEST_CASE("what is read in place may be other elements of the same memory") {
  const Tensor x = arange(12).to(f32).reshape({3, 4});
  CHECK(equal(x.clone().sub_(x[0]), x - x[0]));
  Tensor y = x.clone();
  CHECK(equal(y.sub_(y[0]), x - x[0]));
  y = x.clone();
  CHECK(equal(y.mul_(y.select(1, 1).unsqueeze(1)), x * x.select(1, 1).unsqueeze(1)));
  y = x.clone();
  CHECK(equal(y.div_(y[2]), x / x[2]));
  y = x.clone();
  y[{slice(1)}].copy_(y[{slice(0, 2)}]);
  CHECK(equal(y[{slice(1)}], x[{slice(0, 2)}]));
  y = arange(9).to(f32).reshape({3, 3});
  CHECK(equal(y.add_(y.t()), tensor({0.0, 4.0, 8.0, 4.0, 8.0, 12.0, 8.0, 12.0, 16.0}).reshape({3, 3})));
}

TEST_CASE("methods are the functions of the same names") {
  const Tensor x = tensor({{3.0, -1.0, 2.0}, {0.5, 4.0, -2.5}}), index = tensor({1, 0});
  CHECK(equal(x.view(3, -1), x.reshape({3, 2})));
  CHECK(equal(x.reshape(6), x.flatten()));
  CHECK(equal(x.permute(1, 0), x.t()));
  CHECK(equal(x.unsqueeze(0).expand(4, -1, 3), x.unsqueeze(0).expand({4, 2, 3})));
  CHECK(equal(x.repeat(2, 1), cat({x, x})));
  CHECK(equal(x.view_as(zeros({6})), x.flatten()));
  CHECK(equal(x[0].expand_as(x), stack({x[0], x[0]})));
  CHECK(equal(x.repeat_interleave(2, 1), repeat_interleave(x, 2, 1)));
  CHECK(equal(x.flip({1}), flip(x, {1})));
  CHECK(equal(x.roll({1}, {0}), x.index_select(0, index)));
  CHECK(equal(x.tril() + x.triu(1), x));
  CHECK(equal(x.diagonal(), tensor({3.0, 4.0})));
  CHECK(equal(x.scatter(1, index.unsqueeze(1), 9), scatter(x, 1, index.unsqueeze(1), 9)));
  CHECK(equal(x.scatter_add(0, tensor({{0, 1, 1}}), x), scatter_add(x, 0, tensor({{0, 1, 1}}), x)));
  CHECK(equal(x.index_add(0, index, x, 2), index_add(x, 0, index, x, 2)));
  CHECK(equal(x.masked_select(x > 2), tensor({3.0, 4.0})));
  CHECK(equal((x > 2).nonzero(), tensor({{0, 0}, {1, 1}})));
  CHECK(equal(x.prod({1}), tensor({-6.0, -5.0})));
  CHECK(equal(x.sort(1).values, tensor({{-1.0, 2.0, 3.0}, {-2.5, 0.5, 4.0}})));
  CHECK(equal(x.argsort(1, true), tensor({{0, 2, 1}, {1, 0, 2}})));
  CHECK(x.argmax().item<int>() == 4);
  CHECK(x.argmin().item<int>() == 5);
  CHECK(equal((x > 3).any({1}), tensor({false, true})));
  CHECK(equal((x > -2).all({1}, true), tensor({{true}, {false}})));
  CHECK(allclose(x.logsumexp({1}), log(sum(exp(x), {1}))));
  CHECK(equal(x.cumprod(1), cumprod(x, 1)));
  CHECK(equal(x[0].dot(x[1]), (x[0] * x[1]).sum()));
  CHECK(equal(x.unsqueeze(0).bmm(x.t().unsqueeze(0))[0], x.mm(x.t())));
  CHECK(equal(x.neg(), -x));
  CHECK(equal(x.sign() * x.abs(), x));
  CHECK(equal(x.floor(), tensor({{3.0, -1.0, 2.0}, {0.0, 4.0, -3.0}})));
  CHECK(equal(x.ceil(), tensor({{3.0, -1.0, 2.0}, {1.0, 4.0, -2.0}})));
  CHECK(equal(x.round(), tensor({{3.0, -1.0, 2.0}, {0.0, 4.0, -2.0}})));
  CHECK(allclose(x.abs().rsqrt(), 1 / x.abs().sqrt()));
  CHECK(allclose(x.abs().log1p(), (x.abs() + 1).log()));
  CHECK(!x.isnan().any());
  CHECK(equal(x.clamp(0), relu(x)));
  for (const Tensor& t : {x.to(f16).new_zeros({2}), x.to(f16).new_ones({2}) - 1, x.to(f16).new_full({2}, 0)}) {
    CHECK(equal(t, zeros({2}, {.dtype = f16})));
    CHECK(t.dtype() == f16);
  }
  CHECK(x.new_empty({3, 0}).sizes() == Dims{3, 0});
}

TEST_CASE("bounds of integers may be infinite or fractions") {
  const Tensor i = tensor({-3, 0, 5});
  CHECK(equal(clamp(i, -HUGE_VAL, 2), tensor({-3, 0, 2})));
  CHECK(equal(clamp(i, -1, HUGE_VAL), tensor({-1, 0, 5})));
  CHECK(equal(clamp(i, -0.5, 2), tensor({-0.5, 0.0, 2.0})));
}

TEST_CASE("functions of two tensors take numbers") {
  const Tensor x = tensor({-1.0, 2.0}), ids = tensor({0, 7});
  CHECK(equal(maximum(x, 0), tensor({0.0, 2.0})));
  CHECK(equal(minimum(1, x), tensor({-1.0, 1.0})));
  CHECK(equal(sub(1, x), tensor({2.0, -1.0})));
  CHECK(equal(eq(ids, 0), tensor({1, 0}) == 1));
  CHECK(remainder(ids, 4).dtype() == i64);
  CHECK(equal(where(ids > 0, x, 5), tensor({5.0, 2.0})));
  CHECK(equal(where(ids > 0, 1, 0), tensor({0, 1})));
  CHECK(where(ids > 0, 1, 0).dtype() == i64);
  CHECK(where(ids > 0, true, false).dtype() == boolean);
  CHECK(equal(where(ids > 0, 1.0, 0.5), tensor({0.5, 1.0})));
  CHECK(where(ids > 0, 1.0, 0).dtype() == f32);
  CHECK(where(ids[0] > 0, 1.0, 0.5).dtype() == f32);
  CHECK(equal(lerp(x, zeros({2}), 0.5), tensor({-0.5, 1.0})));
}

TEST_CASE("an integer keeps the dtype of integers, and bool beside it becomes i64") {
  const Tensor labels = tensor({3, 16777217}), pixels = tensor({250, 7}).to(u8), mask = tensor({1, 0}).to(boolean);
  const auto is = [](const Tensor& x, Dtype dtype, std::initializer_list<std::int64_t> values) {
    INFO(to_string(x));
    CHECK(x.dtype() == dtype);
    CHECK(x.to(i64).to_vector<std::int64_t>() == std::vector<std::int64_t>(values));
  };
  is(labels + 1, i64, {4, 16777218});
  is(10 - labels, i64, {7, -16777207});
  is(pixels + 10, u8, {4, 17});  // wraps around
  is(labels % 2, i64, {1, 1});
  is(7 % labels, i64, {1, 7});
  is(labels & 2, i64, {2, 0});
  is(labels << 1, i64, {6, 33554434});
  is(labels >> 1, i64, {1, 8388608});
  is(labels == 16777216, boolean, {0, 0});  // equal in f32
  is(pow(labels, 2), i64, {9, 281475010265089});
  is(pow(2, tensor({3, 62})), i64, {8, std::int64_t{1} << 62});
  is(pow(labels, 0), i64, {1, 1});
  is(mask + 1, i64, {2, 1});
  is(mask & true, boolean, {1, 0});
  is(where(mask, Tensor(1), Tensor(0)), i64, {1, 0});
  CHECK((labels / 2).dtype() == f32);
  CHECK((labels * 0.5).dtype() == f32);
  CHECK((zeros({2}, {.dtype = bf16}) + 1).dtype() == bf16);
  CHECK_THAT(message_of([&] { pow(labels, -1); }),
             Contains("pow: an integer to the power of -1 is no integer; convert with to(f32)"));
}

TEST_CASE("tensors print as in PyTorch") {
  std::ostringstream out;
  out << tensor({{1.0, -2.5}, {0.0, 3.0}});
  CHECK(out.str() == "tensor([[ 1.0000, -2.5000],\n        [ 0.0000,  3.0000]])");
  CHECK(fmt::format("{} {:>4} {:<4}| {}", tensor({1, 2}), Dims{3}, f32, cpu) == "tensor([1, 2])  [3] f32 | cpu");
  CHECK(fmt::format("{}", nn::Buffer(tensor({1, 2}))) == "tensor([1, 2])");
  CHECK(to_string(tensor({1, 2})) == "tensor([1, 2])");
  CHECK(to_string(zeros({0})).find("tensor([]") == 0);
  CHECK(to_string(from_data(std::vector<std::int64_t>{9007199254740993, -1}, {2})) ==
        "tensor([9007199254740993,               -1])");
  CHECK_THAT(to_string(ones({2}, {.dtype = f16})), Contains("dtype=f16"));
  CHECK_THAT(to_string(ones({2}, {.requires_grad = true})), Contains("requires_grad"));
  CHECK_THAT(to_string(arange(100000)), Contains("..."));
  CHECK_THAT(to_string(Tensor()), Contains("undefined"));
  CHECK_THAT(to_string(tensor({std::numeric_limits<double>::quiet_NaN(), 1.0})), Contains("nan"));
}

TEST_CASE("a device does not change the dtype that arguments suggest") {
  const TensorOptions here{.device = cpu};
  CHECK(arange(3, here).dtype() == i64);
  CHECK(arange(0, 3, 1, here).dtype() == i64);
  CHECK(randint(0, 3, {2}, here).dtype() == i64);
  CHECK(randint(3, {2}, here).dtype() == i64);
  CHECK(randperm(3, here).dtype() == i64);
  CHECK(tensor({1, 2}, here).dtype() == i64);
  CHECK(tensor({{1, 2}}, here).dtype() == i64);
  CHECK(tensor({true}, here).dtype() == boolean);
  CHECK(tensor(3, here).dtype() == i64);
  CHECK(tensor(std::vector<std::int64_t>{1}, here).dtype() == i64);
  CHECK(tensor({1, 2.5}, here).dtype() == f32);
  CHECK(tensor({2.5}, here).dtype() == f32);
  CHECK(zeros({2}, here).dtype() == f32);
  CHECK(arange(3, {.dtype = f32}).dtype() == f32);
  CHECK(tensor({1, 2}, {.dtype = u8}).dtype() == u8);
}

TEST_CASE("describe names dtype and shape") {
  CHECK(describe(zeros({128, 784}, {.dtype = f16})) == "f16[128, 784]");
  CHECK(describe(Tensor()) == "undefined");
}

TEST_CASE("one dimension or size needs no braces, and the commonest operators are methods") {
  const Tensor x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  CHECK(sum(x, 1).to_vector<float>() == std::vector<float>{6, 15});
  CHECK(x.sum(1, true).sizes() == Dims{2, 1});
  CHECK(x.mean({0, 1}).item() == 3.5);
  CHECK(x.mean().item() == 3.5);
  CHECK(x.reshape(-1).sizes() == Dims{6});
  CHECK(zeros(5).sizes() == Dims{5});
  CHECK(flip(x, -1).to_vector<float>() == std::vector<float>{3, 2, 1, 6, 5, 4});
  CHECK(x.amax(0).to_vector<float>() == std::vector<float>{4, 5, 6});
  CHECK(x.amin({0, 1}).item() == 1);
  CHECK(x.argmin(1).to_vector<int>() == std::vector<int>{0, 0});
  CHECK(bool((x > 5.0).any()));
  CHECK_FALSE(bool((x > 5.0).all()));
  CHECK(equal(x.softmax(1), softmax(x, 1)));
  CHECK(equal(x.log_softmax(1), log_softmax(x, 1)));
  CHECK(equal(x.matmul(x.t()), matmul(x, x.t())));
  CHECK(equal(x.masked_fill(x > 2.0, 0), where(x > 2.0, zeros_like(x), x)));
  CHECK(equal(x.pow(2).sqrt(), x.abs()));
  CHECK(equal(x.exp(), exp(x)));
  CHECK(equal(x.log(), log(x)));
  CHECK(equal(x.view({3, -1}), x.reshape({3, 2})));
  CHECK(x.permute({1, 0}).view(-1).to_vector<float>() == std::vector<float>{1, 4, 2, 5, 3, 6});  // a copy, no error
  CHECK(equal(x.mT(), x.t()));
  CHECK(equal(x.mm(x.t()), mm(x, x.mT())));
  CHECK_THAT(message_of([&] { x.mm(x.mT().unsqueeze(0)); }), Contains("mm: needs two matrices"));
  CHECK(x.repeat({2, 1}).sizes() == Dims{4, 3});
  CHECK(equal(x.gather(1, tensor({2, 0}).unsqueeze(1)).squeeze(1), tensor({3.0, 4.0})));
  CHECK(x.split(2, 1).size() == 2);
  CHECK(equal(x.chunk(3, 1)[2], x[{all, slice(2)}]));
  CHECK(equal(x.unbind()[1], x[1]));
  CHECK(equal(x.cumsum(1), cumsum(x, 1)));
  CHECK(equal(x.var(1), var(x, 1)));
  CHECK(equal(x.std({}, false, 0), mantissa::std(x, {}, false, 0)));
  CHECK(equal(x.norm(), norm(x)));
  CHECK(x.max(1).indices.to_vector<int>() == std::vector<int>{2, 2});
  CHECK(equal(x.min(0, true).values, x[{slice(0, 1)}]));
  CHECK(equal(x.topk(1).values, x[{all, slice(2)}]));
  CHECK(equal(x.square(), x * x));
  CHECK(equal(x.sin(), sin(x)));
  CHECK(equal(x.cos(), cos(x)));
  CHECK(equal((x - 3).relu(), relu(x - 3)));
  CHECK(equal(x.sigmoid(), sigmoid(x)));
  CHECK(equal(x.tanh(), tanh(x)));
  CHECK(equal(x.clamp(2, 5), clamp(x, 2, 5)));
}

TEST_CASE("a tensor as an index picks rows, a mask picks elements") {
  Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}).requires_grad_();
  const Tensor rows = tensor({2, 0, -1});
  CHECK(equal(x[rows], tensor({{5.0, 6.0}, {1.0, 2.0}, {5.0, 6.0}})));
  CHECK(equal(x[x > 3], tensor({4.0, 5.0, 6.0})));
  CHECK(equal(x[tensor({0, 1, 0}) == 1], x.detach()[{slice(1, 2)}]));
  x[rows].sum().backward();
  CHECK(equal(x.grad(), tensor({1.0, 0.0, 2.0}).unsqueeze(1).expand({3, 2})));
  CHECK_THAT(message_of([&] { x[tensor({3})]; }), Contains("out of range"));
  CHECK_THAT(message_of([&] { x[tensor({0.0})]; }), Contains("indices must be i64 or bool"));
}

TEST_CASE("tensors, slices and numbers in braces are what index() takes") {
  const Tensor x = randn({3, 4, 5}), rows = tensor({{2, 0, 1}, {0, 0, 2}}), columns = tensor({3, 1, 1});
  CHECK(equal(x[{rows, columns}], index(x, {rows, columns})));
  CHECK(equal(x[{all, columns}], index_select(x, 1, columns)));
  CHECK(equal(x[{1, slice(1), rows}], index(x[1], {slice(1), rows})));
  CHECK(equal(x[{ellipsis, x[0][0] > 0}], x[{all, all, x[0][0] > 0}]));
  CHECK_THROWS_WITH((x[{all, Tensor()}]), Contains("index: an index tensor is undefined"));
  CHECK_THROWS_WITH((x[{all, all, all, columns}]), Contains("index: the entries are for 4 dimensions"));
}

TEST_CASE("what factories make is a leaf") {
  for (const Dtype dtype : {f32, f64, bf16}) {
    const TensorOptions o{.dtype = dtype, .requires_grad = true};
    for (const Tensor& t :
         {tensor(0.5, o), tensor(2, o), tensor({1.0, 2.0}, o), tensor({{1.0, 2.0}}, o), tensor(std::vector{1.0}, o),
          zeros({2}, o), ones({2}, o), full({2}, 3, o), empty({2}, o), eye(3, o), arange(0.0, 3.0, 1.0, o),
          linspace(0, 1, 3, o), logspace(0, 1, 3, 10, o), rand({2}, o), randn({2}, o)}) {
      CHECK((t.is_leaf() && t.requires_grad() && t.dtype() == dtype));
      t.sum().backward();
      CHECK(t.grad().defined());
    }
  }
}

TEST_CASE("a tensor of one number and no dimensions has its place among entries as a number, as in PyTorch") {
  const Tensor x = randn({3, 4, 5}), one = tensor({1}).squeeze(0), rows = tensor({{2, 0, 1}, {0, 0, 3}});
  CHECK(equal(index(x, {one, all, rows}), index(x, {1, all, rows})));
  CHECK(equal(index(x, {all, one, newaxis, rows}), index(x, {all, 1, newaxis, rows})));
  CHECK(equal(index(x, {one, one, ellipsis}), x[{1, 1}]));
  CHECK(equal(index_put(x, {one, all, rows}, 0), index_put(x, {1, all, rows}, 0)));
}

TEST_CASE("numbers are added in place") {
  Tensor x = tensor({1.0, 2.0}), ids = tensor({3, 4});
  CHECK(equal(x.add_(1), tensor({2.0, 3.0})));
  CHECK(equal(x.sub_(0.5), tensor({1.5, 2.5})));
  CHECK(equal(ids.add_(1), tensor({4, 5})));
}

TEST_CASE("copy_ leaves out sizes of 1 in front of its source, as x[0] = y does in Python") {
  Tensor x = zeros({2, 3});
  x[1].copy_(tensor({{1, 2, 3}}));
  CHECK(equal(x, tensor({{0.0, 0.0, 0.0}, {1.0, 2.0, 3.0}})));
  x[0][0].copy_(tensor({{{7}}}));
  CHECK(x[0][0].item() == 7);
  CHECK_THROWS_WITH(x[0].copy_(zeros({2, 3})), Contains("copy_: source f32[2, 3] does not broadcast to f32[3]"));
}

TEST_CASE("what was computed with a gradient is not written where it would be lost") {
  const Tensor w = ones({3}).requires_grad_(), y = 2 * w;
  Tensor x = zeros({3});
  for (const auto& write : std::vector<std::function<void()>>{
           [&] { x.copy_(y); }, [&] { x.add_(y); }, [&] { x.mul_(y); }, [&] { x.lerp_(y, 0.5); },
           [&] { index_put_(x, {slice(0, 2)}, y[{slice(0, 2)}]); }, [&] { index_put_(x, {arange(3)}, y); }}) {
    CHECK_THAT(message_of(write), Contains("was computed with a gradient") && Contains("does not record"));
  }
  CHECK(equal(x, zeros({3})));
  x.copy_(w);  // a parameter's value
  x.add_(y.detach());
  const NoGrad no_grad;
  x.add_(y);
  CHECK(equal(x, full({3}, 5)));
}

TEST_CASE("a tensor in a condition is its one element") {
  const Tensor loss = scalar(0.5), best = scalar(0.75), x = tensor({1.0, 2.0});
  CHECK(bool(loss < best));
  CHECK_FALSE(bool(best < loss));
  CHECK_FALSE(bool(any(isnan(x))));
  CHECK_FALSE(bool(zeros({1, 1})));
  CHECK(bool(tensor({std::nan("")})));
  CHECK_THROWS_WITH(bool(x < 3.0), Contains("a condition: bool[2] has not one element; use any() or all(), and "));
  CHECK_THROWS_WITH(bool(zeros({0})), Contains("a condition: f32[0] has not one element; use any() or all()"));
  CHECK_THROWS_WITH(bool(Tensor()), "a condition: the tensor is undefined; whether there is one says defined()");
}

TEST_CASE("from_blob shares memory that is not ours, and gives it back once") {
  std::vector<float> theirs{1, 2, 3, 4, 5, 6};
  int released = 0;
  {
    Tensor row;
    {
      Tensor x = from_blob(theirs.data(), {2, 3}, [&](void* p) { released += p == theirs.data() ? 1 : 100; });
      CHECK(x.to_vector<float>() == theirs);
      x.mul_(2);
      row = x[1];
    }
    CHECK(released == 0);  // a view holds it
    CHECK(theirs == std::vector<float>{2, 4, 6, 8, 10, 12});
    theirs[4] = -1;
    CHECK(row.to_vector<float>() == std::vector<float>{8, -1, 12});
    CHECK(sum(square(row.detach().requires_grad_())).item<float>() == 64 + 1 + 144);
  }
  CHECK(released == 1);
  CHECK(from_blob(nullptr, {0, 3}).numel() == 0);
  const auto count = [&](void*) { ++released; };
  CHECK_THROWS_WITH(from_blob(nullptr, {2}, count), Contains("no memory is given for the 8 bytes of [2]"));
  CHECK_THROWS_WITH(from_blob(reinterpret_cast<char*>(theirs.data()) + 1, {2}, count), Contains("not aligned"));
  CHECK_THROWS_WITH(from_blob(theirs.data(), {INT64_MAX, 4}, count), Contains("9223372036854775807"));
  CHECK_THROWS_WITH(from_blob(theirs.data(), {2}, count, {.dtype = i64, .requires_grad = true}), Contains("floating"));
  CHECK(released == 1);  // not after an error
}

TEST_CASE("a linear recurrence is the loop that it stands for, with its gradients") {
  MANTISSA_PRINT_SEED();
  const Tensor a = test::random_tensor({2, 7, 3}, 1).requires_grad_();
  const Tensor b = test::random_tensor({7, 1}, 2).requires_grad_();
  Tensor state = zeros({2, 3}, {.dtype = f64});
  std::vector<Tensor> states;
  for (int i = 0; i < 7; ++i) states.push_back(state = a.select(1, i) * state + b.select(0, i));
  const Tensor loop = stack(states, 1), y = linear_recurrence(a, b, 1), weight = test::random_tensor({2, 7, 3}, 3);
  CHECK(allclose(y, loop, 1e-12, 1e-12));
  const auto wanted = grad({sum(loop * weight)}, {a, b}), got = grad({sum(y * weight)}, {a, b});
  for (int k = 0; k < 2; ++k) CHECK(allclose(got[k], wanted[k], 1e-12, 1e-12));
  CHECK_THAT(message_of([&] { linear_recurrence(a, zeros({4, 1}), 1); }), Contains("linear_recurrence"));
}

TEST_CASE("parts are bound to names: chunk, unbind, split and meshgrid with their number") {
  const Tensor x = arange(24).view(2, 3, 4);
  const auto [left, right] = chunk<2>(x, -1);
  CHECK(equal(left, x.slice(2, 0, 2)));
  CHECK(equal(right, x.slice(2, 2)));
  CHECK(right.storage().get() == x.storage().get());  // views
  const auto [a, b, c] = unbind<3>(x, 1);
  CHECK(equal(x.unbind<3>(1)[2], c));
  CHECK(equal(x.chunk<2>(-1)[1], right));
  CHECK(equal(x.split<2>(2, 2)[0], left));
  CHECK(equal(b, x.select(1, 1)));
  CHECK(equal(a + c, 2 * b));
  const auto [one, rest] = split<2>(x, {1, 3}, 2);
  CHECK(equal(cat({one, rest}, 2), x));
  CHECK(equal(split<2>(x, 2, 1)[1], x.slice(1, 2)));
  const auto [rows, columns] = meshgrid<2>({arange(2), arange(3)});
  CHECK(equal(3 * rows + columns, arange(6).view(2, 3)));
  CHECK_THAT(message_of([&] { chunk<3>(x, 0); }), Contains("chunk: there are 2 parts, not 3"));
  CHECK_THAT(message_of([&] { unbind<2>(x, 1); }), Contains("unbind: there are 3 parts, not 2"));
}

TEST_CASE("Python's ways to call: max of two, clip, lists of sizes, meshgrid, einsum, tensor, randint") {
  const Tensor a = tensor({1.0, 5.0}), b = tensor({2.0, 3.0});
  CHECK(equal(max(a, b), tensor({2.0, 5.0})));
  CHECK(equal(min(a, b), tensor({1.0, 3.0})));
  CHECK(max(a, 0).indices.item<int>() == 1);  // along dim 0
  CHECK(equal(clip(a, 2, 4), tensor({2.0, 4.0})));
  const Tensor x = arange(5);
  CHECK(split(x, {2, 3}).size() == 2);
  CHECK(equal(split(x, {2, 3})[1], tensor({2, 3, 4})));
  CHECK(split(x, {5}).size() == 1);
  CHECK(split(x, 2).size() == 3);
  CHECK_THROWS(split(x, {2, 2}));
  CHECK(equal(meshgrid({arange(2), arange(3)})[1], tensor({{0, 1, 2}, {0, 1, 2}})));
  CHECK(equal(meshgrid({arange(2), arange(3)}, "xy")[0], tensor({{0, 1}, {0, 1}, {0, 1}})));
  CHECK(einsum("i,i->", a, b).item() == 17);
  CHECK(einsum("i->", a).item() == 6);
  CHECK((tensor(3.5).dtype() == f32 && tensor(3.5).dim() == 0 && tensor(3.5).item() == 3.5F));
  CHECK((tensor(3).dtype() == i64 && tensor(true).dtype() == boolean && tensor(2, {.dtype = f64}).dtype() == f64));
  CHECK_FALSE(tensor(3.5).is_weak_scalar());
  CHECK(equal(tensor(std::vector<double>{1, 5}), a));
  CHECK(tensor(std::vector<double>{0.1}, {.dtype = f64}).item<double>() == 0.1);
  CHECK(tensor(std::vector<int>{1, 2}).dtype() == i64);
  CHECK(tensor(std::vector<float>{1}, {.requires_grad = true}).requires_grad());
  const Tensor drawn = randint(3, {100});
  CHECK((drawn.dtype() == i64 && drawn.min().item<int>() == 0 && drawn.max().item<int>() == 2));
}
