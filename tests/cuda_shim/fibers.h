// What fibers.cpp offers to the twins of instructions that wait or happen later
// (hopper*.cpp), and what it asks of them.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace cuda_shim {

// What a thread waits for. The machine asks again and again, from outside of the thread.
struct Waiting {
  virtual bool over() = 0;
  virtual std::string what() const = 0;  // for the message, should it never be over

 protected:
  ~Waiting() = default;
};
void wait_until(Waiting& w);

// Blocks run one after the other, those of a cluster together. Threads and warps are numbered through all of these;
// a cluster's blocks are whole warpgroups.
unsigned thread_number();     // of the running thread
unsigned threads_together();
unsigned blocks_together();
unsigned own_block();         // the running thread's, from 0
bool has_ended(unsigned block);
unsigned draw(unsigned n);    // a random number below n

// Shared memory as instructions address it: from 0, in each block. Only dynamic shared memory has such addresses here.
std::uint32_t shared_address(const void* p);
// What is added to a shared address so that it is one in a block of the cluster, which no other address looks like.
constexpr std::uint32_t cluster_address(int block) { return (static_cast<std::uint32_t>(block) + 1) << 24; }
// The bytes at a shared address of a block; an error where they are not all its dynamic shared memory.
char* shared_at(unsigned block, std::uint32_t address, std::size_t bytes, const char* what);

// --- hopper.cpp, hopper_copies.cpp ---
void begin_hopper_blocks(unsigned registers);  // of a thread, as launched
bool do_late_copy();                           // one of those under way, if there is any
void end_hopper_blocks();                      // throws if something is still under way
void abandon_hopper_blocks();                  // after an error

}  // namespace cuda_shim
