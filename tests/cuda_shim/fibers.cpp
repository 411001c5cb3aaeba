// CUDA threads as fibers of one CPU thread. A thread runs until it ends or waits; the others of its
// block then run. A barrier that can never be complete, because threads have left or wait elsewhere,
// is an error. This file must not be instrumented by ThreadSanitizer: it tells the sanitizer itself
// which fiber runs and what a barrier orders, so that races between CUDA threads are found.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "tests/cuda_shim/shim.h"
#include "tests/cuda_shim/switch.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cuda_shim {
namespace {

enum class State { fresh, ready, at_block_barrier, at_warp_barrier, done };
enum class Collective { barrier, gather, shuffle, ballot };

struct Lane {  // what a thread brings to a warp operation, and takes from it
  Collective what = Collective::barrier;
  unsigned mask = 0;
  std::uint64_t value = 0;
  int source = 0;
  const void* mine = nullptr;
  void* all = nullptr;
  std::size_t bytes = 0;
};

struct Thread {
  State state = State::fresh;
  uint3 index{};
  unsigned number = 0;
  unsigned block_waits = 0, warp_waits = 0;  // how often it met others, for the tags below
  int waits_in = 0;                          // the line of the __syncthreads it waits in
  Fiber* fiber = nullptr;
  Lane lane{};
};
struct WarpTags { char tag[2]; };

std::vector<Thread> threads;
std::vector<WarpTags> warp_tags;
std::vector<Fiber*>& all_fibers = *new std::vector<Fiber*>;  // never destroyed, so that no fiber counts as leaked
std::vector<Fiber*> free_fibers;
Thread* current = nullptr;
const std::function<void()>* body = nullptr;
std::exception_ptr error;
Order order = Order::forward;
std::mt19937 random_order{1};
unsigned waiting_at_block = 0;
Fiber main_fiber;
// What ThreadSanitizer orders by. With a single tag for all barriers it would miss a race across one.
char start_tag, end_tag, block_tag[2];

// Dynamic shared memory, aligned to 16 bytes and no more, ends where no page may be touched.
constexpr std::size_t most_shared = 228 * 1024;
char* dynamic_memory = nullptr;
void place_shared(std::size_t bytes) {
  static char* const end = [] {
    void* p = mmap(nullptr, most_shared + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(static_cast<char*>(p) + most_shared, 4096, PROT_NONE) != 0) std::abort();
    return static_cast<char*>(p) + most_shared;
  }();
  dynamic_memory = end - (bytes + 15) / 16 * 16;
}

void wait_as(State state) {
  Thread* me = current;
  me->state = state;
  switch_fiber(*me->fiber, main_fiber);
}

void thread_main() {
  entered_from(main_fiber, *current->fiber);
  tsan_acquire(&start_tag);
  try {
    (*body)();
  } catch (...) {
    error = std::current_exception();
  }
  tsan_release(&end_tag);
  current->state = State::done;
  switch_fiber(*current->fiber, main_fiber);
  std::abort();
}

void resume(Thread& t) {
  current = &t;
  threadIdx = t.index;
  if (t.state == State::fresh) {
    if (free_fibers.empty()) free_fibers.push_back(all_fibers.emplace_back(new_fiber()));
    t.fiber = free_fibers.back();
    free_fibers.pop_back();
    start_fiber(*t.fiber, &thread_main);
  }
  t.state = State::ready;
  switch_fiber(main_fiber, *t.fiber);
  // A finished thread leaves its fiber to the next. (Not under ThreadSanitizer, for which they would be one.)
  if (t.state == State::done && !tsan_fibers) free_fibers.push_back(std::exchange(t.fiber, nullptr));
}

void complete(unsigned warp, unsigned mask) {  // all lanes of the mask are here
  Thread* lanes = &threads[warp * 32];
  unsigned votes = 0;
  for (unsigned l = 0; l < 32; ++l) if ((mask >> l & 1) && lanes[l].lane.value) votes |= 1u << l;
  std::uint64_t values[32] = {};
  for (unsigned l = 0; l < 32; ++l) if (mask >> l & 1) values[l] = lanes[l].lane.value;
  for (unsigned l = 0; l < 32; ++l) {
    if (!(mask >> l & 1)) continue;
    Lane& lane = lanes[l].lane;
    const int source = lane.source;
    if (lane.what == Collective::ballot) lane.value = votes;
    if (lane.what == Collective::shuffle) {
      if (source < 0 || source > 31 || !(mask >> source & 1)) {
        throw std::runtime_error("cuda_shim: a shuffle reads from a lane that its mask does not name");
      }
      lane.value = values[source];
    }
    if (lane.what == Collective::gather) {
      for (unsigned k = 0; k < 32; ++k) {
        if (mask >> k & 1) std::memcpy(static_cast<char*>(lane.all) + k * lane.bytes, lanes[k].lane.mine, lane.bytes);
      }
    }
    lanes[l].state = State::ready;
  }
}

const Lane& meet_warp(const Lane& mine) {
  Thread& me = *current;
  const unsigned warp = me.number / 32, bit = 1u << (me.number % 32);
  if (!(mine.mask & bit)) throw std::runtime_error("cuda_shim: a thread is not in its own warp mask");
  char* tag = &warp_tags[warp].tag[me.warp_waits++ & 1];
  tsan_release(tag);
  me.lane = mine;
  me.state = State::at_warp_barrier;
  bool all = true;
  for (unsigned l = 0; l < 32 && all; ++l) {
    if (!(mine.mask >> l & 1)) continue;
    const unsigned n = warp * 32 + l;
    all = n < threads.size() && threads[n].state == State::at_warp_barrier && threads[n].lane.mask == mine.mask;
    if (all && threads[n].lane.what != mine.what) throw std::runtime_error("cuda_shim: lanes of one warp meet in different operations");
  }
  if (all) complete(warp, mine.mask);
  if (me.state == State::at_warp_barrier) wait_as(State::at_warp_barrier);
  tsan_acquire(tag);
  return me.lane;
}

[[noreturn]] void fail_stuck(unsigned live) {
  unsigned at_block = 0, at_warp = 0;
  for (const Thread& t : threads) {
    at_block += t.state == State::at_block_barrier;
    at_warp += t.state == State::at_warp_barrier;
  }
  char text[160];
  std::snprintf(text, sizeof text, "cuda_shim: divergent barrier in block (%u, %u, %u): %u threads at __syncthreads, %u in a warp operation, %u gone",
                blockIdx.x, blockIdx.y, blockIdx.z, at_block, at_warp, static_cast<unsigned>(threads.size()) - live);
  throw std::runtime_error(text);
}

// All wait, but not in one place: sm_70 and later count arrivals, and then threads meet that should not.
void check_one_place() {
  for (const Thread& t : threads) {
    if (t.waits_in != threads[0].waits_in) throw std::runtime_error("cuda_shim: threads of a block wait in different __syncthreads");
  }
}

void run_block(std::vector<unsigned>& turn) {
  error = nullptr;
  waiting_at_block = 0;
  tsan_release(&start_tag);
  for (Thread& t : threads) t.state = State::fresh, t.block_waits = t.warp_waits = 0;
  for (unsigned live = static_cast<unsigned>(threads.size()); live > 0;) {
    if (order == Order::random) std::shuffle(turn.begin(), turn.end(), random_order);
    bool moved = false;
    for (unsigned i : turn) {
      Thread& t = threads[i];
      if (t.state != State::fresh && t.state != State::ready) continue;
      moved = true;
      resume(t);
      if (t.state == State::done) --live;
      if (error) return;
    }
    if (moved || live == 0) continue;
    if (waiting_at_block != threads.size()) fail_stuck(live);
    check_one_place();
    waiting_at_block = 0;
    for (Thread& t : threads) t.state = State::ready;
  }
  tsan_acquire(&end_tag);
}

// After an error: threads that wait for others never run again. What they have done is done.
void abandon_threads() {
  tsan_acquire(&end_tag);
  for (char& tag : block_tag) tsan_acquire(&tag);
  for (WarpTags& warp : warp_tags) for (char& tag : warp.tag) tsan_acquire(&tag);
  for (Thread& t : threads) t.fiber = nullptr;  // what they own is lost with them
}

}  // namespace

void block_barrier(int line) {
  current->waits_in = line;
  char* tag = &block_tag[current->block_waits++ & 1];
  tsan_release(tag);
  ++waiting_at_block;
  wait_as(State::at_block_barrier);
  tsan_acquire(tag);
}
void warp_barrier(unsigned mask) { meet_warp({Collective::barrier, mask}); }
void warp_gather(unsigned mask, const void* mine, std::size_t bytes, void* all) {
  meet_warp({Collective::gather, mask, 0, 0, mine, all, bytes});
}
std::uint64_t warp_shuffle(unsigned mask, std::uint64_t value, int source) {
  return meet_warp({Collective::shuffle, mask, value, source}).value;
}
unsigned warp_ballot(unsigned mask, bool predicate) {
  return static_cast<unsigned>(meet_warp({Collective::ballot, mask, predicate}).value);
}
unsigned lane() { return current->number % 32; }
unsigned active_lanes() {
  const auto count = static_cast<unsigned>(threads.size()), first = current->number / 32 * 32;
  return count - first >= 32 ? 0xffffffffu : (1u << (count - first)) - 1;
}
void* dynamic_shared() { return dynamic_memory; }
// A fault may come from where nothing may be thrown, so the thread is left where it is.
void fail_misaligned(const void* p, std::size_t bytes, const char* what) {
  char text[200];
  std::snprintf(text, sizeof text, "cuda_shim: misaligned address %p: %s, which needs %zu bytes, in block (%u, %u, %u), thread (%u, %u, %u)",
                p, what, bytes, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
  if (!current) {
    std::fprintf(stderr, "%s, on the host\n", text);
    std::abort();
  }
  error = std::make_exception_ptr(Fault(cudaErrorMisalignedAddress, text));
  tsan_release(&end_tag);
  wait_as(State::done);
  std::abort();
}
void set_order(Order o, unsigned seed) {
  order = o;
  random_order.seed(seed);
}

void run_grid(const Kernel& kernel, const std::function<void()>& thread, dim3 grid, dim3 block, std::size_t shared) {
  const unsigned count = block.x * block.y * block.z;
  gridDim = grid;
  blockDim = block;
  body = &thread;
  for (Thread& t : threads) if (t.fiber) free_fibers.push_back(std::exchange(t.fiber, nullptr));
  threads.assign(count, Thread{});
  warp_tags.resize((count + 31) / 32);
  std::vector<unsigned> turn(count);
  for (unsigned i = 0; i < count; ++i) {
    threads[i].number = i;
    threads[i].index = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
    turn[i] = order == Order::reverse ? count - 1 - i : i;
  }
  place_shared(shared);
  prepare_main_fiber(main_fiber);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        std::memset(dynamic_memory, 0xff, (shared + 15) / 16 * 16);  // NaN: reading before writing shows
        for (const Kernel::Variable& v : kernel.shared) std::memset(v.at, 0xff, v.bytes);
        try {
          run_block(turn);
        } catch (...) {
          error = std::current_exception();
        }
        current = nullptr;
        if (error) {
          abandon_threads();
          std::rethrow_exception(error);
        }
        for (Thread& t : threads) if (t.fiber) free_fibers.push_back(std::exchange(t.fiber, nullptr));
      }
    }
  }
}

}  // namespace cuda_shim

#if !defined(__SANITIZE_ADDRESS__) && !defined(MANTISSA_SHIM_TSAN)
// What code compiled with -fsanitize=alignment calls (libubsan's interface) for an access that its type does not allow.
extern "C" {
struct mantissa_shim_mismatch {
  const char* file;
  std::uint32_t line, column;
  const void* type;
  unsigned char log_alignment, kind;
};
void __ubsan_handle_type_mismatch_v1(const mantissa_shim_mismatch* m, std::uintptr_t p) {
  char where[120];
  const char* name = std::strrchr(m->file, '/');
  std::snprintf(where, sizeof where, "access at %s:%u", name ? name + 1 : m->file, m->line);
  cuda_shim::fail_misaligned(reinterpret_cast<const void*>(p), std::size_t{1} << m->log_alignment, where);
}
void __ubsan_handle_type_mismatch_v1_abort(const mantissa_shim_mismatch* m, std::uintptr_t p) { __ubsan_handle_type_mismatch_v1(m, p); }
}
#endif
