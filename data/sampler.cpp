#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "data/draws.h"

namespace mantissa::data {
namespace {

double uniform_double(Draws& draws) {  // in (0, 1)
  const std::uint64_t high = draws.bits();
  return (static_cast<double>((high << 32 | draws.bits()) >> 11) + 0.5) * 0x1p-53;
}

std::vector<std::int64_t> shuffled(std::vector<std::int64_t> v, Draws draws) {
  for (std::int64_t i = static_cast<std::int64_t>(v.size()) - 1; i > 0; --i)
    std::swap(v[static_cast<std::size_t>(i)], v[static_cast<std::size_t>(draws.below(i + 1))]);
  return v;
}

std::vector<std::int64_t> counting(std::int64_t n) {
  std::vector<std::int64_t> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), std::int64_t{0});
  return v;
}

}  // namespace

std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::uint64_t epoch) {
  return shuffled(counting(n), Draws(seed, Purpose::shuffle, epoch));
}

std::vector<std::int64_t> SequentialSampler::order(std::uint64_t, std::uint64_t) const { return counting(samples); }

RandomSampler::RandomSampler(std::int64_t n, bool with_replacement, std::int64_t count)
    : samples(n), replacement(with_replacement), num_samples(count == 0 ? n : count) {
  check(n >= 0 && num_samples >= 0 && (n > 0 || num_samples == 0), "RandomSampler: cannot draw ", num_samples,
        " samples of ", n);
}

std::vector<std::int64_t> RandomSampler::order(std::uint64_t seed, std::uint64_t epoch) const {
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(num_samples));
  if (replacement) {
    Draws draws(seed, Purpose::shuffle, epoch);
    for (std::int64_t i = 0; i < num_samples; ++i) result.push_back(draws.below(samples));
    return result;
  }
  for (std::uint64_t round = 0; static_cast<std::int64_t>(result.size()) < num_samples; ++round) {
    const std::vector<std::int64_t> all = shuffled(counting(samples), Draws(seed, Purpose::shuffle, epoch, round));
    const auto n = std::min(all.size(), static_cast<std::size_t>(num_samples) - result.size());
    result.insert(result.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return result;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> w, std::int64_t count, bool with_replacement)
    : weights(std::move(w)), num_samples(count), replacement(with_replacement) {
  double sum = 0;
  std::int64_t positive = 0;
  for (const double v : weights) {
    check(v >= 0 && std::isfinite(v), "WeightedRandomSampler: a weight is ", v,
          "; weights are finite and not negative");
    sum += v;
    positive += v > 0;
  }
  check(count >= 1 && sum > 0 && std::isfinite(sum),
        "WeightedRandomSampler: needs samples to draw and a positive, finite sum of weights, got ", count, " and ",
        sum);
  check(replacement || count <= positive, "WeightedRandomSampler: without replacement, ", count,
        " samples cannot be drawn of ", positive, " with a weight");
}

std::vector<std::int64_t> WeightedRandomSampler::order(std::uint64_t seed, std::uint64_t epoch) const {
  Draws draws(seed, Purpose::shuffle, epoch);
  std::vector<std::int64_t> result;
  if (replacement) {
    std::vector<double> sums(weights.size());
    std::partial_sum(weights.begin(), weights.end(), sums.begin());
    for (std::int64_t i = 0; i < num_samples; ++i) {
      const double at = uniform_double(draws) * sums.back();
      std::size_t chosen = static_cast<std::size_t>(std::upper_bound(sums.begin(), sums.end(), at) - sums.begin());
      chosen = std::min(chosen, sums.size() - 1);
      while (weights[chosen] == 0) --chosen;  // against rounding at the very end
      result.push_back(static_cast<std::int64_t>(chosen));
    }
    return result;
  }
  // Efraimidis and Spirakis, 2006: takes the largest u^(1 / weight), as logarithms.
  std::vector<std::pair<double, std::int64_t>> keys;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double u = uniform_double(draws);
    if (weights[i] > 0) keys.emplace_back(-std::log(u) / weights[i], static_cast<std::int64_t>(i));
  }
  std::sort(keys.begin(), keys.end());
  for (std::int64_t i = 0; i < num_samples; ++i) result.push_back(keys[static_cast<std::size_t>(i)].second);
  return result;
}

std::vector<std::int64_t> SubsetRandomSampler::order(std::uint64_t seed, std::uint64_t epoch) const {
  return shuffled(indices, Draws(seed, Purpose::shuffle, epoch));
}

DistributedSampler::DistributedSampler(std::shared_ptr<const Sampler> s, int r, int n, Uneven u)
    : sampler(std::move(s)), rank(r), ranks(n), uneven(u) {
  check(sampler != nullptr, "a distributed sampler needs a sampler");
  check(n >= 1 && r >= 0 && r < n, "rank ", r, " is not one of ", n, " that share a data set");
}

std::int64_t DistributedSampler::size() const {
  const std::int64_t all = sampler->size(), even = all / ranks, left = all % ranks;
  if (uneven == Uneven::keep) return even + (rank < left ? 1 : 0);
  return even + (uneven == Uneven::repeat && left > 0 ? 1 : 0);
}

std::vector<std::int64_t> DistributedSampler::order(std::uint64_t seed, std::uint64_t epoch) const {
  const std::vector<std::int64_t> all = sampler->order(seed, epoch);
  std::vector<std::int64_t> part(static_cast<std::size_t>(size()));
  std::size_t at = static_cast<std::size_t>(rank);
  for (std::int64_t& index : part) {
    index = all[at % all.size()];
    at += static_cast<std::size_t>(ranks);
  }
  return part;
}

EvenBatches::EvenBatches(std::shared_ptr<const Sampler> s, std::int64_t size, bool drop)
    : sampler(std::move(s)), batch(size), drop_last(drop) {
  check(sampler != nullptr, "a batch sampler needs a sampler");
  check(batch >= 1, "the batch size must be at least 1, got ", batch);
}

std::int64_t EvenBatches::batches() const {
  return sampler->size() / batch + (drop_last || sampler->size() % batch == 0 ? 0 : 1);
}

BatchSampler::Batches EvenBatches::order(std::uint64_t seed, std::uint64_t epoch) const {
  const std::vector<std::int64_t> all = sampler->order(seed, epoch);
  Batches result(static_cast<std::size_t>(batches()));
  auto at = all.begin();
  for (std::vector<std::int64_t>& b : result) {
    const auto n = std::min<std::ptrdiff_t>(batch, all.end() - at);
    b.assign(at, at + n);
    at += n;
  }
  return result;
}

}  // namespace mantissa::data
