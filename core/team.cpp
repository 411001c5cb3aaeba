#include "core/team.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "core/context.h"
#include "core/processors.h"

namespace mantissa {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until `done()` or until `limit` has passed; true if done.
template <class F> bool spin(std::chrono::microseconds limit, F&& done) {
  for (int i = 0; i < 64; ++i) {
    if (done()) return true;
    relax();
  }
  const auto until = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

// With more threads than processors a spinning thread keeps another from working.
std::chrono::microseconds patience() {
  static const int processors = usable_processors().threads;
  return std::chrono::microseconds(num_threads() <= processors ? 500 : 0);
}

struct alignas(64) Run {  // the blocks of one member that are not yet taken
  std::atomic<std::int64_t> next{0};
  std::int64_t end = 0;
};

// A job, in memory that is never freed: a late worker finds it closed, or open for another job.
struct alignas(64) Slot {
  // Flags: workers may join; the caller sleeps until they have left. The bits above count the members.
  static constexpr std::uint32_t open = 1, awaited = 2, member = 4;
  std::atomic<bool> taken{false};
  std::atomic<std::uint32_t> state{0};

  // Written by the caller before it opens the job.
  int team = 0;
  std::int64_t n = 0, grain = 0, blocks = 0;
  RangeBody body = nullptr;
  void* argument = nullptr;
  Context context;
  Run runs[max_team];

  std::mutex error_mutex;
  std::int64_t failed_block = 0;
  std::exception_ptr error;

  void run_block(std::int64_t b) {
    try {
      body(argument, b * grain, b + 1 < blocks ? (b + 1) * grain : n);
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error || b < failed_block) {
        error = std::current_exception();
        failed_block = b;
      }
    }
  }
  void work(int self) {
    for (int i = 0; i < team; ++i) {
      Run& run = runs[(self + i) % team];
      if (run.next.load(std::memory_order_relaxed) >= run.end) continue;
      for (std::int64_t b; (b = run.next.fetch_add(1, std::memory_order_relaxed)) < run.end;) run_block(b);
    }
  }

  void help(int self) {
    std::uint32_t s = state.load(std::memory_order_relaxed);
    do {
      if (!(s & open)) return;
    } while (!state.compare_exchange_weak(s, s + member, std::memory_order_acquire, std::memory_order_relaxed));
    if (self < team) {
      mantissa::context() = context;
      flush_denormals_in_this_thread();
      work(self);
    }
    if (state.fetch_sub(member, std::memory_order_release) & awaited) state.notify_all();
  }
  void close_and_wait() {
    state.fetch_and(~open, std::memory_order_relaxed);
    const auto empty = [&] { return state.load(std::memory_order_acquire) < member; };
    if (empty() || spin(patience(), empty)) return;
    for (std::uint32_t s = state.fetch_or(awaited) | awaited; s >= member; s = state.load(std::memory_order_acquire))
      state.wait(s);
  }
};

struct alignas(64) Worker {
  std::atomic<std::uint32_t> calls{0};  // incremented when there may be work
  std::atomic<bool> asleep{false};
};

class Team {
 public:
  Slot* take_slot() {
    for (Slot& s : slots_) {
      if (!s.taken.load(std::memory_order_relaxed) && !s.taken.exchange(true, std::memory_order_acquire)) return &s;
    }
    return nullptr;
  }
  void call(int team) {
    if (started_.load(std::memory_order_acquire) + 1 < team) start(team - 1);
    for (int i = 1; i < std::min(team, started_.load(std::memory_order_relaxed) + 1); ++i) {
      Worker& w = workers_[i];
      w.calls.fetch_add(1);  // sequentially consistent with `asleep`: one of the two threads sees the other's write
      if (w.asleep.load()) w.calls.notify_one();
    }
  }

 private:
  void start(int count) {
    const std::lock_guard lock(mutex_);
    for (int i = started_ + 1; i <= count; ++i) {
      try {
        std::thread([this, i] { serve(i); }).detach();
      } catch (const std::system_error&) {
        return;  // no more threads available: the others do the work
      }
      started_ = i;
    }
  }
  void serve(int self) {
    run_serially_in_this_thread();
    Worker& w = workers_[self];
    std::uint32_t seen = 0;
    while (true) {
      const std::uint32_t before = w.calls.load(std::memory_order_acquire);
      if (before == seen && !spin(patience(), [&] { return w.calls.load(std::memory_order_acquire) != seen; })) {
        w.asleep = true;
        w.calls.wait(seen);
        w.asleep = false;
      }
      seen = w.calls.load(std::memory_order_acquire);
      for (Slot& s : slots_) s.help(self);
    }
  }

  Slot slots_[8];
  Worker workers_[max_team];
  std::atomic<int> started_{0};
  std::mutex mutex_;
};

// Never destroyed: workers use it until the process ends. A forked child has none of its parent's threads and creates a
// new one.
std::atomic<Team*> current_team{nullptr};

Team& team_of_process() {
  if (Team* t = current_team.load(std::memory_order_acquire)) return *t;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!current_team) {
    static const int forgets = pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] {
      current_team = nullptr;
      mutex.unlock();
    });
    (void)forgets;
    current_team = new Team;
  }
  return *current_team;
}

}  // namespace

void run_in_team(int members, std::int64_t n, std::int64_t grain, RangeBody body, void* argument) {
  const std::int64_t blocks = (n + grain - 1) / grain;
  members = std::min(members, max_team);
  Team& team = team_of_process();
  Slot* slot = team.take_slot();
  if (!slot) {  // so many threads are busy that another job gains nothing
    for (std::int64_t b = 0; b < blocks; ++b) body(argument, b * grain, b + 1 < blocks ? (b + 1) * grain : n);
    return;
  }
  slot->team = members;
  slot->n = n;
  slot->grain = grain;
  slot->blocks = blocks;
  slot->body = body;
  slot->argument = argument;
  slot->context = context();
  for (int i = 0; i < members; ++i) {
    slot->runs[i].next.store(blocks * i / members, std::memory_order_relaxed);
    slot->runs[i].end = blocks * (i + 1) / members;
  }
  slot->state.store(Slot::open, std::memory_order_release);
  team.call(members);
  slot->work(0);
  slot->close_and_wait();
  const std::exception_ptr error = std::exchange(slot->error, nullptr);
  slot->taken.store(false, std::memory_order_release);
  if (error) std::rethrow_exception(error);
}

}  // namespace mantissa
