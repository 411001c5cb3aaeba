// Mean average precision, the metric of object detectors, as pycocotools computes it.
//
//   data::MeanAveragePrecision metric(20);
//   for each image: metric.add(boxes, scores, labels, target);
//   metric.value();        // mAP@[.5:.95]
//   metric.value(0.5);     // mAP@.5
//
// Of several processes, each with a part of the images: metric.gather(distributed::world()) before value().
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace mantissa::distributed {
class ProcessGroup;
}

namespace mantissa::data {

// Detections of an image and class, at most `most` of the highest scores, are matched to its objects in the order of
// their scores: each to the free object with the largest IoU, if that is at least the overlap asked for. The average
// precision of a class is the mean, over 101 recalls from 0 to 1, of the best precision at that recall or a higher one.
// A NaN score is lower than any number.
class MeanAveragePrecision {
 public:
  // overlaps: what counts as found; by default 0.5, 0.55, ..., 0.95.
  explicit MeanAveragePrecision(std::int64_t classes, std::vector<double> overlaps = {}, std::int64_t most = 100);

  // The detections in one image: boxes f32 [K, 4] (x1, y1, x2, y2), scores f32 [K] and classes i64 [K]; and its
  // objects, f32 [M, 5 or more] as in data/box_targets.h. crowds, bool [M], marks regions of many objects: detections
  // that are matched to no object, but lie in such a region, count neither as right nor as wrong. On any device.
  void add(const Tensor& boxes, const Tensor& scores, const Tensor& labels, const Tensor& target,
           const Tensor& crowds = {});
  // Adds what the metrics of all other ranks have seen: afterwards all are the same. Every rank must call it, once.
  void gather(distributed::ProcessGroup& group);

  double value() const;                   // the mean over the classes that occur, and over all overlaps; 0 without any
  double value(double overlap) const;     // at one of the overlaps
  std::vector<double> per_class() const;  // over all overlaps; NaN for a class without objects
  double recall() const;                  // objects found with `most` detections, the mean over classes and overlaps
  std::int64_t images() const { return images_; }
  void reset();

 private:
  struct Detection {
    float score;
    std::uint64_t found;    // bit i: it found an object at overlap i
    std::uint64_t ignored;  // bit i: it lies in a crowd instead
  };
  struct Class {
    std::vector<Detection> detections;
    std::int64_t objects = 0;
  };
  double precision(const Class& c, std::size_t overlap) const;  // average precision
  template <class F> double mean(F f) const;                    // over classes that occur

  std::vector<double> overlaps_;
  std::int64_t most_, images_ = 0;
  std::vector<Class> classes_;
};

}  // namespace mantissa::data
