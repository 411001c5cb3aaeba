// Casts of weights that do not train: the base of a fine-tuned model, a model in use. A parameter that wants a
// gradient keeps its cast on its leaf (amp/autocast.h); a frozen one has no leaf and is cast at each use, unless
// such an object names it:
//
//   const amp::FrozenCasts casts(nn::parameters(base));   // as long as it lives, in all threads
//
// A weight is cast at its first use in a region and again only after it changed.
#pragma once

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

  std::int64_t bytes() const;  // held by casts now

 private:
  friend Tensor frozen_cast(const Tensor& x, Dtype dtype, bool& made);
  struct Entry {
    Tensor weight, cast;
    std::uint32_t version = 0;  // of the weight that `cast` was made from
  };
  std::vector<Entry> entries_;  // by the address of the weight
  FrozenCasts* next_;           // those that live form a list
};

// Of the machinery: the cast of a weight that some FrozenCasts names, else undefined. `made`: just now.
Tensor frozen_cast(const Tensor& x, Dtype dtype, bool& made);

}  // namespace mantissa::amp
