// CUDA threads as fibers of one CPU thread. A thread runs until it ends or waits; the others of its warp then run,
// until none can, and then the other warps of its block and those of the other blocks of its cluster. A barrier
// that can never be complete, because threads have left or wait elsewhere, is an error, and so is a block in which
// all wait for what nobody will do. This file must not be instrumented by ThreadSanitizer: it tells the sanitizer
// itself which fiber runs and what a barrier orders, so that races between CUDA threads are found.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "tests/cuda_shim/fibers.h"
#include "tests/cuda_shim/shim.h"
#include "tests/cuda_shim/switch.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cuda_shim {
namespace {

enum class State { fresh, ready, at_block_barrier, at_warp_barrier, waiting, done };
enum class Collective { barrier, gather, shuffle, ballot, together };

struct Lane {  // what a thread brings to a warp operation, and takes from it
  Collective what = Collective::barrier;
  unsigned mask = 0;
  std::uint64_t value = 0;
  int source = 0;
  const void* mine = nullptr;
  void* all = nullptr;
  std::size_t bytes = 0;
  WarpWork work = nullptr;
  const char* name = "a warp operation";
};

// One of the blocks that run together: a cluster, or a block alone.
struct Block {
  uint3 index{};
  unsigned waiting = 0;            // threads in __syncthreads
  char *window = nullptr, *dynamic_memory = nullptr;  // see place_shared
  char tag[2] = {};                // of __syncthreads. With a single tag ThreadSanitizer would miss a race across one
};
struct Thread {
  State state = State::fresh;
  uint3 index{};
  unsigned number = 0;             // among all that run together
  Block* block = nullptr;
  unsigned block_waits = 0, warp_waits = 0;  // how often it met others, for the tags below
  int waits_in = 0;                          // the line of the __syncthreads it waits in
  Waiting* waits_for = nullptr;
  Fiber* fiber = nullptr;
  Lane lane{};
};
struct Warp {
  unsigned arrived = 0;  // lanes at a warp operation
  char tag[2] = {};
};

std::vector<Thread> threads;
std::vector<Warp> warps;
std::vector<Fiber*>& all_fibers = *new std::vector<Fiber*>;  // never destroyed, so that no fiber counts as leaked
std::vector<Fiber*> free_fibers;
Thread* current = nullptr;
const std::function<void()>* body = nullptr;
std::exception_ptr error;
Order order = Order::forward;
std::mt19937 random_order{1};
Fiber main_fiber;
Fiber* left = nullptr;  // by the last switch
// The warp whose turn it is: who of it comes next.
const unsigned *next_in_warp = nullptr, *end_of_warp = nullptr;
char start_tag, end_tag;  // what ThreadSanitizer orders by
std::uint64_t waits = 0;  // calls of note_wait by this grid
Block all_blocks[most_cluster];
std::span<Block> blocks;  // those that run

// Dynamic shared memory, aligned to 16 bytes and no more, ends where no page may be touched, or less than 32 bytes
// before; what was written in between shows. The window that it lies in begins at shared address 0.
constexpr std::size_t most_shared = 228 * 1024;
std::size_t dynamic_bytes = 0;
void place_shared(std::size_t bytes) {
  dynamic_bytes = bytes;
  for (Block& b : blocks) {
    if (!b.window) {
      void* p =
          mmap(nullptr, most_shared + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (p == MAP_FAILED || mprotect(static_cast<char*>(p) + most_shared, 4096, PROT_NONE) != 0) std::abort();
      b.window = static_cast<char*>(p);
    }
    b.dynamic_memory = b.window + most_shared - ((bytes + 15) / 32 * 32 + 16);
  }
}
// NaN
void clear_shared() {
  for (Block& b : blocks)
    std::memset(b.dynamic_memory, 0xff, static_cast<std::size_t>(b.window + most_shared - b.dynamic_memory));
}
void check_behind_shared() {
  for (const Block& b : blocks) {
    for (const char* p = b.dynamic_memory + dynamic_bytes; p < b.window + most_shared; ++p) {
      if (*p != static_cast<char>(0xff))
        throw std::runtime_error("cuda_shim: a kernel wrote behind its dynamic shared memory");
    }
  }
}

void thread_main();

// Makes t the running thread; the switch to its fiber remains to be done.
[[gnu::always_inline]] inline Fiber& make_current(Thread& t) {
  current = &t;
  threadIdx = t.index;
  blockIdx = t.block->index;
  if (t.state == State::fresh) {
    const TsanIgnore ignore;  // on the stack of another thread, perhaps
    if (free_fibers.empty()) free_fibers.push_back(all_fibers.emplace_back(new_fiber()));
    t.fiber = free_fibers.back();
    free_fibers.pop_back();
    start_fiber(*t.fiber, &thread_main);
  }
  t.state = State::ready;
  return *t.fiber;
}
[[gnu::always_inline]] inline void leave_for(Fiber& from, Fiber& to) {
  left = &from;
  switch_fiber(from, to);
}

// The next thread of the warp that can run does so at once. (Who waits for something else than threads is asked by
// run_blocks.) Inline, as what calls it: after a switch the processor guesses each return address wrong.
[[gnu::always_inline]] inline void wait_as(State state) {
  Thread* me = current;
  me->state = state;
  while (next_in_warp != end_of_warp) {
    Thread& t = threads[*next_in_warp++];
    if (t.state == State::fresh || t.state == State::ready) return leave_for(*me->fiber, make_current(t));
  }
  leave_for(*me->fiber, main_fiber);
}

void thread_main() {
  entered_from(*left, *current->fiber);
  tsan_acquire(&start_tag);
  try {
    (*body)();
  } catch (...) {
    error = std::current_exception();
  }
  tsan_release(&end_tag);
  current->state = State::done;
  leave_for(*current->fiber, main_fiber);
  std::abort();
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
  if (current->lane.work) {
    const void* all[32] = {};
    for (unsigned l = 0; l < 32; ++l) if (mask >> l & 1) all[l] = lanes[l].lane.mine;
    current->lane.work(warp, all);
  }
}

// What the running thread brings is written where it stays: a copy would wait for what was just stored in parts.
Lane& bring(Collective what, unsigned mask) {
  Lane& lane = current->lane;
  lane.what = what;
  lane.mask = mask;
  lane.work = nullptr;
  return lane;
}
// Whether all lanes of the mask are here, with the same mask.
bool all_meet(unsigned number, const Lane& mine) {
  for (unsigned l = 0; l < 32; ++l) {
    if (!(mine.mask >> l & 1)) continue;
    const Lane& other = threads[number * 32 + l].lane;
    if (other.mask != mine.mask) return false;
    if (other.what != mine.what || other.work != mine.work) {
      throw std::runtime_error("cuda_shim: lanes of one warp meet in different operations");
    }
  }
  return true;
}
[[gnu::always_inline]] inline void meet_warp() {
  Thread& me = *current;
  const unsigned number = me.number / 32, bit = 1u << (me.number % 32), mask = me.lane.mask;
  if (!(mask & bit)) throw std::runtime_error("cuda_shim: a thread is not in its own warp mask");
  Warp& warp = warps[number];
  char* tag = &warp.tag[me.warp_waits++ & 1];
  tsan_release(tag);
  me.state = State::at_warp_barrier;
  warp.arrived |= bit;
  if ((warp.arrived & mask) == mask && all_meet(number, me.lane)) {
    tsan_acquire(tag);
    complete(number, mask);
    warp.arrived &= ~mask;
    tsan_release(tag);
  } else {
    wait_as(State::at_warp_barrier);
  }
  tsan_acquire(tag);
}

// "0-31, 64, 65": numbers in ascending order.
std::string ranges(const std::vector<unsigned>& numbers) {
  std::string text;
  for (std::size_t i = 0, last; i < numbers.size(); i = last + 1) {
    for (last = i; last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1;) ++last;
    text += (i ? ", " : "") + std::to_string(numbers[i]) + (last > i ? "-" + std::to_string(numbers[last]) : "");
  }
  return text;
}
[[noreturn]] void fail_stuck(unsigned live) {
  unsigned at_block = 0, at_warp = 0;
  std::map<std::string, std::vector<unsigned>> others;  // what they wait for
  for (const Thread& t : threads) {
    at_block += t.state == State::at_block_barrier;
    at_warp += t.state == State::at_warp_barrier;
    if (t.state == State::waiting) others[t.waits_for->what()].push_back(t.number);
    if (t.state == State::at_warp_barrier && t.lane.work)
      others["the rest of their warp at " + std::string(t.lane.name)].push_back(t.number);
  }
  char text[160];
  std::snprintf(text, sizeof text,
                "cuda_shim: %s in block (%u, %u, %u): %u threads at __syncthreads, %u in a warp operation, %u gone",
                others.empty() ? "divergent barrier" : "deadlock", blockIdx.x, blockIdx.y, blockIdx.z, at_block,
                at_warp, static_cast<unsigned>(threads.size()) - live);
  std::string message = text;
  for (const auto& [what, numbers] : others) message += "; threads " + ranges(numbers) + " wait for " + what;
  throw std::runtime_error(message);
}

// Warps that rest in the coming turns: with a random order some fall behind the others, as on a GPU.
class Rest {
 public:
  bool rests(unsigned warp) const { return !resting_.empty() && resting_[warp]; }
  bool any() const { return !resting_.empty(); }
  void next_turn() {
    if (draw(8) == 0) choose();
  }
  void choose() {
    resting_.assign((threads.size() + 31) / 32, false);
    for (std::size_t i = 0; i < resting_.size(); ++i) resting_[i] = draw(4) == 0;
  }
  void end() { resting_.clear(); }

 private:
  std::vector<bool> resting_;
};

// All wait, but not in one place: sm_70 and later count arrivals, and then threads meet that should not.
void check_one_place(std::span<const Thread> of_block) {
  for (const Thread& t : of_block) {
    if (t.waits_in != of_block[0].waits_in)
      throw std::runtime_error("cuda_shim: threads of a block wait in different __syncthreads");
  }
}
// Lets the blocks go on whose threads are all in __syncthreads; false if there is none.
bool end_block_barriers() {
  bool any = false;
  const std::size_t count = threads.size() / blocks.size();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].waiting != count) continue;
    const std::span of_block = std::span(threads).subspan(i * count, count);
    check_one_place(of_block);
    blocks[i].waiting = 0;
    for (Thread& t : of_block) t.state = State::ready;
    any = true;
  }
  return any;
}

void run_blocks(std::vector<unsigned>& turn) {
  Rest rest;
  error = nullptr;
  for (Block& b : blocks) b.waiting = 0;
  tsan_release(&start_tag);
  for (Thread& t : threads) t.state = State::fresh, t.block_waits = t.warp_waits = 0;
  for (Warp& w : warps) w.arrived = 0;
  for (unsigned live = static_cast<unsigned>(threads.size()); live > 0;) {
    if (order == Order::random) std::shuffle(turn.begin(), turn.end(), random_order), rest.next_turn();
    bool moved = end_block_barriers();
    // A warp goes on as long as it can, in a random order for one turn: so most waits end in a switch within a warp.
    const unsigned* const end = turn.data() + turn.size();
    for (const unsigned *begin = turn.data(), *behind; begin != end; begin = behind) {
      const unsigned warp = *begin / 32;
      for (behind = begin + 1; behind != end && *behind / 32 == warp;) ++behind;
      if (rest.rests(warp)) continue;
      bool goes_on;
      do {
        goes_on = false;
        for (next_in_warp = begin, end_of_warp = behind; next_in_warp != end_of_warp;) {
          Thread& t = threads[*next_in_warp++];
          if (t.state == State::waiting && t.waits_for->over()) t.state = State::ready;
          if (t.state != State::fresh && t.state != State::ready) continue;
          moved = goes_on = true;
          leave_for(main_fiber, make_current(t));
          if (error) return;
          if (current->state != State::done) continue;
          --live;
          // A finished thread leaves its fiber to the next. (Not under ThreadSanitizer, for which they would be one.)
          if (!tsan_fibers) free_fibers.push_back(std::exchange(current->fiber, nullptr));
        }
      } while (goes_on && order != Order::random);
    }
    if (moved || live == 0) continue;
    if (rest.any()) {
      rest.end();
      continue;
    }
    if (!do_late_copy()) fail_stuck(live);
  }
  tsan_acquire(&end_tag);
  check_behind_shared();
  end_hopper_blocks();
}

// After an error: threads that wait for others never run again. What they have done is done.
void abandon_threads() {
  tsan_acquire(&end_tag);
  for (Block& b : blocks) for (char& tag : b.tag) tsan_acquire(&tag);
  for (Warp& warp : warps) for (char& tag : warp.tag) tsan_acquire(&tag);
  abandon_hopper_blocks();
  for (Thread& t : threads) t.fiber = nullptr;  // what they own is lost with them
}

}  // namespace

void block_barrier(int line) {
  current->waits_in = line;
  char* tag = &current->block->tag[current->block_waits++ & 1];
  tsan_release(tag);
  ++current->block->waiting;
  wait_as(State::at_block_barrier);
  tsan_acquire(tag);
}
void warp_barrier(unsigned mask) {
  bring(Collective::barrier, mask);
  meet_warp();
}
void warp_gather(unsigned mask, const void* mine, std::size_t bytes, void* all) {
  Lane& lane = bring(Collective::gather, mask);
  lane.mine = mine;
  lane.all = all;
  lane.bytes = bytes;
  meet_warp();
}
std::uint64_t warp_shuffle(unsigned mask, std::uint64_t value, int source) {
  Lane& lane = bring(Collective::shuffle, mask);
  lane.value = value;
  lane.source = source;
  meet_warp();
  return lane.value;
}
unsigned warp_ballot(unsigned mask, bool predicate) {
  Lane& lane = bring(Collective::ballot, mask);
  lane.value = predicate;
  meet_warp();
  return static_cast<unsigned>(lane.value);
}
void warp_together(const char* name, WarpWork work, const void* mine) {
  Lane& lane = bring(Collective::together, active_lanes());
  lane.mine = mine;
  lane.work = work;
  lane.name = name;
  meet_warp();
}
void wait_until(Waiting& w) {
  if (w.over()) return;
  current->waits_for = &w;
  wait_as(State::waiting);
}
unsigned thread_number() { return current->number; }
unsigned threads_together() { return static_cast<unsigned>(threads.size()); }
unsigned blocks_together() { return static_cast<unsigned>(blocks.size()); }
unsigned own_block() { return static_cast<unsigned>(current->block - blocks.data()); }
bool has_ended(unsigned block) {
  const std::size_t count = threads.size() / blocks.size();
  return std::ranges::all_of(std::span(threads).subspan(block * count, count),
                             [](const Thread& t) { return t.state == State::done; });
}
unsigned draw(unsigned n) { return static_cast<unsigned>(random_order() % n); }
std::uint32_t shared_address(const void* p) {
  const char* at = static_cast<const char*>(p);
  const Block& b = *current->block;
  if (at < b.dynamic_memory || at > b.window + most_shared)
    throw std::runtime_error("cuda_shim: the shared address of something that is not dynamic shared memory");
  return static_cast<std::uint32_t>(at - b.window);
}
char* shared_at(unsigned block, std::uint32_t address, std::size_t bytes, const char* what) {
  const Block& b = blocks[block];
  char* at = b.window + address;
  const std::size_t end = static_cast<std::size_t>(b.dynamic_memory - b.window) + dynamic_bytes;
  if (at < b.dynamic_memory || address + bytes > end) {
    throw std::runtime_error(std::string("cuda_shim: beyond dynamic shared memory: ") + what);
  }
  return at;
}
unsigned lane() { return current->number % 32; }
unsigned active_lanes() {
  const auto count = static_cast<unsigned>(threads.size()), first = current->number / 32 * 32;
  return count - first >= 32 ? 0xffffffffu : (1u << (count - first)) - 1;
}
void* dynamic_shared() { return current->block->dynamic_memory; }
void note_wait() { ++waits; }
// A fault may come from where nothing may be thrown, so the thread is left where it is.
void fail_misaligned(const void* p, std::size_t bytes, const char* what) {
  char text[200];
  std::snprintf(
      text, sizeof text,
      "cuda_shim: misaligned address %p: %s, which needs %zu bytes, in block (%u, %u, %u), thread (%u, %u, %u)", p,
      what, bytes, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
  if (!current) {
    std::fprintf(stderr, "%s, on the host\n", text);
    std::abort();
  }
  error = std::make_exception_ptr(Fault(cudaErrorMisalignedAddress, text));
  tsan_release(&end_tag);
  current->state = State::done;
  leave_for(*current->fiber, main_fiber);
  std::abort();
}
void set_order(Order o, unsigned seed) {
  order = o;
  random_order.seed(seed);
}

void run_grid(const Kernel& kernel, const std::function<void()>& thread, const Shape& shape) {
  const auto& [grid, block, shared, cluster, must_wait] = shape;
  const unsigned of_block = block.x * block.y * block.z, count = of_block * cluster;
  waits = 0;
  gridDim = grid;
  blockDim = block;
  body = &thread;
  blocks = std::span(all_blocks).first(cluster);
  for (Thread& t : threads) if (t.fiber) free_fibers.push_back(std::exchange(t.fiber, nullptr));
  threads.assign(count, Thread{});
  warps.resize((count + 31) / 32);
  std::vector<unsigned> turn(count);
  for (unsigned i = 0; i < count; ++i) {
    const unsigned inside = i % of_block;
    threads[i].number = i;
    threads[i].block = &blocks[i / of_block];
    threads[i].index = {inside % block.x, inside / block.x % block.y, inside / (block.x * block.y)};
    turn[i] = order == Order::reverse ? count - 1 - i : i;
  }
  place_shared(shared);
  const unsigned registers = kernel.listed_registers ? (kernel.listed_registers + 7) / 8 * 8
                                                     : std::min(256u, 65536 / ((of_block + 31) / 32 * 32) / 8 * 8);
  prepare_main_fiber(main_fiber);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; x += cluster) {
        for (unsigned i = 0; i < cluster; ++i) blocks[i].index = {x + i, y, z};
        blockIdx = blocks[0].index;
        clear_shared();  // reading before writing shows
        for (const Kernel::Variable& v : kernel.shared) std::memset(v.at, 0xff, v.bytes);
        try {
          begin_hopper_blocks(registers);
          run_blocks(turn);
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
  const std::uint64_t all = std::uint64_t{grid.x} * grid.y * grid.z * of_block;
  if (must_wait && waits != all) {
    throw std::runtime_error("cuda_shim: " + kernel.name + ": " + std::to_string(all) + " threads called " +
                             "wait_for_previous_kernel() " + std::to_string(waits) + " times; each begins with it");
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
void __ubsan_handle_type_mismatch_v1_abort(const mantissa_shim_mismatch* m, std::uintptr_t p) {
  __ubsan_handle_type_mismatch_v1(m, p);
}
}
#endif
