// Twins of setmaxnreg and named barriers, and what is common to all of Hopper's: when asynchronous things happen, and
// the begin and end of a block. Not instrumented by ThreadSanitizer, like fibers.cpp: it is told what is ordered.
// Source: PTX ISA, sections "setmaxnreg" and "bar".
#include "tests/cuda_shim/hopper.h"

#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/cuda_shim/hopper_parts.h"
#include "tests/cuda_shim/shim.h"

namespace cuda_shim {
namespace {

Asynchrony asynchrony = std::getenv("MANTISSA_SHIM_LATE") ? Asynchrony::random : Asynchrony::late;

struct RegisterChange {
  int registers;
  bool more;
  bool operator==(const RegisterChange&) const = default;
};
struct NamedBarrier {
  int threads = 0, arrived = 0;
  std::uint64_t generation = 0;
  char tag[2] = {};
};
struct Warp {
  unsigned registers = 0, wanted = 0;  // of each thread
  std::uint64_t generation = 0;        // of the named barrier where it arrived last
};
struct Block {
  std::vector<Warp> warps = std::vector<Warp>((threads_of_block() + 31) / 32);
  unsigned spare_registers = 0;  // given back
  SameInWarpgroup<RegisterChange> register_changes{"setmaxnreg"};
  NamedBarrier named[16];
};
std::unique_ptr<Block> block;  // the running one; made when it first executes an instruction of this file
unsigned launched_registers = 0;
Block& here() {
  if (!block) {
    block = std::make_unique<Block>();
    for (Warp& w : block->warps) w.registers = w.wanted = launched_registers;
  }
  return *block;
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
  const RegisterChange change = common<RegisterChange>(lanes);
  Warp& warp = here().warps[number];
  if (change.registers < 24 || change.registers > 256 || change.registers % 8 != 0)
    fail("setmaxnreg takes a multiple of 8 from 24 to 256");
  here().register_changes.execute(number, change);
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

void set_asynchrony(Asynchrony when) { asynchrony = when; }
bool happens_now() {
  return asynchrony == Asynchrony::early || (asynchrony == Asynchrony::random && draw(2) == 0);
}
bool is_order_random() { return asynchrony == Asynchrony::random; }

void begin_hopper_block(unsigned registers) {
  block.reset();
  forget_copies();
  forget_products();
  launched_registers = registers;
}
void end_hopper_block() {
  check_copies_done();
  check_products_done();
  if (block) block->register_changes.check_all_done();
}
void abandon_hopper_block() {
  abandon_copies();
  if (!block) return;
  for (NamedBarrier& b : block->named) for (char& tag : b.tag) tsan_acquire(&tag);
}

}  // namespace cuda_shim
