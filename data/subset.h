// Subsets and concatenations of datasets. Nothing is copied: they read through to the original dataset, and keep its
// metadata (classes, mean and std, ...).
//
//   auto [train, validation] = data::random_split(folder, {0.9, 0.1});
//   for (auto [image, label] : data::Pipeline(train).shuffle().batch(128)) ...
//
// Pipelines have steps for it: data::mnist().random_split({0.9, 0.1}) (data/pipeline.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/dataset.h"

namespace mantissa::data {

// The samples at `indices`, in that order; an index may be repeated. Error if one is out of range.
SourcePtr subset(SourcePtr source, std::vector<std::int64_t> indices);

// One dataset after another. Error if their images or targets differ in sizes or dtype. Has the metadata of the first.
SourcePtr concat(std::vector<SourcePtr> sources);

// Disjoint random parts. `parts` are fractions that sum to 1 (samples left over by rounding go to the first parts, as
// in PyTorch), or numbers of samples that sum to the size. Without `seed`, one is drawn from the default generator.
std::vector<SourcePtr> random_split(SourcePtr source, const std::vector<double>& parts,
                                    std::optional<std::uint64_t> seed = {});
template <std::size_t N>
std::array<SourcePtr, N> random_split(SourcePtr source, const double (&parts)[N],
                                      std::optional<std::uint64_t> seed = {}) {
  const std::vector<SourcePtr> all = random_split(std::move(source), std::vector<double>(parts, parts + N), seed);
  std::array<SourcePtr, N> result;
  for (std::size_t i = 0; i < N; ++i) result[i] = all[i];
  return result;
}

}  // namespace mantissa::data
