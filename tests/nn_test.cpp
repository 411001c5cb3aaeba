// Modules: the members that MANTISSA_FIELDS finds, names, initialization, moving, copying, saving.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "autograd/unlisted.h"
#include "io/safetensors.h"
#include "nn/activation.h"
#include "nn/clone.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/norm.h"
#include "nn/pool.h"
#include "nn/sequential.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/temp_dir.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

struct Net {
  nn::Conv2d conv1{1, 4, 3}, conv2{4, 6, 3};
  nn::BatchNorm2d norm{6};
  nn::Linear fc1{6 * 4, 8}, fc2{8, 3};
  nn::Dropout drop{.p = 0.5f};
  nn::ReLU act;
  MANTISSA_FIELDS(conv1, conv2, norm, fc1, fc2, drop, act)

  Tensor operator()(const Tensor& x) const {
    Tensor y = max_pool2d(act(norm(conv2(act(conv1(x))))), 2);
    return fc2(drop(act(fc1(flatten(y, 1)))));
  }
};

struct Block {
  nn::Linear a, b;
  explicit Block(int width) : a(width, width), b(width, width) {}
  MANTISSA_FIELDS(a, b)
  Tensor operator()(const Tensor& x) const { return x + b(relu(a(x))); }
  Block clone() const {
    Block c(1);
    c.a = a.clone();
    c.b = b.clone();
    return c;
  }
};
struct Containers {
  std::vector<nn::Linear> layers;
  std::array<nn::Linear, 2> pair{nn::Linear{1, 1}, nn::Linear{1, 1}};
  std::unique_ptr<nn::LayerNorm> norm;
  std::vector<Block> blocks;
  nn::Sequential body{nn::Linear{2, 2}, relu, nn::Sequential{nn::Linear{2, 2}},
                      [](const Tensor& x) { return x * 2.0; }};
  MANTISSA_FIELDS(layers, pair, norm, blocks, body)
};

struct WithOptional {
  nn::Linear first{2, 2};
  std::optional<Block> shortcut;
  MANTISSA_FIELDS(first, shortcut)
};
struct NoClone {  // a constructor and no clone() const
  explicit NoClone(int width) : a(width, width) {}
  nn::Linear a;
  MANTISSA_FIELDS(a)
  Tensor operator()(const Tensor& x) const { return a(x); }
};

// --- code that must not compile, tested without a compile error ---
struct ForgetsSubmodule {
  nn::Linear listed{1, 1}, forgotten{1, 1};
  MANTISSA_FIELDS(listed)
};
struct ForgetsParam {
  nn::Param weight;
  nn::Param bias;
  int size = 3;
  std::string name;
  MANTISSA_FIELDS(weight)
};
struct ForgetsBuffer {
  nn::Param weight;
  nn::Buffer mean;
  MANTISSA_FIELDS(weight)
};
struct ForgetsMode {
  double p = 0.5;
  nn::Mode mode = {};
  MANTISSA_FIELDS()
};
struct ForgetsVector {
  std::vector<nn::Linear> layers;
  nn::Linear last{1, 1};
  MANTISSA_FIELDS(last)
};
struct ForgetsOptional {
  std::optional<nn::Linear> maybe;
  nn::Linear last{1, 1};
  MANTISSA_FIELDS(last)
};
struct ForgetsShared {
  std::shared_ptr<nn::Linear> shared;
  nn::Linear last{1, 1};
  MANTISSA_FIELDS(last)
};
struct ForgetsLastOfMany {
  nn::Linear a{1, 1}, b{1, 1}, c{1, 1}, d{1, 1}, e{1, 1}, f{1, 1}, g{1, 1}, h{1, 1}, i{1, 1}, j{1, 1}, k{1, 1}, l{1, 1};
  MANTISSA_FIELDS(a, b, c, d, e, f, g, h, i, j, k)
};
class ForgetsBehindConstructor {  // not an aggregate: only a step of an optimizer can find out
 public:
  explicit ForgetsBehindConstructor(int width) : hidden{2, width} { heads.emplace_back(width, 3); }
  Tensor operator()(const Tensor& x) const { return heads[0](hidden(x)); }
  nn::Linear hidden;
  std::vector<nn::Linear> heads;
  MANTISSA_FIELDS(hidden)
};
static_assert(!nn::lists_all_members<ForgetsSubmodule>());
static_assert(!nn::lists_all_members<ForgetsParam>());
static_assert(!nn::lists_all_members<ForgetsBuffer>());
static_assert(!nn::lists_all_members<ForgetsMode>());
static_assert(!nn::lists_all_members<ForgetsVector>());
static_assert(!nn::lists_all_members<ForgetsLastOfMany>());
static_assert(!nn::lists_all_members<ForgetsOptional>() && !nn::lists_all_members<ForgetsShared>());
static_assert(nn::lists_all_members<WithOptional>() && nn::detail::is_cloneable<WithOptional>() &&
              !nn::detail::is_cloneable<NoClone>());
static_assert(nn::lists_all_members<Net>() && nn::lists_all_members<Containers>() &&
              nn::lists_all_members<nn::Dropout>());
static_assert(!std::is_copy_constructible_v<Net> && std::is_move_constructible_v<Net>);
static_assert(!std::is_copy_constructible_v<nn::Param>);

std::vector<std::string> names(const NamedTensors& named) {
  std::vector<std::string> list;
  for (const auto& entry : named) list.push_back(entry.first);
  return list;
}
using Names = std::vector<std::string>;

struct Moments {
  double mean, std, low, high;
};
Moments moments(const Tensor& t) {
  Moments m{0, 0, 1e30, -1e30};
  const std::vector<double> v = t.to_vector<double>();
  for (double x : v) {
    m.mean += x / static_cast<double>(v.size());
    m.low = std::min(m.low, x);
    m.high = std::max(m.high, x);
  }
  for (double x : v) m.std += (x - m.mean) * (x - m.mean) / static_cast<double>(v.size());
  m.std = std::sqrt(m.std);
  return m;
}
// Uniform in (-bound, bound): extremes within and near the bound, moments within 5 standard errors.
void check_uniform(const Tensor& t, double bound) {
  const Moments m = moments(t);
  const double n = static_cast<double>(t.numel()), std = bound / std::sqrt(3.0);
  CHECK(m.low >= -bound);
  CHECK(m.high <= bound);
  CHECK(m.high > bound * (1 - 20 / n));
  CHECK(m.low < -bound * (1 - 20 / n));
  CHECK(std::abs(m.mean) < 5 * std / std::sqrt(n));
  CHECK(std::abs(m.std - std) < 5 * std / std::sqrt(n));
}

}  // namespace

TEST_CASE("names are PyTorch's", "[nn]") {
  Net net;
  CHECK(names(nn::named_parameters(net)) == Names{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                                  "norm.weight", "norm.bias", "fc1.weight", "fc1.bias", "fc2.weight",
                                                  "fc2.bias"});
  CHECK(names(nn::named_buffers(net)) == Names{"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"});
  CHECK(nn::parameters(net).size() == 10);
  CHECK(nn::count(net) == 4 * 9 + 4 + 6 * 4 * 9 + 6 + 6 + 6 + 24 * 8 + 8 + 8 * 3 + 3);
}

TEST_CASE("parameters that train but are listed nowhere are found", "[nn]") {
  const Tensor x = ones({1, 2});
  {
    const ForgetsBehindConstructor net(4);
    optim::Sgd opt(nn::parameters(net), {.lr = 0.1});
    CHECK(autograd::unlisted_with_gradients().empty());  // without gradients they may be anything
    sum(net(x)).backward();
    const std::string shapes = autograd::unlisted_with_gradients();
    CHECK_THAT(shapes, Contains("[3, 4]") && Contains("[3]") && !Contains("[4, 2]"));
    nn::parameters(net.heads);
    CHECK(autograd::unlisted_with_gradients().empty());
  }
  {
    const ForgetsBehindConstructor net(4);
    const nn::Param alone(ones({3}));
    optim::Sgd opt({net.hidden.weight, net.hidden.bias, net.heads[0].weight, net.heads[0].bias, alone}, {.lr = 0.1});
    sum(net(x) * alone).backward();
    CHECK(autograd::unlisted_with_gradients().empty());  // an optimizer has them
  }
  {
    const ForgetsBehindConstructor net(4);
    sum(net(x)).backward();
    CHECK_FALSE(autograd::unlisted_with_gradients().empty());
  }
  CHECK(autograd::unlisted_with_gradients().empty());  // gone with their module
}

TEST_CASE("containers and nested modules are walked, absent members are not", "[nn]") {
  Containers c;
  CHECK(names(nn::named_parameters(c)) == Names{"pair.0.weight", "pair.0.bias", "pair.1.weight", "pair.1.bias",
                                                "body.0.weight", "body.0.bias", "body.2.0.weight", "body.2.0.bias"});
  c.layers.push_back(nn::Linear{2, 3, {.bias = false}});
  c.norm = std::make_unique<nn::LayerNorm>(4);
  c.blocks.emplace_back(2);
  const Names all = names(nn::state_dict(c));
  CHECK(all[0] == "layers.0.weight");
  CHECK(std::find(all.begin(), all.end(), "norm.weight") != all.end());
  CHECK(std::find(all.begin(), all.end(), "blocks.0.b.bias") != all.end());
  CHECK(std::find(all.begin(), all.end(), "layers.0.bias") == all.end());
}

TEST_CASE("default initialisation has PyTorch's distributions", "[nn]") {
  manual_seed(seed());
  MANTISSA_PRINT_SEED();
  const nn::Linear linear{400, 300};
  check_uniform(linear.weight, 1 / std::sqrt(400.0));
  check_uniform(nn::Linear(100, 5000).bias, 1 / std::sqrt(100.0));
  const nn::Conv2d conv{32, 128, {3, 5}, {.groups = 4}};
  CHECK(conv.weight.sizes() == Dims{128, 8, 3, 5});
  check_uniform(conv.weight, 1 / std::sqrt(8.0 * 15));
  const nn::Embedding embedding{500, 100};
  const Moments m = moments(embedding.weight);
  CHECK(std::abs(m.mean) < 5 / std::sqrt(50000.0));
  CHECK(std::abs(m.std - 1) < 5 / std::sqrt(2 * 50000.0));
  const nn::BatchNorm2d norm{5};
  CHECK(same_bits(norm.weight, ones({5})));
  CHECK(same_bits(norm.bias, zeros({5})));
  CHECK(same_bits(norm.running_var, ones({5})));
  const nn::LayerNorm layer_norm{Dims{2, 3}};
  CHECK(same_bits(layer_norm.weight, ones({2, 3})));
}

TEST_CASE("init functions follow torch.nn.init", "[nn]") {
  manual_seed(seed());
  MANTISSA_PRINT_SEED();
  using namespace nn::init;
  const Tensor t = empty({200, 50, 2, 2});
  CHECK(fans(t).in == 200);
  CHECK(fans(t).out == 800);
  xavier_uniform_(t, 2);
  check_uniform(t, 2 * std::sqrt(6.0 / 1000));
  kaiming_uniform_(t, 0, Fan::out, Nonlinearity::relu);
  check_uniform(t, std::sqrt(2.0) * std::sqrt(3.0 / 800));
  const double n = static_cast<double>(t.numel());
  const auto check_normal = [&](double std) {
    const Moments m = moments(t);
    CHECK(std::abs(m.mean) < 5 * std / std::sqrt(n));
    CHECK(std::abs(m.std / std - 1) < 5 / std::sqrt(2 * n));
  };
  xavier_normal_(t);
  check_normal(std::sqrt(2.0 / 1000));
  kaiming_normal_(t);
  check_normal(std::sqrt(2.0 / (1 + 0.0)) / std::sqrt(200.0));
  constant_(t, 3);
  CHECK(same_bits(t, full(t.sizes(), 3)));
  CHECK(gain(Nonlinearity::tanh) == Approx(5.0 / 3));
  CHECK_THAT(message_of([] { kaiming_uniform_(zeros({3})); }), Contains("at least 2 dimensions"));
}

TEST_CASE("the same seed gives the same network", "[nn]") {
  manual_seed(7);
  Net a;
  manual_seed(7);
  Net b;
  manual_seed(8);
  Net c;
  for (std::size_t i = 0; i < nn::parameters(a).size(); ++i)
    CHECK(same_bits(nn::parameters(a)[i], nn::parameters(b)[i]));
  CHECK(!same_bits(a.fc1.weight, c.fc1.weight));
}

TEST_CASE("layers compute what their functions do", "[nn]") {
  MANTISSA_PRINT_SEED();
  const Tensor x = random_tensor({2, 4, 8, 8}, 1).to(f32);
  const nn::Conv2d conv{4, 6, 3, {.stride = {2, 1}, .padding = 1, .groups = 2, .bias = false}};
  CHECK(same_bits(conv(x), conv2d(x, conv.weight, {}, {.stride = {2, 1}, .padding = {1, 1}, .groups = 2})));
  CHECK(!conv.bias.defined());
  CHECK(same_bits(nn::MaxPool2d{2}(x), max_pool2d(x, 2)));
  CHECK(same_bits(nn::AvgPool2d(3, {.stride = 2, .padding = 1})(x),
                  avg_pool2d(x, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}})));
  CHECK(nn::AdaptiveAvgPool2d{{2, 3}}(x).sizes() == Dims{2, 4, 2, 3});
  CHECK(nn::Flatten{}(x).sizes() == Dims{2, 256});
  const nn::Sequential s{nn::Flatten{}, nn::Linear{256, 5}, nn::GELU{}, nn::LogSoftmax{}};
  CHECK(s(x).sizes() == Dims{2, 5});
  const Tensor target = tensor({1, 3});
  CHECK(same_bits(nn::NLLLoss{}(s(x), target), nll_loss(s(x), target)));
  CHECK(same_bits(nn::CrossEntropyLoss{{.label_smoothing = 0.1}}(s(x), target),
                  cross_entropy(s(x), target, {.label_smoothing = 0.1})));
  CHECK(same_bits(nn::MSELoss{Reduction::sum}(x, x * 2.0), mse_loss(x, x * 2.0, Reduction::sum)));
  CHECK_THAT(message_of([] { nn::Conv2d(3, 4, 3, {.groups = 2}); }), Contains("groups 2 must divide"));
}

TEST_CASE("batch norm tracks in training and is affine after eval", "[nn]") {
  MANTISSA_PRINT_SEED();
  nn::BatchNorm2d norm{3, {.momentum = 0.25}};
  const Tensor x = random_tensor({4, 3, 5, 5}, 2).to(f32);
  norm(x);
  norm(x);
  CHECK(norm.num_batches_tracked.item<std::int64_t>() == 2);
  const Tensor mean_of_x = mean(x.to(f64), {0, 2, 3});
  CHECK(all_close(norm.running_mean, mean_of_x * (1 - 0.75 * 0.75), tolerance_for(f32, 100)));
  nn::eval(norm);
  const Tensor y = norm(x);
  CHECK(norm.num_batches_tracked.item<std::int64_t>() == 2);
  CHECK(same_bits(y, norm(x)));
  CHECK_THAT(message_of([&] { norm(zeros({2, 3})); }), Contains("BatchNorm2d: needs [N, C, H, W]"));
  const nn::BatchNorm1d untracked{3, {.affine = false, .track_running_stats = false}};
  CHECK(nn::state_dict(untracked).empty());
  CHECK(untracked(random_tensor({5, 3}, 3).to(f32)).sizes() == Dims{5, 3});
}

TEST_CASE("train and eval reach every mode", "[nn]") {
  Net net;
  nn::Sequential s{nn::Dropout{.p = 0.5}, nn::Sequential{nn::Dropout{.p = 0.5}}};
  CHECK(&nn::eval(net) == &net);
  nn::eval(s);
  CHECK(!net.drop.mode.training);
  CHECK(!net.norm.mode.training);
  const Tensor x = ones({1000});
  CHECK(same_bits(s(x), x));
  nn::train(s);
  CHECK(!same_bits(s(x), x));
  nn::train(net);
  CHECK(net.drop.mode.training);
}

TEST_CASE("state_dict round trip gives the same outputs", "[nn]") {
  MANTISSA_PRINT_SEED();
  Net a, b;
  const Tensor x = random_tensor({2, 1, 8, 8}, 4).to(f32);
  a(x);
  nn::eval(a);
  nn::eval(b);
  CHECK(!same_bits(a(x), b(x)));
  const nn::LoadResult r = nn::load_state_dict(b, nn::state_dict(a));
  CHECK(r.missing.empty());
  CHECK(r.unexpected.empty());
  CHECK(same_bits(a(x), b(x)));
  CHECK(b.norm.num_batches_tracked.item() == 1);
  CHECK(b.fc1.weight.requires_grad());
  CHECK(!nn::state_dict(a)[0].second.requires_grad());
}

TEST_CASE("a state that does not fit is refused whole", "[nn]") {
  Net net;
  const Tensor before = net.conv1.weight.detach().clone();
  NamedTensors state = nn::state_dict(net);
  for (auto& [name, t] : state) t = full(t.sizes(), 5, {.dtype = t.dtype()});
  NamedTensors missing(state.begin() + 1, state.end());
  CHECK_THAT(message_of([&] { nn::load_state_dict(net, missing); }), Contains("missing \"conv1.weight\""));
  NamedTensors extra = state;
  extra.emplace_back("conv3.weight", ones({1}));
  CHECK_THAT(message_of([&] { nn::load_state_dict(net, extra); }), Contains("unexpected \"conv3.weight\""));
  NamedTensors shape = state;
  shape.back().second = ones({7});
  CHECK_THAT(message_of([&] { nn::load_state_dict(net, shape); }), Contains("has shape [7]"));
  CHECK_THAT(message_of([&] { nn::load_state_dict(net, shape, {.strict = false}); }), Contains("has shape [7]"));
  NamedTensors twice = state;
  twice.push_back(state[0]);
  CHECK_THAT(message_of([&] { nn::load_state_dict(net, twice); }), Contains("given twice"));
  CHECK(same_bits(net.conv1.weight, before));

  extra.erase(extra.begin());
  const nn::LoadResult r = nn::load_state_dict(net, extra, {.strict = false});
  CHECK(r.missing == Names{"conv1.weight"});
  CHECK(r.unexpected == Names{"conv3.weight"});
  CHECK(same_bits(net.conv1.weight, before));
  CHECK(same_bits(net.conv1.bias, full({4}, 5)));
}

TEST_CASE("save and load through a safetensors file", "[nn]") {
  const TempDir dir;
  const std::string path = dir / "net.safetensors";
  Net a, b;
  nn::save(a, path);
  nn::load(b, path);
  const auto pa = nn::state_dict(a), pb = nn::state_dict(b);
  for (std::size_t i = 0; i < pa.size(); ++i) CHECK(same_bits(pa[i].second, pb[i].second));
  nn::Linear other{2, 2};
  CHECK_THAT(message_of([&] { nn::load(other, path); }), Contains("net.safetensors") && Contains("unexpected"));
}

TEST_CASE("tied parameters are one: one gradient, one entry, kept by load, to and clone", "[nn]") {
  struct Tied {
    nn::Embedding embedding{5, 3};
    nn::Linear out{3, 5, {.bias = false}};
    MANTISSA_FIELDS(embedding, out)
  } net;
  nn::tie(net.out.weight, net.embedding.weight);
  CHECK(names(nn::state_dict(net)) == Names{"embedding.weight"});
  CHECK(nn::parameters(net).size() == 1);
  backward(net.out(net.embedding(tensor({1, 2}))).sum());
  CHECK(net.out.weight.grad().defined());
  CHECK(net.out.weight.grad().is_same(net.embedding.weight.grad()));

  NamedTensors both = nn::state_dict(net);
  both.emplace_back("out.weight", both[0].second);  // as PyTorch writes it
  nn::load_state_dict(net, both);
  const Tensor other = randn({5, 3});
  nn::load_state_dict(net, {{"out.weight", other}});  // as safetensors' save_model may write it
  CHECK(same_bits(net.embedding.weight, other));
  const Tied copy = nn::clone(net);
  CHECK(copy.out.weight.is_same(copy.embedding.weight));
  CHECK(!copy.out.weight.is_same(net.out.weight));
  nn::to(net, f64);
  CHECK(net.out.weight.dtype() == f64);
  CHECK_THAT(message_of([&] { nn::tie(net.out.weight, copy.out.bias); }), Contains("undefined"));
}

TEST_CASE("clone is deep and complete", "[nn]") {
  MANTISSA_PRINT_SEED();
  Net net;
  nn::eval(net);
  net.fc2.weight.requires_grad_(false);
  const Net copy = nn::clone(net);
  const Tensor x = random_tensor({2, 1, 8, 8}, 5).to(f32);
  CHECK(same_bits(net(x), copy(x)));
  CHECK(!copy.norm.mode.training);
  CHECK(!copy.fc2.weight.requires_grad());
  CHECK(copy.fc1.weight.requires_grad());
  nn::init::constant_(net.fc1.weight, 0);
  nn::init::constant_(net.norm.running_mean, 9);
  CHECK(!same_bits(net(x), copy(x)));
  CHECK(same_bits(copy.norm.running_mean, zeros({6})));

  Containers c;
  c.layers.push_back(nn::Linear{2, 3});
  c.norm = std::make_unique<nn::LayerNorm>(2);
  c.blocks.emplace_back(2);
  const Containers d = nn::clone(c);
  const auto sc = nn::state_dict(c), sd = nn::state_dict(d);
  REQUIRE(names(sc) == names(sd));
  for (std::size_t i = 0; i < sc.size(); ++i) {
    CHECK(same_bits(sc[i].second, sd[i].second));
    CHECK(sc[i].second.raw_data() != sd[i].second.raw_data());
  }
  CHECK(same_bits(c.body(ones({1, 2})), d.body(ones({1, 2}))));
}

TEST_CASE("an optional module is a member when it is there", "[nn]") {
  WithOptional net;
  CHECK(names(nn::named_parameters(net)) == std::vector<std::string>{"first.weight", "first.bias"});
  CHECK(!nn::clone(net).shortcut);
  net.shortcut.emplace(2);
  CHECK(names(nn::named_parameters(net)).back() == "shortcut.b.bias");
  const WithOptional copy = nn::clone(net);
  CHECK(same_bits(copy.shortcut->a.weight, net.shortcut->a.weight));
  CHECK(!copy.shortcut->a.weight.is_same(net.shortcut->a.weight));
}

TEST_CASE("functions over modules take containers of them", "[nn]") {
  std::vector<Block> layers;
  layers.emplace_back(2);
  layers.emplace_back(2);
  CHECK(names(nn::named_parameters(layers))[4] == "1.a.weight");
  CHECK(nn::count(layers) == 24);
  std::array<nn::Dropout, 2> drops;
  nn::eval(drops);
  CHECK((!drops[0].mode.training && !drops[1].mode.training));
  std::vector<Block> others;
  others.emplace_back(2);
  others.emplace_back(2);
  nn::load_state_dict(others, nn::state_dict(layers));
  CHECK(same_bits(others[1].b.weight, layers[1].b.weight));
}

TEST_CASE("the layers of a Sequential are there by number and type, and can be replaced", "[nn]") {
  nn::Sequential net(nn::Linear(3, 4), nn::ReLU(), nn::Linear(4, 2));
  nn::init::constant_(net[0].as<nn::Linear>().weight, 2);
  CHECK(equal(nn::parameters(net)[0], full({4, 3}, 2)));
  net[-1] = nn::Linear(4, 7);
  net.append(nn::Tanh());
  CHECK(net(ones({5, 3})).sizes() == Dims{5, 7});
  const nn::Sequential& read = net;
  CHECK(read[2].as<nn::Linear>().weight.size(0) == 7);
  CHECK_THROWS_WITH(net[1].as<nn::Linear>(), Contains("the layer is a mantissa::nn::ReLU and no "));
  CHECK_THROWS_WITH(net[4], Contains("Sequential: layer 4 of 4"));
  CHECK_THROWS_WITH(net[-5], Contains("Sequential: layer -5 of 4"));
}

TEST_CASE("Sequential takes layers that cannot be cloned, and only clone refuses them", "[nn]") {
  const nn::Sequential body{NoClone(2), relu};
  CHECK(body(ones({1, 2})).sizes() == Dims{1, 2});
  CHECK(nn::count(body) == 6);
  CHECK_THAT(message_of([&] { nn::clone(body); }),
             Catch::Matchers::Contains("NoClone") && Catch::Matchers::Contains("needs a clone() const"));
}

TEST_CASE("to() keeps an optimizer's handles valid", "[nn]") {
  nn::Linear layer{3, 2};
  nn::init::constant_(layer.weight, 0.5);
  optim::Sgd opt(nn::parameters(layer), {.lr = 1, .momentum = 0.5});
  const auto train = [&](Dtype dtype) {
    backward(layer(ones({1, 3}, {.dtype = dtype})).sum());
    opt.step();
    opt.zero_grad();
  };
  train(f32);
  nn::to(layer, f64);
  CHECK(layer.weight.dtype() == f64);
  CHECK(layer.weight.requires_grad());
  train(f64);
  CHECK(same_bits(layer.weight, full({2, 3}, 0.5 - 1 - 1.5, {.dtype = f64})));
  CHECK_THAT(message_of([&] { nn::to(layer, i64); }), Contains("must be floating"));
  nn::BatchNorm1d norm{2};
  nn::to(norm, f16);
  CHECK(norm.running_mean.dtype() == f16);
  CHECK(norm.num_batches_tracked.dtype() == i64);
}

TEST_CASE("to() discards the old shadow and converts gradients, present and future", "[nn]") {
  nn::Linear layer{3, 2};
  const auto forward = [&] { return amp::autocast(bf16, [&] { return layer(ones({1, 3})); }); };
  backward(forward().sum());
  nn::to(layer, f64);
  CHECK(same_bits(layer.weight.grad(), ones({2, 3}, {.dtype = f64})));
  nn::zero_grad(layer);
  backward(layer.weight.sum());
  CHECK(same_bits(layer.weight.grad(), ones({2, 3}, {.dtype = f64})));
  nn::init::constant_(layer.weight, 2);
  nn::init::constant_(layer.bias, 0);
  nn::to(layer, f32);
  CHECK(same_bits(forward().detach(), full({1, 2}, 6, {.dtype = bf16})));
}

TEST_CASE("zero_grad and summary", "[nn]") {
  Net net;
  backward(net(zeros({2, 1, 8, 8})).sum());
  CHECK(net.conv1.weight.grad().defined());
  nn::zero_grad(net);
  for (const Tensor& p : nn::parameters(net)) CHECK(!p.grad().defined());
  const std::string text = nn::summary(net);
  CHECK_THAT(text, Contains("conv2.weight") && Contains("f32[6, 4, 3, 3]") && Contains("buffer"));
  CHECK_THAT(text, Contains(concat("parameters ", nn::count(net))));
}

namespace {
struct Observer {  // the range of what it has seen
  mutable nn::Buffer low{scalar(HUGE_VAL)}, seen{zeros({}, {.dtype = i64})};
  nn::Linear layer{2, 3};
  MANTISSA_FIELDS(low, seen, layer)
  Tensor operator()(const Tensor& x) const {
    low.copy_(minimum(low, x.min()));
    seen.add_(1);
    return layer(x);
  }
};
}  // namespace

TEST_CASE("a buffer that a call writes to is mutable, and as any other to who lists, saves or copies the module") {
  const nn::Sequential net{Observer(), relu};
  net(tensor({{2.f, -1.f}}));
  net(tensor({{0.f, -3.f}}));
  const NamedTensors state = nn::state_dict(net);
  REQUIRE(state.size() == 4);
  CHECK(state[0].first == "0.low");
  CHECK(state[0].second.item() == -3);
  CHECK(state[1].second.item<int>() == 2);
  nn::Sequential copy = nn::clone(net);
  copy(tensor({{0.f, -4.f}}));
  CHECK(nn::state_dict(copy)[0].second.item() == -4);
  CHECK(state[0].second.item() == -3);
  nn::load_state_dict(copy, state);
  CHECK(nn::state_dict(copy)[0].second.item() == -3);
}
