// The tuner's comparison of implementations: agree() in cuda/tuner.h.
#include <chrono>
#include <cstdlib>
#include <limits>
#include <memory>

#include "core/tuner.h"
#include "cuda/tuner.h"
#include "mantissa.h"
#include "tests/catch_compat.h"

using namespace mantissa;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity(),
                 not_a_number = std::numeric_limits<double>::quiet_NaN();

// Ones and a five, and the same with one element changed.
bool agree_but_for(double value, Dtype dtype, std::int64_t at, const Dims& sizes) {
  const Tensor a = ones(sizes, {.dtype = dtype, .device = cuda}), b = a.clone();
  flatten(a).slice(0, 0, 1).fill_(5.0);
  flatten(b).slice(0, 0, 1).fill_(5.0);
  flatten(b).slice(0, at, at + 1).fill_(value);
  return cuda_backend::agree(a.view(), b.view()) && cuda_backend::agree(b.view(), a.view());
}

}  // namespace

TEST_CASE("results agree up to rounding, wherever they differ") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  struct Bound { Dtype dtype; double share; };
  for (const Bound& b : {Bound{f64, 1e-3}, Bound{f32, 1e-3}, Bound{f16, 4e-3}, Bound{bf16, 2e-2}}) {
    const Dims sizes{b.dtype == f32 ? 300 : 30, 1000};  // f32: more elements than threads
    const std::int64_t n = sizes[0] * sizes[1];
    for (const std::int64_t at : {std::int64_t{1}, n - 1, n / 2}) {
      INFO(name_of(b.dtype) << " at " << at);
      CHECK(agree_but_for(1 + 0.8 * 5 * b.share, b.dtype, at, sizes));
      CHECK_FALSE(agree_but_for(1 - 1.2 * 5 * b.share, b.dtype, at, sizes));
      CHECK_FALSE(agree_but_for(not_a_number, b.dtype, at, sizes));
      CHECK_FALSE(agree_but_for(infinite, b.dtype, at, sizes));
    }
  }
  CHECK(agree_but_for(1, f32, 0, {1}) == false);
  CHECK(agree_but_for(5, f32, 0, {1}));
  CHECK(cuda_backend::agree(empty({0}, {.device = cuda}).view(), empty({0}, {.device = cuda}).view()));
}

TEST_CASE("results agree where both overflow, or one comes close") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const auto pair = [](double a, double b, Dtype dtype) {
    return cuda_backend::agree(full({3}, a, {.dtype = dtype, .device = cuda}).view(),
                               full({3}, b, {.dtype = dtype, .device = cuda}).view());
  };
  CHECK(pair(infinite, infinite, f16));
  CHECK(pair(not_a_number, not_a_number, f32));
  CHECK(pair(infinite, 65504, f16));
  CHECK_FALSE(pair(infinite, 50000, f16));
  CHECK_FALSE(pair(1e30, -infinite, f32));
}

TEST_CASE("results that do not lie densely are compared element by element") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Tensor a = randn({7, 33}).to(cuda), wide = zeros({33, 20}, {.device = cuda});
  const Tensor b = transpose(wide.slice(1, 5, 12), 0, 1);  // [7, 33] in rows of 20
  Tensor(b).copy_(a);
  CHECK(cuda_backend::agree(a.view(), b.view()));
  wide.slice(0, 32, 33).slice(1, 11, 12).fill_(77.0);
  CHECK_FALSE(cuda_backend::agree(a.view(), b.view()));
}

TEST_CASE("ways that $MANTISSA_TUNER_SKIP names do not run") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  tuner::set_mode(tuner::Mode::off);
  const Tensor y = zeros({2}, {.device = cuda});
  std::string ran;
  const auto way = [&](const char* name, bool applies) {
    return cuda_backend::Way{name, [&ran, name, applies] {
                               ran += concat(name, ";");
                               return applies;
                             }};
  };
  const std::vector<cuda_backend::Way> ways{way("mma 64x1", false), way("hopper 256", true), way("hopper 128", true),
                                            way("cublaslt 0", true)};
  const auto chosen = [&](const char* skip) {
    ran.clear();
    setenv("MANTISSA_TUNER_SKIP", skip, 1);
    const View result = y.view();
    return cuda_backend::run_fastest("test", ways, {std::span(&result, 1)}).way;
  };
  CHECK(chosen("") == 1);
  CHECK(ran == "mma 64x1;hopper 256;");
  CHECK(chosen("hopper") == 3);
  CHECK(ran == "mma 64x1;cublaslt 0;");
  CHECK(chosen(",cublaslt,hopper 2") == 2);
  CHECK(chosen("256") == 1);
  CHECK_THROWS_WITH(chosen("hopper,cublaslt"), Catch::Matchers::Contains("MANTISSA_TUNER_SKIP"));
  unsetenv("MANTISSA_TUNER_SKIP");
}

TEST_CASE("the fastest way is found without spoiling what products add to, and wrong ones are left out") {
  if (!cuda_is_available()) {
    WARN("no GPU and no shim: skipped");
    return;
  }
  for (const bool adds : {false, true}) {
    const Tensor c = full({5, 7}, 3.0, {.device = cuda});
    int runs = 0;
    const auto way = [&](const char* name, double value, bool applies = true) {
      return cuda_backend::Way{name, [&, value, applies] {
                                 Tensor to = c;
                                 if (applies) ++runs, adds ? to.add_(full({}, value)) : to.fill_(value);
                                 return applies;
                               }};
    };
    const std::vector<cuda_backend::Way> ways{way("absent", 9, false), way("30 first", 1), way("10 wrong", 2),
                                              way("20 right", 1), way("10 absent", 9, false)};
    const View result = c.view();
    const auto time_of = [&](const cuda_backend::Way& w) {
      for (int i = 0; i < 5; ++i) w.run();
      return static_cast<float>(std::stod(w.name));
    };
    CHECK(cuda_backend::find_fastest("a planted mistake", ways, {std::span(&result, 1), adds}, time_of).way == 3);
    CHECK(c.to(cpu).to_vector<float>() == std::vector<float>(35, adds ? 4.0f : 1.0f));
    CHECK(runs == 1 + 5 + 1 + 1 + 5 + 1);
  }
}

TEST_CASE("a way that throws is left out, and a first one that throws is an error") {
  if (!cuda_is_available()) {
    WARN("no GPU and no shim: skipped");
    return;
  }
  const Tensor c = zeros({5, 7}, {.device = cuda});
  const auto way = [&](const char* name, int throws_at) {
    return cuda_backend::Way{name, [&c, throws_at, runs = std::make_shared<int>(0)] {
                               Tensor(c).fill_(++*runs == throws_at ? 7.0 : 1.0);
                               check(*runs != throws_at, "no memory for this plan");
                               return true;
                             }};
  };
  const View result = c.view();
  const auto time_of = [&](const cuda_backend::Way& w) {
    w.run();
    return static_cast<float>(std::stod(w.name));
  };
  const auto fastest = [&](const std::vector<cuda_backend::Way>& ways) {
    return cuda_backend::find_fastest("a planted refusal", ways, {std::span(&result, 1)}, time_of).way;
  };
  CHECK(fastest({way("30", 0), way("10", 1), way("15", 2), way("20", 0), way("5", 1)}) == 3);
  CHECK(c.to(cpu).to_vector<float>() == std::vector<float>(35, 1.0f));
  CHECK_THROWS_WITH(fastest({way("30", 1), way("10", 0)}), Catch::Matchers::Contains("no memory for this plan"));
}

TEST_CASE("memory that runs out half way is no error, does not add twice, and is not remembered") {
  if (!cuda_is_available()) {
    WARN("no GPU and no shim: skipped");
    return;
  }
  const Tensor c = full({5, 7}, 3.0, {.device = cuda});
  const View result = c.view();
  const auto way = [&](const char* name, int fails_at) {  // adds, and then has no memory in its run of this number
    return cuda_backend::Way{name, [&c, fails_at, runs = std::make_shared<int>(0)] {
                               Tensor(c).add_(full({}, 1.0));
                               if (++*runs == fails_at) throw OutOfMemory("a planted lack of memory");
                               return true;
                             }};
  };
  const auto time_of = [&](const cuda_backend::Way& w) {
    w.run();
    return static_cast<float>(std::stod(w.name));
  };
  struct Case {
    int first, second;  // where they fail
    std::size_t expected;
  };
  for (const auto& [first, second, expected] : {Case{1, 0, 0}, Case{2, 0, 0}, Case{0, 1, 0}, Case{0, 2, 0}}) {
    Tensor(c).fill_(3);
    const std::vector<cuda_backend::Way> ways{way("30", first), way("10", second)};
    const auto found = cuda_backend::find_fastest("scarce memory", ways, {std::span(&result, 1), true}, time_of);
    CHECK(found.way == expected);
    CHECK_FALSE(found.measured);
    CHECK(c.to(cpu).to_vector<float>() == std::vector<float>(35, 4.0f));
  }
}

TEST_CASE("the device is kept busy for as long as was asked for") {
  if (!cuda_is_available()) {
    WARN("no GPU and no shim: skipped");
    return;
  }
  synchronize(cuda);
  const auto begin = std::chrono::steady_clock::now();
  cuda_backend::keep_busy(std::chrono::milliseconds(20));
  synchronize(cuda);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(19));
}

TEST_CASE("ways that round to halves agree with those that do not, where they may") {
  if (!cuda_is_available()) {
    WARN("no GPU and no shim: skipped");
    return;
  }
  const Tensor a = randn({1000}).to(cuda), b = a.to(bf16).to(f32);
  CHECK_FALSE(cuda_backend::agree(a.view(), b.view()));
  CHECK(cuda_backend::agree(a.view(), b.view(), bf16));
}
