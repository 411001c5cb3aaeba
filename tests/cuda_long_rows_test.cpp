// Softmax and cross entropy over rows longer than a block holds in registers, reductions over columns, and what is
// split among blocks because a few lines are long, on the CUDA device, compared with f64 on the CPU. (The registry's
// samples in cuda_registry_test are short.)
#include <algorithm>
#include <cmath>
#include <functional>

#include "core/accelerator.h"
#include "core/linear_cross_entropy.h"
#include "core/unique.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

using Function = std::function<Tensor(const Tensor&)>;

// The result and the gradient of the input.
Tensors differentiated(const Function& f, const Tensor& input, Device device, Dtype dtype) {
  const Tensor x = cast(input.detach(), dtype).to(device).requires_grad_(), y = f(x);
  const Tensor v = cast(cast(random_tensor(y.sizes(), 9), input.dtype()), y.dtype()).to(device);
  return {y.detach(), grad(Tensors{y}, Tensors{x}, Tensors{v})[0]};
}

void compare(const char* name, const Function& f, const Dims& sizes, std::initializer_list<Dtype> dtypes) {
  for (const Dtype dtype : dtypes) {
    INFO(name << " of " << concat(dtype, sizes));
    const Tensor input = cast(random_tensor(sizes, 1) * 3.0, dtype);
    const Tensors found = differentiated(f, input, cuda, dtype), expected = differentiated(f, input, cpu, f64);
    for (std::size_t k = 0; k < found.size(); ++k) {
      INFO((k == 0 ? "result" : "gradient"));
      Tolerance t = tolerance_for(dtype, static_cast<double>(sizes.back()));
      // Elements of a gradient near zero are differences of larger ones; results are as exact as they are everywhere.
      const double of_largest = t.rtol * max(abs(expected[k])).item<double>();
      t.atol = k == 0 ? std::min(t.atol, of_largest) : of_largest;
      CHECK(difference(found[k], expected[k], t) == "");
    }
    const Tensors again = differentiated(f, input, cuda, dtype);
    for (std::size_t k = 0; k < found.size(); ++k) CHECK(same_bits(found[k].to(cpu), again[k].to(cpu)));
  }
}

bool nothing_to_test() {
  if (!cuda_is_available()) WARN("no GPU: nothing was tested");
  return !cuda_is_available();
}

Tensor labels(std::int64_t rows, std::int64_t classes, Device device) {
  std::vector<std::int64_t> y;
  for (std::int64_t i = 0; i < rows; ++i) y.push_back(i == 1 ? -100 : (7919 * i + classes - 1) % classes);
  return from_data(y, {rows}).to(device);
}

}  // namespace

TEST_CASE("softmax and cross entropy of rows longer than a block holds") {
  if (nothing_to_test()) return;
  for (const std::int64_t n : {3001, 16392}) {  // single elements, whole packs; of f64 both are single elements
    compare("softmax", [](const Tensor& x) { return softmax(x, -1); }, {3, n}, {f32, bf16, f64});
    compare("log_softmax", [](const Tensor& x) { return log_softmax(x, -1); }, {3, n}, {f32, f16, f64});
    for (const double smoothing : {0.0, 0.1}) {
      compare(
          "cross_entropy",
          [=](const Tensor& x) { return cross_entropy(x, labels(4, n, x.device()), {.label_smoothing = smoothing}); },
          {4, n}, {f32, bf16, f64});
    }
  }
}

TEST_CASE("cross entropy of a classifier's batch, which one block computes, and of one row or class more") {
  if (nothing_to_test()) return;
  for (const Dims& sizes : {Dims{1, 1}, Dims{128, 10}, Dims{512, 32}, Dims{513, 32}, Dims{512, 33}}) {
    for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      const auto loss = [&](const Tensor& x) {
        const Tensor weight = cast(random_tensor({sizes[1]}, 3, 0.5, 2), x.dtype()).to(x.device());
        const Tensor target = sizes[0] == 1 ? zeros({1}, {.dtype = i64, .device = x.device()})
                                            : labels(sizes[0], sizes[1], x.device());
        const Tensor plain = cross_entropy(x, target, {.reduction = reduction});
        return plain + cross_entropy(x, target, {.label_smoothing = 0.1, .reduction = reduction}, weight);
      };
      compare("cross_entropy", loss, sizes, {f32, f16, f64});
    }
  }
}

TEST_CASE("norms and sums without NaN of short and long rows, columns and whole tensors") {
  if (nothing_to_test()) return;
  for (const Dims& sizes : {Dims{40, 24}, Dims{3, 16392}, Dims{2, 40001}, Dims{600, 32}}) {
    for (const Dims& dims : {Dims{-1}, Dims{0}, Dims{}}) {
      compare("norm", [&](const Tensor& x) { return norm(x, 2, dims, true); }, sizes, {f32, f16, bf16, f64});
      const NoGrad no_grad;
      for (const Dtype dtype : {f32, f16, f64}) {
        const Tensor x = cast(random_tensor(sizes, 1), dtype), y = where(gt(x, Tensor(1.0)), Tensor(NAN), x);
        const Tolerance t = tolerance_for(dtype, static_cast<double>(numel_of(sizes)));
        CHECK(difference(nansum(y.to(cuda), dims), nansum(cast(y, f64), dims), t) == "");
      }
    }
  }
  const Tensor none = zeros({2, 0}, {.device = cuda});
  CHECK(all(eq(norm(none, 2, {1}), Tensor(0.0))));
  CHECK(all(isnan(mean(none, {1}))));  // a divisor of 0
  CHECK(all(isnan(var(ones({3, 1}, {.device = cuda}), {1}))));
}

TEST_CASE("a linear layer and cross entropy in one, of many classes") {
  if (nothing_to_test()) return;
  for (const std::int64_t classes : {3001, 16392}) {
    const Tensor weight = random_tensor({classes, 8}, 4);
    compare("linear_cross_entropy",
            [&](const Tensor& x) {
              return linear_cross_entropy(x, cast(weight, x.dtype()).to(x.device()), labels(5, classes, x.device()));
            },
            {5, 8}, {f32, f64});
  }
}

TEST_CASE("reductions over columns, long and short, and over short rows") {
  if (nothing_to_test()) return;
  for (const Dims& sizes : {Dims{300, 40}, {2, 700, 17}, {5, 600}, {2, 21, 33}, {140, 3}, {35, 12}}) {
    const int columns = sizes.rank() - 2, d = sizes.back() < 16 ? columns + 1 : columns;
    compare("amax", [=](const Tensor& x) { return amax(x, {d}); }, sizes, {f32, f64});
    compare("amin", [=](const Tensor& x) { return amin(x, {d}); }, sizes, {f32, f64});
    compare("var", [=](const Tensor& x) { return var(x, {d}); }, sizes, {f32, f64});
    compare("sum", [=](const Tensor& x) { return sum(x, {d}); }, sizes, {f32, bf16, f64});
    compare("prod", [=](const Tensor& x) { return prod(x * 0.01 + 1.0, {d}); }, sizes, {f32, f64});
    const Tensor whole = randint(-9, 9, sizes), one = randint(1, 3, sizes) * 2 - 3;
    const auto same = [](const Function& f, const Tensor& x) { CHECK(equal(f(x.to(cuda)).to(cpu), f(x))); };
    same([=](const Tensor& x) { return sum(x, {d}); }, whole);
    same([=](const Tensor& x) { return amax(x, {d}); }, whole);
    same([=](const Tensor& x) { return amin(x, {d}); }, whole);
    same([=](const Tensor& x) { return prod(x, {d}); }, one);
    same([](const Tensor& x) { return amin(x, {0, 1}); }, randint(-900, 900, {40, 50}));
    same([](const Tensor& x) { return prod(flatten(x), {0}); }, one);
  }
}

TEST_CASE("cumulative sums of a few long lines") {
  if (nothing_to_test()) return;
  for (const Dims& sizes : {Dims{70001}, Dims{3, 4096}, Dims{2, 5000}})
    compare("cumsum", [](const Tensor& x) { return cumsum(x, -1); }, sizes, {f32, bf16, f64});
  compare("cumsum of columns", [](const Tensor& x) { return cumsum(x, 0); }, {5000, 3}, {f32, f64});
  const Tensor numbers = randint(-1000, 1000, {4500000});  // of whose chunks' sums there are chunks as well
  CHECK(same_bits(cumsum(numbers.to(cuda), 0).to(cpu), cumsum(numbers, 0)));
}

TEST_CASE("cumulative logsumexp and extremes of lines longer than a warp") {
  if (nothing_to_test()) return;
  for (const Dims& sizes : {Dims{3, 33}, Dims{2, 1000}})
    compare("logcumsumexp", [](const Tensor& x) { return logcumsumexp(x, -1); }, sizes, {f32, f64});
  for (const Dtype dtype : {f32, f64, i64}) {
    Tensor x = cast(floor(random_tensor({3, 500}, 6, 0, 9)), dtype);
    for (const bool nan : {false, true}) {
      if (nan && !is_floating(dtype)) continue;
      if (nan) x = where(random_tensor(x.sizes(), 4, 0, 1) > 0.995, full(x.sizes(), std::nan(""), {.dtype = dtype}), x);
      for (int dim = 0; dim < 2; ++dim) {
        const auto [values, places] = cummax(x.to(cuda), dim);
        const auto [values_cpu, places_cpu] = cummax(x, dim);
        CHECK(same_bits(values.to(cpu), values_cpu));
        CHECK(same_bits(places.to(cpu), places_cpu));
        CHECK(same_bits(cummin(x.to(cuda), dim).indices.to(cpu), cummin(x, dim).indices));
      }
    }
  }
}

TEST_CASE("the place of an extreme in long and short rows and columns") {
  if (nothing_to_test()) return;
  const std::pair<Dims, int> cases[] = {{{3, 1025}, 1}, {{2, 33000}, 1}, {{1100, 3}, 0},   {{140, 5}, 1},
                                        {{70, 20}, 1},  {{3, 40}, 0},    {{2, 21, 33}, 1}, {{700, 17}, 0}};
  for (const auto& [sizes, dim] : cases) {
    for (const Dtype dtype : {f32, f16, f64, i64, u8}) {
      Tensor x = cast(floor(random_tensor(sizes, 3, 0, 20)), dtype);  // with many ties
      INFO(concat(dtype, sizes));
      for (const bool nan : {false, true}) {
        if (nan && !is_floating(dtype)) continue;
        if (nan) x = where(random_tensor(sizes, 4, 0, 1) > 0.999, full(sizes, std::nan(""), {.dtype = dtype}), x);
        CHECK(same_bits(argmax(x.to(cuda), dim).to(cpu), argmax(x, dim)));
        CHECK(same_bits(argmin(x.to(cuda), dim).to(cpu), argmin(x, dim)));
        const auto [values, places] = max(x.to(cuda), dim);
        const auto [values_cpu, places_cpu] = max(x, dim);
        CHECK(same_bits(values.to(cpu), values_cpu));
        CHECK(same_bits(places.to(cpu), places_cpu));
      }
    }
  }
}

TEST_CASE("any and all of short and long rows, columns and whole tensors") {
  if (nothing_to_test()) return;
  for (const Dims& sizes : {Dims{3, 7}, Dims{5, 1032}, Dims{33000}, Dims{1100, 33}, Dims{0, 3}}) {
    for (const Dtype dtype : {f32, f16, f64, i64, i32, u8, boolean}) {
      INFO(concat(dtype, sizes));
      // few of them are true, or all but few
      const Tensor few = cast(random_tensor(sizes, 3, 0, 1) > 0.9998, dtype), many = cast(few == 0, dtype);
      for (const Tensor& x : {few, many}) {
        for (const Dims& dims : {Dims{}, Dims{0}, Dims{-1}}) {
          CHECK(same_bits(any(x.to(cuda), dims).to(cpu), any(x, dims)));
          CHECK(same_bits(all(x.to(cuda), dims).to(cpu), all(x, dims)));
        }
        if (dtype == i64) CHECK(same_bits(sum(x.to(cuda)).to(cpu), sum(x)));
        if (dtype == f16) CHECK(same_bits(any(x.to(cuda).transpose(0, -1), {0}).to(cpu), any(x.transpose(0, -1), {0})));
      }
    }
  }
  const Tensor nan = full({3}, std::nan("")).to(cuda), negative_zero = full({3}, -0.0).to(cuda);
  CHECK(all(nan).item<bool>());
  CHECK(!any(negative_zero).item<bool>());
}

TEST_CASE("scatter_reduce of long lines, in the order of the index, or of parts of it") {
  if (nothing_to_test()) return;
  for (const Dims& sizes : {Dims{40000}, Dims{40, 300}, Dims{3, 20}}) {
    const int dim = static_cast<int>(sizes.rank()) - 1;
    const bool in_order = sizes.back() <= 64;  // otherwise in parts
    const Tensor index = randint(0, 7, sizes), seven = full({1}, 7, {.dtype = i64});
    const Tensor in_turn = expand(remainder(arange(sizes.back()), seven), sizes);
    for (const Dtype dtype : {f32, bf16, f64, i64}) {
      const Tensor source = cast(random_tensor(sizes, 5) + 1.5, dtype);
      for (const std::string reduce : {"prod", "amax", "amin", "sum"}) {
        INFO(reduce << " of " << concat(dtype, sizes));
        const bool rounds = is_floating(dtype) && (reduce == "prod" || reduce == "sum");
        for (const Tensor& to : {index, in_turn}) {  // one index for each line, or one for all of them
          Dims out = sizes;
          out.back() = 7;
          const Tensor x = ones(out, {.dtype = dtype});
          const auto on_gpu = [&] { return scatter_reduce(x.to(cuda), dim, to.to(cuda), source.to(cuda), reduce); };
          const Tensor found = on_gpu().to(cpu);
          if (rounds && !in_order) {
            const Tensor expected = scatter_reduce(cast(x, f64), dim, to, cast(source, f64), reduce);
            CHECK(difference(found, expected, tolerance_for(dtype, static_cast<double>(sizes.back()))) == "");
            CHECK(same_bits(found, on_gpu().to(cpu)));
          } else {
            CHECK(same_bits(found, scatter_reduce(x, dim, to, source, reduce)));
          }
        }
      }
    }
  }
  const Tensor nan = full({100}, std::nan("")), one = ones({1});
  const Tensor first = zeros({100}, {.dtype = i64});
  CHECK(isnan(scatter_reduce(one.to(cuda), 0, first.to(cuda), nan.to(cuda), "amax")).to(cpu).item<bool>());
}

TEST_CASE("the distinct rows of a matrix, equal ones in their order") {
  if (nothing_to_test()) return;
  manual_seed(8);
  for (const Dims& sizes : {Dims{1, 4}, Dims{700, 3}, Dims{257, 1}, Dims{12, 300}}) {
    for (const Dtype dtype : {f32, bf16, f64, i64, u8, boolean}) {
      INFO(concat(dtype, sizes));
      Tensor x = cast(randint(0, sizes[1] > 4 ? 2 : 3, sizes), dtype);
      if (x.is_floating()) x = where(rand(sizes) < 0.1, full({}, std::nan(""), {.dtype = dtype}), x);
      const UniqueResult found = unique(x.to(cuda), 0), expected = unique(x, 0);
      CHECK(same_bits(found.values.to(cpu), expected.values));
      CHECK(equal(found.inverse.to(cpu), expected.inverse));
      CHECK(equal(found.counts.to(cpu), expected.counts));
    }
  }
}
