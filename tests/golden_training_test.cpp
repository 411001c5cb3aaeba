// The losses of the first 20 training steps match PyTorch: a convolutional network, a transformer and an LSTM with the
// same weights, batches and optimizers as in tests/golden/losses.py, in f64 to 1e-9 and in f32 to 2e-4.
#include "mantissa.h"
#include "tests/golden/golden.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

struct Cnn {
  nn::Conv2d conv1{1, 4, 3, {.padding = 1}};
  nn::BatchNorm2d bn{4};
  nn::Conv2d conv2{4, 8, 3, {.stride = 2, .groups = 2}};
  nn::Linear fc{8, 5};
  MANTISSA_FIELDS(conv1, bn, conv2, fc)

  Tensor operator()(Tensor x) const {
    x = max_pool2d(relu(bn(conv1(x))), 2);
    return fc(flatten(adaptive_avg_pool2d(silu(conv2(x)), {1, 1}), 1));
  }
  Tensor loss(const Tensor& x, const Tensor& y) const { return cross_entropy((*this)(x), y, {.label_smoothing = 0.1}); }
};

struct Transformer {
  nn::Embedding token{11, 16}, position{9, 16};
  nn::TransformerEncoder blocks{nn::TransformerEncoderLayer(16, 4,
                                                            {.dim_feedforward = 32,
                                                             .dropout = 0,
                                                             .activation = nn::FeedForward::gelu,
                                                             .batch_first = true,
                                                             .norm_first = true}),
                                2};
  nn::LayerNorm norm{16};
  nn::Linear head{16, 11, {.bias = false}};
  MANTISSA_FIELDS(token, position, blocks, norm, head)

  Tensor operator()(const Tensor& x) const {
    const Tensor h = token(x) + position(arange(x.size(1)));
    return head(norm(blocks(h, {.is_causal = true})));
  }
  Tensor loss(const Tensor& x, const Tensor& y) const { return cross_entropy(flatten((*this)(x), 0, 1), flatten(y)); }
};

struct Lstm {
  nn::Embedding token{11, 6};
  nn::LSTM lstm{6, 10, {.num_layers = 2, .batch_first = true}};
  nn::Linear head{10, 11};
  MANTISSA_FIELDS(token, lstm, head)

  Tensor operator()(const Tensor& x) const { return head(lstm(token(x)).output); }
  Tensor loss(const Tensor& x, const Tensor& y) const { return cross_entropy(transpose((*this)(x), 1, 2), y); }
};

template <class Model, class Optimizer, class Options>
void check_losses(const std::string& name, const Options& options) {
  const Golden golden("losses");
  for (Dtype dtype : {f64, f32}) {
    INFO(name << " in " << name_of(dtype));
    Model model;
    nn::to(model, dtype);
    NamedTensors state;
    for (const auto& [key, tensor] : golden.below(name + "/state/")) state.emplace_back(key, tensor);
    nn::load_state_dict(model, state);
    Optimizer optimizer(nn::parameters(model), options);
    const Tensor x = golden.input(name + "/x", dtype), y = golden.find(name + "/y"),
                 expected = golden.find(name + "/losses");
    std::vector<double> losses;
    for (std::int64_t step = 0; step < expected.numel(); ++step) {
      const Tensor loss = model.loss(x[step % x.size(0)], y[step % x.size(0)]);
      optimizer.zero_grad();
      backward(loss);
      optimizer.step();
      losses.push_back(loss.item<double>());
    }
    CHECK(losses.size() == 20);
    CHECK(losses.back() < losses.front());
    CHECK(golden_difference(from_data<double>(losses, {20}).to(dtype), expected, dtype) == "");
  }
}

}  // namespace

TEST_CASE("a convolutional network trains as in PyTorch") {
  check_losses<Cnn, optim::Sgd>("cnn", optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3});
}
TEST_CASE("a transformer trains as in PyTorch") {
  check_losses<Transformer, optim::AdamW>("transformer", optim::AdamWOptions{.lr = 3e-3});
}
TEST_CASE("an LSTM trains as in PyTorch") { check_losses<Lstm, optim::Adam>("lstm", optim::AdamOptions{.lr = 1e-2}); }
