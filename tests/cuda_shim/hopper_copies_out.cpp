// Twins of what brings results to global memory: stmatrix, the fence that shows stores to the copy engine, and copies
// by TMA out of shared memory, which read it when they are waited for, unless they are early. A copy of what was stored
// by stmatrix and not shown is refused; of ordinary stores nothing is known.
// Not instrumented by ThreadSanitizer, like fibers.cpp: it is told what is read and written.
// Source: PTX ISA, sections "stmatrix", "fence.proxy" and "cp.async.bulk.tensor".
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "tests/cuda_shim/hopper.h"
#include "tests/cuda_shim/hopper_parts.h"

namespace cuda_shim {
namespace {

struct Thread {
  std::vector<Place> hidden;             // 16 bytes each: stored, and not yet shown to the copy engine
  std::vector<Box> open;                 // copies not committed
  std::deque<std::vector<Box>> groups;   // committed
};
struct Running {
  std::vector<Thread> threads = std::vector<Thread>(threads_together());
};
std::unique_ptr<Running> running;  // made when one first executes an instruction of this file
Thread& thread(unsigned number) {
  if (!running) running = std::make_unique<Running>();
  return running->threads[number];
}

struct Rows {
  void* row;
  const std::uint32_t* registers;
};
void store(unsigned warp, const void* const* lanes) {
  const auto of = [&](unsigned lane) -> const Rows& { return *static_cast<const Rows*>(lanes[lane]); };
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    for (unsigned r = 0; r < 8; ++r) {
      char* to = static_cast<char*>(of(8 * matrix + r).row);
      tsan_write(to, 16);
      const TsanIgnore ignore;
      for (unsigned i = 0; i < 4; ++i) {
        std::memcpy(to + 4 * i, &of(4 * r + i).registers[matrix], 4);
        thread(32 * warp + 4 * r + i).hidden.push_back(own_place(to));
      }
    }
  }
}

void run(const Box& box) {
  tsan_read(box.place.at(box.bytes(), "a copy"), box.bytes());
  const TsanIgnore ignore;
  box.each_chunk([](Place from, char* to, std::size_t inside) { std::memcpy(to, from.at(16, "a copy"), inside); });
}

}  // namespace

void store_matrices(void* row, const std::uint32_t (&r)[4]) {
  check_aligned(row, 16, "row of stmatrix");
  const Rows mine{row, r};
  warp_together("stmatrix", &store, &mine);
}
void show_stores() { thread(thread_number()).hidden.clear(); }

void copy_box_out(const void* map, const void* from, int x, int y, int z) {
  check_aligned(from, 128, "place of a tensor copy in shared memory");
  const Box box = box_of(map, own_place(from), x, y, z);
  Thread& me = thread(thread_number());
  const Place end = box.place.plus(box.bytes());
  for (const Thread& t : running->threads) {
    const bool any = std::ranges::any_of(t.hidden, [&](Place p) { return !(p < box.place) && p < end; });
    if (any) fail("a copy out of shared memory of what thread " + std::to_string(&t - running->threads.data()) +
                  " has stored and not shown by fence.proxy.async");
  }
  me.open.push_back(box);
  if (happens_now()) run(box);
}
void copies_out_commit() {
  Thread& me = thread(thread_number());
  me.groups.push_back(std::exchange(me.open, {}));
}
void copies_out_wait(int pending) {
  Thread& me = thread(thread_number());
  while (me.groups.size() > static_cast<std::size_t>(pending)) {
    for (const Box& box : me.groups.front()) run(box);  // an early one a second time: shared memory must be as it was
    me.groups.pop_front();
  }
}

void forget_copies_out() { running.reset(); }
void check_copies_out_done() {
  if (!running) return;
  for (const Thread& t : running->threads) {
    if (!t.open.empty() || !t.groups.empty()) fail("a block ends while copies out of its shared memory are under way");
  }
}

}  // namespace cuda_shim
