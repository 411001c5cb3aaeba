#include "data/pipeline.h"

#include <algorithm>
#include <numeric>

#include "core/random.h"
#include "data/resident.h"
#include "data/subset.h"

namespace mantissa::data {

Pipeline Pipeline::with_source(SourcePtr source) const {
  check(!sampling_.sampler && !sampling_.batches,
        "subset() and random_split() come before sampler(), which chooses among the samples that they leave");
  return with(&Pipeline::source_, std::move(source));
}

Pipeline Pipeline::subset(std::vector<std::int64_t> indices) const {
  return with_source(data::subset(source_, std::move(indices)));
}

Pipeline Pipeline::take(std::int64_t samples) const {
  check(samples >= 1, "take: at least 1 sample is needed, got ", samples);
  check(source_ != nullptr, "take: this pipeline has no data set");
  std::vector<std::int64_t> indices(static_cast<std::size_t>(std::min(samples, source_->size())));
  std::iota(indices.begin(), indices.end(), 0);
  return subset(std::move(indices));
}

std::vector<SourcePtr> Pipeline::random_parts(const std::vector<double>& parts,
                                              std::optional<std::uint64_t> seed) const {
  return data::random_split(source_, parts, seed);
}

Pipeline Pipeline::shard(int rank, int ranks, Uneven uneven) const {
  check(ranks >= 1 && rank >= 0 && rank < ranks, "shard: rank ", rank, " is not one of ", ranks);
  Pipeline p = *this;
  p.options_.rank = rank;
  p.options_.ranks = ranks;
  p.options_.uneven = uneven;
  return options_.shuffle || sampling_.sampler ? p.with_default_seed() : p;
}

Pipeline Pipeline::with_default_seed() const {
  if (seeded_) return *this;
  return with(&LoaderOptions::seed, options_.ranks > 1 ? rng_state().seed : drawn_seed());
}

Loader Pipeline::loader(const LoaderOptions& options) const {
  Transforms transforms = transforms_;
  if (normalization_)
    transforms.push_back(std::make_shared<Normalize>(normalization_->mean, normalization_->std, dtype_));
  std::shared_ptr<const Resident> resident;
  if (!options.device.is_cpu()) {
    const std::lock_guard lock(loops_.mutex);
    if (!loops_.resident) loops_.resident = Resident::make(source_.get(), transforms, options.device);
    resident = loops_.resident;
  }
  return Loader(source_, options, std::move(transforms), sampling_, std::move(resident));
}

Loader Pipeline::loader_without_threads() const {
  LoaderOptions options = options_;
  options.threads = 0;
  options.device = cpu;
  return loader(options);
}

}  // namespace mantissa::data
