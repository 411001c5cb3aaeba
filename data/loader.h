// Batches, prefetched by background threads.
// Invariant: the contents of a batch depend on (seed, epoch, batch number) only. The same batches come in the same
// order for any number of threads, and after restoring a position in the middle of an epoch.
//
//   for (auto [image, label] : data::mnist("data").shuffle().batch(128).epochs(5)) ...
//
// or, for a trainer that saves its position:
//
//   data::Loader loader = data::mnist("data").shuffle().batch(128).loader();
//   while (loader.next(batch)) ...
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/tensor.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "data/transforms.h"
#include "io/safetensors.h"

namespace mantissa::data {

class Resident;  // data/resident.h

struct LoaderOptions {
  std::int64_t batch = 1;
  bool shuffle = false;
  bool drop_last = false;   // drop a last batch that is not full
  std::uint64_t seed = 0;   // of the sample order and of the random transforms
  std::int64_t first_epoch = 0;  // the epoch that it begins with
  int threads = 1;          // 0: make each batch in next()
  int prefetch = 4;         // maximum number of batches in progress or waiting
  // For several processes that share the data: each has one part of every epoch (data/sampler.h) and its own random
  // numbers in transforms. `batch` and all counts are per process.
  int rank = 0, ranks = 1;
  Uneven uneven = Uneven::repeat;
  Device device = cpu;      // of the batches; an in-memory dataset is kept there if possible (data/resident.h)
};

// A position between two batches, with the settings that must match when it is restored.
struct LoaderState {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0, batch = 0;  // the next batch to be returned
  std::int64_t samples = 0, batch_size = 0;
  bool shuffle = false, drop_last = false;
  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};
Tensor to_tensor(const LoaderState& state);  // i64 [7], for a checkpoint
LoaderState loader_state_from_tensor(const Tensor& t);
NamedTensors state_dict(const LoaderState& state);  // {"state", that tensor}
LoaderState state_of_dict(const NamedTensors& s);

// At most one of them; none: all samples, in order or shuffled, depending on the options.
struct Sampling {
  std::shared_ptr<const Sampler> sampler = {};
  std::shared_ptr<const BatchSampler> batches = {};  // overrides LoaderOptions::batch and drop_last
};

class Loader {
 public:
  // Errors: an empty source, batch or prefetch below 1, threads outside [0, 256], shuffle with a sampler.
  Loader(SourcePtr source, LoaderOptions options, Transforms transforms = {}, Sampling sampling = {});
  // With what Resident::make gave for these, or null.
  Loader(SourcePtr source, LoaderOptions options, Transforms transforms, Sampling sampling,
         std::shared_ptr<const Resident> resident);
  ~Loader();  // waits only for batches in progress
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  // The next batch of this epoch. False once at its end; the next call begins the next epoch. An exception from a
  // source or transform is thrown when its batch is due, prefixed with epoch, batch and sample; calling again continues
  // with the following batch.
  bool next(Batch& batch);

  std::int64_t samples() const { return state().samples; }  // per epoch
  std::int64_t batches() const;                              // per epoch
  LoaderState state() const;     // after the last batch returned, regardless of prefetching
  void restore(const LoaderState& state);  // Error if samples, batch size or order options differ
  // The same as tensors, for checkpoints (io/checkpoint.h), named as in nn and optim.
  NamedTensors state_dict() const { return mantissa::data::state_dict(state()); }
  void load_state_dict(const NamedTensors& s) { restore(state_of_dict(s)); }

  // The rest of this epoch: for (auto [image, label] : loader).
  class Iterator {
   public:
    explicit Iterator(Loader* loader) : loader_(loader) { ++*this; }
    Batch& operator*() { return batch_; }
    Iterator& operator++() {
      if (!loader_->next(batch_)) loader_ = nullptr;
      return *this;
    }
    bool operator!=(std::nullptr_t) const { return loader_ != nullptr; }

   private:
    Loader* loader_;
    Batch batch_;
  };
  Iterator begin() { return Iterator(this); }
  std::nullptr_t end() const { return nullptr; }

 private:
  struct Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace mantissa::data
