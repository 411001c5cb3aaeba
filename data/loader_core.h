// The common part of all loaders (data/loader.h, data/batch_loader.h): sample order, prefetching threads, and a
// position that can be saved. Independent of the batch type.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "data/draws.h"
#include "data/loader.h"

namespace mantissa::data {

class LoaderCore {
 public:
  // Makes the batch of these samples, with the random stream of the batch. Called from several threads.
  using Make = std::function<std::any(std::span<const std::int64_t> indices, Draws& draws)>;

  // `samples` in the dataset; errors as Loader's.
  LoaderCore(std::int64_t samples, const LoaderOptions& options, const Sampling& sampling, Make make);
  ~LoaderCore();
  LoaderCore(const LoaderCore&) = delete;
  LoaderCore& operator=(const LoaderCore&) = delete;

  // As the Loader methods of the same names; an empty result is the end of an epoch.
  std::any next();
  std::int64_t batches() const;
  LoaderState state() const;
  void restore(const LoaderState& state);

 private:
  struct Ring;
  std::unique_ptr<Ring> ring_;
};

}  // namespace mantissa::data
