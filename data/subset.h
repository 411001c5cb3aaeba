// Parts of a set and sets put together. Nothing is copied: they read through to the set they were made of, and keep
// what it says of itself (classes, mean and std, ...).
//
//   auto [train, validation] = data::random_split(data::as_source(data::load_dataset("cifar10")), {0.9, 0.1}, 1);
//   for (auto [image, label] : data::Pipeline(train).shuffle().batch(128)) ...
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/dataset.h"

namespace mantissa::data {

// The samples at `indices`, in that order; an index may come more than once. Error when one is outside of the set.
SourcePtr subset(SourcePtr source, std::vector<std::int64_t> indices);

// One set after another. Error when their images or targets differ in sizes or dtype. Says of itself
// what the first does.
SourcePtr concat(std::vector<SourcePtr> sources);

// Parts that share no sample, drawn at random. `parts` are fractions that add up to 1 (what rounding leaves goes to the
// first ones, as in PyTorch), or numbers of samples that add up to the size.
std::vector<SourcePtr> random_split(SourcePtr source, const std::vector<double>& parts, std::uint64_t seed);
template <std::size_t N>
std::array<SourcePtr, N> random_split(SourcePtr source, const double (&parts)[N], std::uint64_t seed) {
  const std::vector<SourcePtr> all = random_split(std::move(source), std::vector<double>(parts, parts + N), seed);
  std::array<SourcePtr, N> result;
  for (std::size_t i = 0; i < N; ++i) result[i] = all[i];
  return result;
}

}  // namespace mantissa::data
