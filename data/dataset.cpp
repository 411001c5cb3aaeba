#include "data/dataset.h"

#include <cstring>

#include "data/box_targets.h"
#include "data/pixel_targets.h"

namespace mantissa::data {
namespace {

class InMemory final : public Source {
 public:
  explicit InMemory(Dataset dataset) : set_(std::move(dataset)) {
    check(set_.images.defined() && set_.labels.defined() && set_.images.dim() >= 2 && set_.labels.dim() >= 1 &&
              set_.images.size(0) == set_.labels.size(0) &&
              ((set_.labels.dtype() == i64 && set_.labels.dim() == 1) || set_.labels.is_floating() ||
               are_classes_of_pixels()),
          "a dataset needs images [N, C, H, W] and as many i64 labels [N], u8 or i64 masks [N, H, W] or floating "
          "targets [N, ...], got ",
          set_.images, " and ", set_.labels);
    if (set_.targets != Targets::values) check_place_targets(set_.labels, set_.targets, set_.size());
    check(set_.images.device().is_cpu() && set_.images.is_contiguous() && set_.labels.is_contiguous(),
          "a dataset must be contiguous and on the CPU");
    for (int d = 1; d < set_.images.dim(); ++d) sample_.push_back(set_.images.size(d));
    for (int d = 1; d < set_.labels.dim(); ++d) target_.push_back(set_.labels.size(d));
    sample_bytes_ = checked_nbytes(sample_, set_.images.dtype());
    target_bytes_ = checked_nbytes(target_, set_.labels.dtype());
  }
  std::int64_t size() const override { return set_.size(); }
  Dims image_sizes() const override { return sample_; }
  Dtype image_dtype() const override { return set_.images.dtype(); }
  std::int64_t read(std::int64_t index, void* image) const override {
    std::int64_t label = 0;
    check(target_dtype() == i64, "the dataset has targets, not class numbers");
    read_pair(index, image, &label);
    return label;
  }
  Info info() const override { return set_.info(); }
  DatasetPart in_memory() const override { return {&set_, nullptr}; }
  Dims target_sizes() const override { return target_; }
  Dtype target_dtype() const override { return set_.labels.dtype(); }
  void read_pair(std::int64_t index, void* image, void* target) const override {
    check(index >= 0 && index < size(), "index ", index, " is not in a dataset of ", size(), " samples");
    copy(set_.images, index, sample_bytes_, image);
    copy(set_.labels, index, target_bytes_, target);
  }

 private:
  bool are_classes_of_pixels() const {
    return (set_.labels.dtype() == u8 || set_.labels.dtype() == i64) && has_pixel_targets({set_.images, set_.labels});
  }
  static void copy(const Tensor& from, std::int64_t index, std::int64_t bytes, void* to) {
    std::memcpy(to, static_cast<const char*>(from.raw_data()) + index * bytes, static_cast<std::size_t>(bytes));
  }

  Dataset set_;
  Dims sample_, target_;
  std::int64_t sample_bytes_ = 0, target_bytes_ = 0;
};

}  // namespace

SourcePtr as_source(Dataset dataset) {
  return std::make_shared<InMemory>(std::move(dataset));
}

Batch read_batch(const Source& source, std::span<const std::int64_t> indices, Draws* draws) {
  const Dims sample = source.image_sizes();
  const std::int64_t stride = checked_nbytes(sample, source.image_dtype());
  const std::int64_t target_stride = checked_nbytes(source.target_sizes(), source.target_dtype());
  Dims sizes = sample, targets = source.target_sizes();
  sizes.insert(0, static_cast<std::int64_t>(indices.size()));
  targets.insert(0, sizes[0]);
  Batch batch{Tensor::allocate(sizes, source.image_dtype()), Tensor::allocate(targets, source.target_dtype())};
  auto* image = static_cast<char*>(batch.image.raw_data());
  auto* target = static_cast<char*>(batch.label.raw_data());
  for (const std::int64_t index : indices) {
    try {
      check(index >= 0 && index < source.size(), "the index is not in a dataset of ", source.size(), " samples");
      if (draws) source.read_drawn(index, image, target, *draws);
      else source.read_pair(index, image, target);
    } catch (Error& e) {
      e.add_outer_context(concat("sample ", index));
      throw;
    } catch (const std::exception& e) {
      fail("sample ", index, ": ", e.what());
    }
    image += stride;
    target += target_stride;
  }
  return batch;
}

Batch Dataset::get_batch(std::span<const std::int64_t> indices) const {
  return read_batch(InMemory(*this), indices);
}

Info Dataset::info() const {
  Info info{classes, class_names, name, source, mean, std, targets};
  if (mean.empty() && images.defined() && images.dtype() == u8) info.mean = info.std = {0.5f};
  return info;
}

Dataset Dataset::first(std::int64_t n) const {
  check(n >= 0 && n <= size(), "first(", n, "): the dataset has ", size(), " samples");
  Dataset result = *this;
  for (Tensor* t : {&result.images, &result.labels}) {
    Dims sizes = t->sizes();
    sizes[0] = n;
    *t = t->raw_view(sizes, t->strides());
  }
  if (n < size() && !source.empty()) result.source += concat(", the first ", n, " of them");
  return result;
}

}  // namespace mantissa::data
