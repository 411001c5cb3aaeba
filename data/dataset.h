// A labelled set of images in memory, and the interface through which the loader reads any set.
// Next: data/mnist.h (where sets come from), data/loader.h (batches), data/transforms.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace mantissa::data {

struct Batch {
  Tensor image;  // [B, C, H, W]
  Tensor label;  // i64 [B]
};

struct Dataset {
  Tensor images;             // u8 [N, C, H, W]
  Tensor labels;             // i64 [N], each below `classes`
  std::int64_t classes = 0;
  std::string name;          // "mnist"
  std::string source;        // where it came from, as a sentence to print
  std::vector<std::string> class_names;  // [classes], or empty
  // Of the pixels scaled to [0, 1], over the training images: one value, or one per channel.
  std::vector<float> mean{0.5f}, std{0.5f};

  std::int64_t size() const { return images.defined() ? images.size(0) : 0; }
  // Copies of the samples at `indices`, in that order. Error when an index is not in [0, size()).
  Batch get_batch(std::span<const std::int64_t> indices) const;
  // The first `n` samples, sharing memory.
  Dataset first(std::int64_t n) const;
};

// What the loader reads. Write one for data that do not fit in memory; read() is called from several
// threads at once and may throw: the exception reaches the loop, with the index of the sample.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::int64_t size() const = 0;
  virtual Dims image_sizes() const = 0;  // of one sample, e.g. [1, 28, 28]
  virtual Dtype image_dtype() const { return u8; }
  // Writes the image of sample `index`, contiguous, at `image` and returns its label.
  virtual std::int64_t read(std::int64_t index, void* image) const = 0;
};

std::shared_ptr<const Source> as_source(Dataset dataset);

// Reads the samples one by one; an exception gets "sample 17: " in front.
Batch read_batch(const Source& source, std::span<const std::int64_t> indices);

}  // namespace mantissa::data
