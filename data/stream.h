// Data that come one after the other, without a size or an index: files too large to be listed, a socket, a simulation.
// A stream is any function that returns the next item, or nothing at the end: () -> std::optional<Item>. The
// counterpart of torch.utils.data.IterableDataset and its DataLoader.
//
//   auto lines = [file = std::ifstream("log.txt")]() mutable -> std::optional<std::string> {
//     std::string line;
//     return std::getline(file, line) ? std::optional(line) : std::nullopt;
//   };
//   auto batches = data::batched(data::shuffled(std::move(lines), 10000), 32);    // of std::vector<std::string>
//   for (auto& [tokens, target] : data::StreamLoader(data::mapped(std::move(batches), encode))) ...
//
// A stream is read once, and a run that is resumed begins anew: data with a size are better served by data/pipeline.h
// and data/batch_loader.h, whose order is a function of seed and epoch.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/draws.h"

namespace mantissa::data {

template <class F> using StreamItem = typename std::invoke_result_t<F&>::value_type;
template <class F>
concept Stream = std::is_invocable_v<F&> && std::is_same_v<std::invoke_result_t<F&>, std::optional<StreamItem<F>>>;

// In random order, as far as `buffer` waiting items allow: each item is a random one of them, and the next of the
// stream takes its place. By default the seed is drawn from the default generator.
template <Stream F> auto shuffled(F next, std::int64_t buffer, std::optional<std::uint64_t> seed = {}) {
  check(buffer >= 1, "shuffled: the buffer must hold at least 1 item, got ", buffer);
  return [next = std::move(next), buffer, draws = Draws(seed ? *seed : drawn_seed(), Purpose::shuffle, 0),
          waiting = std::vector<StreamItem<F>>(), more = true]() mutable -> std::optional<StreamItem<F>> {
    while (more && static_cast<std::int64_t>(waiting.size()) < buffer) {
      if (auto item = next()) waiting.push_back(std::move(*item));
      else more = false;
    }
    if (waiting.empty()) return std::nullopt;
    std::swap(waiting[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(waiting.size())))],
              waiting.back());
    std::optional<StreamItem<F>> item(std::move(waiting.back()));
    waiting.pop_back();
    return item;
  };
}

// Vectors of `size` items; the last may be shorter, or is left out.
template <Stream F> auto batched(F next, std::int64_t size, bool drop_last = false) {
  check(size >= 1, "batched: the size must be at least 1, got ", size);
  return [next = std::move(next), size, drop_last]() mutable -> std::optional<std::vector<StreamItem<F>>> {
    std::vector<StreamItem<F>> batch;
    while (static_cast<std::int64_t>(batch.size()) < size) {
      if (auto item = next()) batch.push_back(std::move(*item));
      else break;
    }
    if (batch.empty() || (drop_last && static_cast<std::int64_t>(batch.size()) < size)) return std::nullopt;
    return batch;
  };
}

// f of each item: collates a batch, say.
template <Stream F, class G> auto mapped(F next, G f) {
  using Result = std::decay_t<std::invoke_result_t<G&, StreamItem<F>>>;
  return [next = std::move(next), f = std::move(f)]() mutable -> std::optional<Result> {
    if (auto item = next()) return std::invoke(f, std::move(*item));
    return std::nullopt;
  };
}

namespace detail {
// A thread that makes items ahead of the consumer.
class ReadAhead {
 public:
  using Make = std::function<std::any()>;  // empty at the end
  ReadAhead(Make make, int prefetch);
  ~ReadAhead();  // waits for the call in progress
  ReadAhead(const ReadAhead&) = delete;
  std::any next();

 private:
  struct Queue;
  std::unique_ptr<Queue> queue_;
};
}  // namespace detail

// Reads a stream in a thread of its own, up to `prefetch` items ahead; 0: in the loop, when an item is needed. The
// stream is only called by one thread at a time. An exception in it ends it, and is rethrown in the loop once the items
// before it have been taken.
template <class Item> class StreamLoader {
 public:
  template <Stream F>
  explicit StreamLoader(F stream, int prefetch = 2)
      : ahead_(std::make_unique<detail::ReadAhead>(
            [stream = std::make_shared<F>(std::move(stream))]() -> std::any {  // shared: F may be movable only
              if (auto item = (*stream)()) return std::make_shared<Item>(std::move(*item));
              return {};
            },
            prefetch)) {}

  // Gets the next item; false at the end.
  bool next(Item& item) {
    std::any made = ahead_->next();
    if (!made.has_value()) return false;
    item = std::move(*std::any_cast<std::shared_ptr<Item>&>(made));
    return true;
  }

  // The rest of the stream.
  class Iterator {
   public:
    explicit Iterator(detail::ReadAhead* ahead) : ahead_(ahead) { ++*this; }
    Item& operator*() { return *item_; }
    Iterator& operator++() {
      std::any made = ahead_->next();
      if (made.has_value()) item_ = std::any_cast<std::shared_ptr<Item>>(std::move(made));
      else ahead_ = nullptr;
      return *this;
    }
    bool operator!=(std::nullptr_t) const { return ahead_ != nullptr; }

   private:
    detail::ReadAhead* ahead_;
    std::shared_ptr<Item> item_;
  };
  Iterator begin() { return Iterator(ahead_.get()); }
  std::nullptr_t end() const { return nullptr; }

 private:
  std::unique_ptr<detail::ReadAhead> ahead_;
};
template <Stream F> StreamLoader(F, int = 2) -> StreamLoader<StreamItem<F>>;

}  // namespace mantissa::data
