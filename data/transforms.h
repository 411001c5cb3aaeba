// Transforms of batches between dataset and model. They act on whole batches, on the CPU, in the loader's threads:
// plain serial loops. Random ones use the batch's own Draws (data/draws.h). Behaviour follows torchvision's transforms
// of the same names. Next: data/crops.h, data/geometry.h (sizes, rotation, affine maps), data/warp.h, data/color.h,
// data/levels.h, data/blur.h, data/auto_augment.h (RandAugment etc.), data/containers.h, data/mix.h (MixUp, CutMix).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/pixel_step.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "data/draws.h"
#include "data/motion.h"

namespace mantissa::data {

using PixelSteps = std::vector<PixelStep>;  // one per image of a batch

// A step of the pipeline; apply() is called from several threads at once.
class Transform {
 public:
  virtual ~Transform() = default;
  virtual void apply(Batch& batch, Draws& draws) const = 0;

  // For transforms that only move or fill pixels: the same operation with the same draws as data, to run on a device
  // that holds the images.
  virtual bool has_steps() const { return false; }
  virtual PixelSteps steps([[maybe_unused]] std::int64_t images, [[maybe_unused]] std::int64_t height,
                           [[maybe_unused]] std::int64_t width,
                           [[maybe_unused]] Draws& draws) const { return {}; }
};

using Transforms = std::vector<std::shared_ptr<const Transform>>;

// (x - mean) / std as f32, per channel; a single value applies to all channels. u8 pixels are first scaled to [0, 1],
// f32 ones are used as given. images [B, C, H, W], or rows [B, C]; not modified.
Tensor normalize(const Tensor& images, const std::vector<float>& mean, const std::vector<float>& std);

// normalize() as the last step of a pipeline, rounded to `dtype`.
struct Normalize final : Transform {
  Normalize(std::vector<float> m, std::vector<float> s, Dtype t = f32)
      : mean(std::move(m)), std(std::move(s)), dtype(t) {}
  void apply(Batch& batch, Draws& draws) const override;
  std::vector<float> mean, std;
  Dtype dtype;
};

// Whitening and similar: (x - mean) @ matrix, with the pixels x of each image as one row; f32, of the image's shape.
// images [B, C, H, W], u8 (scaled to [0, 1]) or f32; matrix [D, D] and mean [D] with D = C H W. As torchvision's
// LinearTransformation.
Tensor linear_transformation(const Tensor& images, const Tensor& matrix, const Tensor& mean);

// u8 pixels as f32 in [0, 1]; f32 ones are returned unchanged.
Tensor to_float(const Tensor& images);

// The random steps of the functions below.
PixelSteps random_flip_steps(std::int64_t images, Draws& draws, float p);
PixelSteps random_vertical_flip_steps(std::int64_t images, Draws& draws, float p);
PixelSteps random_crop_steps(std::int64_t images, std::int64_t padding, Draws& draws);
PixelSteps cutout_steps(std::int64_t images, std::int64_t height, std::int64_t width, Draws& draws, std::int64_t size,
    float value);

// Mirrors each image horizontally, or vertically, with probability p, in place. u8 or f32. `motions`, here and in all
// functions that move pixels: where each image's contents went is appended there.
void random_flip_(Tensor& images, Draws& draws, float p = 0.5f, Motions* motions = nullptr);
void random_vertical_flip_(Tensor& images, Draws& draws, float p = 0.5f, Motions* motions = nullptr);

// Zero-pads each image by `padding` pixels on every side and cuts a window of the original size at a random position.
// u8 or f32; returns a new tensor.
Tensor random_crop(const Tensor& images, std::int64_t padding, Draws& draws, Motions* motions = nullptr);

// Sets a square of `size` pixels around a random position to `value`, in place, clipped to the image. u8 or f32.
// DeVries and Taylor, "Improved regularization of convolutional neural networks with cutout", 2017; for u8 pixels use
// the dataset's mean as `value`.
void cutout_(Tensor& images, Draws& draws, std::int64_t size, float value = 0);

// Sets a rectangle of each image to `value` with probability p, in place: `scale` is the range of its area as a
// fraction of the image, `ratio` of its height / width, drawn log-uniformly. u8 or f32. As in torchvision's
// RandomErasing (Zhong et al., 2017), the image is unchanged if ten such rectangles in a row do not fit.
struct ErasingOptions {
  float p = 0.5f;
  std::array<float, 2> scale{0.02f, 0.33f}, ratio{0.3f, 3.3f};
  float value = 0;
};
void random_erasing_(Tensor& images, Draws& draws, const ErasingOptions& options = {});

// Adds Gaussian noise to every value, in place, clamped to the range of pixels. f32 images in [0, 1], or u8, for which
// mean and sigma are fractions of 255 and the noise is truncated to integers.
void gaussian_noise_(Tensor& images, Draws& draws, float mean = 0, float sigma = 0.1f);

}  // namespace mantissa::data
