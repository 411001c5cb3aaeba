// A data set that lives in device memory as u8. A batch costs the upload of some numbers per picture; one kernel
// gathers, crops, mirrors, fills and normalises. The bits are those of the same pipeline on the CPU. Used by the loader
// (LoaderOptions::device); not by programs.
#pragma once

#include <memory>
#include <span>

#include "data/transforms.h"

namespace mantissa::data {

class Resident {
 public:
  // Null where it does not apply: a set that is not in memory as u8 [N, C, H, W] with i64 labels, or a transform that
  // cannot be written down as steps (normalisation may come last).
  static std::unique_ptr<Resident> make(const Source& source,
                                        const std::vector<std::shared_ptr<const Transform>>& transforms, Device device);

  // i64 [2 + 6 * steps, B], on the CPU: indices, labels, then each step of each picture. Called from several threads.
  Tensor plan(std::span<const std::int64_t> indices, Draws& draws) const;
  // The batch of a plan, on the device, in the caller's stream.
  Batch gather(const Tensor& plan) const;

 private:
  Device device_;
  Tensor images_, table_;  // on the device; table: f32 [C, 256], the normalised value of each pixel, or undefined
  Tensor labels_;          // on the CPU
  Dtype dtype_ = u8;       // of a batch
  std::vector<std::shared_ptr<const Transform>> steps_;
};

}  // namespace mantissa::data
