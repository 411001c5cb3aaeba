// Gradients of slices (autograd/part.h): for any slices in any order, with or without gradients of the whole, the sum
// equals that of a recorded backward, where each is written into zeros and all are added.
#include <functional>

#include "mantissa.h"
#include "tests/testing.h"

using namespace mantissa;

namespace {

using Uses = std::vector<std::function<Tensor(const Tensor&)>>;

// Integers, so that sums are exact in any order.
Tensor whole_numbers(const Dims& sizes, Dtype dtype) {
  return cast(floor(randn(sizes) * 3), dtype);
}
// The gradient of all uses of 2 * x, by either method.
Tensor gradient(const Uses& uses, Dtype dtype, bool recorded) {
  manual_seed(test::seed());
  const Tensor x = whole_numbers({3, 12, 2}, dtype).requires_grad_();
  const Tensor h = x * 2;
  std::vector<Tensor> results, weights;
  for (const auto& use : uses) {
    results.push_back(use(h));
    weights.push_back(whole_numbers(results.back().sizes(), dtype));
  }
  return grad(results, std::vector{x}, weights, {.create_graph = recorded})[0].detach();
}
std::function<Tensor(const Tensor&)> part(int dim, std::int64_t begin, std::int64_t end, std::int64_t step = 1) {
  return [=](const Tensor& h) { return slice(h, dim, begin, end, step); };
}
const auto whole = [](const Tensor& h) { return h * 1; };

}  // namespace

TEST_CASE("gradients of parts are put together as a recorded backward adds them") {
  MANTISSA_PRINT_SEED();
  const std::pair<const char*, Uses> cases[] = {
      {"side by side", {part(1, 0, 4), part(1, 4, 8), part(1, 8, 12)}},
      {"side by side, backwards", {part(1, 8, 12), part(1, 4, 8), part(1, 0, 4)}},
      {"outer ones last", {part(1, 4, 8), part(1, 8, 12), part(1, 0, 4)}},
      {"one in the middle", {part(1, 4, 8)}},
      {"one at each end", {part(1, 0, 2), part(1, 10, 12)}},
      {"overlapping", {part(1, 0, 8), part(1, 4, 12)}},
      {"the same twice", {part(1, 0, 6), part(1, 0, 6), part(1, 6, 12)}},
      {"all of it", {part(1, 0, 12), part(1, 0, 12)}},
      {"steps", {part(1, 0, 12, 2), part(1, 1, 12, 2)}},
      {"a step, then its neighbour", {part(1, 0, 4), part(1, 4, 12, 3)}},
      {"other dimensions", {part(0, 1, 2), part(1, 3, 5), part(2, 0, 1), part(0, 2, 3)}},
      {"of parts", {[](const Tensor& h) { return slice(slice(h, 1, 2, 10), 0, 1, 3); }, part(1, 0, 2)}},
      {"empty", {part(1, 5, 5), part(1, 0, 12)}},
      {"empty alone", {part(1, 5, 5)}},
      {"whole first", {whole, part(1, 0, 4), part(1, 4, 12)}},
      {"whole last", {part(1, 0, 4), part(1, 4, 8), whole}},
      {"whole between", {part(1, 0, 4), whole, part(1, 4, 8)}},
      {"selected", {[](const Tensor& h) { return select(h, 1, 3); }, [](const Tensor& h) { return h[0][-1]; }}},
      {"a turned view", {[](const Tensor& h) { return transpose(slice(h, 1, 0, 6), 0, 1); }, part(1, 6, 12)}},
  };
  for (const Dtype dtype : {f64, f32, f16, bf16}) {
    for (const auto& [name, uses] : cases) {
      INFO(concat(name, " ", dtype));
      CHECK(test::same_bits(gradient(uses, dtype, false), gradient(uses, dtype, true)));
    }
  }
}

TEST_CASE("the gradient of a stepped slice has its elements where they were, and zeros between them") {
  MANTISSA_PRINT_SEED();
  manual_seed(test::seed());
  for (const Dims& sizes : {Dims{7, 40}, Dims{40, 7}, Dims{5, 6, 3}, Dims{3, 300, 70}, Dims{200, 301}}) {
    for (const Dtype dtype : {f64, f32, bf16, f16}) {
      for (int dim = 0; dim < sizes.rank(); ++dim) {
        for (const auto& [begin, end, step] : {std::array<std::int64_t, 3>{0, INT64_MAX, 2}, {1, INT64_MAX, 2},
                                               {1, sizes[dim] - 1, 2}, {2, INT64_MAX, 3}, {1, INT64_MAX, INT64_MAX}}) {
          const Tensor x = zeros(sizes, {.dtype = dtype, .requires_grad = true});
          const Tensor y = slice(x * 1, dim, begin, end, step), g = whole_numbers(y.sizes(), dtype);
          Tensor expected = zeros(sizes, {.dtype = dtype});
          for (std::int64_t i = 0; i < y.size(dim); ++i) {
            Tensor to = select(expected, dim, begin + (i == 0 ? 0 : i * step));
            to.copy_(select(g, dim, i));
          }
          INFO(concat(sizes, " ", dtype, " along ", dim, " from ", begin, " by ", step));
          for (const Tensor& given : {g, transpose(contiguous(transpose(g, 0, 1)), 0, 1)})
            for (const bool recorded : {false, true})
              CHECK(equal(grad(y, {x}, given, {.retain_graph = true, .create_graph = recorded})[0], expected));
        }
      }
    }
  }
}

TEST_CASE("hooks see the whole gradient of what was divided, and a gradient in a leaf is added to") {
  const Tensor x = zeros({4, 6}, {.requires_grad = true});
  Tensor seen;
  const auto run = [&] {
    const Tensor h = x * 1;
    h.on_grad([&](const Tensor& g) { seen = g; return Tensor(); });
    const auto parts = chunk(h, 3, 1);
    backward(sum(parts[0]) + sum(parts[2] * 3));
  };
  run();
  const Tensor expected = cat({ones({4, 2}), zeros({4, 2}), full({4, 2}, 3)}, 1);
  CHECK(test::same_bits(seen, expected));
  CHECK(test::same_bits(x.grad(), expected));
  run();
  CHECK(test::same_bits(x.grad(), expected * 2));
}

TEST_CASE("a leaf that is divided itself") {
  const Tensor x = zeros({6}, {.requires_grad = true});
  backward(sum(slice(x, 0, 0, 2)) + sum(slice(x, 0, 4, 6) * 2));
  CHECK(x.grad().to_vector<double>() == std::vector<double>{1, 1, 0, 0, 2, 2});
  backward(sum(slice(x, 0, 1, 3)));
  CHECK(x.grad().to_vector<double>() == std::vector<double>{1, 2, 1, 0, 2, 2});
}
