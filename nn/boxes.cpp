#include "nn/boxes.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "amp/autocast.h"
#include "autograd/grad_mode.h"
#include "core/indexing.h"
#include "core/kernel.h"
#include "core/operators.h"
#include "core/recording.h"

namespace mantissa {
// kept bool [N] := which of the boxes [N, 4], f32 or f64 in the order of their scores, no better box of the same class
// suppresses. classes: i64 [N], or an empty View.
MANTISSA_CUDA_KERNEL(suppress_boxes, const View& kept, const View& boxes, const View& classes, double threshold)
}  // namespace mantissa

namespace mantissa::nn {
namespace {

Tensor wide(const Tensor& x) {
  return is_half(x.dtype()) ? cast(x, f32) : x.dtype() == u8 ? cast(x, i32) : x;  // areas exceed 255
}

// Validates `boxes`; f16 and bf16 as f32, u8 as i32.
Tensor checked(const char* name, const char* argument, const Tensor& boxes) {
  check(boxes.defined() && boxes.dim() >= 1 && boxes.size(-1) == 4, name, ": ", argument,
        " must be boxes [..., 4], got ", boxes);
  return wide(boxes);
}
Tensor checked_floating(const char* name, const char* argument, const Tensor& boxes) {
  const Tensor x = checked(name, argument, boxes);
  return x.is_floating() ? x : cast(x, f32);
}

struct Sides {
  Tensor x1, y1, x2, y2;
};
Sides sides(const Tensor& boxes) {
  return {select(boxes, -1, 0), select(boxes, -1, 1), select(boxes, -1, 2), select(boxes, -1, 3)};
}
Tensor area(const Sides& s) { return (s.x2 - s.x1) * (s.y2 - s.y1); }

// The terms of all overlap measures, for boxes whose sides broadcast.
struct Pair {
  Sides a, b;
  Tensor both, either;  // intersection area, union area
};
Pair pair_of(const Sides& a, const Sides& b) {
  const Tensor width = clamp_min(minimum(a.x2, b.x2) - maximum(a.x1, b.x1), 0),
               height = clamp_min(minimum(a.y2, b.y2) - maximum(a.y1, b.y1), 0);
  const Tensor both = width * height;
  return {a, b, both, area(a) + area(b) - both};
}
Pair all_pairs(const char* name, const Tensor& a, const Tensor& b) {
  const Tensor x = checked(name, "a", a), y = checked(name, "b", b);
  check(x.dim() >= 2 && y.dim() >= 2, name, ": needs lists of boxes [..., N, 4] and [..., M, 4], got ", a, " and ", b);
  return pair_of(sides(unsqueeze(x, -2)), sides(unsqueeze(y, -3)));
}
Pair one_by_one(const char* name, const Tensor& a, const Tensor& b) {
  check(a.defined() && b.defined() && a.sizes() == b.sizes(), name,
        ": needs pairs of boxes, two tensors of one shape, got ", a, " and ", b);
  return pair_of(sides(checked_floating(name, "a", a)), sides(checked_floating(name, "b", b)));
}

struct Around {
  Tensor width, height;  // of the smallest enclosing box
};
Around around(const Pair& p) {
  return {maximum(p.a.x2, p.b.x2) - minimum(p.a.x1, p.b.x1), maximum(p.a.y2, p.b.y2) - minimum(p.a.y1, p.b.y1)};
}
// Squared centre distance over squared diagonal of the enclosing box.
Tensor distance(const Pair& p, double eps) {
  const Around box = around(p);
  const Tensor x = (p.a.x1 + p.a.x2) / 2.0 - (p.b.x1 + p.b.x2) / 2.0,
               y = (p.a.y1 + p.a.y2) / 2.0 - (p.b.y1 + p.b.y2) / 2.0;
  return (square(x) + square(y)) / (square(box.width) + square(box.height) + eps);
}
Tensor slant(const Sides& s) { return atan((s.x2 - s.x1) / (s.y2 - s.y1)); }
// CIoU's aspect-ratio term; its weight is treated as a constant in the gradient.
Tensor unlikeness(const Pair& p, const Tensor& overlap, double eps) {
  const Tensor v = 4 / (std::numbers::pi * std::numbers::pi) * square(slant(p.b) - slant(p.a));
  const NoGrad no_grad;
  const Tensor weight = v / (1.0 - overlap + v + eps);
  const EnableGrad again;
  return weight * v;
}

Tensor reduced(const Tensor& loss, Reduction reduction) {
  if (reduction == Reduction::none) return loss;
  return reduction == Reduction::mean && loss.numel() > 0 ? mean(loss) : sum(loss);
}

// Boxes sorted by descending score: appends the positions in `boxes` of those kept.
template <class T>
void suppress(const T* boxes, std::span<const std::int64_t> order, double threshold, std::vector<std::int64_t>& kept) {
  const std::size_t n = order.size();
  std::vector<T> x1(n), y1(n), x2(n), y2(n), areas(n);
  for (std::size_t i = 0; i < n; ++i) {
    const T* b = boxes + 4 * order[i];
    x1[i] = b[0], y1[i] = b[1], x2[i] = b[2], y2[i] = b[3], areas[i] = (b[2] - b[0]) * (b[3] - b[1]);
  }
  std::vector<std::uint8_t> gone(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (gone[i]) continue;
    kept.push_back(order[i]);
    for (std::size_t k = i + 1; k < n; ++k) {
      const T width = std::max(T(0), std::min(x2[i], x2[k]) - std::max(x1[i], x1[k]));
      const T height = std::max(T(0), std::min(y2[i], y2[k]) - std::max(y1[i], y1[k]));
      const T both = width * height;
      gone[k] |= static_cast<double>(both / (areas[i] + areas[k] - both)) > threshold;  // 0 / 0 (NaN) compares false
    }
  }
}

// classes: one per box, or empty. Returns indices by descending score.
template <class T>
std::vector<std::int64_t> kept_boxes(const std::vector<T>& boxes, std::vector<std::int64_t> order,
                                     const std::vector<std::int64_t>& classes, double threshold) {
  std::vector<std::int64_t> kept;
  if (classes.empty()) {
    suppress<T>(boxes.data(), order, threshold, kept);
    return kept;
  }
  const auto class_of = [&](std::int64_t i) { return classes[static_cast<std::size_t>(i)]; };
  std::vector<std::int64_t> rank(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    rank[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  std::ranges::stable_sort(order, {}, class_of);
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = std::find_if(begin, order.end(), [&](std::int64_t i) { return class_of(i) != class_of(*begin); });
    suppress<T>(boxes.data(), {begin, end}, threshold, kept);
    begin = end;
  }
  std::ranges::sort(kept, {}, [&](std::int64_t i) { return rank[static_cast<std::size_t>(i)]; });
  return kept;
}

// classes: i64 [N], or undefined.
Tensor choose(const char* name, const Tensor& given, const Tensor& scores, const Tensor& classes, double threshold) {
  check(!std::isnan(threshold), name, ": iou_threshold is NaN");
  const NoGrad no_grad;
  const Device device = given.device();
  const Tensor boxes = cast(given, given.dtype() == f64 ? f64 : f32), order = argsort(scores.to(device), 0, true);
  if (!device.is_cpu()) {
    check_may_read(name, given, "the values say how many boxes are kept");
    const Tensor sorted = index_select(boxes, 0, order),
                 kept = empty(order.sizes(), {.dtype = boolean, .device = device});
    const Tensor kinds = classes.defined() ? index_select(classes.to(device), 0, order) : Tensor();
    cuda_backend::prepare(&cuda_backend::suppress_boxes, device)(kept.view(), sorted.view(),
                                                                 kinds.defined() ? kinds.view() : View{}, threshold);
    return masked_select(order, kept);
  }
  std::vector<std::int64_t> kinds;
  if (classes.defined()) kinds = classes.to_vector<std::int64_t>();
  const std::vector<std::int64_t> places = order.to_vector<std::int64_t>();
  const std::vector<std::int64_t> kept = boxes.dtype() == f64
                                             ? kept_boxes(boxes.to_vector<double>(), places, kinds, threshold)
                                             : kept_boxes(boxes.to_vector<float>(), places, kinds, threshold);
  return from_data(kept, {static_cast<std::int64_t>(kept.size())});
}
void check_list(const char* name, const Tensor& boxes, const Tensor& scores) {
  check(boxes.defined() && boxes.dim() == 2 && boxes.size(1) == 4, name, ": boxes must be [N, 4], got ", boxes);
  check(scores.defined() && scores.dim() == 1 && scores.size(0) == boxes.size(0), name, ": scores must be [",
        boxes.size(0), "], one for each box, got ", scores);
}

}  // namespace

Tensor box_convert(const Tensor& boxes, std::string_view from, std::string_view to) {
  for (const std::string_view form : {from, to}) {
    check(form == "xyxy" || form == "xywh" || form == "cxcywh",
          "box_convert: a form is \"xyxy\", \"xywh\" or \"cxcywh\", got \"", form, "\"");
  }
  const Tensor x = checked("box_convert", "boxes", boxes);
  if (from == to) return clone(x);
  auto [x1, y1, x2, y2] = sides(x);
  if (from == "cxcywh") x1 = x1 - 0.5 * x2, y1 = y1 - 0.5 * y2;
  if (from != "xyxy") x2 = x1 + x2, y2 = y1 + y2;
  if (to == "cxcywh") return stack({(x1 + x2) / 2.0, (y1 + y2) / 2.0, x2 - x1, y2 - y1}, -1);
  if (to == "xywh") return stack({x1, y1, x2 - x1, y2 - y1}, -1);
  return stack({x1, y1, x2, y2}, -1);
}

Tensor box_area(const Tensor& boxes) { return area(sides(checked("box_area", "boxes", boxes))); }

Tensor clip_boxes_to_image(const Tensor& boxes, std::array<double, 2> size) {
  const auto [x1, y1, x2, y2] = sides(checked("clip_boxes_to_image", "boxes", boxes));
  const auto [height, width] = size;
  return stack({clamp(x1, 0, width), clamp(y1, 0, height), clamp(x2, 0, width), clamp(y2, 0, height)}, -1);
}

Tensor remove_small_boxes(const Tensor& boxes, double min_size) {
  check(boxes.defined() && boxes.dim() == 2, "remove_small_boxes: boxes must be [N, 4], got ", boxes);
  const auto [x1, y1, x2, y2] = sides(checked("remove_small_boxes", "boxes", boxes));
  return where(logical_and(x2 - x1 >= min_size, y2 - y1 >= min_size))[0];
}

Tensor masks_to_boxes(const Tensor& masks) {
  check(masks.defined() && masks.dim() == 3, "masks_to_boxes: masks must be [N, H, W], got ", masks);
  if (masks.numel() == 0) return zeros({masks.size(0), 4}, {.device = masks.device()});
  const NoGrad no_grad;
  const Tensor rows = any(masks, 2).to(f32), columns = any(masks, 1).to(f32);
  const auto first = [](const Tensor& line) { return argmax(line, 1).to(f32); };
  const auto last = [&](const Tensor& line) { return static_cast<double>(line.size(1) - 1) - first(flip(line, 1)); };
  const Tensor found = any(rows, 1, true).to(f32);
  return stack({first(columns), first(rows), last(columns), last(rows)}, 1) * found;
}

Tensor box_iou(const Tensor& a, const Tensor& b) {
  const Pair p = all_pairs("box_iou", a, b);
  return p.both / p.either;
}
Tensor generalized_box_iou(const Tensor& a, const Tensor& b) {
  const Pair p = all_pairs("generalized_box_iou", a, b);
  const Around box = around(p);
  const Tensor whole = box.width * box.height;
  return p.both / p.either - (whole - p.either) / whole;
}
Tensor distance_box_iou(const Tensor& a, const Tensor& b, double eps) {
  const Pair p = all_pairs("distance_box_iou", a, b);
  return p.both / p.either - distance(p, eps);
}
Tensor complete_box_iou(const Tensor& a, const Tensor& b, double eps) {
  const Pair p = all_pairs("complete_box_iou", a, b);
  const Tensor overlap = p.both / p.either;
  return overlap - distance(p, eps) - unlikeness(p, overlap, eps);
}

Tensor generalized_box_iou_loss(const Tensor& a, const Tensor& b, Reduction reduction, double eps) {
  const Pair p = one_by_one("generalized_box_iou_loss", a, b);
  const Around box = around(p);
  const Tensor whole = box.width * box.height;
  return reduced(1.0 - (p.both / (p.either + eps) - (whole - p.either) / (whole + eps)), reduction);
}
Tensor distance_box_iou_loss(const Tensor& a, const Tensor& b, Reduction reduction, double eps) {
  const Pair p = one_by_one("distance_box_iou_loss", a, b);
  return reduced(1.0 - p.both / (p.either + eps) + distance(p, eps), reduction);
}
Tensor complete_box_iou_loss(const Tensor& a, const Tensor& b, Reduction reduction, double eps) {
  const Pair p = one_by_one("complete_box_iou_loss", a, b);
  const Tensor overlap = p.both / (p.either + eps);
  return reduced(1.0 - overlap + distance(p, eps) + unlikeness(p, overlap, eps), reduction);
}

Tensor sigmoid_focal_loss(const Tensor& x, const Tensor& target, double alpha, double gamma, Reduction reduction) {
  check(x.defined() && target.defined() && x.is_floating() && x.sizes() == target.sizes(),
        "sigmoid_focal_loss: needs logits and targets of one shape, got ", x, " and ", target);
  check((alpha >= 0 && alpha <= 1) || alpha == -1, "sigmoid_focal_loss: alpha must lie in [0, 1], or be -1, got ",
        alpha);
  const amp::Autocast off(amp::disabled);
  const Tensor logits = wide(x), t = cast(target, logits.dtype());
  const Tensor p = sigmoid(logits), right = p * t + (1.0 - p) * (1.0 - t);
  Tensor loss = binary_cross_entropy_with_logits(logits, t, {}, Reduction::none) * pow(1.0 - right, gamma);
  if (alpha >= 0) loss = (alpha * t + (1 - alpha) * (1.0 - t)) * loss;
  if (reduction == Reduction::none) return loss;
  return reduction == Reduction::mean ? mean(loss) : sum(loss);
}

Tensor nms(const Tensor& boxes, const Tensor& scores, double iou_threshold) {
  check_list("nms", boxes, scores);
  return choose("nms", boxes, scores, Tensor(), iou_threshold);
}
Tensor batched_nms(const Tensor& boxes, const Tensor& scores, const Tensor& classes, double iou_threshold) {
  check_list("batched_nms", boxes, scores);
  check(classes.defined() && classes.sizes() == scores.sizes() && !classes.is_floating(),
        "batched_nms: classes must be integers [", boxes.size(0), "], one for each box, got ", classes);
  return choose("batched_nms", boxes, scores, cast(classes, i64), iou_threshold);
}

}  // namespace mantissa::nn
