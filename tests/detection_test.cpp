// Parts of detectors compared with torchvision (tests/golden/detection.py): deformable convolutions, feature pyramids,
// RoI pooling from them, anchors; and their errors.
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "amp/autocast.h"
#include "autograd/grad_mode.h"
#include "autograd/gradcheck.h"
#include "nn/activation.h"
#include "nn/anchors.h"
#include "nn/boxes.h"
#include "nn/clone.h"
#include "nn/deform_conv.h"
#include "nn/drop_block.h"
#include "nn/feature_pyramid.h"
#include "nn/roi_align.h"
#include "nn/squeeze_excitation.h"
#include "tests/golden/golden.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

using Tensors = std::vector<Tensor>;
// From inputs a to e to the results, with the module that computes them, if any.
struct Case {
  std::function<Tensors(const Tensors& in)> function;
  std::optional<nn::ModuleRef> net = {};  // which the function keeps
};

Case pyramid(std::int64_t top, const nn::FeaturePyramidOptions& options) {
  auto net = std::make_shared<nn::FeaturePyramidNetwork>(std::vector<std::int64_t>{2, 3, top}, 4, options);
  return {[net](const Tensors& in) { return (*net)({in[0], in[1], in[2]}); }, nn::ModuleRef(*net)};
}
Case squeeze(nn::SqueezeExcitationOptions options) {
  auto net = std::make_shared<nn::SqueezeExcitation>(6, 3, std::move(options));
  return {[net](const Tensors& in) { return Tensors{(*net)(in[0])}; }, nn::ModuleRef(*net)};
}

std::map<std::string, Case> cases() {
  std::map<std::string, Case> all;
  for (const char* name : {"deform", "deform far", "deform still"}) {
    all[name] = {[](const Tensors& in) { return Tensors{nn::deform_conv2d(in[0], in[1], in[2], {}, {.padding = 1})}; }};
  }
  all["deform all"] = {[](const Tensors& in) {
    return Tensors{nn::deform_conv2d(in[0], in[1], in[2], in[4],
                                     {.stride = {2, 1}, .padding = {1, 2}, .dilation = {2, 5}, .groups = 2}, in[3])};
  }};
  for (const int samples : {-1, 1, 2}) {
    all[concat("ps_align ", samples)] = {[=](const Tensors& in) {
      return Tensors{nn::ps_roi_align(in[0], in[1], {2, 3}, {.spatial_scale = 0.5, .sampling_ratio = samples})};
    }};
  }
  all["multi scale"] = {[](const Tensors& in) {
    const nn::MultiScaleRoIAlign pool({3, 2}, 2, 3, 1);
    return Tensors{pool({in[0], in[1], in[2]}, {in[3], in[4]}, {32, 40})};
  }};
  all["pyramid"] = pyramid(4, {});
  all["pyramid pool"] = pyramid(4, {.extra = nn::ExtraLevels::max_pool, .batch_norm = true});
  all["pyramid p6"] = pyramid(4, {.extra = nn::ExtraLevels::p6_p7});
  all["pyramid c6"] = pyramid(5, {.extra = nn::ExtraLevels::p6_p7});
  all["squeeze"] = squeeze({});
  all["squeeze silu"] = squeeze({.activation = nn::SiLU(), .scale_activation = nn::Tanh()});
  all["anchors"] = {[](const Tensors& in) {
    const nn::AnchorGenerator generator{.sizes = {{8, 13}, {33}}, .aspect_ratios = {0.5, 1, 2.7}};
    return Tensors{cat(generator({in[0], in[1]}, {50, 67}))};
  }};
  all["encode"] = {[](const Tensors& in) {
    return Tensors{nn::BoxCoder{.weights = {10, 10, 5, 5}}.encode(in[0], in[1])};
  }};
  all["decode"] = {[](const Tensors& in) { return Tensors{nn::BoxCoder{}.decode(in[0], in[1])}; }};
  for (const bool low_quality : {false, true}) {
    all[concat("match ", low_quality ? 1 : 0)] = {[=](const Tensors& in) {
      return Tensors{nn::match_boxes(nn::box_iou(in[0], in[1]), 0.5, 0.2, low_quality)};
    }};
  }
  return all;
}

}  // namespace

TEST_CASE("detectors: values and gradients are torchvision's") {
  const Golden golden("detection");
  for (const Dtype dtype : {f64, f32}) {
    const auto all = cases();
    for (const std::string& name : golden.cases()) CHECK(all.contains(name));
    for (const auto& [name, c] : all) {
      INFO(name << " in " << name_of(dtype));
      REQUIRE(golden.cases().contains(name));
      std::map<std::string, Tensor> leaves;
      Tensors inputs;
      for (const char* k : {"a", "b", "c", "d", "e"}) {
        inputs.push_back(golden.input(name + "/" + k, dtype));
        if (golden.find(name + "/d" + k).defined()) leaves[k] = inputs.back().requires_grad_();
      }
      if (c.net) {
        nn::to(*c.net, dtype);
        for (auto& [key, p] : nn::named_parameters(*c.net)) {
          const NoGrad no_grad;
          INFO(key);
          const Tensor value = golden.find(name + "/p." + key);
          REQUIRE(value.defined());
          Tensor(p).copy_(value);
          leaves["p." + key] = p;
        }
        for (const auto& [key, value] : golden.below(name + "/p.")) CHECK(leaves.contains("p." + key));
      }
      const Tensors y = c.function(inputs);
      for (std::size_t k = 0; k < y.size(); ++k)
        CHECK(golden_difference(y[k], golden.find(concat(name, "/", k)), dtype) == "");
      CHECK(!golden.find(concat(name, "/", y.size())).defined());
      if (!y[0].requires_grad()) continue;
      Tensors gradients;
      for (std::size_t k = 0; k < y.size(); ++k) gradients.push_back(cotangent(y[k], static_cast<std::int64_t>(k)));
      backward(y, gradients);
      for (const auto& [k, x] : leaves) {
        const Tensor expected = golden.find(name + "/d" + k);
        INFO("gradient of " << k);
        if (expected.defined()) CHECK(golden_difference(x.grad(), expected, dtype) == "");
      }
    }
  }
}

TEST_CASE("deform_conv2d: without offsets it is conv2d, also in halves; twice differentiable") {
  MANTISSA_PRINT_SEED();
  const Tensor x = randn({2, 4, 9, 7}), weight = randn({6, 4, 3, 3}), bias = randn({6});
  const Tensor still = zeros({2, 18, 5, 4});
  const Tensor expected = conv2d(x, weight, bias, {.stride = 2, .padding = 1});
  const Tensor y0 = nn::deform_conv2d(x, still, weight, bias, {.stride = 2, .padding = 1});
  CHECK(difference(y0, expected, {1e-5, 1e-5}) == "");
  // An integer shift reads whole pixels: bitwise those of the shifted image, for a width that is not a power of two.
  const Tensor one = ones({1, 4, 1, 1}), right = stack({zeros({2, 9, 7}), ones({2, 9, 7})}, 1);
  const Tensor read = nn::deform_conv2d(x, right, eye(4).reshape(4, 4, 1, 1));
  CHECK(equal(slice(read, 3, 0, 6), slice(x, 3, 1)));
  CHECK(equal(select(read, 3, 6), zeros({2, 4, 9})));
  const nn::DeformConv2d conv(4, 6, 3, {.padding = 1});
  const amp::Autocast region(bf16);
  const Tensor y = conv(x.to(bf16), zeros({2, 18, 9, 7}));
  CHECK(y.dtype() == bf16);
  CHECK(difference(y, conv2d(x, conv.weight, conv.bias, {.padding = 1}), {0.1, 0.05}) == "");
  const amp::Autocast off(amp::disabled);
  const Tensors leaves{randn({1, 2, 4, 3}, {.dtype = f64, .requires_grad = true}),
                       randn({1, 8, 3, 2}, {.dtype = f64, .requires_grad = true}),
                       randn({2, 2, 2, 2}, {.dtype = f64, .requires_grad = true}),
                       rand({1, 4, 3, 2}, {.dtype = f64, .requires_grad = true})};
  const TensorFunction function = [](const Tensors& t) {
    return Tensors{nn::deform_conv2d(t[0], t[1], t[2], {}, {}, t[3])};
  };
  gradcheck(function, leaves);
  gradgradcheck(function, leaves);
}

TEST_CASE("drop_block: whole blocks, of about the wanted part, and the mean stays") {
  manual_seed(3);
  const Tensor x = ones({8, 16, 20, 20}), y = nn::drop_block2d(x, 0.2, 5);
  const double dropped = (y == 0).to(f32).mean().item<double>();
  CHECK(dropped > 0.12);  // less than 0.2, as blocks overlap
  CHECK(dropped < 0.2);
  CHECK(std::abs(y.mean().item<double>() - 1) < 1e-4);
  // The dropped region is a union of 5 x 5 blocks: a morphological opening of the mask by such a block changes nothing.
  const Tensor mask = (y == 0).to(f32), eroded = 1 - max_pool2d(1 - mask, 5, {.stride = 1});
  CHECK(equal(max_pool2d(pad(eroded, {4, 4, 4, 4}), 5, {.stride = 1}), mask));
  CHECK(equal(nn::drop_block2d(x, 0, 5), x));
  CHECK(equal(nn::drop_block2d(x, 0.5, 5, 1e-6, false), x));
  const Tensor volume = ones({2, 3, 6, 7, 8}).requires_grad_();
  const Tensor z = nn::drop_block3d(volume, 0.3, 3);
  backward(z.sum());
  CHECK(equal(volume.grad(), z.detach()));
  nn::DropBlock2d layer{.p = 0.5, .block_size = 3};
  nn::eval(layer);
  CHECK(layer(x).is_same(x));
}

TEST_CASE("balanced_sample: as many as asked for, the positive ones at most a part of them") {
  const TensorOptions i{.dtype = i64};
  const Tensor labels = cat({full({30}, 2, i), zeros({500}, i), full({70}, -1, i)});
  const auto [positive, negative] = nn::balanced_sample(labels, 256, 0.5);
  CHECK(positive.sizes() == Dims{30});
  CHECK(negative.sizes() == Dims{226});
  CHECK(all(labels[positive] == 2).item<bool>());
  CHECK(all(labels[negative] == 0).item<bool>());
  CHECK(nn::balanced_sample(labels, 20, 0.25).positive.sizes() == Dims{5});
  CHECK(nn::balanced_sample(zeros({0}), 20, 0.25).negative.sizes() == Dims{0});
}

TEST_CASE("detectors: copies, no boxes, halves") {
  const nn::FeaturePyramidNetwork net({2, 3}, 4, {.extra = nn::ExtraLevels::p6_p7});
  const Tensors maps{randn({1, 2, 9, 7}), randn({1, 3, 5, 4})};
  const auto copy = nn::clone(net);
  const Tensors a = net(maps), b = copy(maps);
  REQUIRE(a.size() == 4);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(equal(a[i], b[i]));
  CHECK(a[0].sizes() == Dims{1, 4, 9, 7});
  CHECK(a[3].sizes() == Dims{1, 4, 2, 1});
  const nn::MultiScaleRoIAlign pool(2);
  CHECK(pool({ones({1, 3, 8, 8}), ones({1, 3, 4, 4})}, {zeros({0, 4})}, {16, 16}).sizes() == Dims{0, 3, 2, 2});
  const Tensor fine = ones({1, 3, 8, 8}).requires_grad_(), coarse = ones({1, 3, 4, 4}).requires_grad_();
  pool({fine, coarse}, {tensor({{1, 1, 9, 9}}).to(f32)}, {16, 16}).sum().backward();
  CHECK(fine.grad().abs().sum().item() > 0);
  CHECK(equal(coarse.grad(), zeros_like(coarse)));  // no box falls on it
  CHECK(nn::ps_roi_align(ones({1, 8, 5, 5}), zeros({0, 5}), 2).sizes() == Dims{0, 2, 2, 2});
  CHECK(nn::match_boxes(zeros({0, 3}), 0.7, 0.3).to_vector<std::int64_t>() == std::vector<std::int64_t>{-1, -1, -1});
  const nn::BoxCoder coder;
  const Tensor anchors = tensor({{0, 0, 10, 20}, {5, 5, 9, 9}}).to(f32), boxes = anchors + 1;
  CHECK(difference(coder.decode(coder.encode(boxes, anchors), anchors), boxes, {1e-5, 1e-5}) == "");
  CHECK(coder.encode(boxes.to(f16), anchors.to(f16)).dtype() == f32);
  CHECK(coder.decode(zeros({2, 3, 4}), anchors.unsqueeze(1)).sizes() == Dims{2, 3, 4});  // for each class
  CHECK(all(isfinite(coder.decode(full({2, 4}, 1e4), anchors))).item<bool>());
}

TEST_CASE("a clone of squeeze and excitation computes the same with weights of its own") {
  const nn::SqueezeExcitation net(8, 2, {.scale_activation = nn::Hardsigmoid()});
  const nn::SqueezeExcitation twin = nn::clone(net);
  const Tensor x = random_tensor({2, 8, 3, 3}, 1).to(f32);
  CHECK(equal(twin(x), net(x)));
  CHECK(!equal(net(x), x));
  twin.fc1.weight.detach().fill_(0), twin.fc2.weight.detach().fill_(0), twin.fc2.bias.detach().fill_(3);
  CHECK(equal(twin(x), x));  // hardsigmoid(3) is 1
  CHECK(!equal(net(x), x));
}

TEST_CASE("detectors: what is refused") {
  const Tensor x = ones({1, 4, 5, 5}), weight = ones({2, 4, 3, 3});
  CHECK_THROWS_WITH(nn::deform_conv2d(x, ones({1, 17, 3, 3}), weight), Contains("offset must be [1, G * 18, 3, 3]"));
  CHECK_THROWS_WITH(nn::deform_conv2d(x, ones({1, 18, 3, 3}), ones({2, 3, 3, 3})), Contains("with C = 4"));
  CHECK_THROWS_WITH(nn::deform_conv2d(x, ones({1, 18, 3, 3}), weight, {}, {}, ones({1, 18, 3, 3})),
                    Contains("mask must be [1, 9, 3, 3]"));
  CHECK_THROWS_WITH(nn::deform_conv2d(x, ones({1, 18, 3, 3}), weight, {}, {.dilation = 3}), Contains("is larger than"));
  CHECK_THROWS_WITH(nn::FeaturePyramidNetwork({2, 3}, 4)({x}), Contains("needs 2 feature maps"));
  CHECK_THROWS_WITH(nn::ps_roi_align(ones({1, 7, 5, 5}), zeros({1, 5}), 2), Contains("x must have C * 2 * 2 channels"));
  CHECK_THROWS_WITH(nn::MultiScaleRoIAlign(2)({x, x}, {zeros({0, 4})}, {20, 20}), Contains("half as large"));
  CHECK_THROWS_WITH(nn::AnchorGenerator{}({x, x}, {20, 20}), Contains("has sizes for 1 feature maps, got 2"));
  CHECK_THROWS_WITH(nn::BoxCoder{}.encode(ones({5}), ones({4})), Contains("boxes must be [..., 4]"));
  CHECK_THROWS_WITH(nn::match_boxes(ones({2, 2}), 0.3, 0.7), Contains("low must be at most high"));
  CHECK_THROWS_WITH(nn::drop_block2d(x, 0.5, 4), Contains("block_size must be odd, got 4"));
  CHECK_THROWS_WITH(nn::drop_block2d(ones({1, 1, 6, 6}), 0.5, 7), Contains("got 7, cut to 6"));
}
