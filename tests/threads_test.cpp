// Several threads that train separate models, and run inference with a shared one, at the same time.
#include <thread>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "core/random.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/functions.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/rnn.h"
#include "optim/clip.h"
#include "optim/adam.h"
#include "tests/testing.h"

using namespace mantissa;

namespace {

struct Net {
  nn::Conv2d conv{3, 8, 3, {.stride = 2}};
  nn::BatchNorm2d norm{8};
  nn::LSTM lstm{8 * 5, 12};
  nn::Dropout dropout{0.1};
  nn::Linear fc{12, 5};
  MANTISSA_FIELDS(conv, norm, lstm, dropout, fc)
  Tensor operator()(const Tensor& image) const {  // rows of the image one after another
    const Tensor x = permute(relu(norm(conv(image))), {0, 2, 1, 3});
    return fc(dropout(lstm(flatten(x, 2)).output.select(1, -1)));
  }
};

constexpr Dtype dtypes[] = {f32, bf16, f16};

// The result of a few training steps, with evaluations that pack weights in between.
std::vector<Tensor> train(std::size_t thread) {
  RngState stream{.seed = 40 + thread};
  const RandomScope scope(stream);
  Net net;
  optim::AdamW opt(nn::parameters(net), {.lr = 1e-2});
  amp::GradScaler scaler;
  const Tensor x = randn({6, 3, 11, 11}), y = randint(0, 5, {6});
  const auto outputs = [&] { return amp::autocast(dtypes[thread % 3], [&] { return net(x); }); };
  std::vector<Tensor> seen;
  for (int step = 0; step < 4; ++step) {
    nn::train(net);
    backward(scaler.scale(cross_entropy(outputs().to(f32), y)));
    scaler.unscale_(opt);
    optim::clip_grad_norm_(nn::parameters(net), 1.0);
    scaler.step(opt);
    scaler.update();
    opt.zero_grad();
    nn::eval(net);
    const InferenceMode inference;
    for (int i = 0; i < 2; ++i) seen.push_back(outputs());
  }
  for (const Tensor& p : nn::parameters(net)) seen.push_back(p.detach());
  return seen;
}

}  // namespace

TEST_CASE("threads that train nets of their own leave the bits that each would alone") {
  constexpr std::size_t n = 4;
  std::vector<std::vector<Tensor>> alone(n), together(n);
  for (std::size_t t = 0; t < n; ++t) alone[t] = train(t);
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < n; ++t) threads.emplace_back([&, t] { together[t] = train(t); });
  threads.clear();
  for (std::size_t t = 0; t < n; ++t) {
    INFO("thread " << t);
    REQUIRE(alone[t].size() == together[t].size());
    for (std::size_t i = 0; i < alone[t].size(); ++i) CHECK(test::same_bits(alone[t][i], together[t][i]));
  }
}

TEST_CASE("threads infer with one net, each in a dtype of its own") {
  manual_seed(test::seed());
  MANTISSA_PRINT_SEED();
  Net net;
  nn::eval(net);
  const Tensor x = randn({6, 3, 11, 11});
  const auto infer = [&](std::size_t t) {
    const InferenceMode inference;
    return amp::autocast(dtypes[t % 3], [&] { return net(x); });
  };
  std::vector<Tensor> alone, together(6);
  for (std::size_t t = 0; t < 6; ++t) alone.push_back(infer(t));
  for (int round = 0; round < 5; ++round) {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 6; ++t) threads.emplace_back([&, t] { together[t] = infer(t); });
    threads.clear();
    for (std::size_t t = 0; t < 6; ++t) CHECK(test::same_bits(together[t], alone[t]));
  }
}
