#include "data/pipeline.h"

#include "core/random.h"

namespace mantissa::data {

Pipeline Pipeline::with_drawn_seed() const {
  if (seeded_) return *this;
  const RngState at = reserve_random(1);
  const Philox::Words bits = Philox{at.seed}(at.offset);
  return with(&LoaderOptions::seed, std::uint64_t{bits.v[0]} << 32 | bits.v[1]);
}

Loader Pipeline::loader(const LoaderOptions& options) const {
  Transforms transforms = transforms_;
  if (normalization_)
    transforms.push_back(std::make_shared<Normalize>(normalization_->mean, normalization_->std, dtype_));
  return Loader(source_, options, std::move(transforms), sampling_);
}

Loader Pipeline::loader_without_threads() const {
  LoaderOptions options = options_;
  options.threads = 0;
  options.device = cpu;
  return loader(options);
}

}  // namespace mantissa::data
