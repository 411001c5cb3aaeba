// Cached casts of frozen weights: the base of a fine-tuned model, a model in inference. A parameter that requires a
// gradient keeps its cast on its leaf (amp/autocast.h); a frozen one has no leaf and is cast at each use, unless a
// FrozenCasts object lists it:
//
//   const amp::FrozenCasts casts(nn::parameters(base));   // for its lifetime, in all threads
//
// A weight is cast at its first use in a region and again only after it has changed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace mantissa::amp {

class FrozenCasts {
 public:
  explicit FrozenCasts(std::span<const Tensor> weights);
  explicit FrozenCasts(const std::vector<Tensor>& weights) : FrozenCasts(std::span<const Tensor>(weights)) {}
  ~FrozenCasts();
  FrozenCasts(const FrozenCasts&) = delete;
  FrozenCasts& operator=(const FrozenCasts&) = delete;

  std::int64_t bytes() const;  // currently held by casts

 private:
  friend Tensor frozen_cast(const Tensor& x, Dtype dtype, bool& made);
  struct Entry {
    Tensor weight, cast;
    std::shared_ptr<std::uint32_t> version = {};  // of the weight when `cast` was made
  };
  std::vector<Entry> entries_;  // sorted by the weight's address
  FrozenCasts* next_;           // linked list of live objects
};

// Internal: the cast of a weight listed in some FrozenCasts, else undefined. `made`: whether it was made just now.
Tensor frozen_cast(const Tensor& x, Dtype dtype, bool& made);

}  // namespace mantissa::amp
