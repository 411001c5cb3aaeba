// A model's modules by type (nn/for_each.h), and calls with substituted parameters (nn/functional_call.h).
#include <string>
#include <vector>

#include "autograd/backward.h"
#include "nn/conv.h"
#include "nn/embedding.h"
#include "nn/for_each.h"
#include "nn/functional_call.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "nn/transformer.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

struct Block {
  nn::Linear up{4, 6};
  nn::BatchNorm1d norm{6};
  nn::Linear down{6, 4};
  MANTISSA_FIELDS(up, norm, down)
  Tensor operator()(const Tensor& x) const { return x + down(relu(norm(up(x)))); }
};
struct Net {
  nn::Sequential body{nn::Linear(3, 4), Block()};
  nn::BatchNorm1d norm{4};
  nn::Linear out{4, 2};
  MANTISSA_FIELDS(body, norm, out)
  Tensor operator()(const Tensor& x) const { return out(norm(body(x))); }
};
struct Tied {
  nn::Embedding token{5, 3};
  nn::Linear head{3, 5, {.bias = false}};
  MANTISSA_FIELDS(token, head)
  Tensor operator()(const Tensor& x) const { return head(token(x)); }
};

}  // namespace

TEST_CASE("for_each finds modules of a type wherever they stand, with their names", "[nn]") {
  Net net;
  std::vector<std::string> names;
  nn::for_each<nn::Linear>(net, [&](const std::string& name, nn::Linear&) { names.push_back(name); });
  CHECK(names == std::vector<std::string>{"body.0", "body.1.up", "body.1.down", "out"});
  names.clear();
  nn::for_each<Block, nn::BatchNorm1d>(net, [&](const std::string& name, auto&) { names.push_back(name); });
  CHECK(names == std::vector<std::string>{"body.1", "body.1.norm", "norm"});
  int nets = 0;
  nn::for_each<Net>(net, [&](const std::string& name, Net& found) { nets += name.empty() && &found == &net; });
  CHECK(nets == 1);
}

TEST_CASE("frozen batch norms: for_each changes the modes of some layers only", "[nn]") {
  Net net;
  nn::train(net);
  nn::for_each<nn::BatchNorm1d>(net, [](nn::BatchNorm1d& norm) { nn::eval(norm); });
  const Tensor before = net.norm.running_mean.clone();
  net(randn({8, 3}));
  CHECK(same_bits(before, net.norm.running_mean));
  nn::for_each<nn::Linear>(net, [](nn::Linear& layer) { nn::init::constant_(layer.weight, 0.5); });
  CHECK(same_bits(net.out.weight, full({2, 4}, 0.5)));
}

TEST_CASE("for_each may put another module in the place of one", "[nn]") {
  Net net;
  nn::for_each<nn::Linear>(net, [](const std::string& name, nn::Linear& layer) {
    if (name == "out") layer = nn::Linear(4, 7);
  });
  CHECK(net(randn({8, 3})).sizes() == Dims{8, 7});
}

TEST_CASE("functional_call computes with the given tensors and leaves the module as it was", "[nn]") {
  Net net;
  nn::eval(net);
  const Tensor x = randn({5, 3});
  const Tensor y = net(x);
  Net other = nn::clone(net);
  {
    const NoGrad no_grad;
    for (Tensor p : nn::parameters(other)) p.mul_(1.5);
  }
  CHECK(same_bits(nn::functional_call(net, nn::parameters(other), x), other(x)));
  CHECK(same_bits(net(x), y));

  const Tensor weight = randn({2, 4}), mean = randn({4});
  const Tensor some = nn::functional_call(net, {{"out.weight", weight}, {"norm.running_mean", mean}}, x);
  other = nn::clone(net);
  {
    const NoGrad no_grad;
    other.out.weight.copy_(weight);
    other.norm.running_mean.copy_(mean);
  }
  CHECK(same_bits(some, other(x)));
  CHECK(same_bits(net(x), y));
}

TEST_CASE("gradients flow through functional_call: a step inside, as MAML takes it", "[nn]") {
  nn::Linear net(3, 1);
  nn::to(net, f64);
  const Tensor x = cast(randn({6, 3}), f64), target = cast(randn({6, 1}), f64);
  const auto loss = [&](const std::vector<Tensor>& p) { return mse_loss(nn::functional_call(net, p, x), target); };
  const auto after_step = [&] {
    std::vector<Tensor> fast = nn::parameters(net);
    const auto gradients = grad(loss(fast), fast, {.create_graph = true});
    for (std::size_t i = 0; i < fast.size(); ++i) fast[i] = fast[i] - 0.1 * gradients[i];
    return loss(fast);
  };
  after_step().backward();
  const double h = 1e-6;
  for (std::int64_t i = 0; i < 3; ++i) {  // against differences
    double at[2];
    for (int side = 0; side < 2; ++side) {
      net.weight.data<double>()[i] += side ? -2 * h : h;
      at[side] = after_step().item<double>();
    }
    net.weight.data<double>()[i] += h;
    CHECK(net.weight.grad()[0][i].item<double>() == Approx((at[0] - at[1]) / (2 * h)).epsilon(1e-6));
  }
}

TEST_CASE("a tied parameter is replaced under all its names", "[nn]") {
  Tied net;
  nn::tie(net.head.weight, net.token.weight);
  const Tensor w = randn({5, 3}), x = arange(5);
  const Tensor expected = linear(embedding(w, x), w);
  CHECK(same_bits(nn::functional_call(net, {w}, x), expected));
  CHECK(same_bits(nn::functional_call(net, {{"head.weight", w}}, x), expected));
  CHECK_THROWS_WITH(nn::functional_call(net, {{"head.weight", w}, {"token.weight", w}}, x), Contains("given twice"));
}

TEST_CASE("functional_call says what does not fit, and an exception restores the module", "[nn]") {
  nn::Linear net(3, 2);
  const Tensor own = net.weight, x = randn({4, 3});
  CHECK_THROWS_WITH(nn::functional_call(net, std::vector<Tensor>{randn({2, 3})}, x),
                    Contains("has 2 parameters, 1 tensors were given"));
  CHECK_THROWS_WITH(nn::functional_call(net, {{"weigth", randn({2, 3})}}, x),
                    Contains("no parameter or buffer \"weigth\""));
  CHECK_THROWS_WITH(nn::functional_call(net, {{"weight", randn({3, 2})}}, x), Contains("\"weight\" has shape [2, 3]"));
  CHECK_THROWS_WITH(nn::functional_call(net, {{"weight", Tensor()}}, x), Contains("undefined"));
  CHECK_THROWS_WITH(nn::functional_call(net, {{"wieght", net.weight}}, x),
                    Contains("no parameter or buffer \"wieght\" (did you mean \"weight\"?)"));
  CHECK_THROWS_WITH(nn::functional_call(net, {{"temperature", net.weight}}, x), !Contains("did you mean"));
  CHECK_THROWS(nn::functional_call(net, {{"weight", randn({2, 3})}}, randn({4, 5})));
  CHECK(net.weight.is_same(own));
}

TEST_CASE("a transformer's activation is a name, a function or one of FeedForward", "[nn]") {
  const Tensor x = randn({2, 3, 8});
  const auto result = [&](nn::FeedForwardActivation activation) {
    manual_seed(3);
    return nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 16, .dropout = 0, .activation = activation})(x);
  };
  CHECK(same_bits(result("gelu"), result(nn::FeedForward::gelu)));
  CHECK(same_bits(result(std::string("relu")), result(nn::FeedForward::relu)));
  CHECK(same_bits(result(Activation::gelu), result("gelu")));
  CHECK(difference(result(Activation::gelu_tanh), cast(result([](const Tensor& y) { return gelu(y, "tanh"); }), f64),
                   {1e-5, 1e-6}) == "");
  CHECK_THROWS_WITH(result(Activation::none), Contains("gelu_tanh, got none"));
  CHECK(difference(result(silu), cast(result([](const Tensor& y) { return y * sigmoid(y); }), f64), {1e-5, 1e-6}) ==
        "");
  CHECK_THROWS_WITH(result("swish"), Contains("\"relu\", \"gelu\" or a function, got \"swish\""));
  CHECK(nn::Transformer(8, 2, 1, 2, {.dim_feedforward = 16}).decoder.layers.size() == 2);
  CHECK(nn::Transformer(8, 2, {.num_encoder_layers = 3}).encoder.layers.size() == 3);
}
