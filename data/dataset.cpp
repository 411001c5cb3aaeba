#include "data/dataset.h"

#include <cstring>

namespace mantissa::data {
namespace {

class InMemory final : public Source {
 public:
  explicit InMemory(Dataset dataset) : set_(std::move(dataset)) {
    check(set_.images.defined() && set_.labels.defined() && set_.images.dim() >= 2 &&
              set_.labels.dim() == 1 && set_.images.size(0) == set_.labels.size(0) &&
              set_.labels.dtype() == i64,
          "a dataset needs images [N, C, H, W] and as many i64 labels [N]");
    check(set_.images.device().is_cpu() && set_.images.is_contiguous() && set_.labels.is_contiguous(),
          "a dataset must be contiguous and on the CPU");
    for (int d = 1; d < set_.images.dim(); ++d) sample_.push_back(set_.images.size(d));
    sample_bytes_ = checked_nbytes(sample_, set_.images.dtype());
  }
  std::int64_t size() const override { return set_.size(); }
  Dims image_sizes() const override { return sample_; }
  Dtype image_dtype() const override { return set_.images.dtype(); }
  std::int64_t read(std::int64_t index, void* image) const override {
    check(index >= 0 && index < size(), "the index is not in a dataset of ", size(), " samples");
    const auto* images = static_cast<const char*>(set_.images.raw_data());
    std::memcpy(image, images + index * sample_bytes_, static_cast<std::size_t>(sample_bytes_));
    return set_.labels.data<std::int64_t>()[index];
  }

 private:
  Dataset set_;
  Dims sample_;
  std::int64_t sample_bytes_ = 0;
};

}  // namespace

std::shared_ptr<const Source> as_source(Dataset dataset) {
  return std::make_shared<InMemory>(std::move(dataset));
}

Batch read_batch(const Source& source, std::span<const std::int64_t> indices) {
  const Dims sample = source.image_sizes();
  const std::int64_t stride = checked_nbytes(sample, source.image_dtype());
  Dims sizes = sample;
  sizes.insert(0, static_cast<std::int64_t>(indices.size()));
  Batch batch{Tensor::allocate(sizes, source.image_dtype()), Tensor::allocate({sizes[0]}, i64)};
  auto* image = static_cast<char*>(batch.image.raw_data());
  auto* label = batch.label.data<std::int64_t>();
  for (const std::int64_t index : indices) {
    try {
      *label++ = source.read(index, image);
    } catch (Error& e) {
      e.add_outer_context(concat("sample ", index));
      throw;
    } catch (const std::exception& e) {
      fail("sample ", index, ": ", e.what());
    }
    image += stride;
  }
  return batch;
}

Batch Dataset::get_batch(std::span<const std::int64_t> indices) const {
  return read_batch(InMemory(*this), indices);
}

Dataset Dataset::first(std::int64_t n) const {
  check(n >= 0 && n <= size(), "first(", n, "): the dataset has ", size(), " samples");
  Dataset result = *this;
  Dims sizes = images.sizes();
  sizes[0] = n;
  result.images = images.as_strided(sizes, images.strides());
  result.labels = labels.as_strided({n}, labels.strides());
  return result;
}

}  // namespace mantissa::data
