// Batch norm's running statistics: the one operator that changes an input.
#include <cmath>

#include "core/ops.h"
#include "core/random.h"
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

TEST_CASE("batch norm in training works without running statistics, and refuses a single value per channel") {
  const Tensor y = batch_norm(tensor({{1.0, 2.0, 3.0}, {3.0, 2.0, 7.0}}), {}, {}, {}, {}, true);
  CHECK(std::abs(y[0][0].item() + 1) < 1e-4);
  CHECK_THROWS_AS(batch_norm(ones({1, 3}), {}, {}, {}, {}, true), Error);
}
