// Random numbers: the published test vectors of Philox, independence of threads, distributions.
#include "core/random.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "autograd/backward.h"
#include "autograd/checkpoint.h"
#include "core/error.h"
#include "core/operators.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "tests/testing.h"

using namespace mantissa;
using test::message_of;
using Catch::Matchers::Contains;

TEST_CASE("Philox 4x32-10 gives the known answers of its authors") {
  const auto zero = Philox{0}(0, 0);
  CHECK(zero.v[0] == 0x6627e8d5u);
  CHECK(zero.v[1] == 0xe169c58du);
  CHECK(zero.v[2] == 0xbc57ac4cu);
  CHECK(zero.v[3] == 0x9b00dbd8u);
  const auto ones = Philox{~std::uint64_t{0}}(~std::uint64_t{0}, ~std::uint64_t{0});
  CHECK(ones.v[0] == 0x408f276du);
  CHECK(ones.v[1] == 0x41c83b0eu);
  CHECK(ones.v[2] == 0xa20bc7c6u);
  CHECK(ones.v[3] == 0x6d5451fdu);
  const auto pi = Philox{0x299f31d0a4093822ull}(0x85a308d3243f6a88ull, 0x0370734413198a2eull);
  CHECK(pi.v[0] == 0xd16cfe09u);
  CHECK(pi.v[1] == 0x94fdccebu);
  CHECK(pi.v[2] == 0x5001e420u);
  CHECK(pi.v[3] == 0x24126ea1u);
}

TEST_CASE("the same seed gives the same numbers, whatever the number of threads") {
  const int before = num_threads();
  std::vector<Tensor> draws;
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    manual_seed(42);
    draws.push_back(randn({100003}));
    draws.push_back(rand({70001}, {.dtype = f64}));
    draws.push_back(dropout(ones({50001}), 0.3));
  }
  set_num_threads(before);
  for (std::size_t i = 3; i < draws.size(); ++i) CHECK(test::same_bits(draws[i], draws[i % 3]));
  manual_seed(43);
  CHECK_FALSE(test::same_bits(randn({100003}), draws[0]));
}

TEST_CASE("the state of the generator can be put back") {
  manual_seed(7);
  randn({5});
  const RngState at = rng_state();
  const Tensor a = randn({9});
  const Tensor b = randn({9});
  CHECK_FALSE(test::same_bits(a, b));
  set_rng_state(at);
  CHECK(test::same_bits(randn({9}), a));
}

TEST_CASE("a scope's draws come from its stream, as manual_seed's would, and leave the default generator alone") {
  manual_seed(42);
  const Tensor a = randn({9}), order = randperm(20), dropped = dropout(ones({50}), 0.5, true);
  manual_seed(7);
  const RngState before = rng_state();
  RngState stream{.seed = 42};
  {
    const RandomScope scope(stream);
    CHECK(test::same_bits(randn({9}), a));
    {
      RngState inner = rng_state();  // as fork_rng
      const RandomScope fork(inner);
      CHECK(test::same_bits(randperm(20), order));
    }
    CHECK(test::same_bits(randperm(20), order));
    CHECK(test::same_bits(dropout(ones({50}), 0.5, true), dropped));
    CHECK(rng_state() == stream);
    manual_seed(3);  // of the scope's stream
  }
  CHECK(stream == RngState{3, 0});
  CHECK(rng_state() == before);
}

TEST_CASE("threads with streams of their own draw what each would alone") {
  const auto draw = [](std::uint64_t seed) {
    RngState stream{.seed = seed};
    const RandomScope scope(stream);
    const Tensor x = rand({64}, {.requires_grad = true});
    Tensor y = x;
    for (int i = 0; i < 20; ++i) y = checkpoint([](const Tensor& t) { return dropout(t, 0.1, true) * 1.1; }, y);
    backward(sum(y));
    return x.grad().clone();
  };
  std::vector<Tensor> alone, together(4);
  for (std::uint64_t t = 0; t < 4; ++t) alone.push_back(draw(t));
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) threads.emplace_back([&, t] { together[t] = draw(t); });
  threads.clear();
  for (std::size_t t = 0; t < 4; ++t) CHECK(test::same_bits(together[t], alone[t]));
}

TEST_CASE("draws have the moments and ranges they should") {
  MANTISSA_PRINT_SEED();
  manual_seed(test::seed());
  constexpr std::int64_t n = 200000;  // means below are accepted within five standard errors
  const double root = std::sqrt(static_cast<double>(n));
  const Tensor u = rand({n}, {.dtype = f64}), z = randn({n}, {.dtype = f64});
  const std::vector<double> uv = u.to_vector<double>();
  CHECK(*std::min_element(uv.begin(), uv.end()) >= 0);
  CHECK(*std::max_element(uv.begin(), uv.end()) < 1);
  CHECK(std::abs(mean(u).item<double>() - 0.5) < 5 * 0.2887 / root);
  const auto odd = std::count_if(uv.begin(), uv.end(), [](double v) { return std::fmod(v * 0x1p53, 2) == 1; });
  CHECK(std::abs(static_cast<double>(odd) / static_cast<double>(n) - 0.5) < 5 * 0.5 / root);  // the last of 53 bits
  CHECK(std::abs(mean(z).item<double>()) < 5 / root);
  CHECK(std::abs(mean(square(z)).item<double>() - 1) < 5 * 1.4143 / root);
  const std::vector<std::int64_t> k = randint(-2, 3, {n}).to_vector<std::int64_t>();
  for (std::int64_t value = -2; value < 3; ++value) {
    const auto hits = static_cast<double>(std::count(k.begin(), k.end(), value));
    CHECK(std::abs(hits / static_cast<double>(n) - 0.2) < 5 * 0.4 / root);
  }
  CHECK(*std::max_element(k.begin(), k.end()) == 2);
  for (Dtype d : {f16, bf16}) {  // rounding to a half must not reach 1
    const std::vector<float> h = rand({n}, {.dtype = d}).to_vector<float>();
    CHECK(*std::max_element(h.begin(), h.end()) < 1);
  }
}

TEST_CASE("randperm holds every number once") {
  manual_seed(1);
  std::vector<std::int64_t> p = randperm(1000).to_vector<std::int64_t>();
  CHECK_FALSE(std::is_sorted(p.begin(), p.end()));
  std::sort(p.begin(), p.end());
  for (std::int64_t i = 0; i < 1000; ++i) CHECK(p[static_cast<std::size_t>(i)] == i);
  CHECK(randperm(0).numel() == 0);
}

TEST_CASE("bad ranges are errors") {
  CHECK_THAT(message_of([] { randint(3, 3, {2}); }), Contains("low 3 is not below high 3"));
  CHECK_THAT(message_of([] { randperm(-1); }), Contains("n must be"));
  CHECK_THAT(message_of([] { randn({2}, {.dtype = i64}); }), Contains("must be floating, got i64"));
  CHECK_THAT(message_of([] { randint(INT64_MIN, INT64_MAX, {2}); }), Contains("more than 2^63 - 1 values"));
}

TEST_CASE("randint takes integer and floating dtypes, and whole 32-bit ranges") {
  manual_seed(7);
  const std::int64_t n = 20000;
  for (Dtype d : {i64, i32, u8, f64, f32, f16}) {
    const Tensor t = randint(3, 9, {n}, {.dtype = d});
    CHECK(t.dtype() == d);
    CHECK(unique(t).values.to_vector<int>() == std::vector<int>{3, 4, 5, 6, 7, 8});
  }
  const std::vector<std::int64_t> wide = randint(INT32_MIN, INT32_MAX, {n}, {.dtype = i32}).to_vector<std::int64_t>();
  CHECK(std::any_of(wide.begin(), wide.end(), [](std::int64_t v) { return v % 2 != 0; }));  // no float in between
  CHECK_THAT(message_of([] { randint(0, 300, {2}, {.dtype = u8}); }), Contains("u8 holds 0 to 255, not [0, 300)"));
}

TEST_CASE("randint of ranges that a double does not hold") {
  manual_seed(9);
  const std::int64_t n = 20000, far = (std::int64_t{1} << 60) + 1, range = std::int64_t{3} << 60;
  CHECK(unique(randint(far, far + 3, {n})).values.to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{far, far + 1, far + 2});
  CHECK(unique(randint(-far, -far + 2, {n})).values.to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{-far, -far + 1});
  const std::vector<std::int64_t> v = randint(-range / 2, range / 2, {n}).to_vector<std::int64_t>();
  const auto share = [&](auto&& f) { return static_cast<double>(std::count_if(v.begin(), v.end(), f)) / n; };
  const double noise = 5 * 0.5 / std::sqrt(static_cast<double>(n));
  CHECK(share([&](std::int64_t x) { return x >= -range / 2 && x < range / 2; }) == 1);
  CHECK(std::abs(share([](std::int64_t x) { return x < 0; }) - 0.5) < 0.2);  // division of 63 bits leaves more of some
  CHECK(std::abs(share([](std::int64_t x) { return x % 2 != 0; }) - 0.5) < noise);
}

TEST_CASE("bernoulli and normal follow their parameters") {
  manual_seed(8);
  const std::int64_t n = 40000;
  const Tensor p = tensor({0, 0.1, 0.7, 1});
  const std::vector<double> share = mean(bernoulli(expand(unsqueeze(p, 1), {4, n})), {1}).to_vector<double>();
  const double noise = 5 * 0.5 / std::sqrt(static_cast<double>(n));
  CHECK(share[0] == 0);
  CHECK(std::abs(share[1] - 0.1) < noise);
  CHECK(std::abs(share[2] - 0.7) < noise);
  CHECK(share[3] == 1);
  const Tensor x = normal(expand(reshape(tensor({-3.0, 5.0}), {2, 1}), {2, n}), reshape(tensor({0.5, 2.0}), {2, 1}));
  CHECK(std::abs(mean(x, {1})[1].item<double>() - 5) < 4 * noise);
  CHECK(std::abs(mantissa::std(x, {1})[0].item<double>() - 0.5) < noise);
  CHECK(normal(1, 2, {3}, {.dtype = f64}).dtype() == f64);
}

TEST_CASE("multinomial follows its weights, without replacement draw by draw") {
  manual_seed(9);
  const std::int64_t n = 30000;
  const Tensor w = tensor({1, 0, 3, 6}, {.dtype = f64});
  const double noise = 5 * 0.5 / std::sqrt(static_cast<double>(n));
  const std::vector<double> shares =
      (cast(bincount(multinomial(w, n, true), {}, 4), f64) / static_cast<double>(n)).to_vector<double>();
  for (int i = 0; i < 4; ++i) CHECK(std::abs(shares[static_cast<std::size_t>(i)] - w[i].item<double>() / 10) < noise);
  CHECK(shares[1] == 0);
  const std::vector<std::int64_t> draws = multinomial(expand(w, {n, 4}), 3).to_vector<std::int64_t>();
  double first = 0, second = 0, distinct = 0;
  for (std::size_t i = 0; i < draws.size(); i += 3) {
    distinct += draws[i] + draws[i + 1] + draws[i + 2] == 5;  // 0, 2 and 3, each once
    first += draws[i] == 3;
    second += draws[i] == 3 && draws[i + 1] == 2;
  }
  CHECK(distinct == static_cast<double>(n));
  CHECK(std::abs(first / static_cast<double>(n) - 0.6) < noise);
  CHECK(std::abs(second / static_cast<double>(n) - 0.6 * 0.75) < noise);
}
