// A dataset resident in device memory as u8. A batch costs the upload of a few numbers per image; one kernel gathers,
// crops, flips, fills and normalises. Bitwise the same as the pipeline on the CPU. Used by the loader
// (LoaderOptions::device). Internal.
#pragma once

#include <memory>
#include <span>

#include "data/transforms.h"

namespace mantissa::data {

class Resident {
 public:
  // Null if not applicable: no source, the CPU, a dataset that is not in memory as u8 [N, C, H, W] with labels i64 [N]
  // or u8 [N, H, W], or a transform that cannot be expressed as steps (a final normalisation is allowed).
  static std::shared_ptr<const Resident> make(const Source* source, const Transforms& transforms, Device device);

  // i64 [2 + 6 * steps, B], on the CPU: indices, labels, then each step of each image. Called from several threads.
  Tensor plan(std::span<const std::int64_t> indices, Draws& draws) const;
  // The batch of a plan, on the device, in the caller's stream.
  Batch gather(const Tensor& plan) const;

 private:
  Device device_;
  Tensor images_, table_;  // on the device; table: f32 [C, 256], normalised value per pixel level, or undefined
  Tensor labels_;          // i64 [N] on the CPU, or u8 [N, 1, H, W] on the device
  Dtype dtype_ = u8;       // of a batch
  std::vector<std::shared_ptr<const Transform>> steps_;
};

}  // namespace mantissa::data
