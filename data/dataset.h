// A labelled dataset in memory, and the interface through which the loader reads any dataset. Next: data/load.h (named
// datasets), data/subset.h (subsets), data/loader.h (batches).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "data/draws.h"

namespace mantissa::data {

struct Batch {
  Tensor image;  // [B, C, H, W]; for tables [B, columns]
  Tensor label;  // i64 [B]; other targets if the dataset has those, f32 [B, classes] after MixUp and CutMix
};

// What the targets are, for steps that move pixels: values that have no place in the image, or masks, which are known
// by their size (data/pixel_targets.h); or boxes or points (data/box_targets.h).
enum class Targets { values, boxes, points };

// Metadata of a dataset. Without mean and std its images are not normalised.
struct Info {
  std::int64_t classes = 0;
  std::vector<std::string> class_names = {};
  std::string name = {}, source = {};
  std::vector<float> mean = {}, std = {};
  Targets targets = Targets::values;
};

struct Dataset {
  Tensor images;             // u8 [N, C, H, W], or f32 [N, ...]
  Tensor labels;             // i64 [N], each below `classes`; or f32 targets [N, ...]; or of each pixel, u8 or i64
                             // [N, H, W] (data/pixel_targets.h)
  std::int64_t classes = 0;
  std::string name = {};     // "mnist"
  std::string source = {};   // description of its origin, for printing
  std::vector<std::string> class_names = {};  // [classes], or empty
  // A pipeline subtracts `mean` and divides by `std`, one value or one per channel; u8 pixels are first scaled to [0,
  // 1]. Empty: 0.5 and 0.5 for u8, so that pixels end up in [-1, 1]; f32 images are left unchanged.
  std::vector<float> mean = {}, std = {};
  Targets targets = Targets::values;  // boxes and points: f32 `labels` (data/box_targets.h)

  std::int64_t size() const { return images.defined() ? images.size(0) : 0; }
  // Copies of the samples at `indices`, in that order. Error if an index is not in [0, size()).
  Batch get_batch(std::span<const std::int64_t> indices) const;
  Info info() const;
  // The first `n` samples, sharing memory; `source` says so.
  Dataset first(std::int64_t n) const;
};

// The interface the loader reads from. Implement it for data that do not fit in memory; read() is called concurrently
// and may throw: the exception is rethrown in the loop, with the index of the sample.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::int64_t size() const = 0;
  virtual Dims image_sizes() const = 0;  // of one sample, e.g. [1, 28, 28]
  virtual Dtype image_dtype() const { return u8; }
  // Writes the image of sample `index`, in [0, size()), contiguously to `image` and returns its label.
  virtual std::int64_t read(std::int64_t index, void* image) const = 0;
  virtual Info info() const { return {}; }
  // The dataset in memory whose samples these are, if there is one, and which of them; null: all.
  struct DatasetPart {
    const Dataset* set = nullptr;
    const std::vector<std::int64_t>* places = nullptr;
  };
  virtual DatasetPart in_memory() const { return {}; }

  // For targets that are not class indices: their sizes and dtype, and a read that also writes them to `target`.
  virtual Dims target_sizes() const { return {}; }
  virtual Dtype target_dtype() const { return i64; }
  virtual void read_pair(std::int64_t index, void* image, void* target) const {
    *static_cast<std::int64_t*>(target) = read(index, image);
  }

  // The same with the batch's random numbers, for samples that are augmented while being read (a random crop of a large
  // image, say). The loader calls this function.
  virtual void read_drawn(std::int64_t index, void* image, void* target, Draws& draws) const {
    (void)draws;
    read_pair(index, image, target);
  }
};
using SourcePtr = std::shared_ptr<const Source>;

SourcePtr as_source(Dataset dataset);
inline SourcePtr as_source(SourcePtr source) { return source; }

// Reads the samples one by one, with `draws` passed to read_drawn; exceptions are prefixed with "sample 17: ".
Batch read_batch(const Source& source, std::span<const std::int64_t> indices, Draws* draws = nullptr);

}  // namespace mantissa::data
