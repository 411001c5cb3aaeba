#include "data/stream.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/parallel.h"
#include "core/profile.h"
#include "core/team.h"

namespace mantissa::data::detail {

struct ReadAhead::Queue {
  struct Made {
    std::any item;  // empty: the end, or an error
    std::exception_ptr error;
  };

  Queue(Make f, int n) : make(std::move(f)), prefetch(n) {
    check(n >= 0, "StreamLoader: prefetch must not be negative, got ", n);
    try {
      if (n > 0) thread = std::thread([this] { work(); });
    } catch (const std::system_error& e) { fail("cannot start the thread of a stream: ", e.what()); }
  }
  ~Queue() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    room.notify_one();
    if (thread.joinable()) thread.join();
  }

  Made make_one() {
    const ProfileRange range(ProfileKind::library, "stream: make an item");
    Made made;
    try {
      made.item = make();
    } catch (...) { made.error = std::current_exception(); }
    return made;
  }
  void work() {
    run_serially_in_this_thread();  // the other cores are busy with the concurrent training step
    flush_denormals_in_this_thread();
    for (bool more = true; more;) {
      Made made = make_one();
      more = made.item.has_value();
      std::unique_lock lock(mutex);
      room.wait(lock, [&] { return stopping || static_cast<int>(waiting.size()) < prefetch; });
      if (stopping) return;
      waiting.push_back(std::move(made));
      ready.notify_one();
    }
  }
  Made take() {
    if (prefetch == 0) return make_one();
    std::unique_lock lock(mutex);
    ready.wait(lock, [&] { return !waiting.empty(); });
    Made made = std::move(waiting.front());
    waiting.pop_front();
    room.notify_one();
    return made;
  }

  const Make make;
  const int prefetch;
  bool ended = false;  // for the consumer
  std::mutex mutex;
  std::condition_variable room, ready;
  std::deque<Made> waiting;
  bool stopping = false;
  std::thread thread;
};

ReadAhead::ReadAhead(Make make, int prefetch) : queue_(std::make_unique<Queue>(std::move(make), prefetch)) {}
ReadAhead::~ReadAhead() = default;

std::any ReadAhead::next() {
  if (queue_->ended) return {};
  const ProfileRange range(ProfileKind::library, "stream: take an item");
  Queue::Made made = queue_->take();
  queue_->ended = !made.item.has_value();
  if (made.error) std::rethrow_exception(made.error);
  return std::move(made.item);
}

}  // namespace mantissa::data::detail
