// Twins of mbarrier and of copies by TMA. A copy arrives when nothing else can go on, unless it is early.
// Not instrumented by ThreadSanitizer, like fibers.cpp: it is told what is written and ordered.
// Source: PTX ISA, sections "mbarrier" and "cp.async.bulk.tensor".
#include <cstring>
#include <map>
#include <utility>

#include "tests/cuda_shim/hopper.h"
#include "tests/cuda_shim/hopper_parts.h"
#include "tests/cuda_shim/shim.h"
#include "tests/cuda_shim/tensor_map.h"

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
std::map<std::uint32_t, Barrier> barriers;  // by shared address

// What lies in a barrier's place, so that a barrier that was written over is noticed.
std::uint64_t token(std::uint32_t address) { return 0xba551e500000000 + address; }
std::string name_of(std::uint32_t address) { return "the mbarrier at shared address " + std::to_string(address); }

Barrier& barrier_at(std::uint32_t address) {
  const auto at = barriers.find(address);
  if (at == barriers.end()) fail(name_of(address) + " was not initialised" + where(thread_number()));
  std::uint64_t now;
  std::memcpy(&now, shared_at(address, 8, "an mbarrier"), 8);
  if (now != token(address)) fail(name_of(address) + " was written over");
  return at->second;
}

void arrive(std::uint32_t address, int bytes) {
  Barrier& b = barrier_at(address);
  if (bytes < 0 || bytes > most_count || b.bytes + bytes > most_count)
    fail("an mbarrier cannot expect " + std::to_string(bytes) + " more bytes");
  if (b.pending == 0) {
    fail("an arrival too many at " + name_of(address) + ": all " + std::to_string(b.expected) +
         " of this phase are there, and " + std::to_string(b.bytes) + " bytes are still to come" +
         where(thread_number()));
  }
  tsan_release(&b.tag[b.phase & 1]);
  b.bytes += bytes;
  --b.pending;
  b.finish_phase_if_complete();
}
void complete_bytes(std::uint32_t address, long long bytes) {
  Barrier& b = barrier_at(address);
  b.bytes -= bytes;
  if (b.bytes < -most_count) fail("more than 2^20 bytes came to " + name_of(address) + " unexpected");
  b.finish_phase_if_complete();
}

// Waits for the phase that is not yet complete where it has this parity; the one before has the other and is complete.
struct BarrierWait : Waiting {
  std::uint32_t address;
  int parity;
  std::uint64_t first;  // the phase at the beginning
  BarrierWait(std::uint32_t a, int p) : address(a), parity(p), first(barrier_at(a).phase) {}
  bool over() override {
    const std::uint64_t now = barrier_at(address).phase;
    if (now > first + 1) fail("a thread that waited for " + name_of(address) + " missed a phase: two have passed");
    return static_cast<int>(now & 1) != parity;
  }
  std::string what() const override {
    const Barrier& b = barrier_at(address);
    return name_of(address) + ", end of a phase of parity " + std::to_string(parity) + " (in phase " +
           std::to_string(b.phase) + ", " + std::to_string(b.pending) + " of " + std::to_string(b.expected) +
           " arrivals and " + std::to_string(b.bytes) + " bytes are missing)";
  }
};

// --- TMA ---
struct Copy {
  TensorMap map;
  std::uint32_t to = 0, barrier = 0;
  long long at[3] = {};  // innermost first

  unsigned bytes() const { return map.box[0] * map.box[1] * map.box[2] * map.element_bytes; }
  // Writes the box, zeros where it reaches out of the tensor, and counts all of its bytes.
  void run() const {
    const unsigned line = map.box[0] * map.element_bytes;
    std::uint32_t place = to;
    for (unsigned z = 0; z < map.box[2]; ++z) {
      for (unsigned y = 0; y < map.box[1]; ++y, place += line) {
        const bool inside = in(1, at[1] + y) && in(2, at[2] + z);
        const long long row =
            (at[1] + y) * static_cast<long long>(map.strides[0]) + (at[2] + z) * static_cast<long long>(map.strides[1]);
        for (unsigned chunk = 0; chunk < line; chunk += 16)
          write_chunk(place + chunk, inside, row, at[0] + chunk / map.element_bytes);
      }
    }
    complete_bytes(barrier, bytes());
  }

 private:
  bool in(int d, long long i) const { return i >= 0 && i < static_cast<long long>(map.sizes[d]); }
  void write_chunk(std::uint32_t address, bool row_inside, long long row, long long x) const {
    const unsigned element = map.element_bytes, count = 16 / element;
    char chunk[16] = {};
    if (row_inside && in(0, x) && in(0, x + count - 1)) {
      std::memcpy(chunk, map.address + row + x * element, 16);
    } else if (row_inside) {
      for (unsigned i = 0; i < count; ++i) {
        if (in(0, x + i)) std::memcpy(chunk + i * element, map.address + row + (x + i) * element, element);
      }
    }
    std::memcpy(shared_at(map.swizzle == CU_TENSOR_MAP_SWIZZLE_128B ? swizzle_128(address) : address, 16, "a copy"),
                chunk, 16);
  }
};
std::vector<Copy> copies;  // under way

}  // namespace

void barrier_init(std::uint64_t* b, int arrivals) {
  check_aligned(b, 8, "an mbarrier");
  const std::uint32_t address = shared_address(b);
  if (arrivals < 1 || arrivals > most_count) fail("an mbarrier of " + std::to_string(arrivals) + " arrivals");
  if (barriers.contains(address)) fail(name_of(address) + " is initialised while in use");
  const std::uint64_t mark = token(address);
  std::memcpy(shared_at(address, 8, "an mbarrier"), &mark, 8);
  Barrier& made = barriers[address];
  made.expected = made.pending = static_cast<unsigned>(arrivals);
  made.maker = thread_number();
}
void barrier_init_done() {
  for (auto& [address, b] : barriers) b.known_to_copies |= b.maker == thread_number();
}
void barrier_arrive(std::uint64_t* b) { arrive(shared_address(b), 0); }
void barrier_expect(std::uint64_t* b, int bytes) { arrive(shared_address(b), bytes); }
void barrier_wait(std::uint64_t* b, int parity) {
  if (parity != 0 && parity != 1) fail("an mbarrier has phases of parity 0 and 1, not " + std::to_string(parity));
  const std::uint32_t address = shared_address(b);
  BarrierWait wait(address, parity);
  wait_until(wait);
  tsan_acquire(&barrier_at(address).tag[parity]);
}

void copy_box(void* to, const void* map, std::uint64_t* barrier, int x, int y, int z) {
  check_aligned(to, 128, "place of a tensor copy in shared memory");
  check_aligned(map, 64, "a tensor map");
  Copy c{decode(map), shared_address(to), shared_address(barrier), {x, y, z}};
  if (c.map.rank != 3) fail("a copy of three dimensions with a tensor map of " + std::to_string(c.map.rank));
  Barrier& b = barrier_at(c.barrier);
  if (!b.known_to_copies) fail(name_of(c.barrier) + " is used by a copy without fence.mbarrier_init");
  char* place = shared_at(c.to, c.bytes(), "a copy");
  tsan_write(place, c.bytes());
  std::memset(place, 0xff, c.bytes());  // NaN until it arrives
  tsan_release(&b.tag[b.phase & 1]);
  const TsanIgnore ignore;
  if (happens_now()) c.run();
  else copies.push_back(c);
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
  for (auto& [address, b] : barriers) for (char& tag : b.tag) tsan_acquire(&tag);
}

}  // namespace cuda_shim
