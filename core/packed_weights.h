// Weights in the form that kernels want (reordered by oneDNN, or packed into panels), cached from call to call in
// inference, where they do not change. One cache for the whole process:
//   - Used only while no gradients are recorded (NoGrad, InferenceMode). A training step packs what it needs and caches
//     nothing; the first one after an evaluation drops what the evaluation had cached.
//   - A packed form is cached from the second use of a weight on, so that weights used once cost no memory.
//   - It belongs to the weight's storage and is valid for the storage version it was made from: whatever increments the
//     version (optimizers, copy_, loading, any in-place operator, also through a view) invalidates it. Code that writes
//     through data<T>() must call weight.storage()->written_by("...").
//   - It is freed with the storage. The total size is limited; beyond the limit weights are packed in every call, as
//     without the cache.
//   - Results have the same bits with and without it. Thread-safe.
// Kernels take views, not tensors: an operator creates a KeptWeight from its weight in infer, where it has tensors, and
// passes it to run.
#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor.h"

namespace mantissa {

// A weight's storage and its version. Empty if nothing is to be cached: while gradients are recorded, for small
// weights, on other devices than the CPU.
class KeptWeight {
 public:
  KeptWeight() = default;
  explicit KeptWeight(const Tensor& weight);
  explicit operator bool() const { return storage_ != nullptr; }

 private:
  friend class PackedWeight;
  const Storage* storage_ = nullptr;  // kept alive by the operator's caller
  std::uint32_t version_ = 0;
};

// One packed form of one weight, where it is used:
//   PackedWeight packed(kept, weight, "panels of halves");
//   if (!packed) packed.fill(/* a newly packed tensor */);
//   ... packed.data()
class PackedWeight {
 public:
  // `form` is a string literal; `packer` distinguishes forms of the same name: same(packer, packer of a cached form).
  using Same = bool (*)(const void* mine, const void* other);
  PackedWeight(const KeptWeight& kept, const View& weight, const char* form, std::shared_ptr<const void> packer = {},
               Same same = nullptr);
  explicit operator bool() const { return packed_.defined(); }
  bool wanted() const { return keep_; }  // whether fill() will cache it
  void fill(Tensor packed);
  void* data() const { return packed_.raw_data(); }
  const Tensor& tensor() const { return packed_; }

 private:
  KeptWeight kept_;
  View weight_;
  const char* form_;
  std::shared_ptr<const void> packer_;
  bool keep_ = false;
  Tensor packed_;
};

// Limit on the bytes of all packed forms; 0 disables the cache and drops its contents. 1 GiB by default, or
// $MANTISSA_PACKED_WEIGHTS in MiB.
void set_packed_weights_limit(std::int64_t bytes);
std::int64_t packed_weights_bytes();  // current total

namespace packed_weights {
void forget(const Storage* storage) noexcept;  // called by Storage's destructor
}  // namespace packed_weights

}  // namespace mantissa
