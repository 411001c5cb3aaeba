// Functions that modify or read a whole module: parametrizations, parameters as a vector, fusion of batch norms,
// running statistics for averaged weights. Weight and spectral norm are compared with PyTorch in
// golden_modules_test.cpp.
#include <cmath>

#include "autograd/backward.h"
#include "autograd/gradcheck.h"
#include "core/random.h"
#include "nn/fuse.h"
#include "nn/parameter_vector.h"
#include "nn/sequential.h"
#include "nn/shape.h"
#include "nn/spectral_norm.h"
#include "nn/update_bn.h"
#include "nn/weight_norm.h"
#include "optim/ema.h"
#include "optim/sgd.h"
#include "tests/devices.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

constexpr Tolerance close_to{1e-5, 1e-5};

std::vector<std::string> names_of(const NamedTensors& named) {
  std::vector<std::string> names;
  for (const auto& entry : named) names.push_back(entry.first);
  return names;
}
using Names = std::vector<std::string>;

// A user-defined parametrization.
struct Symmetric {
  explicit Symmetric(const Tensor& weight) : original(weight) {}
  nn::Param original;
  MANTISSA_FIELDS(original)
  Tensor operator()() const { return triu(original) + transpose(triu(original, 1)); }
  Symmetric clone() const { return Symmetric(original.detach().clone()); }
};

struct Net {
  nn::Parametrized<nn::Conv2d, nn::SpectralNorm> conv{nn::Conv2d(3, 4, 3)};
  nn::Parametrized<nn::Linear, nn::WeightNorm> out{nn::Linear(4, 2)};
  MANTISSA_FIELDS(conv, out)
  Tensor operator()(const Tensor& x) const { return out(mean(conv(x), {2, 3})); }
};

}  // namespace

TEST_CASE("a parametrized layer computes what the layer did, and names and trains what the weight is made of") {
  for (const Device device : devices()) {
    manual_seed(1);
    nn::Linear plain(3, 4);
    auto normed = nn::weight_norm(plain.clone());
    nn::to(plain, device);
    nn::to(normed, device);
    const Tensor x = randn({5, 3}).to(device);
    CHECK(difference(normed(x), plain(x), close_to) == "");  // g starts as |v|
    CHECK(names_of(nn::named_parameters(normed)) ==
          Names{"bias", "parametrizations.weight.original0", "parametrizations.weight.original1"});
    CHECK(nn::count(normed) == 4 + 4 + 12);
    optim::SGD opt(nn::parameters(normed), {.lr = 0.1});
    sum(square(normed(x))).backward();
    opt.step();
    CHECK(difference(normed(x), plain(x), close_to) != "");
    const Tensor sizes = norm(normed.weight(), 2, {1}, true);
    CHECK(difference(sizes, abs(normed.parametrization().original0), close_to) == "");  // the rows have norm |g|
    const nn::Linear removed = normed.remove();
    CHECK(equal(removed(x), normed(x)));
    CHECK(removed.weight.is_leaf());
    CHECK(names_of(nn::named_parameters(removed)) == Names{"weight", "bias"});
  }
}

TEST_CASE("spectral norm divides by the largest singular value, and keeps its vectors in evaluation") {
  for (const Device device : devices()) {
    manual_seed(2);
    auto layer = nn::spectral_norm(nn::Linear(6, 4), {.n_power_iterations = 20});
    nn::to(layer, device);
    const Tensor x = randn({3, 6}).to(device);
    for (int i = 0; i < 5; ++i) layer(x);
    const Tensor w = layer.weight().detach();  // its largest singular value is 1, reached for v
    const Tensor v = layer.parametrization().v;
    CHECK(std::abs(norm(mv(w, v)).item<double>() - 1) < 1e-3);
    nn::eval(layer);
    const Tensor kept = v.clone();
    const Tensor y = layer(x);
    CHECK(equal(layer(x), y));
    CHECK(equal(kept, v));
    CHECK(equal(layer.remove()(x), y));
    nn::train(layer);
    const Tensor both = layer(x) - layer(x + 1.0);  // GANs differentiate through two calls
    sum(both).backward();
    CHECK(nn::named_parameters(layer)[1].second.grad().defined());
    CHECK(names_of(nn::named_buffers(layer)) == Names{"parametrizations.weight.0._u", "parametrizations.weight.0._v"});
  }
}

TEST_CASE("parametrized layers stand in nets: paths, state, clones, Sequential, second derivatives") {
  manual_seed(3);
  Net net;
  CHECK(names_of(nn::state_dict(net)) == Names{"conv.bias", "conv.parametrizations.weight.original",
                                               "conv.parametrizations.weight.0._u", "conv.parametrizations.weight.0._v",
                                               "out.bias", "out.parametrizations.weight.original0",
                                               "out.parametrizations.weight.original1"});
  nn::eval(net);
  const Tensor x = randn({2, 3, 5, 5});
  Net copy = nn::clone(net);
  CHECK(equal(copy(x), net(x)));
  Net other;
  nn::eval(other);
  nn::load_state_dict(other, nn::state_dict(net));
  CHECK(equal(other(x), net(x)));
  nn::Sequential body{nn::weight_norm(nn::Conv2d(3, 4, 3)), relu, nn::Flatten{}};
  CHECK(body(x).sizes() == Dims{2, 36});
  CHECK(nn::named_parameters(body)[0].first == "0.bias");
  CHECK(nn::named_parameters(nn::clone(body)).size() == 3);

  auto layer = nn::weight_norm(nn::Linear(2, 3));
  nn::to(layer, f64);
  Tensor in = randn({4, 2}, {.dtype = f64}).requires_grad_();
  gradgradcheck([&](const std::vector<Tensor>& t) { return tanh(layer(t[0])); }, {in});

  nn::Parametrized<nn::Linear, Symmetric> hidden{nn::Linear(3, 3)};
  CHECK(equal(hidden.weight(), transpose(hidden.weight())));
  CHECK(nn::named_parameters(hidden)[1].first == "parametrizations.weight.original");
  CHECK(nn::named_parameters(nn::clone(hidden)).size() == 2);
}

TEST_CASE("parametrizations refuse what they cannot do") {
  CHECK_THAT(message_of([] { nn::weight_norm(nn::Linear(3, 4), {.dim = 2}); }),
             Contains("WeightNorm: dim 2 is out of range for f32[4, 3]"));
  CHECK_THAT(message_of([] { nn::spectral_norm(nn::Linear(3, 4), {.n_power_iterations = 0}); }),
             Contains("n_power_iterations must be positive"));
  CHECK_THAT(message_of([] { nn::spectral_norm(nn::Linear(3, 4), {.dim = 5}); }),
             Contains("SpectralNorm: dim 5 is out of range"));
  CHECK_THAT(message_of([] {
               nn::Linear moved(3, 4);
               const nn::Linear other = std::move(moved);
               nn::weight_norm(std::move(moved));
             }),
             Contains("the layer has no weight"));
}

TEST_CASE("parameters as a vector and back") {
  for (const Device device : devices()) {
    nn::Linear layer(2, 3);
    nn::to(layer, device);
    const auto parameters = nn::parameters(layer);
    const Tensor point = nn::parameters_to_vector(parameters);
    CHECK(point.sizes() == Dims{9});
    CHECK(equal(point.slice(0, 6), layer.bias));
    CHECK(equal(grad(sum(point * point), {layer.weight})[0], 2.0 * layer.weight));
    nn::vector_to_parameters(point.detach() + 1.0, parameters);
    CHECK(equal(nn::parameters_to_vector(parameters), point.detach() + 1.0));
    CHECK_THAT(message_of([&] { nn::vector_to_parameters(zeros({8}), parameters); }),
               Contains("the parameters have 9 elements, the vector is f32[8]"));
  }
  CHECK_THAT(message_of([] { nn::parameters_to_vector({}); }), Contains("there are no parameters"));
}

TEST_CASE("a batch norm folded into the layer before it leaves the results alone") {
  for (const Device device : devices()) {
    manual_seed(4);
    const auto check_fused = [&](auto layer, auto bn, const Tensor& in) {
      nn::to(layer, device);
      nn::to(bn, device);
      const Tensor x = in.to(device);
      for (int i = 0; i < 3; ++i) bn(layer(x));
      bn.weight.detach().copy_(rand(bn.weight.sizes()));
      bn.bias.detach().copy_(rand(bn.bias.sizes()));
      nn::eval(bn);
      const Tensor expected = bn(layer(x));
      if constexpr (std::is_same_v<decltype(layer), nn::Linear>)
        CHECK(difference(nn::fuse_linear_bn_eval(layer, bn)(x), expected, close_to) == "");
      else CHECK(difference(nn::fuse_conv_bn_eval(layer, bn)(x), expected, close_to) == "");
    };
    const Tensor image = randn({2, 4, 6, 5});
    check_fused(nn::Conv2d(4, 6, 3), nn::BatchNorm2d(6), image);
    check_fused(nn::Conv2d(4, 6, 3, {.padding = 1, .groups = 2, .bias = false}), nn::BatchNorm2d(6), image);
    check_fused(nn::ConvTranspose2d(4, 6, 3, {.stride = 2}), nn::BatchNorm2d(6), image);
    check_fused(nn::ConvTranspose2d(4, 6, 3, {.groups = 2}), nn::BatchNorm2d(6), image);
    check_fused(nn::Linear(4, 6), nn::BatchNorm1d(6), randn({7, 4}));
    check_fused(nn::Linear(4, 6, {.bias = false}), nn::BatchNorm1d(6), randn({7, 4}));
  }
  const nn::Conv2d conv(4, 6, 3);
  CHECK_THAT(message_of([&] { nn::fuse_conv_bn_eval(conv, nn::BatchNorm2d(6)); }),
             Contains("call nn::eval on it first"));
  nn::BatchNorm2d other(5), untracked(6, {.track_running_stats = false});
  nn::eval(other);
  nn::eval(untracked);
  CHECK_THAT(message_of([&] { nn::fuse_conv_bn_eval(conv, other); }),
             Contains("has 5 channels, the weight of the convolution is f32[6, 4, 3, 3]"));
  CHECK_THAT(message_of([&] { nn::fuse_conv_bn_eval(conv, untracked); }), Contains("no running statistics"));
}

TEST_CASE("update_bn gives batch norms the plain mean of one pass, and leaves modes and momenta as they were") {
  struct Normed {
    nn::Linear in{3, 4};
    nn::BatchNorm1d norm{4};
    MANTISSA_FIELDS(in, norm)
    Tensor operator()(const Tensor& x) const { return norm(in(x)); }
  };
  for (const Device device : devices()) {
    manual_seed(5);
    Normed net;
    nn::to(net, device);
    std::vector<Tensor> batches;
    for (int i = 0; i < 3; ++i) batches.push_back(randn({8, 3}).to(device));
    net(batches[0]);  // leaves statistics that do not count
    nn::eval(net);
    optim::Swa swa(nn::parameters(net));
    const auto scope = swa.applied();
    nn::update_bn(net, batches);
    Tensor mean_of = zeros({4}).to(device), var_of = zeros({4}).to(device);
    for (const Tensor& x : batches) {
      mean_of = mean_of + mean(net.in(x), {0}).detach() / 3.0;
      var_of = var_of + var(net.in(x), {0}).detach() / 3.0;
    }
    CHECK(difference(net.norm.running_mean, mean_of, close_to) == "");
    CHECK(difference(net.norm.running_var, var_of, close_to) == "");
    CHECK(net.norm.num_batches_tracked.item<int>() == 3);
    CHECK(net.norm.options.momentum == 0.1);
    CHECK(!net.norm.mode.training);
    CHECK(!net.in.weight.grad().defined());
    int runs = 0;
    nn::update_bn(net.in, batches, [&](const Tensor&) { ++runs; });  // nothing to update
    CHECK(runs == 0);
  }
}
