// Hooks called before and after a layer (nn/hooked.h).
#include "nn/hooked.h"

#include <string>
#include <vector>

#include "autograd/backward.h"
#include "autograd/hooks.h"
#include "core/ops.h"
#include "nn/conv.h"
#include "nn/for_each.h"
#include "nn/functions.h"
#include "nn/linear.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

struct Plain {
  nn::Linear first{3, 4}, second{4, 2};
  MANTISSA_FIELDS(first, second)
  Tensor operator()(const Tensor& x) const { return second(relu(first(x))); }
};
struct Watched {
  nn::Hooked<nn::Linear> first{nn::Linear(3, 4)};
  nn::Linear second{4, 2};
  MANTISSA_FIELDS(first, second)
  Tensor operator()(const Tensor& x) const { return second(relu(first(x))); }
};

std::vector<std::string> names_of(const NamedTensors& named) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("a hooked layer is the layer to whoever lists, saves or looks for it") {
  Plain plain;
  Watched watched;
  CHECK(names_of(nn::named_parameters(watched)) == names_of(nn::named_parameters(plain)));
  nn::load_state_dict(watched, nn::state_dict(plain));
  const Tensor x = random_tensor({5, 3}, 1).to(f32);
  CHECK(equal(watched(x), plain(x)));
  std::vector<std::string> linears;
  nn::for_each<nn::Linear>(watched, [&](const std::string& name, nn::Linear&) { linears.push_back(name); });
  CHECK(linears == std::vector<std::string>{"first", "second"});
}

TEST_CASE("hooks see what goes in and comes out, in their order, until they are removed") {
  Watched net;
  const Tensor x = random_tensor({5, 3}, 1).to(f32);
  std::string order;
  Tensor in, out;
  nn::Hook before = net.first.before([&](const Tensor& seen) { order += "a"; in = seen; });
  nn::Hook after = net.first.after([&](const Tensor& seen, const Tensor& y) {
    order += "c";
    CHECK(seen.is_same(in));
    out = y;
  });
  net.first.before([&](const Tensor&) { order += "b"; });
  net(x);
  CHECK(order == "abc");
  CHECK(in.is_same(x));
  CHECK(equal(out, linear(x, net.first.layer.weight, net.first.layer.bias)));
  before.remove();
  after.remove();
  after.remove();  // no harm
  net(x);
  CHECK(order == "abcb");
}

TEST_CASE("what a hook returns takes the place of input or result, also in the graph") {
  Watched net;
  const Tensor x = random_tensor({5, 3}, 1).to(f32).requires_grad_();
  net.first.before([](const Tensor& seen) { return 2 * seen; });
  net.first.after([](const Tensor&, const Tensor& y) { return 3 * y; });
  Tensor expected = net.second(relu(3 * linear(2 * x, net.first.layer.weight, net.first.layer.bias)));
  const Tensor y = net(x);
  CHECK(equal(y, expected));
  CHECK(equal(grad(y.sum(), {x})[0], grad(expected.sum(), {x})[0]));
}

TEST_CASE("a hook on the result's gradient is a backward hook") {
  Watched net;
  Tensor arrived;
  net.first.after([&](const Tensor&, const Tensor& y) { y.on_grad([&](const Tensor& g) { arrived = g; }); });
  const Tensor x = random_tensor({5, 3}, 1).to(f32);
  backward(net(x).sum());
  const Tensor hidden = linear(x, net.first.layer.weight, net.first.layer.bias).detach().requires_grad_();
  CHECK(equal(arrived, grad(net.second(relu(hidden)).sum(), {hidden})[0]));
}

TEST_CASE("a layer of a Sequential is hooked where it stands, with an optimizer that was made before") {
  nn::Sequential net{nn::Linear(3, 4), relu, nn::Linear(4, 2)};
  optim::SGD opt(nn::parameters(net), {.lr = 0.1});
  const auto names = names_of(nn::named_parameters(net));
  nn::Hooked tap(std::move(net.layers[1]));
  Tensor activation;
  nn::Hook hook = tap.after([&](const Tensor&, const Tensor& y) { activation = y; });
  net.layers[1] = std::move(tap);
  nn::Hooked weighted(std::move(net.layers[0]));
  net.layers[0] = std::move(weighted);
  CHECK(names_of(nn::named_parameters(net)) == names);
  const Tensor x = random_tensor({5, 3}, 1).to(f32), before = nn::parameters(net)[0].detach().clone();
  backward(net(x).sum());
  opt.step();
  CHECK(activation.sizes() == Dims{5, 4});
  CHECK_FALSE(equal(nn::parameters(net)[0], before));
  // A copy has the layer but not the hooks.
  const nn::Sequential copy = net.clone();
  activation = {};
  CHECK(equal(copy(x), net(x)));
  activation = {};
  copy(x);
  CHECK_FALSE(activation.defined());
  hook.remove();
  net(x);
  CHECK_FALSE(activation.defined());
}

TEST_CASE("a hook may outlive its layer") {
  nn::Hook hook;
  {
    nn::Hooked<nn::Linear> layer{nn::Linear(3, 4)};
    hook = layer.after([](const Tensor&, const Tensor&) {});
  }
  hook.remove();
}
