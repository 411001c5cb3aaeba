// Weights as kernels want them (reordered by oneDNN, in panels), kept from call to call in inference, where they do not
// change. One cache for the whole process:
//   - Used only while no gradients are recorded (NoGrad, InferenceMode). A training step packs what it needs and keeps
//     nothing; the first one after an evaluation drops what that had kept.
//   - A form is kept from the second use of a weight on, so that what is used once costs no memory.
//   - It belongs to the weight's storage and is valid while that has the version it was made from: whatever raises the
//     version (optimizers, copy_, loading, any in-place operator, also through a view) makes it invalid. Who writes
//     through data<T>() says so: weight.storage()->written_by("...").
//   - It is freed with the storage, and all forms together take at most a limit; beyond it weights are packed in every
//     call, as without the cache.
//   - Results have the same bits with and without it. Thread-safe.
// Kernels see views: an operator makes a KeptWeight of its weight in infer, where it sees tensors, for its run.
#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor.h"

namespace mantissa {

// The memory that a weight lies in and its version. Empty where nothing is to be kept: while gradients are recorded,
// for small weights, on other devices.
class KeptWeight {
 public:
  KeptWeight() = default;
  explicit KeptWeight(const Tensor& weight);
  explicit operator bool() const { return storage_ != nullptr; }

 private:
  friend class PackedWeight;
  const Storage* storage_ = nullptr;  // the operator's caller holds the weight
  std::uint32_t version_ = 0;
};

// One form of one weight, at its use:
//   PackedWeight packed(kept, weight, "panels of halves");
//   if (!packed) packed.fill(a tensor, packed just now);
//   ... packed.data()
class PackedWeight {
 public:
  // `form` is a string literal; `packer` distinguishes forms of one name, by `same(packer of a kept form)`.
  using Same = bool (*)(const void* mine, const void* other);
  PackedWeight(const KeptWeight& kept, const View& weight, const char* form, std::shared_ptr<const void> packer = {},
               Same same = nullptr);
  explicit operator bool() const { return packed_.defined(); }
  bool wanted() const { return keep_; }  // fill() will keep it
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

// The most bytes that all forms may take; 0 keeps none and drops what there is. 1 GiB by default, or
// $MANTISSA_PACKED_WEIGHTS in MiB.
void set_packed_weights_limit(std::int64_t bytes);
std::int64_t packed_weights_bytes();  // of all forms now

namespace packed_weights {
void forget(const Storage* storage) noexcept;  // by its destructor
}  // namespace packed_weights

}  // namespace mantissa
