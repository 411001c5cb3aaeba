// nn/boxes.h and nn/roi_align.h compared with torchvision.ops (tests/golden/boxes.py), and their errors.
#include "nn/boxes.h"

#include <functional>
#include <map>

#include "amp/autocast.h"
#include "autograd/gradcheck.h"
#include "nn/roi_align.h"
#include "tests/golden/golden.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

using Function = std::function<Tensor(const Tensor& a, const Tensor& b, const Tensor& c)>;
using Loss = Tensor (*)(const Tensor&, const Tensor&, Reduction, double);
using Overlap = std::function<Tensor(const Tensor&, const Tensor&)>;

std::map<std::string, Function> cases() {
  std::map<std::string, Function> all;
  for (const char* from : {"xyxy", "xywh", "cxcywh"}) {
    for (const char* to : {"xyxy", "xywh", "cxcywh"}) {
      all[concat("convert ", from, " ", to)] = [=](auto& a, auto&, auto&) { return nn::box_convert(a, from, to); };
    }
  }
  all["area"] = [](auto& a, auto&, auto&) { return nn::box_area(a); };
  all["clip"] = [](auto& a, auto&, auto&) { return nn::clip_boxes_to_image(a, {17, 23}); };
  all["small"] = [](auto& a, auto&, auto&) { return nn::remove_small_boxes(a, 7.5); };
  all["masks"] = [](auto& a, auto&, auto&) { return nn::masks_to_boxes(a); };
  const std::map<std::string, Overlap> overlaps{
      {"box_iou", nn::box_iou},
      {"generalized_box_iou", nn::generalized_box_iou},
      {"distance_box_iou", [](auto& a, auto& b) { return nn::distance_box_iou(a, b); }},
      {"complete_box_iou", [](auto& a, auto& b) { return nn::complete_box_iou(a, b); }}};
  for (const auto& [name, f] : overlaps) all[name] = [f = f](auto& a, auto& b, auto&) { return f(a, b); };
  const std::map<std::string, Reduction> reductions{
      {"none", Reduction::none}, {"mean", Reduction::mean}, {"sum", Reduction::sum}};
  const std::map<std::string, Loss> losses{{"generalized", nn::generalized_box_iou_loss},
                                           {"distance", nn::distance_box_iou_loss},
                                           {"complete", nn::complete_box_iou_loss}};
  for (const auto& [name, f] : losses) {
    for (const auto& [word, reduction] : reductions) {
      all[name + "_box_iou_loss " + word] = [f = f, r = reduction](auto& a, auto& b, auto&) {
        return f(a, b, r, 1e-7);
      };
    }
  }
  all["focal 0.25 2 none"] = [](auto& a, auto& b, auto&) { return nn::sigmoid_focal_loss(a, b); };
  all["focal -1 1.5 mean"] = [](auto& a, auto& b, auto&) {
    return nn::sigmoid_focal_loss(a, b, -1, 1.5, Reduction::mean);
  };
  all["focal 0.6 0 sum"] = [](auto& a, auto& b, auto&) { return nn::sigmoid_focal_loss(a, b, 0.6, 0, Reduction::sum); };
  for (const auto& [word, limit] : std::map<std::string, double>{{"0", 0}, {"0.3", 0.3}, {"0.7", 0.7}}) {
    all["nms " + word] = [t = limit](auto& a, auto& b, auto&) { return nn::nms(a, b, t); };
    all["batched " + word] = [t = limit](auto& a, auto& b, auto& c) { return nn::batched_nms(a, b, c, t); };
  }
  for (const bool aligned : {false, true}) {
    for (const int samples : {-1, 1, 2}) {
      all[concat("align ", aligned ? 1 : 0, " ", samples)] = [=](auto& a, auto& b, auto&) {
        return nn::roi_align(a, b, {3, 4}, {.spatial_scale = 0.5, .sampling_ratio = samples, .aligned = aligned});
      };
    }
  }
  return all;
}

Tensor box(double x1, double y1, double x2, double y2) {
  return from_data(std::vector<double>{x1, y1, x2, y2}, {1, 4}).to(f32);
}

}  // namespace

TEST_CASE("boxes: values and gradients are torchvision's") {
  const Golden golden("boxes");
  const auto functions = cases();
  for (const std::string& name : golden.cases()) CHECK(functions.contains(name));
  for (const auto& [name, function] : functions) {
    REQUIRE(golden.cases().contains(name));
    for (const Dtype dtype : {f64, f32}) {
      INFO(name << " in " << name_of(dtype));
      std::map<std::string, Tensor> inputs;
      for (const char* k : {"a", "b", "c"}) {
        inputs[k] = golden.input(name + "/" + k, dtype);
        if (golden.find(name + "/d" + k).defined()) inputs[k].requires_grad_();
      }
      const Tensor y = function(inputs["a"], inputs["b"], inputs["c"]);
      CHECK(golden_difference(y, golden.find(name + "/0"), dtype) == "");
      if (!y.requires_grad()) continue;
      backward(y, cotangent(y, 0));
      for (const auto& [k, x] : inputs) {
        const Tensor expected = golden.find(name + "/d" + k);
        INFO("gradient of " << k);
        if (expected.defined()) CHECK(golden_difference(x.grad(), expected, dtype) == "");
      }
    }
  }
}

TEST_CASE("boxes: gradients agree with differences") {
  MANTISSA_PRINT_SEED();
  const Tensor corner = rand({3, 2}, {.dtype = f64}), a = cat({corner, corner + rand({3, 2}, {.dtype = f64}) + 0.1}, 1),
               b = a.detach() + 0.05 * rand({3, 4}, {.dtype = f64});
  for (Tensor t : {a, b}) t.requires_grad_();
  // Only the two losses without complete_box_iou's weight, which is treated as a constant in its gradient.
  for (const Loss loss : {nn::generalized_box_iou_loss, nn::distance_box_iou_loss}) {
    gradcheck([&](const std::vector<Tensor>& x) { return loss(x[0], x[1], Reduction::none, 1e-7); }, {a, b});
  }
  const Tensor x = randn({1, 2, 6, 5}, {.dtype = f64, .requires_grad = true});
  const std::vector<Tensor> regions{box(0.3, 0.2, 4.1, 5.7)};
  gradcheck([&](const std::vector<Tensor>& t) { return nn::roi_align(t[0], regions, 2); }, {x});
  gradgradcheck([&](const std::vector<Tensor>& t) { return square(nn::roi_align(t[0], regions, 2)); }, {x});
}

TEST_CASE("nms keeps the best box of each heap, and within classes that of each class") {
  const Tensor boxes = cat({box(0, 0, 10, 10), box(1, 1, 11, 11), box(50, 50, 60, 60), box(0, 0, 10, 9)});
  const Tensor scores = tensor({0.5, 0.9, 0.1, 0.7});
  CHECK(nn::nms(boxes, scores, 0.5).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2});
  CHECK(nn::nms(boxes, scores, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 3, 0, 2});
  const Tensor classes = tensor({7, -3, 7, 7});
  CHECK(nn::batched_nms(boxes, scores, classes, 0.5).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 3, 2});
  CHECK(nn::nms(zeros({0, 4}), zeros({0}), 0.5).sizes() == Dims{0});
  // Boxes without area overlap nothing, not even themselves; NaN is the best score.
  const Tensor points = cat({box(3, 3, 3, 3), box(3, 3, 3, 3)});
  CHECK(nn::nms(points, tensor({0.25, 0.5}), 0.5).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
  CHECK(nn::nms(boxes, tensor({0.5, 0.9, 0.1, double(NAN)}), 0.5)[0].item<std::int64_t>() == 3);
}

TEST_CASE("boxes: no boxes, halves, integers, regions of autocast") {
  const Tensor none = zeros({0, 4});
  CHECK(nn::box_iou(none, box(0, 0, 1, 1)).sizes() == Dims{0, 1});
  CHECK(nn::complete_box_iou_loss(none, none, Reduction::mean).item() == 0);
  CHECK(nn::masks_to_boxes(zeros({0, 3, 3})).sizes() == Dims{0, 4});
  CHECK(nn::roi_align(ones({1, 2, 5, 5}), {none}, 2).sizes() == Dims{0, 2, 2, 2});
  // 300 * 300 exceeds f16.
  const Tensor large = box(0, 0, 300, 300), iou = nn::box_iou(large.to(f16), large.to(f16));
  CHECK(iou.dtype() == f32);
  CHECK(iou.item() == 1);
  CHECK(nn::box_iou(large.to(i64), box(0, 0, 300, 150).to(i64)).item() == 0.5);
  const amp::Autocast region(f16);
  CHECK(nn::box_iou(large, large).item() == 1);
  CHECK(nn::sigmoid_focal_loss(tensor({1.0}).to(f16), tensor({1.0})).dtype() == f32);
  CHECK(nn::roi_align(ones({1, 2, 5, 5}, {.dtype = f16}), {box(0, 0, 4, 4)}, 2).dtype() == f16);
  // A box without area: one pixel, or no pixel at all, as in torchvision.
  const Tensor point = box(2, 2, 2, 2);
  CHECK(equal(nn::roi_align(ones({1, 1, 5, 5}), {point}, 2), ones({1, 1, 2, 2})));
  CHECK(equal(nn::roi_align(ones({1, 1, 5, 5}), {point}, 2, {.aligned = true}), zeros({1, 1, 2, 2})));
  const nn::RoiAlignOptions one_sample{.sampling_ratio = 1, .aligned = true};
  CHECK(equal(nn::roi_align(ones({1, 1, 5, 5}), {point}, 2, one_sample), ones({1, 1, 2, 2})));
}

TEST_CASE("boxes: what is refused") {
  const Tensor one = box(0, 0, 1, 1);
  CHECK_THROWS_WITH(nn::box_area(ones({2, 5})), Contains("box_area: boxes must be boxes [..., 4], got f32[2, 5]"));
  CHECK_THROWS_WITH(nn::box_iou(one, one[0]), Contains("box_iou: needs lists of boxes"));
  CHECK_THROWS_WITH(nn::box_convert(one, "xyxy", "yolo"), Contains("got \"yolo\""));
  CHECK_THROWS_WITH(nn::distance_box_iou_loss(one, ones({2, 4})), Contains("two tensors of one shape"));
  CHECK_THROWS_WITH(nn::sigmoid_focal_loss(ones({2}), ones({2}), 2), Contains("alpha must lie in [0, 1]"));
  CHECK_THROWS_WITH(nn::nms(one, ones({2}), 0.5), Contains("scores must be [1], one for each box, got f32[2]"));
  CHECK_THROWS_WITH(nn::nms(one, ones({1}), NAN), Contains("iou_threshold is NaN"));
  CHECK_THROWS_WITH(nn::batched_nms(one, ones({1}), ones({1}), 0.5), Contains("classes must be integers"));
  CHECK_THROWS_WITH(nn::roi_align(ones({1, 1, 4, 4}), ones({1, 5}), 2), Contains("is of picture 1, and x has 1"));
  CHECK_THROWS_WITH(nn::roi_align(ones({1, 1, 4, 4}), std::vector<Tensor>{one, one}, 2), Contains("2 lists"));
  CHECK_THROWS_WITH(nn::roi_align(ones({1, 1, 4, 4}), {box(0, 0, INFINITY, 1)}, 2), Contains("region of box 0 is not"));
}
