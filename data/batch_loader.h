// A loader for batches of any type, built by your function from sample indices. For samples of different lengths,
// several inputs, dictionaries: your function replaces Dataset and collate_fn of torch.utils.data.DataLoader.
//
//   struct Padded { Tensor tokens, lengths; };
//   data::BatchLoader loader(sentences.size(), [&](std::span<const std::int64_t> indices) {
//     std::vector<Tensor> chosen;
//     for (const auto i : indices) chosen.push_back(sentences[i]);
//     return Padded{nn::pad_sequence(chosen, true), lengths_of(chosen)};
//   }, {.batch = 32, .shuffle = true, .threads = 4});
//   for (auto& [tokens, lengths] : loader) ...                 // once: one epoch
//
// The function is called concurrently from the loader's threads and may throw; its result must depend on its arguments
// only. For random augmentation it takes a second argument, data::Draws&, a random stream that belongs to the batch, so
// that batches depend on (seed, epoch, batch number) only, as with data::Loader. A BatchSampler decides which samples
// are batched together (sentences of similar length, say): data/sampler.h.
#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "data/draws.h"
#include "data/loader_core.h"

namespace mantissa::data {

template <class B> class BatchLoader {
 public:
  // Samples are 0 ... size - 1. Errors: as Loader's, and a device other than the CPU: move batches in your loop.
  template <class F>
  BatchLoader(std::int64_t size, F make, const LoaderOptions& options = {}, const Sampling& sampling = {})
      : core_(std::make_unique<LoaderCore>(
            size, options, sampling,
            [make = std::move(make)](std::span<const std::int64_t> indices, [[maybe_unused]] Draws& draws) -> std::any {
              if constexpr (std::is_invocable_v<const F&, std::span<const std::int64_t>, Draws&>)
                return std::make_shared<B>(make(indices, draws));
              else return std::make_shared<B>(make(indices));
            })) {
    check(options.device.is_cpu(), "BatchLoader: batches come on the CPU; move them to ", options.device,
          " in the loop");
  }

  // As Loader::next: gets the next batch; false once at the end of each epoch.
  bool next(B& batch) {
    std::any made = core_->next();
    if (!made.has_value()) return false;
    batch = std::move(*std::any_cast<std::shared_ptr<B>&>(made));
    return true;
  }
  std::int64_t batches() const { return core_->batches(); }  // per epoch
  LoaderState state() const { return core_->state(); }
  void restore(const LoaderState& state) { core_->restore(state); }
  NamedTensors state_dict() const { return mantissa::data::state_dict(state()); }
  void load_state_dict(const NamedTensors& s) { restore(state_of_dict(s)); }

  // The rest of this epoch.
  class Iterator {
   public:
    explicit Iterator(LoaderCore* core) : core_(core) { ++*this; }
    B& operator*() { return *batch_; }
    Iterator& operator++() {
      std::any made = core_->next();
      if (made.has_value()) batch_ = std::any_cast<std::shared_ptr<B>>(std::move(made));
      else core_ = nullptr;
      return *this;
    }
    bool operator!=(std::nullptr_t) const { return core_ != nullptr; }

   private:
    LoaderCore* core_;
    std::shared_ptr<B> batch_;
  };
  Iterator begin() { return Iterator(core_.get()); }
  std::nullptr_t end() const { return nullptr; }

 private:
  std::unique_ptr<LoaderCore> core_;
};

// The batch type is the function's return type.
template <class F>
requires std::is_invocable_v<const F&, std::span<const std::int64_t>, Draws&> BatchLoader(std::int64_t, F,
                                                                                          LoaderOptions = {},
                                                                                          Sampling = {})
    -> BatchLoader<std::invoke_result_t<const F&, std::span<const std::int64_t>, Draws&>>;
template <class F>
requires std::is_invocable_v<const F&, std::span<const std::int64_t>> BatchLoader(std::int64_t, F, LoaderOptions = {},
                                                                                  Sampling = {})
->BatchLoader<std::invoke_result_t<const F&, std::span<const std::int64_t>>>;

}  // namespace mantissa::data
