#include "data/average_precision.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include "core/ops.h"
#include "data/box_overlap.h"
#include "io/process_group.h"

namespace mantissa::data {
namespace {

Tensor on_host(const Tensor& t, Dtype dtype) { return contiguous(cast(t.detach(), dtype).to(cpu)); }

}  // namespace

MeanAveragePrecision::MeanAveragePrecision(std::int64_t classes, std::vector<double> overlaps, std::int64_t most)
    : overlaps_(std::move(overlaps)), most_(most),
      classes_(static_cast<std::size_t>(std::max<std::int64_t>(classes, 0))) {
  if (overlaps_.empty())
    for (int i = 50; i < 100; i += 5) overlaps_.push_back(i / 100.0);
  check(classes >= 1 && most >= 1 && overlaps_.size() <= 64,
        "MeanAveragePrecision: needs classes, detections, and at most 64 overlaps, got ", classes, ", ", most, " and ",
        overlaps_.size());
  for (const double o : overlaps_)
    check(o > 0 && o <= 1, "MeanAveragePrecision: overlaps must be above 0 and at most 1, got ", o);
}

void MeanAveragePrecision::reset() {
  images_ = 0;
  for (Class& c : classes_) c = {};
}

void MeanAveragePrecision::add(const Tensor& boxes, const Tensor& scores, const Tensor& labels, const Tensor& target,
                               const Tensor& crowds) {
  check(boxes.defined() && boxes.dim() == 2 && boxes.size(1) == 4 && boxes.is_floating() && scores.defined() &&
            scores.sizes() == Dims{boxes.size(0)} && scores.is_floating() && labels.defined() &&
            labels.sizes() == scores.sizes() && labels.dtype() == i64 && target.defined() && target.dim() == 2 &&
            target.size(1) >= 5 && target.is_floating(),
        "MeanAveragePrecision: expected boxes [K, 4], scores [K], labels i64 [K] and the objects [M, 5 or more] of one "
        "image, got ",
        boxes, ", ", scores, ", ", labels, " and ", target);
  check(!crowds.defined() || (crowds.dtype() == boolean && crowds.sizes() == Dims{target.size(0)}),
        "MeanAveragePrecision: expected crowds bool [", target.size(0), "], one for each object, got ", crowds);
  const Tensor box = on_host(boxes, f32), score = on_host(scores, f32).clone(), label = on_host(labels, i64),
               truth = on_host(target, f32);
  const auto classes = static_cast<std::int64_t>(classes_.size());
  std::vector<bool> crowd(static_cast<std::size_t>(truth.size(0)));
  if (crowds.defined()) crowd = crowds.to_vector<bool>();
  std::vector<std::vector<std::int64_t>> detections(classes_.size()), objects = detections, regions = detections;
  for (std::int64_t i = 0; i < label.numel(); ++i) {
    const std::int64_t c = label.data<std::int64_t>()[i];
    check(c >= 0 && c < classes, "MeanAveragePrecision: a detection has class ", c, " of ", classes);
    detections[static_cast<std::size_t>(c)].push_back(i);
  }
  for (std::int64_t i = 0; i < truth.size(0); ++i) {
    const float c = truth.data<float>()[i * truth.size(1) + 4];
    if (!(c >= 0)) continue;
    check(c < static_cast<float>(classes) && c == std::floor(c), "MeanAveragePrecision: an object has class ", c,
          " of ", classes);
    (crowd[static_cast<std::size_t>(i)] ? regions : objects)[static_cast<std::size_t>(c)].push_back(i);
  }
  for (float& s : std::span(score.data<float>(), static_cast<std::size_t>(score.numel())))
    if (std::isnan(s)) s = -HUGE_VALF;
  ++images_;
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    std::vector<std::int64_t>& found = detections[c];
    const float* s = score.data<float>();
    std::ranges::stable_sort(found, [s](std::int64_t a, std::int64_t b) { return s[a] > s[b]; });
    if (static_cast<std::int64_t>(found.size()) > most_) found.resize(static_cast<std::size_t>(most_));
    classes_[c].objects += static_cast<std::int64_t>(objects[c].size());
    const auto row = [](const Tensor& t, std::int64_t i) { return t.data<float>() + i * t.size(1); };
    std::vector<std::uint64_t> taken(objects[c].size());  // bit i: at overlap i
    for (const std::int64_t d : found) {
      Detection detection{s[d], 0, 0};
      std::vector<double> iou;
      for (const std::int64_t o : objects[c]) iou.push_back(overlap_of(row(box, d), row(truth, o)));
      double in_crowd = 0;
      for (const std::int64_t r : regions[c]) in_crowd = std::max(in_crowd, part_within(row(box, d), row(truth, r)));
      for (std::size_t i = 0; i < overlaps_.size(); ++i) {
        const std::uint64_t bit = std::uint64_t{1} << i;
        double best = std::min(overlaps_[i], 1 - 1e-10);
        std::size_t chosen = iou.size();
        for (std::size_t o = 0; o < iou.size(); ++o)
          if (!(taken[o] & bit) && iou[o] >= best) best = iou[o], chosen = o;
        if (chosen < iou.size()) {
          taken[chosen] |= bit;
          detection.found |= bit;
        } else if (in_crowd >= best) {
          detection.ignored |= bit;
        }
      }
      classes_[c].detections.push_back(detection);
    }
  }
}

void MeanAveragePrecision::gather(distributed::ProcessGroup& group) {
  constexpr const char* different = "MeanAveragePrecision: the ranks' metrics have different numbers of classes";
  // The images; of each class its objects, the number of its detections, and these.
  std::string own;
  const auto put = [&own](const auto& x) { own.append(reinterpret_cast<const char*>(&x), sizeof x); };
  put(images_);
  for (const Class& c : classes_) {
    put(c.objects), put(c.detections.size());
    for (const Detection& d : c.detections) put(d.score), put(d.found), put(d.ignored);
  }
  reset();
  for (const std::string& all : group.all_gather(own)) {
    std::size_t at = 0;
    const auto take = [&]<class T>(T) {
      T x;
      check(all.size() - at >= sizeof x, different);
      std::memcpy(&x, all.data() + at, sizeof x);
      at += sizeof x;
      return x;
    };
    images_ += take(images_);
    for (Class& c : classes_) {
      c.objects += take(c.objects);
      for (std::size_t left = take(std::size_t()); left > 0; --left) {
        const float score = take(0.0f);
        const std::uint64_t found = take(std::uint64_t()), ignored = take(std::uint64_t());
        c.detections.push_back({score, found, ignored});
      }
    }
    check(at == all.size(), different);
  }
}

double MeanAveragePrecision::precision(const Class& c, std::size_t overlap) const {
  std::vector<Detection> all = c.detections;
  std::ranges::stable_sort(all, [](const Detection& a, const Detection& b) { return a.score > b.score; });
  std::vector<double> precisions, recalls;
  std::int64_t right = 0, seen = 0;
  for (const Detection& d : all) {
    if (d.ignored >> overlap & 1) continue;
    right += static_cast<std::int64_t>(d.found >> overlap & 1);
    ++seen;
    precisions.push_back(static_cast<double>(right) / static_cast<double>(seen));
    recalls.push_back(static_cast<double>(right) / static_cast<double>(c.objects));
  }
  for (std::size_t i = precisions.size(); i-- > 1;) precisions[i - 1] = std::max(precisions[i - 1], precisions[i]);
  double sum = 0;
  for (int i = 0; i <= 100; ++i) {  // i * 0.01, rounded as there
    const auto at = std::ranges::lower_bound(recalls, i * 0.01);
    if (at != recalls.end()) sum += precisions[static_cast<std::size_t>(at - recalls.begin())];
  }
  return sum / 101;
}

template <class F> double MeanAveragePrecision::mean(F f) const {
  double sum = 0;
  int count = 0;
  for (const Class& c : classes_)
    if (c.objects > 0) sum += f(c), ++count;
  return count > 0 ? sum / count : 0;
}

double MeanAveragePrecision::value() const {
  double sum = 0;
  for (std::size_t i = 0; i < overlaps_.size(); ++i) sum += mean([&](const Class& c) { return precision(c, i); });
  return sum / static_cast<double>(overlaps_.size());
}

double MeanAveragePrecision::value(double overlap) const {
  const auto at = std::ranges::find(overlaps_, overlap);
  check(at != overlaps_.end(), "MeanAveragePrecision: was not made for an overlap of ", overlap);
  return mean([&](const Class& c) { return precision(c, static_cast<std::size_t>(at - overlaps_.begin())); });
}

std::vector<double> MeanAveragePrecision::per_class() const {
  std::vector<double> values;
  for (const Class& c : classes_) {
    double sum = c.objects > 0 ? 0 : std::numeric_limits<double>::quiet_NaN();
    for (std::size_t i = 0; i < overlaps_.size() && c.objects > 0; ++i) sum += precision(c, i);
    values.push_back(sum / static_cast<double>(overlaps_.size()));
  }
  return values;
}

double MeanAveragePrecision::recall() const {
  return mean([&](const Class& c) {
    std::int64_t found = 0;
    for (const Detection& d : c.detections) found += std::popcount(d.found);
    return static_cast<double>(found) / static_cast<double>(c.objects) / static_cast<double>(overlaps_.size());
  });
}

}  // namespace mantissa::data
