// nn::to(net, Layout::channels_last): a net trains to the same bits with its convolutions' weights in either order, and
// their gradients, masters and optimizer's states lie as they do.
#include "core/random.h"
#include "mantissa.h"
#include "tests/temp_dir.h"
#include "tests/testing.h"

using namespace mantissa;
using Catch::Matchers::Contains;
using mantissa::test::same_bits;

namespace {

struct Net {
  nn::Conv2d first{3, 8, 3, {.padding = 1}}, grouped{8, 8, 3, {.padding = 1, .groups = 2}}, one{8, 8, 1};
  nn::ConvTranspose2d up{8, 4, 2, {.stride = 2}};
  nn::Conv3d volume{2, 3, 2};
  nn::Linear head{3 * 7 * 7, 4};
  MANTISSA_FIELDS(first, grouped, one, up, volume, head)
  Tensor operator()(const Tensor& x) const {
    const Tensor y = up(relu(one(relu(grouped(relu(first(x)))))));  // [N, 4, 8, 8]
    return head(flatten(volume(reshape(y, {-1, 2, 2, 8, 8})), 1));
  }
};
Net make_net(Layout layout, Dtype dtype = f32) {
  manual_seed(7);
  Net net;
  nn::to(net, dtype);
  nn::to(net, layout);
  return net;
}
bool is_last(const Tensor& t) { return is_channels_last(t.sizes(), t.strides()); }

// One product and one sum for each new number: the same bits whatever a vectorised loop does with its last elements.
optim::Sgd sgd(const Net& net, const optim::MemoryOptions& memory = {}) {
  return optim::Sgd(nn::named_parameters(net), {.lr = 0.1, .momentum = 0.9}, memory);
}
struct Region {  // f32: none
  Dtype dtype = f32;
  bool scaled = false;
};
void train(const Net& net, optim::Optimizer& o, int steps, Region region = {}, int micro_batches = 1) {
  manual_seed(11);
  amp::GradScaler scaler({.init_scale = 8, .enabled = region.scaled});
  for (int i = 0; i < steps * micro_batches; ++i) {
    const Tensor x = randn({2, 3, 4, 4}).to(net.first.weight.dtype());
    const Tensor loss = amp::autocast(region.dtype, [&] { return net(x).square().mean(); });
    backward(scaler.scale(loss));
    if (i % micro_batches != micro_batches - 1) continue;
    scaler.step(o);
    scaler.update();
    o.zero_grad();
  }
}
void check_same_parameters(const Net& a, const Net& b) {
  const NamedTensors x = nn::named_parameters(a), y = nn::named_parameters(b);
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    INFO(x[i].first);
    CHECK(same_bits(x[i].second, y[i].second));
  }
}

}  // namespace

TEST_CASE("weights of convolutions are stored channels-last, and everything else as it was") {
  const Net net = make_net(Layout::channels_last);
  for (const nn::Param* w : {&net.first.weight, &net.grouped.weight, &net.up.weight, &net.volume.weight})
    CHECK((is_last(*w) && !w->is_contiguous() && w->is_leaf() && w->requires_grad()));
  CHECK(net.one.weight.is_contiguous());  // 1 x 1: both orders are the same
  CHECK(net.head.weight.is_contiguous());
  check_same_parameters(net, make_net(Layout::contiguous));
  Net back = nn::clone(net);
  CHECK(is_last(back.first.weight));
  nn::to(back, f64);
  CHECK((is_last(back.first.weight) && back.first.weight.dtype() == f64));
  nn::to(back, Layout::contiguous);
  CHECK(back.first.weight.is_contiguous());
}

TEST_CASE("a net trains to the same bits in either order") {
  for (const Region region : {Region{}, Region{bf16}, Region{f16, true}}) {
    for (const int micro_batches : {1, 2}) {
      INFO("autocast to " << name_of(region.dtype) << ", " << micro_batches << " micro-batches");
      const Net expected = make_net(Layout::contiguous), net = make_net(Layout::channels_last);
      optim::Sgd other = sgd(expected), o = sgd(net);
      train(expected, other, 3, region, micro_batches), train(net, o, 3, region, micro_batches);
      CHECK(is_last(net.first.weight));
      check_same_parameters(net, expected);
    }
  }
}

TEST_CASE("gradients, masters and states lie as their parameters do") {
  const Net net = make_net(Layout::channels_last, bf16), expected = make_net(Layout::contiguous, bf16);
  optim::Sgd o = sgd(net, {.master_weights = true}), other = sgd(expected, {.master_weights = true});
  train(net, o, 2), train(expected, other, 2);
  check_same_parameters(net, expected);
  CHECK(is_last(o.master(0)));
  const NamedTensors state = o.state_dict(), wanted = other.state_dict();
  REQUIRE(state.size() == wanted.size());
  int images = 0;
  for (std::size_t i = 0; i < state.size(); ++i) {
    INFO(state[i].first);
    CHECK(same_bits(state[i].second, wanted[i].second));
    if (state[i].second.dim() != 4 || state[i].second.size(3) == 1) continue;
    CHECK(is_last(state[i].second));
    ++images;
  }
  CHECK(images == 3 * 2);  // three weights with momentum and a master each
  net(ones({1, 3, 4, 4}, {.dtype = bf16})).sum().backward();
  CHECK(is_last(net.first.weight.grad()));
  CHECK(net.first.weight.grad().dtype() == f32);
  o.zero_grad();
  other.load_state_dict(state);  // each may load the other's
  o.load_state_dict(wanted);
  train(net, o, 1), train(expected, other, 1);
  check_same_parameters(net, expected);
}

TEST_CASE("a net may change its order between two steps of its optimizer") {
  const Net expected = make_net(Layout::contiguous);
  Net net = make_net(Layout::contiguous);
  optim::Sgd other = sgd(expected), o = sgd(net);
  optim::Ema other_mean(nn::parameters(expected)), mean(nn::parameters(net));
  for (const Layout layout : {Layout::channels_last, Layout::contiguous}) {
    train(expected, other, 2, {bf16}), train(net, o, 2, {bf16});
    nn::to(net, layout);
    other_mean.update(), mean.update();
  }
  train(expected, other, 1, {bf16}), train(net, o, 1, {bf16});
  check_same_parameters(net, expected);
  for (std::size_t i = 0; i < mean.size(); ++i) CHECK(same_bits(mean.average(i), other_mean.average(i)));
}

TEST_CASE("gradients of channels-last weights are channels-last, whoever asks for them") {
  for (const Dtype dtype : {f64, f32, bf16}) {
    INFO(name_of(dtype));
    const Net net = make_net(Layout::channels_last, dtype);
    const Tensor x = ones({1, 3, 4, 4}, {.dtype = dtype});
    for (int pass = 0; pass < 2; ++pass) {  // the second one adds
      net(x).sum().backward();
      for (const nn::Param* w : {&net.first.weight, &net.grouped.weight, &net.up.weight, &net.volume.weight})
        CHECK(is_last(w->grad()));
    }
    const Tensor g = net.first.weight.grad().clone();
    nn::zero_grad(net);
    int calls = 0;
    on_accumulated(net.first.weight, [&](const Tensor&) { ++calls; });
    net(x).sum().backward();
    CHECK(calls == 1);
    CHECK(is_last(net.first.weight.grad()));
    CHECK(same_bits(net.first.weight.grad() * 2.0, g));
    CHECK(is_last(grad({net(x).sum()}, {net.first.weight})[0]));
  }
}

TEST_CASE("a gradient that exists keeps its value when the order changes") {
  Net net = make_net(Layout::contiguous);
  net(ones({1, 3, 4, 4})).sum().backward();
  const Tensor before = net.first.weight.grad().clone();
  nn::to(net, Layout::channels_last);
  CHECK(is_last(net.first.weight.grad()));
  CHECK(same_bits(net.first.weight.grad(), before));
}

TEST_CASE("clipping, unscaling and zeroing treat channels-last gradients as they lie") {
  const auto gradients = [](Layout layout) {
    const Net net = make_net(layout);
    optim::Sgd o(nn::named_parameters(net), {.lr = 0.1});
    amp::GradScaler scaler({.init_scale = 4});
    manual_seed(5);
    backward(scaler.scale(net(randn({2, 3, 4, 4})).square().sum()));
    scaler.unscale_(o);
    optim::clip_grad_norm_(nn::named_parameters(net), 0.5);
    const Tensor g = net.first.weight.grad();
    CHECK(is_last(g) == (layout == Layout::channels_last));
    const Tensor values = g.clone();
    o.zero_grad(false);
    CHECK(abs(net.first.weight.grad()).max().item() == 0);
    return values;
  };
  // the norm is a sum in the order of memory
  CHECK(test::difference(gradients(Layout::channels_last), gradients(Layout::contiguous),
                         test::tolerance_for(f32, 1000, 1)) == "");
}

TEST_CASE("files hold the same bytes in either order") {
  const test::TempDir folder;
  const std::string a = folder / "a.safetensors", b = folder / "b.safetensors";
  Net net = make_net(Layout::channels_last);
  nn::save(net, a);
  nn::save(make_net(Layout::contiguous), b);
  CHECK(test::get_file(a) == test::get_file(b));
  {
    const NoGrad no_grad;
    net.first.weight.fill_(0);
  }
  nn::load(net, b);
  CHECK(is_last(net.first.weight));
  check_same_parameters(net, make_net(Layout::contiguous));
}

TEST_CASE("an optimizer refuses parameters in another order") {
  const Tensor p = randn({4, 3, 2, 2}).transpose(0, 3).requires_grad_();
  CHECK_THROWS_WITH(optim::Sgd({p}, {.lr = 0.1}), Contains("is not contiguous; use contiguous()"));
}
