// Mixed precision end to end: accumulation dtypes of products, and that training in f16 with the scaler and in bf16
// reaches the same result as f32, on a problem whose gradients underflow in f16. Next: tests/amp_test.cpp.
#include <cmath>
#include <optional>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "core/ops.h"
#include "nn/functions.h"
#include "nn/rnn.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

Tensor normal(const Dims& sizes, std::uint64_t stream) {  // about N(0, 1): the sum of twelve uniform numbers
  Tensor t = zeros(sizes, {.dtype = f64});
  for (std::uint64_t k = 0; k < 12; ++k) t.add_(random_tensor(sizes, 100 * stream + k, -0.5, 0.5));
  return t;
}

struct Run {
  std::optional<Dtype> region;  // absent: f32
  bool scaler = false;
};
// The final loss of a small regression whose loss, and so every gradient, is scaled down by a million.
double final_loss(const Run& run, std::uint64_t seed) {
  constexpr double tiny = 1e-6;
  const Tensor x = normal({32, 8}, 10 * seed).to(f32), y = normal({32, 4}, 10 * seed + 1).to(f32);
  Tensor w1 = (normal({16, 8}, 10 * seed + 2) * 0.3).to(f32).requires_grad_();
  Tensor w2 = (normal({4, 16}, 10 * seed + 3) * 0.3).to(f32).requires_grad_();
  optim::Sgd opt({w1, w2}, {.lr = 0.2 / tiny});
  amp::GradScaler scaler({.enabled = run.scaler});
  double last = 0;
  for (int step = 0; step < 200; ++step) {
    opt.zero_grad();
    const Tensor loss =
        amp::autocast(run.region.value_or(f32), [&] { return mse_loss(linear(tanh(linear(x, w1)), w2), y); });
    last = loss.item<double>();
    backward(scaler.scale(loss * tiny));
    scaler.step(opt);
    scaler.update();
  }
  return last;
}

}  // namespace

TEST_CASE("A51: products of halves accumulate in f32", "[amp][A51]") {
  MANTISSA_PRINT_SEED();
  constexpr std::int64_t k = 4096;
  for (Dtype low : {f16, bf16}) {
    const Tensor a = normal({9, k}, 1).to(low), b = normal({k, 7}, 2).to(low);
    const Tensor expected = matmul(a.to(f64), b.to(f64)), sizes = matmul(abs(a.to(f64)), abs(b.to(f64)));
    const auto got = matmul(a, b).to_vector<double>(), want = expected.to_vector<double>(),
               size = sizes.to_vector<double>();
    const double rounding = low == f16 ? 0x1p-11 : 0x1p-8;
    for (std::size_t i = 0; i < got.size(); ++i) {
      REQUIRE(std::abs(got[i] - want[i]) <=
              1.01 * rounding * std::abs(want[i]) + 4 * std::sqrt(double(k)) * 0x1p-24 * size[i]);
    }
    CHECK(matmul(ones({1, k}, {.dtype = low}), ones({k, 1}, {.dtype = low})).item() == 4096);
  }
}

TEST_CASE("A52: f16 with the scaler and bf16 end where f32 does; f16 without it does not train", "[amp][scaler][A52]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const double wide = final_loss({}, seed);
    const double scaled = final_loss({.region = f16, .scaler = true}, seed);
    const double unscaled = final_loss({.region = f16}, seed);
    const double bf = final_loss({.region = bf16}, seed);
    INFO("seed " << seed << ": f32 " << wide << ", f16 with scaler " << scaled << ", without " << unscaled << ", bf16 "
                 << bf);
    CHECK(std::abs(scaled - wide) <= 0.02 * wide);
    CHECK(std::abs(bf - wide) <= 0.05 * wide);
    CHECK(unscaled > 1.3 * wide);
  }
}

TEST_CASE("A28: recurrent layers in a region equal layers held in half precision, and their gradients are f32",
          "[amp][A28]") {
  MANTISSA_PRINT_SEED();
  const auto check = [](auto net, Dtype low) {
    const Tensor x = normal({5, 3, 6}, 7).to(low);
    auto control = net.clone();
    nn::to(control, low);
    const Tensor y = amp::autocast(low, [&] { return net(x).output; });
    REQUIRE(same_bits(y, control(x).output));
    backward(y, ones_like(y));
    for (const Tensor& p : nn::parameters(net)) REQUIRE(p.grad().dtype() == f32);
  };
  for (Dtype low : {f16, bf16}) {
    for (int bits = 0; bits < 16; ++bits) {
      const nn::RNNOptions o{.num_layers = bits & 1 ? 2 : 1, .bias = (bits & 2) != 0, .batch_first = (bits & 4) != 0,
                             .bidirectional = (bits & 8) != 0};
      check(nn::RNN(6, 4, o), low);
      check(nn::LSTM(6, 4, o), low);
      check(nn::GRU(6, 4, o), low);
    }
  }
}
