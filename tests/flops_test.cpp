// Counted floating-point operations: those that torch.utils.flop_counter counts, by PyTorch 2.15.
#include "core/flops.h"

#include <functional>
#include <string>

#include "catch_compat.h"
#include "mantissa.h"

using namespace mantissa;
using Catch::Matchers::Contains;

namespace {

double forward_of(const std::function<Tensor()>& f) {
  const FlopCounter counter;
  f();
  return counter.count();
}
double step_of(const std::function<Tensor()>& f) {
  const FlopCounter counter;
  backward(sum(f().to(f32)));
  return counter.count();
}
Tensor leaf(const Dims& sizes) { return randn(sizes).requires_grad_(); }

}  // namespace

TEST_CASE("products, convolutions and attention count as PyTorch counts them") {
  struct Case {
    std::string name;
    std::function<Tensor()> f;
    double forward, step;
  };
  nn::Linear a(8, 16), b(16, 4);
  nn::Conv2d strided(6, 8, 3, {.stride = 2, .padding = 1});
  nn::ConvTranspose2d transposed(6, 4, 3, {.stride = 2});
  nn::Conv3d volume(3, 4, {2, 3, 3});
  nn::Conv1d line(3, 4, 3);
  const Tensor x = leaf({5, 8}), image = leaf({2, 6, 9, 7}), cube = leaf({2, 3, 5, 6, 7}), row = leaf({2, 3, 11});
  const Tensor q = leaf({2, 3, 5, 8}), k = leaf({2, 3, 7, 8}), v = leaf({2, 3, 7, 8});
  const Tensor m = leaf({3, 4, 5}), n = leaf({3, 5, 6});
  const std::vector<Case> cases = {
      {"two linear layers", [&] { return b(relu(a(x))); }, 1920, 5760},
      {"whose input needs no gradient", [&] { return b(relu(a(x.detach()))); }, 1920, 4480},
      {"feed_forward",
       [&] { return feed_forward(x, a.weight, a.bias, Activation::relu, b.weight, b.bias); }, 1920, 5760},
      {"conv2d", [&] { return strided(image); }, 34560, 103680},
      {"conv_transpose2d", [&] { return transposed(image); }, 54432, 163296},
      {"conv3d", [&] { return volume(cube); }, 69120, 207360},
      {"conv1d", [&] { return line(row); }, 1296, 3888},
      {"attention", [&] { return scaled_dot_product_attention(q, k, v); }, 6720, 23520},
      {"bmm", [&] { return bmm(m, n); }, 720, 2160},
      {"einsum", [&] { return einsum("bij,bjk->ik", {m, n}); }, 720, 2160},
      {"nothing else", [&] { return softmax(exp(x) * x, 1); }, 0, 0},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    CHECK(forward_of(c.f) == c.forward);
    CHECK(step_of(c.f) == c.step);
    CHECK(amp::autocast(bf16, [&] { return step_of(c.f); }) == c.step);
  }
  // PyTorch 2.15 counts the weight gradient as if there were one group: 120960.
  nn::Conv2d groups(6, 8, 3, {.groups = 2});
  CHECK(forward_of([&] { return groups(image); }) == 30240);
  CHECK(step_of([&] { return groups(image); }) == 3 * 30240);
  nn::LSTM lstm(4, 6);  // which PyTorch does not count: gates of x and of h
  CHECK(forward_of([&] { return lstm(randn({7, 3, 4})).output; }) == 2 * 7 * 3 * (4 * 6) * (4 + 6));
}

TEST_CASE("operations of linear_cross_entropy are those of its product, whatever is kept of it") {
  const Tensor x = leaf({12, 8}), w = leaf({20, 8}), target = randint(0, 20, {12}, {.dtype = i64});
  const double product = 2.0 * 12 * 20 * 8;
  CHECK(step_of([&] { return linear_cross_entropy(x, w, target); }) == 3 * product);
}

TEST_CASE("a profile says how many operations each operator did, and at which rate") {
  const Tensor x = leaf({64, 32}), w = leaf({16, 32});
  Profile profile({.flops = true});
  double counted = 0;
  {
    const ProfileRange range("step");
    const FlopCounter counter;
    backward(sum(square(linear(x, w))));
    counted = counter.count();
  }
  double all = 0;
  for (const ProfileEvent& e : profile.events()) {
    const std::string name = e.name;
    if (name == "step" || name == "square" || name == "backward") CHECK(e.flops == 0);
    if (name == "linear" && e.kind == ProfileKind::op) CHECK(e.flops == 2.0 * 64 * 32 * 16);
    all += e.flops;
  }
  CHECK(all == counted);
  CHECK(counted == 3 * 2.0 * 64 * 32 * 16);
  CHECK_THAT(profile.table(), Contains("GFLOP/s") && Contains(" 0.066 ") && Contains(" 0.197 "));
  Profile without;
  CHECK_THAT(without.table(), !Contains("GFLOP"));
}
