// What happens to a batch between the data set and the model. Whole batches, on the CPU, in the
// loader's threads: plain serial loops. Random ones draw from the batch's own Draws (data/draws.h).
// Behaviour follows torchvision's transforms of the same names.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "data/dataset.h"
#include "data/draws.h"

namespace mantissa::data {

// A step of the pipeline; apply() is called from several threads at once.
class Transform {
 public:
  virtual ~Transform() = default;
  virtual void apply(Batch& batch, Draws& draws) const = 0;
};

// (x - mean) / std as f32, per channel; one value serves all channels. u8 pixels are scaled to
// [0, 1] first, f32 ones are taken as they are. images [B, C, H, W], not modified.
Tensor normalize(const Tensor& images, const std::vector<float>& mean, const std::vector<float>& std);

// Mirrors each image left to right with probability p, in place. u8 or f32.
void random_flip_(Tensor& images, Draws& draws, float p = 0.5f);

// Pads each image with `padding` pixels of 0 on every side and cuts a window of the original size at
// a random place. u8 or f32; returns a new tensor.
Tensor random_crop(const Tensor& images, std::int64_t padding, Draws& draws);

}  // namespace mantissa::data
