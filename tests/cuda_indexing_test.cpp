// In-place writes by index (core/indexing.h). index and index_put are compared with PyTorch in tests/golden/ops_more.h;
// here index_put_ is compared with index_put, on every device.
#include "core/indexing.h"

#include <initializer_list>
#include <vector>

#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "tests/catch_compat.h"
#include "tests/devices.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

// Into x itself, its transpose, every second column, and the middle of a larger tensor.
std::vector<Tensor> layouts_of(const Tensor& x) {
  Tensor turned = x.transpose(0, -1).contiguous().transpose(0, -1);
  Tensor wide = full({x.size(0), x.size(1), 2 * x.size(2) + 1}, 7, {.dtype = x.dtype(), .device = x.device()});
  Tensor strided = wide.slice(2, 1, 2 * x.size(2) + 1, 2);
  strided.copy_(x);
  return {x.clone(), turned.clone().copy_(x), strided};
}

void check_put(const Tensor& x, std::initializer_list<AnyIndex> entries, const Tensor& values, bool accumulate) {
  const Tensor wanted = index_put(x, entries, values, accumulate);
  for (const Tensor& y : layouts_of(x)) {
    index_put_(y, entries, values, accumulate);
    CHECK(equal(y, wanted));
  }
}

}  // namespace

TEST_CASE("index_put_ writes what index_put gives, for every kind of entry, dtype and layout") {
  for (const Device device : devices()) {
    CAPTURE(device);
    const Tensor rows = tensor({2, 0}).to(device), columns = tensor({-1, 1}).to(device);
    const Tensor mask = (tensor({{1, 0, 1, 0}, {0, 1, 1, 0}, {1, 0, 0, 0}}) == 1).to(device);
    for (const Dtype dtype : {f32, f64, f16, bf16, i64, i32, u8}) {
      CAPTURE(dtype);
      const Tensor x = (random_tensor({3, 4, 5}, 1) * 10).to(dtype).to(device);
      const auto v = [&](const Dims& sizes) { return (random_tensor(sizes, 2) * 10).to(dtype).to(device); };
      for (const bool accumulate : {false, true}) {
        CAPTURE(accumulate);
        check_put(x, {rows}, v({2, 4, 5}), accumulate);
        check_put(x, {all, columns}, v({3, 2, 5}), accumulate);
        check_put(x, {all, columns}, v({5}), accumulate);
        check_put(x, {rows, columns}, v({2, 5}), accumulate);
        check_put(x, {rows, all, columns}, v({2, 4}), accumulate);  // not neighbours: in front
        check_put(x, {all, rows, columns}, v({3, 1}), accumulate);
        check_put(x, {rows.unsqueeze(1), columns}, v({2, 2, 5}), accumulate);
        check_put(x, {1, slice(1, 3), columns}, v({2, 2}), accumulate);
        check_put(x, {ellipsis, newaxis, columns}, v({2}), accumulate);
        check_put(x, {mask}, v({5}), accumulate);
        check_put(x, {all, all, tensor({true, false, true, true, false}).to(device)}, v({3, 4, 3}), accumulate);
        check_put(x, {1, slice(0, 2)}, v({2, 5}), accumulate);       // no tensor: a view
        check_put(x, {tensor({false, false, false}).to(device)}, v({1, 4, 5}), accumulate);
      }
    }
  }
}

TEST_CASE("index_put_ of places that appear twice keeps the last value, or adds all of them") {
  for (const Device device : devices()) {
    Tensor x = zeros({4}, {.device = device});
    const Tensor at = tensor({1, 3, 1}).to(device);
    index_put_(x, {at}, tensor({5.f, 6.f, 7.f}).to(device));
    CHECK(x.to_vector<float>() == std::vector<float>{0, 7, 0, 6});
    index_put_(x, {at}, 2, true);
    CHECK(x.to_vector<float>() == std::vector<float>{0, 11, 0, 8});
    index_put_(x, {x > 9}, -1);
    CHECK(x.to_vector<float>() == std::vector<float>{0, -1, 0, 8});
  }
}

TEST_CASE("index_put_ takes values from the tensor that it writes to as they were") {
  for (const Device device : devices()) {
    Tensor x = arange(5).to(device);
    index_put_(x, {tensor({1, 2, 3, 4}).to(device)}, x.slice(0, 0, 4));
    CHECK(x.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 0, 1, 2, 3});
  }
}

TEST_CASE("what backward has saved knows of index_put_") {
  Tensor x = ones({3}), w = ones({3}, {.requires_grad = true});
  const Tensor y = (x * w).sum();
  index_put_(x, {tensor({0})}, 5);
  CHECK_THAT(message_of([&] { backward(y); }), Contains("index_put_"));
}

TEST_CASE("index_put_ says what is wrong and writes nothing") {
  Tensor x = zeros({3, 4});
  const auto fails = [&](auto f, const char* what) {
    CHECK_THAT(message_of(f), Contains("index_put_") && Contains(what));
    CHECK(count_nonzero(x).item() == 0);
  };
  fails([&] { index_put_(x, {all, tensor({0, 9})}, 1); }, "index 9 is out of range for a dimension of size 4");
  fails([&] { index_put_(x, {tensor({-4})}, 1); }, "out of range for a dimension of size 3");
  fails([&] { index_put_(x, {tensor({0.5f})}, 1); }, "must be i64 or bool, got f32[1]");
  fails([&] { index_put_(x, {all, tensor({0, 1})}, tensor({1.f, 2.f, 3.f})); },
        "f32[3] do not broadcast to the picked [3, 2]");
  fails([&] { index_put_(x, {tensor({0})}, tensor({1})); }, "the values are i64[1] and x f32[3, 4]");
  fails([&] { index_put_(x, {tensor({true, false})}, 1); }, "has size 2 where x has 3");
  fails([&] { index_put_(x, {all, all, tensor({0})}, 1); }, "for 3 dimensions");
  fails([&] { index_put_(x[0].expand({3, 4}), {tensor({0})}, 1); }, "write to a clone()");
  CHECK_THAT(message_of([&] { index_put(x, {all, tensor({0, 9})}, 1); }),
             Contains("index_put of x f32[3, 4]") && Contains("index 9 is out of range"));
  Tensor w = ones({2}, {.requires_grad = true});
  CHECK_THAT(message_of([&] { index_put_(w, {tensor({0})}, 1); }), Contains("not recorded"));
  const NoGrad no_grad;
  index_put_(w, {tensor({0})}, 3);
  CHECK(w.to_vector<float>() == std::vector<float>{3, 1});
}

TEST_CASE("where of a condition alone gives the indices of what is true, one tensor for each dimension") {
  const Tensor x = tensor({{0, 3, 0}, {4, 0, 5}});
  const std::vector<Tensor> at = where(x > 0);
  REQUIRE(at.size() == 2);
  CHECK(at[0].to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 1});
  CHECK(at[1].to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0, 2});
  CHECK(index(x, {at[0], at[1]}).to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 4, 5});
}

TEST_CASE("gather, scatter and nonzero of bytes and doubles") {
  const Tensor at = tensor({{2, 0}, {1, 1}, {0, 2}}), x = (random_tensor({3, 4}, 1) * 100).to(u8);
  const Tensor sparse = floor(random_tensor({5, 7}, 3) * 2.0).to(f64);
  for (const Device device : devices()) {
    CAPTURE(device);
    const auto same = [&](const Tensor& got, const Tensor& wanted) { CHECK(equal(got.to(cpu), wanted)); };
    same(gather(x.to(device), 1, at.to(device)), gather(x, 1, at));
    same(scatter(x.to(device), 1, at.to(device), x.slice(1, 0, 2).to(device)), scatter(x, 1, at, x.slice(1, 0, 2)));
    same(nonzero(sparse.to(device)), nonzero(sparse));
  }
}

TEST_CASE("sums of booleans by index are true where any of them is") {
  for (const std::int64_t length : {3, 40, 200}) {  // three algorithms on a GPU
    manual_seed(4);
    const Tensor at = randint(0, length == 200 ? 2 : 9, {5, length});
    const Tensor x = rand({5, 9}) < 0.2, source = rand({5, length}) < 0.5;
    const Tensor counts = scatter_add(x.to(i64), 1, at, source.to(i64));
    for (const Device device : devices()) {
      CAPTURE(device);
      CHECK(equal(scatter_add(x.to(device), 1, at.to(device), source.to(device)).to(cpu), counts > 0));
      const Tensor bytes = scatter_add(x.to(u8).to(device), 1, at.to(device), source.to(u8).to(device));
      CHECK(equal(bytes.to(cpu), counts.to(u8)));
    }
  }
}

// A GPU folds what has the same index in parts. Elements are small integers: the order of a sum does not matter.
TEST_CASE("many elements with few indices are folded as a loop does") {
  MANTISSA_PRINT_SEED();
  manual_seed(seed());
  for (const std::int64_t count : {63, 64, 65, 128, 129, 200, 1000}) {
    for (const std::int64_t rows : {1, 2, 7}) {
      CAPTURE(count, rows);
      const Tensor at = randint(0, rows, {count}), each = randint(0, rows, {3, count});
      const Tensor source = randint(-3, 4, {count, 40}), lines = randint(-3, 4, {3, count});
      const auto start = [&](const Dims& sizes) { return full(sizes, 5, {.dtype = i64}); };
      const Tensor sums = index_add(start({rows, 40}), 0, at, source);
      const Tensor of_lines = scatter_add(start({3, rows}), 1, each, lines);
      const Tensor largest = scatter_reduce(start({3, rows}), 1, each, lines * 4, "amax");
      for (const Device device : devices()) {
        for (const Dtype dtype : {f32, f16, bf16, f64, i64, i32}) {
          if (dtype == bf16 && count > 64) continue;  // has no room for such sums
          CAPTURE(device, dtype);
          const auto on = [&](const Tensor& x) { return x.to(dtype).to(device); };
          CHECK(equal(index_add(on(start({rows, 40})), 0, at.to(device), on(source)), on(sums)));
          CHECK(equal(scatter_add(on(start({3, rows})), 1, each.to(device), on(lines)), on(of_lines)));
          CHECK(equal(scatter_reduce(on(start({3, rows})), 1, each.to(device), on(lines * 4), "amax"), on(largest)));
        }
      }
    }
  }
}

TEST_CASE("integers are counted by value, few or many values") {
  MANTISSA_PRINT_SEED();
  manual_seed(seed());
  for (const std::int64_t values : {1, 7, 4096, 5000}) {
    for (const std::int64_t count : {0, 1, 300, 70000}) {
      CAPTURE(values, count);
      const Tensor x = randint(0, values, {count}), one = ones({1}, {.dtype = i64});
      const Tensor wanted = scatter_add(zeros({values}, {.dtype = i64}), 0, x, expand(one, {count}));
      for (const Device device : devices()) CHECK(equal(bincount(x.to(device), {}, values).to(cpu), wanted));
    }
  }
}
