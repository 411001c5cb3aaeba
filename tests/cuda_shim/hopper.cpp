// Twins of Hopper's instructions: mbarrier, TMA, wgmma, setmaxnreg, named barriers. What is under way belongs to the
// running block. Warps are kept apart: wgmma.wait_group says something about the warp that executes it and nothing
// about the other three of its warpgroup. Like fibers.cpp not instrumented by ThreadSanitizer, which is told what is
// read, written and ordered. Source: PTX ISA, sections "mbarrier", "cp.async.bulk.tensor", "Asynchronous warpgroup
// level matrix instructions", "setmaxnreg".
#include "tests/cuda_shim/hopper.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/half.h"
#include "tests/cuda_shim/shim.h"
#include "tests/cuda_shim/switch.h"
#include "tests/cuda_shim/tensor_map.h"

namespace cuda_shim {
namespace {

[[noreturn]] void fail(const std::string& text) { throw std::runtime_error("cuda_shim: " + text); }
std::string where(unsigned thread) { return " (thread " + std::to_string(thread) + ")"; }

Asynchrony asynchrony = std::getenv("MANTISSA_SHIM_LATE") ? Asynchrony::random : Asynchrony::late;
bool happens_now() { return asynchrony == Asynchrony::early || (asynchrony == Asynchrony::random && draw(2) == 0); }

// --- mbarrier: the state ---
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

// --- TMA ---
// Bits 4 to 6 of an address are exchanged by bits 7 to 9, which are those of shared memory and not of a tile.
std::uint32_t swizzle_128(std::uint32_t address) { return address ^ (address >> 7 & 7) << 4; }

void complete_bytes(std::uint32_t barrier, long long bytes);

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

// --- wgmma: the state ---
constexpr std::uint32_t poison = 0x7fc0dead;  // a NaN: what a register holds that a product under way will write

// Registers of a warp that products under way add to.
struct Registers {
  float* of_lane[32] = {};
  int n = 0, users = 0;
  std::vector<float> sums;  // 16 rows of n
};
struct Flight {  // one product of a warp: 16 rows
  Product p{};
  float* registers = nullptr;  // of lane 0, which name them
  std::vector<float> result;   // empty: shared memory has not been read yet
};
struct Warp {
  std::vector<Flight> open;                  // not committed
  std::deque<std::vector<Flight>> groups;    // committed
  std::deque<Registers> held;
  bool fenced = false;
  std::size_t products = 0, register_changes = 0;
  unsigned registers = 0, wanted = 0;        // of each thread
  std::uint64_t generation = 0;              // of the named barrier where it arrived last
};
struct RegisterChange {
  int registers;
  bool more;
  bool operator==(const RegisterChange&) const = default;
};
struct Warpgroup {  // what its first warp did: the others have to do the same
  std::vector<Product> products;
  std::vector<RegisterChange> register_changes;
};
struct NamedBarrier {
  int threads = 0, arrived = 0;
  std::uint64_t generation = 0;
  char tag[2] = {};
};

// All that the running block has under way; made when it first executes an instruction of this file.
struct Block {
  std::map<std::uint32_t, Barrier> barriers;  // by shared address
  std::vector<Copy> copies;                   // under way
  NamedBarrier named[16];
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  unsigned spare_registers = 0;               // given back
};
std::unique_ptr<Block> block;
unsigned launched_registers = 0;
Block& here() {
  if (!block) {
    const unsigned count = (threads_of_block() + 31) / 32;
    block = std::make_unique<Block>();
    block->warps.resize(count);
    block->warpgroups.resize((count + 3) / 4);
    for (Warp& w : block->warps) w.registers = w.wanted = launched_registers;
  }
  return *block;
}

// What a warp's lanes bring to an instruction must be the same for all.
template <class T> const T& common(const void* const* lanes) {
  const T& first = *static_cast<const T*>(lanes[0]);
  for (unsigned l = 1; l < 32; ++l) {
    if (!(*static_cast<const T*>(lanes[l]) == first))
      fail("the lanes of a warp give an instruction different operands");
  }
  return first;
}
// The i-th instruction of a kind that a warp of this warpgroup executes.
template <class T> void check_like_the_others(std::vector<T>& known, std::size_t i, const T& mine, const char* what) {
  const TsanIgnore ignore;
  if (i == known.size()) known.push_back(mine);
  else if (!(known[i] == mine)) fail(std::string("the warps of a warpgroup execute different ") + what);
}
void check_warpgroup(unsigned warp, const char* what) {
  if (threads_of_block() < (warp / 4 + 1) * 128) fail(std::string(what) + " needs a whole warpgroup of 128 threads");
}

// --- mbarrier: what happens ---
// What lies in a barrier's place, so that a barrier that was written over is noticed.
std::uint64_t token(std::uint32_t address) { return 0xba551e500000000 + address; }
std::string name_of(std::uint32_t address) { return "the mbarrier at shared address " + std::to_string(address); }

Barrier& barrier_at(std::uint32_t address) {
  const auto at = here().barriers.find(address);
  if (at == here().barriers.end()) fail(name_of(address) + " was not initialised" + where(thread_number()));
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

// --- wgmma: what happens ---
const float* table_of(bool bf16) {
  static const auto make = []<class T>(T) {
    std::vector<float> table(65536);
    for (unsigned i = 0; i < table.size(); ++i) {
      T v;
      const auto bits = static_cast<std::uint16_t>(i);
      std::memcpy(static_cast<void*>(&v), &bits, 2);
      table[i] = static_cast<float>(v);
    }
    return table;
  };
  static const std::vector<float> half = make(mantissa::Half()), bfloat = make(mantissa::BFloat16());
  return (bf16 ? bfloat : half).data();
}

struct Descriptor {
  std::uint32_t start, lead, stride;  // in bytes
  explicit Descriptor(std::uint64_t d)
      : start(static_cast<std::uint32_t>(d & 0x3fff) << 4), lead(static_cast<std::uint32_t>(d >> 16 & 0x3fff) << 4),
        stride(static_cast<std::uint32_t>(d >> 32 & 0x3fff) << 4) {
    constexpr std::uint64_t reserved =
        std::uint64_t{3} << 14 | std::uint64_t{3} << 30 | std::uint64_t{7} << 46 | std::uint64_t{0x3ff} << 52;
    if (d & reserved) fail("a descriptor of wgmma has bits that must be zero");
    if (d >> 62 != 1) fail("a descriptor of wgmma without the 128-byte swizzle, which the shim does not know");
    if ((d >> 49 & 7) != (start >> 7 & 7))
      fail("the base offset of a descriptor of wgmma: its tile does not begin on 1024 bytes");
    if ((d >> 49 & 7) != 0) fail("a descriptor of wgmma with a base offset, which the shim does not know");
  }
};

// Element (row, k) of an operand to out[row * across + k * down], of rows first to first + count - 1, 8 at once.
void load(std::uint64_t descriptor, bool mn, const float* table, unsigned first, unsigned count, float* out,
          unsigned across, unsigned down) {
  const Descriptor d(descriptor);
  const auto chunk = [&](std::uint32_t place, std::uint16_t (&v)[8]) {
    const char* p = shared_at(swizzle_128(place), 16, "an operand of wgmma");
    tsan_read(p, 16);
    std::memcpy(v, p, 16);
  };
  std::uint16_t v[8];
  if (!mn) {
    for (unsigned r = 0; r < count; ++r) {
      const unsigned row = first + r;
      for (unsigned k = 0; k < 16; k += 8) {
        chunk(d.start + row / 8 * d.stride + row % 8 * 128 + k * 2, v);
        for (unsigned i = 0; i < 8; ++i) out[r * across + (k + i) * down] = table[v[i]];
      }
    }
  } else {
    for (unsigned k = 0; k < 16; ++k) {
      for (unsigned r = 0; r < count; r += 8) {
        const unsigned row = first + r;
        chunk(d.start + row / 64 * d.lead + row % 64 * 2 + k / 8 * d.stride + k % 8 * 128, v);
        for (unsigned i = 0; i < 8; ++i) out[(r + i) * across + k * down] = table[v[i]];
      }
    }
  }
}

// The 16 rows of a product that a warp computes.
std::vector<float> compute(const Product& p, unsigned quarter) {
  static float a[16 * 16], b[16 * 256];
  const auto n = static_cast<unsigned>(p.n);
  load(p.a, p.a_mn, table_of(p.bf16), 16 * quarter, 16, a, 16, 1);
  load(p.b, p.b_mn, table_of(p.bf16), 0, n, b, 1, n);
  std::vector<float> result(16 * n);
  for (unsigned row = 0; row < 16; ++row) {
    float* sums = &result[row * n];
    for (unsigned k = 0; k < 16; ++k) {
      const float factor = a[row * 16 + k];
      for (unsigned j = 0; j < n; ++j) sums[j] += factor * b[k * n + j];
    }
  }
  return result;
}

// Register i of a lane is this element of the 16 rows of its warp (PTX ISA, "Register Fragments for
// wgmma.mma_async.m64nNk16").
std::size_t element_of(unsigned lane, int i, int n) {
  const auto row = lane / 4 + 8 * static_cast<unsigned>(i / 2 % 2),
             column = 8 * static_cast<unsigned>(i / 4) + lane % 4 * 2 + static_cast<unsigned>(i % 2);
  return row * static_cast<unsigned>(n) + column;
}

struct ProductOfLane {
  Product p;
  float* d;
  bool operator==(const ProductOfLane& other) const { return p == other.p; }
};

void issue(unsigned number, const void* const* lanes) {
  Warp& warp = here().warps[number];
  check_warpgroup(number, "wgmma");
  const auto of = [&](unsigned lane) -> const ProductOfLane& {
    return *static_cast<const ProductOfLane*>(lanes[lane]);
  };
  const Product& p = common<ProductOfLane>(lanes).p;
  check_like_the_others(here().warpgroups[number / 4].products, warp.products++, p, "products");
  auto at =
      std::find_if(warp.held.begin(), warp.held.end(), [&](const Registers& r) { return r.of_lane[0] == of(0).d; });
  if (at == warp.held.end()) {
    if (!warp.fenced) fail("wgmma.mma_async without wgmma.fence: its registers may have been touched before");
    Registers r;
    r.n = p.n;
    r.sums.resize(static_cast<std::size_t>(16 * p.n));
    for (unsigned l = 0; l < 32; ++l) {
      r.of_lane[l] = of(l).d;
      for (int i = 0; i < p.n / 2; ++i) {
        if (p.add) std::memcpy(&r.sums[element_of(l, i, p.n)], of(l).d + i, 4);
        std::memcpy(of(l).d + i, &poison, 4);
      }
    }
    warp.held.push_back(std::move(r));
    at = warp.held.end() - 1;
  } else if (at->n != p.n) {
    fail("products of different shapes in the same registers without a wait");
  }
  ++at->users;
  Flight flight;
  flight.p = p;
  flight.registers = of(0).d;
  if (happens_now()) flight.result = compute(p, number % 4);
  warp.open.push_back(std::move(flight));
}

void finish(unsigned number, const Flight& flight) {
  Warp& warp = here().warps[number];
  const auto at = std::find_if(warp.held.begin(), warp.held.end(),
                               [&](const Registers& r) { return r.of_lane[0] == flight.registers; });
  const std::vector<float> result = flight.result.empty() ? compute(flight.p, number % 4) : flight.result;
  for (std::size_t i = 0; i < result.size(); ++i) at->sums[i] = (flight.p.add ? at->sums[i] : 0.0f) + result[i];
  if (--at->users > 0) return;
  for (unsigned l = 0; l < 32; ++l) {
    for (int i = 0; i < at->n / 2; ++i) {
      std::uint32_t now;
      std::memcpy(&now, at->of_lane[l] + i, 4);
      if (now != poison) fail("registers of a product under way were written");
      at->of_lane[l][i] = at->sums[element_of(l, i, at->n)];
    }
  }
  warp.held.erase(at);
  warp.fenced = false;  // the thread has them back
}

void begin(unsigned number, const void* const*) {
  check_warpgroup(number, "wgmma");
  here().warps[number].fenced = true;
}
void commit(unsigned number, const void* const*) {
  Warp& warp = here().warps[number];
  warp.groups.push_back(std::exchange(warp.open, {}));
}
void wait_for_groups(unsigned number, const void* const* lanes) {
  Warp& warp = here().warps[number];
  const int pending = common<int>(lanes);
  while (warp.groups.size() > static_cast<std::size_t>(pending)) {
    for (const Flight& f : warp.groups.front()) finish(number, f);
    warp.groups.pop_front();
  }
}

// --- setmaxnreg ---
struct RegisterWait : Waiting {
  unsigned number;
  explicit RegisterWait(unsigned n) : number(n) {}
  bool over() override {
    Warp& warp = here().warps[number];
    if (warp.registers >= warp.wanted) return true;
    const unsigned needed = (warp.wanted - warp.registers) * 32;
    if (needed > here().spare_registers) return false;
    here().spare_registers -= needed;
    warp.registers = warp.wanted;
    return true;
  }
  std::string what() const override {
    return std::to_string(here().warps[number].wanted) + " registers instead of " +
           std::to_string(here().warps[number].registers) + " (" + std::to_string(here().spare_registers) +
           " are spare in the block)";
  }
};
void change_registers(unsigned number, const void* const* lanes) {
  check_warpgroup(number, "setmaxnreg");
  const RegisterChange change = common<RegisterChange>(lanes);
  Warp& warp = here().warps[number];
  if (change.registers < 24 || change.registers > 256 || change.registers % 8 != 0)
    fail("setmaxnreg takes a multiple of 8 from 24 to 256");
  check_like_the_others(here().warpgroups[number / 4].register_changes, warp.register_changes++, change, "setmaxnreg");
  warp.wanted = static_cast<unsigned>(change.registers);
  if (change.more ? warp.wanted < warp.registers : warp.wanted > warp.registers) {
    fail("setmaxnreg" + std::string(change.more ? ".inc" : ".dec") + " from " + std::to_string(warp.registers) +
         " to " + std::to_string(warp.wanted));
  }
  if (change.more) return;
  here().spare_registers += (warp.registers - warp.wanted) * 32;
  warp.registers = warp.wanted;
}

// --- named barriers ---
struct NamedArrival {
  int id, threads;
  bool operator==(const NamedArrival&) const = default;
};
void arrive_named(unsigned number, const void* const* lanes) {
  const NamedArrival a = common<NamedArrival>(lanes);
  NamedBarrier& b = here().named[a.id];
  if (b.arrived > 0 && b.threads != a.threads) fail("a named barrier with different numbers of threads");
  b.threads = a.threads;
  b.arrived += 32;
  here().warps[number].generation = b.generation;
  tsan_release(&b.tag[b.generation & 1]);
  if (b.arrived == b.threads) b.arrived = 0, ++b.generation;
}
struct NamedWait : Waiting {
  int id;
  std::uint64_t generation;
  NamedWait(int i, std::uint64_t g) : id(i), generation(g) {}
  bool over() override { return here().named[id].generation != generation; }
  std::string what() const override {
    return "named barrier " + std::to_string(id) + ": " + std::to_string(here().named[id].arrived) + " of " +
           std::to_string(here().named[id].threads) + " threads are there";
  }
};

}  // namespace

void barrier_init(std::uint64_t* b, int arrivals) {
  check_aligned(b, 8, "an mbarrier");
  const std::uint32_t address = shared_address(b);
  if (arrivals < 1 || arrivals > most_count) fail("an mbarrier of " + std::to_string(arrivals) + " arrivals");
  if (here().barriers.contains(address)) fail(name_of(address) + " is initialised while in use");
  const std::uint64_t mark = token(address);
  std::memcpy(shared_at(address, 8, "an mbarrier"), &mark, 8);
  Barrier& made = here().barriers[address];
  made.expected = made.pending = static_cast<unsigned>(arrivals);
  made.maker = thread_number();
}
void barrier_init_done() {
  for (auto& [address, b] : here().barriers) b.known_to_copies |= b.maker == thread_number();
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
  else here().copies.push_back(c);
}

void set_registers(int registers, bool more) {
  const RegisterChange change{registers, more};
  warp_together("setmaxnreg", &change_registers, &change);
  if (!more) return;
  RegisterWait wait(thread_number() / 32);
  wait_until(wait);
}
void named_barrier(int id, int threads) {
  if (id < 1 || id > 15 || threads < 32 || threads % 32 != 0) fail("named barriers have ids 1 to 15 and whole warps");
  const NamedArrival arrival{id, threads};
  warp_together("bar.sync", &arrive_named, &arrival);
  const std::uint64_t generation = here().warps[thread_number() / 32].generation;
  NamedWait wait(id, generation);
  wait_until(wait);
  tsan_acquire(&here().named[id].tag[generation & 1]);
}

void wgmma(const Product& p, float* d) {
  const ProductOfLane mine{p, d};
  warp_together("wgmma.mma_async", &issue, &mine);
}
void wgmma_begin() { warp_together("wgmma.fence", &begin, nullptr); }
void wgmma_commit() { warp_together("wgmma.commit_group", &commit, nullptr); }
void wgmma_wait(int pending) { warp_together("wgmma.wait_group", &wait_for_groups, &pending); }

void set_asynchrony(Asynchrony when) { asynchrony = when; }

void begin_hopper_block(unsigned registers) {
  block.reset();
  launched_registers = registers;
}
bool do_late_copy() {
  if (!block || block->copies.empty()) return false;
  const TsanIgnore ignore;
  auto& copies = block->copies;
  static bool last_first = false;  // now the oldest, now the newest: nothing says in which order they arrive
  const std::size_t i = asynchrony == Asynchrony::random ? draw(static_cast<unsigned>(copies.size()))
                        : last_first                     ? copies.size() - 1
                                                         : 0;
  last_first = !last_first;
  const Copy c = copies[i];
  copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(i));
  c.run();
  return true;
}
void end_hopper_block() {
  if (!block) return;
  if (!block->copies.empty()) fail("a block ends while copies into its shared memory are under way");
  for (std::size_t i = 0; i < block->warps.size(); ++i) {
    const Warp& warp = block->warps[i];
    const Warpgroup& group = block->warpgroups[i / 4];
    if (!warp.held.empty()) fail("a block ends while products are under way");
    if (warp.products != group.products.size() || warp.register_changes != group.register_changes.size()) {
      fail("not all warps of a warpgroup executed the same wgmma or setmaxnreg");
    }
  }
}
void abandon_hopper_block() {
  if (!block) return;
  for (auto& [address, b] : block->barriers) for (char& tag : b.tag) tsan_acquire(&tag);
  for (NamedBarrier& b : block->named) for (char& tag : b.tag) tsan_acquire(&tag);
}

}  // namespace cuda_shim
