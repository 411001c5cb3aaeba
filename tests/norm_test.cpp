// Batch norm's running statistics: the only operator that modifies an input.
#include <cmath>

#include "autograd/backward.h"
#include "core/ops.h"
#include "core/random.h"
#include "ops/batch_norm.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;

namespace {
struct Running {
  Tensor mean = zeros({3}), var = ones({3});
};
}  // namespace

TEST_CASE("training moves the running statistics by the momentum, with the unbiased variance") {
  MANTISSA_PRINT_SEED();
  manual_seed(test::seed());
  const Tensor x = randn({4, 3, 5, 2}) * 2.0 + 1.0;
  Running r;
  batch_norm(x, {}, {}, r.mean, r.var, true, 0.1);
  const Tensor mean = mantissa::mean(x, {0, 2, 3}), var = mantissa::var(x, {0, 2, 3});
  for (int c = 0; c < 3; ++c) {
    CHECK(std::abs(r.mean[c].item() - 0.1f * mean[c].item()) < 1e-6);
    CHECK(std::abs(r.var[c].item() - (0.9f + 0.1f * var[c].item())) < 1e-5);
  }
}

TEST_CASE("evaluation uses the running statistics and leaves them alone") {
  MANTISSA_PRINT_SEED();
  manual_seed(test::seed());
  Running r;
  r.mean.fill_(0.5);
  r.var.fill_(4);
  const auto version = r.mean.storage()->version();
  const Tensor x = randn({4, 3});
  const Tensor y = batch_norm(x, {}, {}, r.mean, r.var, false);
  CHECK(std::abs(y[0][1].item() - (x[0][1].item() - 0.5f) / std::sqrt(4.0f + 1e-5f)) < 1e-6);
  CHECK(r.mean.storage()->version() == version);
  CHECK(r.var[0].item() == 4);
}

TEST_CASE("half inputs keep f32 statistics, and the write is seen by the version counter") {
  MANTISSA_PRINT_SEED();
  manual_seed(test::seed());
  Running r;
  const auto version = r.mean.storage()->version();
  const Tensor y = batch_norm(randn({8, 3}).to(f16), {}, {}, r.mean, r.var, true);
  CHECK(y.dtype() == f16);
  CHECK(r.mean.dtype() == f32);
  CHECK(r.mean.storage()->version() > version);
}

TEST_CASE("training counts its batches in the same call, in either layout; evaluation and errors do not") {
  Running r;
  const Tensor count = zeros({}, {.dtype = i64}), x = randn({4, 3, 5, 2});
  const auto call = [&](const Tensor& image, const Tensor& batches, bool training, bool relu) {
    return counted_batch_norm(image, {}, {}, r.mean, r.var, batches, training, 0.1, 1e-5, relu);
  };
  const auto version = count.storage()->version();
  call(x, count, true, false);
  call(channels_last(x), count, true, true);
  CHECK(count.item<std::int64_t>() == 2);
  CHECK(count.storage()->version() > version);
  call(x, count, false, false);
  CHECK_THROWS_AS(call(ones({1, 3}), count, true, false), Error);
  CHECK(count.item<std::int64_t>() == 2);
  CHECK_THROWS_WITH(call(x, zeros({}), true, false), Catch::Contains("num_batches_tracked must be one i64 on cpu"));
}

TEST_CASE("batch norm in training works without running statistics, and refuses a single value per channel") {
  const Tensor y = batch_norm(tensor({{1.0, 2.0, 3.0}, {3.0, 2.0, 7.0}}), {}, {}, {}, {}, true);
  CHECK(std::abs(y[0][0].item() + 1) < 1e-4);
  CHECK_THROWS_AS(batch_norm(ones({1, 3}), {}, {}, {}, {}, true), Error);
}

namespace {
// The largest error of y, relative to the reference's mean magnitude.
double error_of(const Tensor& y, const Tensor& reference) {
  return (max(abs(y.to(f64) - reference)) / mean(abs(reference))).item();
}
}  // namespace

TEST_CASE("a mean far larger than the deviation costs batch norm the digits that f32 keeps of it, and no more") {
  MANTISSA_PRINT_SEED();
  manual_seed(test::seed());
  struct Shape { Dims sizes; bool channels_last; };
  const Shape shapes[] = {{{32, 16, 14, 14}, false}, {{32, 16, 14, 14}, true}, {{3, 2, 7, 5}, false},
                          {{2, 3, 150, 130}, false}, {{2, 3, 150, 130}, true}, {{600, 24}, false},
                          {{7, 4, 30000}, false},    {{5, 3, 2, 3, 11}, false}};
  for (const auto& [sizes, last] : shapes) {
    for (const double mean : {0.0, 1e3, 1e5}) {
      INFO("shape " << concat(sizes) << (last ? ", channels last" : "") << ", mean " << mean);
      Tensor x = randn(sizes) + mean, g = randn(sizes);
      if (last) x = channels_last(x), g = channels_last(g);
      const auto run = [&](Dtype dtype) {
        const Tensor in = x.to(dtype).detach().requires_grad_();
        const Tensor w = ones({sizes[1]}, {.dtype = dtype}).requires_grad_();
        Tensor running_mean = zeros({sizes[1]}, {.dtype = dtype}), running_var = running_mean.clone();
        const Tensor y = batch_norm(in, w, {}, running_mean, running_var, true, 1.0);
        auto d = grad(sum(y * g.to(dtype)), {in, w});
        return std::vector<Tensor>{y.detach(), running_mean, running_var, d[0], d[1]};
      };
      const auto in_f32 = run(f32), in_f64 = run(f64);
      const double half_ulp = mean * std::exp2(-24);  // of the mean, as it is held
      CHECK(error_of(in_f32[0], in_f64[0]) < 3e-6 + 2 * half_ulp);
      if (mean != 0) CHECK(error_of(in_f32[1], in_f64[1]) < 1.5e-7);
      CHECK(error_of(in_f32[2], in_f64[2]) < 5e-7);
      CHECK(error_of(in_f32[3], in_f64[3]) < 5e-6 + 10 * half_ulp);
    }
  }
}

TEST_CASE("variances keep their digits whatever the mean, and of equal numbers are 0") {
  MANTISSA_PRINT_SEED();
  manual_seed(test::seed());
  for (const double mean : {0.0, 1.0, 1e3, 1e5, -1e6}) {
    const Tensor x = randn({300, 70, 5}) + mean;
    for (const Dims& over : {Dims{0}, Dims{1}, Dims{2}, Dims{0, 2}, Dims{0, 1, 2}}) {
      INFO("over " << concat(over) << ", mean " << mean);
      CHECK(error_of(var(x, over), var(x.to(f64), over)) < 2e-6);
      const Tensor turned = transpose(transpose(x, 0, 2).contiguous(), 0, 2);
      CHECK(test::same_bits(var(turned, over), var(x, over)));
    }
  }
  CHECK(var(full({1000}, 0.1f)).item() == 0);
  CHECK(max(var(full({1000, 3}, 12345.678f), {0})).item() == 0);
  Tensor holes = randn({4, 50}) + 1e5;
  holes[1][7].fill_(NAN);
  holes[2][7].fill_(INFINITY);
  const Tensor v = var(holes, {1});
  CHECK(std::isfinite(v[0].item()));
  CHECK(std::isnan(v[1].item()));
  CHECK(std::isnan(v[2].item()));
}
