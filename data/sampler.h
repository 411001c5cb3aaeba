// Which samples an epoch visits, and in which order: PyTorch's samplers.
// Invariant: an order is a pure function of (seed, epoch), so a resumed run continues with the same samples.
//
//   data::Pipeline(set).sampler(data::WeightedRandomSampler(weights, 10000)).batch(64)
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace mantissa::data {

class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual std::int64_t size() const = 0;  // per epoch
  virtual std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const = 0;
};

struct SequentialSampler final : Sampler {
  explicit SequentialSampler(std::int64_t samples) : samples(samples) {}
  std::int64_t size() const override { return samples; }
  std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const override;
  std::int64_t samples;
};

// Without replacement, num_samples beyond the dataset's size begin another permutation.
struct RandomSampler final : Sampler {
  explicit RandomSampler(std::int64_t samples, bool replacement = false, std::int64_t num_samples = 0);  // 0: all
  std::int64_t size() const override { return num_samples; }
  std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const override;
  std::int64_t samples;
  bool replacement;
  std::int64_t num_samples;
};

// Draws sample i with probability proportional to weights[i]. Error for negative or infinite weights, a sum of 0, or,
// without replacement, more samples than positive weights.
struct WeightedRandomSampler final : Sampler {
  WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples, bool replacement = true);
  std::int64_t size() const override { return num_samples; }
  std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const override;
  std::vector<double> weights;
  std::int64_t num_samples;
  bool replacement;
};

struct SubsetRandomSampler final : Sampler {  // these samples, each once, in random order
  explicit SubsetRandomSampler(std::vector<std::int64_t> indices) : indices(std::move(indices)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(indices.size()); }
  std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const override;
  std::vector<std::int64_t> indices;
};

// How samples that cannot be divided evenly are handled: all ranks get the same number by repeating the first ones, or
// by dropping the last ones (both as in PyTorch, where drop_last chooses), or some ranks get one more, which is right
// for evaluation and wrong for training, where every rank must run the same number of steps.
enum class Uneven : std::uint8_t { repeat, drop, keep };

// One rank's part of another sampler's order: samples rank, rank + size, rank + 2 size, ... As PyTorch's
// DistributedSampler.
struct DistributedSampler final : Sampler {
  DistributedSampler(std::shared_ptr<const Sampler> sampler, int rank, int size, Uneven uneven = Uneven::repeat);
  std::int64_t size() const override;
  std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const override;
  std::shared_ptr<const Sampler> sampler;
  int rank, ranks;
  Uneven uneven;
};

// Samples whole batches. Implement it to batch similar samples together.
class BatchSampler {
 public:
  using Batches = std::vector<std::vector<std::int64_t>>;
  virtual ~BatchSampler() = default;
  virtual std::int64_t batches() const = 0;  // per epoch
  virtual Batches order(std::uint64_t seed, std::uint64_t epoch) const = 0;
};

// Consecutive samples of another sampler, `batch` at a time: PyTorch's BatchSampler, and a loader's default.
struct EvenBatches final : BatchSampler {
  EvenBatches(std::shared_ptr<const Sampler> sampler, std::int64_t batch, bool drop_last);
  std::int64_t batches() const override;
  Batches order(std::uint64_t seed, std::uint64_t epoch) const override;
  std::shared_ptr<const Sampler> sampler;
  std::int64_t batch;
  bool drop_last;
};

}  // namespace mantissa::data
