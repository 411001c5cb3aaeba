// Twins of mbarrier and of copies by TMA into shared memory. A copy arrives when nothing else can go on, unless it is
// early. Not instrumented by ThreadSanitizer, like fibers.cpp: it is told what is written and ordered. Source: PTX ISA,
// sections "mbarrier", "mapa" and "cp.async.bulk.tensor".
#include <cstring>
#include <map>
#include <utility>

#include "tests/cuda_shim/hopper.h"
#include "tests/cuda_shim/hopper_parts.h"
#include "tests/cuda_shim/shim.h"

namespace cuda_shim {
namespace {

std::string where(unsigned thread) { return " (thread " + std::to_string(thread) + ")"; }

// --- mbarrier ---
constexpr int most_count = (1 << 20) - 1;

struct Barrier {
  unsigned expected = 0, pending = 0;  // arrivals
  long long bytes = 0;  // still to come in this phase; below 0 where copies were faster than their announcement
  std::uint64_t phase = 0;
  unsigned maker = 0;
  bool known_to_copies = false;  // its initialisation was made visible to the copy engine
  char tag[2] = {};              // what ThreadSanitizer orders by, for even and odd phases

  void finish_phase_if_complete() {
    if (pending > 0 || bytes > 0) return;
    if (bytes < 0) fail("a phase of an mbarrier got " + std::to_string(-bytes) + " bytes more than were expected");
    pending = expected;
    ++phase;
  }
};

std::map<Place, Barrier> barriers;

// What lies in a barrier's place, so that a barrier that was written over is noticed.
std::uint64_t token(Place p) { return 0xba551e500000000 + p.address + (std::uint64_t{p.block} << 24); }
std::string name_of(Place p) {
  return "the mbarrier at shared address " + std::to_string(p.address) +
         (blocks_together() > 1 ? " of block " + std::to_string(p.block) + " of the cluster" : "");
}

Barrier& barrier_at(Place place) {
  const auto at = barriers.find(place);
  if (at == barriers.end()) fail(name_of(place) + " was not initialised" + where(thread_number()));
  std::uint64_t now;
  std::memcpy(&now, place.at(8, "an mbarrier"), 8);
  if (now != token(place)) fail(name_of(place) + " was written over");
  return at->second;
}

// Another block's shared memory is there only while one of its threads is.
void check_reached(Place place) {
  if (place.block >= blocks_together()) fail("there is no block " + std::to_string(place.block) + " in the cluster");
  if (has_ended(place.block)) fail(name_of(place) + " is reached from another block after its block has ended");
}

void arrive(Place place, int bytes) {
  Barrier& b = barrier_at(place);
  if (bytes < 0 || bytes > most_count || b.bytes + bytes > most_count)
    fail("an mbarrier cannot expect " + std::to_string(bytes) + " more bytes");
  if (b.pending == 0) {
    fail("an arrival too many at " + name_of(place) + ": all " + std::to_string(b.expected) +
         " of this phase are there, and " + std::to_string(b.bytes) + " bytes are still to come" +
         where(thread_number()));
  }
  tsan_release(&b.tag[b.phase & 1]);
  b.bytes += bytes;
  --b.pending;
  b.finish_phase_if_complete();
}
void complete_bytes(Place place, long long bytes) {
  Barrier& b = barrier_at(place);
  b.bytes -= bytes;
  if (b.bytes < -most_count) fail("more than 2^20 bytes came to " + name_of(place) + " unexpected");
  b.finish_phase_if_complete();
}

// Waits for the phase that is not yet complete where it has this parity; the one before has the other and is complete.
struct BarrierWait : Waiting {
  Place place;
  int parity;
  std::uint64_t first;  // the phase at the beginning
  BarrierWait(Place at, int p) : place(at), parity(p), first(barrier_at(at).phase) {}
  bool over() override {
    const std::uint64_t now = barrier_at(place).phase;
    if (now > first + 1) fail("a thread that waited for " + name_of(place) + " missed a phase: two have passed");
    return static_cast<int>(now & 1) != parity;
  }
  std::string what() const override {
    const Barrier& b = barrier_at(place);
    return name_of(place) + ", end of a phase of parity " + std::to_string(parity) + " (in phase " +
           std::to_string(b.phase) + ", " + std::to_string(b.pending) + " of " + std::to_string(b.expected) +
           " arrivals and " + std::to_string(b.bytes) + " bytes are missing)";
  }
};

// --- TMA ---
struct Copy {
  Box box;
  Place barrier;

  // Writes the box, zeros where it reaches out of the tensor, and counts all of its bytes.
  void run() const {
    box.each_chunk([](Place to, const char* from, std::size_t inside) {
      char chunk[16] = {};
      std::memcpy(chunk, from, inside);
      std::memcpy(to.at(16, "a copy"), chunk, 16);
    });
    check_reached(barrier);
    complete_bytes(barrier, box.bytes());
  }
};
std::vector<Copy> copies;  // under way

}  // namespace

void barrier_init(std::uint64_t* b, int arrivals) {
  check_aligned(b, 8, "an mbarrier");
  const Place place = own_place(b);
  if (arrivals < 1 || arrivals > most_count) fail("an mbarrier of " + std::to_string(arrivals) + " arrivals");
  if (barriers.contains(place)) fail(name_of(place) + " is initialised while in use");
  const std::uint64_t mark = token(place);
  std::memcpy(place.at(8, "an mbarrier"), &mark, 8);
  Barrier& made = barriers[place];
  made.expected = made.pending = static_cast<unsigned>(arrivals);
  made.maker = thread_number();
}
void barrier_init_done() {
  for (auto& [place, b] : barriers) b.known_to_copies |= b.maker == thread_number();
}
void barrier_arrive(std::uint64_t* b) { arrive(own_place(b), 0); }
void barrier_expect(std::uint64_t* b, int bytes) { arrive(own_place(b), bytes); }
void barrier_arrive_in(std::uint64_t* b, int block) {
  const Place there = own_place(b).in(static_cast<unsigned>(block));
  check_reached(there);
  arrive(there, 0);
}
void barrier_wait(std::uint64_t* b, int parity) {
  if (parity != 0 && parity != 1) fail("an mbarrier has phases of parity 0 and 1, not " + std::to_string(parity));
  const Place place = own_place(b);
  BarrierWait wait(place, parity);
  wait_until(wait);
  tsan_acquire(&barrier_at(place).tag[parity]);
}

void copy_box(void* to, const void* map, std::uint64_t* barrier, int x, int y, int z) {
  copy_box_to_blocks(1u << own_block(), to, map, barrier, x, y, z);
}
// Arrives in each block in its own time.
void copy_box_to_blocks(unsigned to_blocks, void* to, const void* map, std::uint64_t* barrier, int x, int y, int z) {
  check_aligned(to, 128, "place of a tensor copy in shared memory");
  if (to_blocks == 0 || to_blocks >> blocks_together() != 0) fail("a copy to blocks that the cluster does not have");
  for (unsigned block = 0; block < blocks_together(); ++block) {
    if (!(to_blocks >> block & 1)) continue;
    const Copy c{box_of(map, own_place(to).in(block), x, y, z), own_place(barrier).in(block)};
    Barrier& b = barrier_at(c.barrier);
    if (!b.known_to_copies) fail(name_of(c.barrier) + " is used by a copy without fence.mbarrier_init");
    const unsigned bytes = c.box.bytes();
    char* place = c.box.place.at(bytes, "a copy");
    tsan_write(place, bytes);
    std::memset(place, 0xff, bytes);  // NaN until it arrives
    tsan_release(&b.tag[b.phase & 1]);
    const TsanIgnore ignore;
    if (happens_now()) c.run();
    else copies.push_back(c);
  }
}

bool do_late_copy() {
  if (copies.empty()) return false;
  const TsanIgnore ignore;
  static bool last_first = false;  // now the oldest, now the newest: nothing says in which order they arrive
  std::size_t i = last_first ? copies.size() - 1 : 0;
  if (is_order_random()) i = draw(static_cast<unsigned>(copies.size()));
  last_first = !last_first;
  const Copy c = copies[i];
  copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(i));
  c.run();
  return true;
}
void forget_copies() {
  barriers.clear();
  copies.clear();
}
void check_copies_done() {
  if (!copies.empty()) fail("a block ends while copies into its shared memory are under way");
}
void abandon_copies() {
  for (auto& [place, b] : barriers) for (char& tag : b.tag) tsan_acquire(&tag);
}

}  // namespace cuda_shim
