// Shapes and strides: checked sizes, broadcasting, merging of dimensions, views, indexing.
#include "core/layout.h"

#include "autograd/gradcheck.h"
#include "core/error.h"
#include "core/ops.h"
#include "tests/testing.h"

using namespace mantissa;
using test::message_of;
using Catch::Matchers::Contains;

TEST_CASE("sizes that overflow, are negative or are absurd are errors") {
  const std::int64_t huge = std::int64_t{1} << 62;
  CHECK_THAT(message_of([&] { checked_numel({huge, 4}); }), Contains("more elements than fit"));
  CHECK_THAT(message_of([&] { checked_numel({3, -1}); }), Contains("negative size -1 in shape [3, -1]"));
  CHECK_THAT(message_of([&] { checked_nbytes({huge / 8}, f64); }), Contains("128 TiB"));
  CHECK(checked_numel({5, 0, 7}) == 0);
  CHECK(checked_numel({}) == 1);
  CHECK_THAT(message_of([&] { Tensor::allocate({huge, 4}, f32); }), Contains("more elements than fit"));
  CHECK_THAT(message_of([&] { zeros({-1}); }), Contains("negative size"));
  CHECK_THAT(message_of([] { Dims(std::vector<std::int64_t>(65, 1)); }),
             Contains("at most 8 dimensions, asked for 65"));
}

TEST_CASE("broadcasting follows NumPy's rule") {
  CHECK(broadcast({4, 1, 3}, {2, 1}) == Dims{4, 2, 3});
  CHECK(broadcast({}, {3}) == Dims{3});
  CHECK(broadcast({1}, {0}) == Dims{0});
  CHECK_THAT(message_of([] { broadcast({2, 3}, {4}); }), Contains("sizes [2, 3] and [4] do not broadcast"));
  CHECK_THAT(message_of([] { broadcast({2}, {0}); }), Contains("do not broadcast"));
}

TEST_CASE("a view of another shape exists exactly when row-major order can be walked with strides") {
  Dims out;
  CHECK(view_strides({2, 6}, {6, 1}, {3, 4}, &out));
  CHECK(out == Dims{4, 1});
  CHECK_FALSE(view_strides({3, 2}, {1, 3}, {6}, &out));           // a transpose
  CHECK(view_strides({3, 2, 2}, {8, 2, 1}, {3, 4}, &out));        // rows of a wider matrix
  CHECK(out == Dims{8, 1});
  CHECK(view_strides({4}, {0}, {2, 2}, &out));                    // expanded
  CHECK(out == Dims{0, 0});
  CHECK(view_strides({}, {}, {1, 1}, &out));
}

TEST_CASE("views read the right elements for random shapes") {
  MANTISSA_PRINT_SEED();
  const Philox random{test::seed()};
  for (std::uint64_t trial = 0; trial < 200; ++trial) {
    const auto w = random(trial);
    const Dims base{1 + w.v[0] % 4, 1 + w.v[1] % 4, 1 + w.v[2] % 4};
    Tensor x = arange(0, static_cast<double>(numel_of(base)), 1).reshape(base);
    Dims order{0, 1, 2};
    std::swap(order[w.v[3] % 3], order[w.v[3] / 3 % 3]);
    const Tensor view = x.permute(order);
    const std::vector<std::int64_t> before = view.to_vector<std::int64_t>();
    CHECK(view.contiguous().to_vector<std::int64_t>() == before);
    CHECK(view.reshape({-1}).to_vector<std::int64_t>() == before);  // reshape keeps row-major order
    Dims inverse{0, 0, 0};
    for (int i = 0; i < 3; ++i) inverse[static_cast<int>(order[i])] = i;
    CHECK(test::same_bits(view.permute(inverse), x));
  }
}

TEST_CASE("collapse merges what all operands walk alike") {
  const Dims a = contiguous_strides({2, 3, 4}), b{0, 4, 1};
  const Dims* one[] = {&a};
  CHECK(collapse({2, 3, 4}, one, 1).sizes == Dims{24});
  const Dims* two[] = {&a, &b};
  const Loop loop = collapse({2, 3, 4}, two, 2);
  CHECK(loop.sizes == Dims{2, 12});
  CHECK(loop.strides[1] == Dims{0, 1});
  const Dims none{};
  const Dims* scalar[] = {&none};
  CHECK(collapse({}, scalar, 1).sizes == Dims{1});
}

TEST_CASE("reshape infers one size and refuses the rest") {
  CHECK(infer_shape({2, -1}, 6) == Dims{2, 3});
  CHECK_THAT(message_of([] { infer_shape({-1, -1}, 6); }), Contains("more than one -1"));
  CHECK_THAT(message_of([] { infer_shape({4, -1}, 6); }), Contains("does not divide 6"));
  CHECK_THAT(message_of([] { infer_shape({4}, 6); }), Contains("needs 4 elements, the tensor has 6"));
  CHECK_THAT(message_of([] { infer_shape({std::int64_t{1} << 40, std::int64_t{1} << 40}, 6); }),
             Contains("too large"));
}

TEST_CASE("as_strided cannot reach beyond the storage") {
  const Tensor x = arange(12).reshape({3, 4});
  CHECK(x.as_strided({2, 2}, {4, 1}, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2, 5, 6});
  CHECK_THAT(message_of([&] { x.as_strided({3, 5}, {4, 1}); }), Contains("reach beyond the storage"));
  CHECK_THAT(message_of([&] { x.as_strided({1}, {1}, 12); }), Contains("reach beyond the storage"));
  CHECK_THAT(message_of([&] { x.as_strided({1}, {1}, -1); }), Contains("reach beyond the storage"));
  CHECK_THAT(message_of([&] { x.as_strided({2}, {INT64_MAX}); }), Contains("reach beyond the storage"));
  CHECK_THAT(message_of([&] { x.as_strided({3}, {-1}); }), Contains("must not be negative"));
  const Tensor part = x[1];
  CHECK_THAT(message_of([&] { part.as_strided({9}, {1}); }), Contains("reach beyond the storage"));
}

TEST_CASE("as_strided adds up the gradients of elements that are one in memory") {
  const Tensor x = randn({4, 6}, {.dtype = f64});
  const auto check = [](const Tensor& leaf, const TensorFunction& f) {
    const Tensor y = leaf.detach().requires_grad_();
    gradcheck(f, {y});
    gradgradcheck(f, {y});
  };
  const auto windows = [](const std::vector<Tensor>& v) { return square(v[0].as_strided({3, 4, 3}, {6, 1, 1}, 1)); };
  check(x, windows);
  check(x, [](const std::vector<Tensor>& v) { return square(v[0].as_strided({}, {}, 7)); });
  check(x, [](const std::vector<Tensor>& v) { return square(v[0].as_strided({2, 0}, {1, 1})); });
  check(x, [](const std::vector<Tensor>& v) { return square(v[0].as_strided({0}, {1}, std::int64_t{1} << 40)); });
  check(x, [](const std::vector<Tensor>& v) { return square(v[0].t().as_strided({5, 3}, {2, 4})); });
  check(x, [](const std::vector<Tensor>& v) { return square(v[0].slice(1, 1, 5).as_strided({2, 3}, {6, 1})); });
  check(x, [](const std::vector<Tensor>& v) {  // each element of the column stands for three
    return square(v[0].slice(1, 0, 1).expand(4, 3).as_strided({3, 2}, {6, 6}));
  });

  const Tensor h = ones({8}, {.dtype = bf16}).requires_grad_();
  h.as_strided({1000, 8}, {0, 1}).sum().backward();
  CHECK(h.grad().to_vector<double>() == std::vector<double>(8, 1000));  // halves would have stopped at 256
  CHECK(h.as_strided({2}, {3}).raw_data() == h.raw_data());
  CHECK_THAT(message_of([&] { h.as_strided({9}, {1}); }), Contains("reach beyond the storage"));
  CHECK_THAT(message_of([] { Tensor().as_strided({1}, {1}); }), Contains("undefined"));
}

TEST_CASE("indexing makes views that write through") {
  Tensor x = arange(24).reshape({2, 3, 4});
  CHECK(x[1].sizes() == Dims{3, 4});
  CHECK(x[-1][0][-1].item<std::int64_t>() == 15);
  CHECK(x[{all, 1, slice(1, 3)}].to_vector<std::int64_t>() == std::vector<std::int64_t>{5, 6, 17, 18});
  CHECK(x[{ellipsis, 0}].sizes() == Dims{2, 3});
  CHECK(x[{0, newaxis, ellipsis}].sizes() == Dims{1, 3, 4});
  CHECK(x[{all, slice(0, 3, 2)}].sizes() == Dims{2, 2, 4});
  CHECK(x[{all, slice(2, 1)}].numel() == 0);
  x[{0, 0}].fill_(-1);
  CHECK(x.to_vector<std::int64_t>()[3] == -1);
  CHECK(x.to_vector<std::int64_t>()[4] == 4);
  CHECK_THAT(message_of([&] { x[2]; }), Contains("index 2 is out of range"));
  CHECK_THAT(message_of([&] { x[-3]; }), Contains("out of range"));
  CHECK_THAT(message_of([&] { x[{0, 0, 0, 0}]; }), Contains("4 indices for i64[2, 3, 4]"));
}

TEST_CASE("slices with extreme bounds and steps stay inside") {
  const Tensor x = arange(5);
  CHECK(x.slice(0, INT64_MIN, INT64_MAX).numel() == 5);
  CHECK(x.slice(0, 1, 5, INT64_MAX).to_vector<std::int64_t>() == std::vector<std::int64_t>{1});
  CHECK(x.slice(0, 7, 9).numel() == 0);
  CHECK(x.slice(0, -2).to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 4});
  CHECK_THAT(message_of([&] { x.slice(0, 0, 5, 0); }), Contains("step 0 must be positive"));
}
