// Twins of setmaxnreg and named barriers, and what is common to all of Hopper's: when asynchronous things happen, and
// the begin and end of the blocks that run together, one or a cluster. Not instrumented by ThreadSanitizer, like
// fibers.cpp: it is told what is ordered. Source: PTX ISA, sections "setmaxnreg", "bar" and "barrier.cluster".
#include "tests/cuda_shim/hopper.h"

#include <cstdlib>
#include <cstring>
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
  std::uint64_t generation = 0;        // of the barrier where it arrived last, a named one or the cluster's
};
struct Block {
  unsigned spare_registers = 0;  // given back
  NamedBarrier named[16];
};
struct Running {
  std::vector<Warp> warps = std::vector<Warp>((threads_together() + 31) / 32);
  std::vector<Block> blocks = std::vector<Block>(blocks_together());
  SameInWarpgroup<RegisterChange> register_changes{"setmaxnreg"};
  NamedBarrier cluster;
};
std::unique_ptr<Running> running;  // made when one first executes an instruction of this file
unsigned launched_registers = 0;
Running& all() {
  if (!running) {
    running = std::make_unique<Running>();
    for (Warp& w : running->warps) w.registers = w.wanted = launched_registers;
  }
  return *running;
}
Block& block_of_warp(unsigned number) {
  return all().blocks[number / (all().warps.size() / all().blocks.size())];
}

// --- setmaxnreg ---
struct RegisterWait : Waiting {
  unsigned number;
  explicit RegisterWait(unsigned n) : number(n) {}
  bool over() override {
    Warp& warp = all().warps[number];
    if (warp.registers >= warp.wanted) return true;
    const unsigned needed = (warp.wanted - warp.registers) * 32;
    Block& block = block_of_warp(number);
    if (needed > block.spare_registers) return false;
    block.spare_registers -= needed;
    warp.registers = warp.wanted;
    return true;
  }
  std::string what() const override {
    return std::to_string(all().warps[number].wanted) + " registers instead of " +
           std::to_string(all().warps[number].registers) + " (" +
           std::to_string(block_of_warp(number).spare_registers) +
           " are spare in the block)";
  }
};
void change_registers(unsigned number, const void* const* lanes) {
  const RegisterChange change = common<RegisterChange>(lanes);
  Warp& warp = all().warps[number];
  if (change.registers < 24 || change.registers > 256 || change.registers % 8 != 0)
    fail("setmaxnreg takes a multiple of 8 from 24 to 256");
  all().register_changes.execute(number, change);
  warp.wanted = static_cast<unsigned>(change.registers);
  if (change.more ? warp.wanted < warp.registers : warp.wanted > warp.registers) {
    fail("setmaxnreg" + std::string(change.more ? ".inc" : ".dec") + " from " + std::to_string(warp.registers) +
         " to " + std::to_string(warp.wanted));
  }
  if (change.more) return;
  block_of_warp(number).spare_registers += (warp.registers - warp.wanted) * 32;
  warp.registers = warp.wanted;
}

// --- named barriers ---
struct NamedArrival {
  int id, threads;
  bool operator==(const NamedArrival&) const = default;
};
void arrive(NamedBarrier& b, int threads, unsigned warp) {
  if (b.arrived > 0 && b.threads != threads) fail("a named barrier with different numbers of threads");
  b.threads = threads;
  b.arrived += 32;
  all().warps[warp].generation = b.generation;
  tsan_release(&b.tag[b.generation & 1]);
  if (b.arrived == b.threads) b.arrived = 0, ++b.generation;
}
void arrive_named(unsigned number, const void* const* lanes) {
  const NamedArrival a = common<NamedArrival>(lanes);
  arrive(block_of_warp(number).named[a.id], a.threads, number);
}
void arrive_in_cluster(unsigned number, const void* const*) {
  arrive(all().cluster, static_cast<int>(threads_together()), number);
}
struct NamedWait : Waiting {  // owns nothing: who waits in vain is never destroyed
  const NamedBarrier& barrier;
  int id;  // 0: the cluster's
  std::uint64_t generation;
  NamedWait(const NamedBarrier& b, int i)
      : barrier(b), id(i), generation(all().warps[thread_number() / 32].generation) {}
  bool over() override { return barrier.generation != generation; }
  std::string what() const override {
    const std::string name = id == 0 ? "the barrier of the cluster" : "named barrier " + std::to_string(id);
    return name + ": " + std::to_string(barrier.arrived) + " of " + std::to_string(barrier.threads) +
           " threads are there";
  }
};
void wait_at(NamedBarrier& b, int id) {
  NamedWait wait(b, id);
  wait_until(wait);
  tsan_acquire(&b.tag[wait.generation & 1]);
}

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
  wait_at(all().blocks[own_block()].named[id], id);
}
void cluster_sync() {
  warp_together("barrier.cluster", &arrive_in_cluster, nullptr);
  wait_at(all().cluster, 0);
}
unsigned block_in_cluster() { return own_block(); }

// --- from block to block ---
std::uint32_t address_in(const void* p, int block) { return shared_address(p) + cluster_address(block); }
void store_in(std::uint32_t there, const float4& v) {
  if (there < cluster_address(0)) fail("an address that is not of a cluster");
  const unsigned block = there / cluster_address(0) - 1;
  if (block >= blocks_together() || has_ended(block))
    fail("a store to a block that is not, or no longer, in the cluster");
  char* to = shared_at(block, there % cluster_address(0), sizeof v, "st.shared::cluster");
  check_aligned(to, sizeof v, "st.shared::cluster");
  tsan_write(to, sizeof v);
  const TsanIgnore ignore;
  std::memcpy(to, &v, sizeof v);
}
void raise_flag(unsigned* flag) {
  if (*flag != 0) fail("a flag that is raised was raised already, or never lowered");
  *flag = 1;
}
// Blocks run in ascending order, and who waits for a later one would wait for ever.
void wait_for_flag(const unsigned* flag) {
  if (*flag == 0) fail("a block waits for one that comes after it, or that will never raise this flag");
  if (*flag != 1) fail("a block waits for a flag that was never lowered");
}

void set_asynchrony(Asynchrony when) { asynchrony = when; }
bool happens_now() {
  return asynchrony == Asynchrony::early || (asynchrony == Asynchrony::random && draw(2) == 0);
}
bool is_order_random() { return asynchrony == Asynchrony::random; }

void begin_hopper_blocks(unsigned registers) {
  running.reset();
  forget_copies();
  forget_copies_out();
  forget_products();
  launched_registers = registers;
}
void end_hopper_blocks() {
  check_copies_done();
  check_copies_out_done();
  check_products_done();
  if (running) running->register_changes.check_all_done();
}
void abandon_hopper_blocks() {
  abandon_copies();
  if (!running) return;
  for (Block& block : running->blocks) {
    for (NamedBarrier& b : block.named) for (char& tag : b.tag) tsan_acquire(&tag);
  }
  for (char& tag : running->cluster.tag) tsan_acquire(&tag);
}

}  // namespace cuda_shim
