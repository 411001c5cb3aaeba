// Counts what the kernels executed from PTX do to memory, as a profiler on a GPU would: $MANTISSA_SHIM_PTX_COUNTS names
// a file that gets one line for each kernel when the program ends:
//   instr/thread   PTX instructions that a thread executes, on average
//   load, store    of global memory: bytes that were used of each 100 that were moved, in sectors of 32 bytes: fewer
//                  than 100 where neighbouring threads do not access neighbouring memory
//   shared         wavefronts for each 100 that the same accesses take without bank conflicts
// The n-th execution of an instruction by the threads of a warp counts as one access by the warp, its lanes in the
// order in which they run (forward, unless a test says otherwise). Caches are not modelled: bytes that two accesses
// move count twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cuda_shim::ptx {

enum class Access { load, store, shared };

// Whether the file was asked for; nothing else here may be called if not.
extern const bool counting;
void count_launch(std::string_view kernel, std::size_t threads);
void count_instructions(std::size_t executed);  // by a thread that ends
// By the running thread. `instruction`: what distinguishes it from others.
void count_access(const void* instruction, Access access, std::uint64_t address, std::size_t bytes);

}  // namespace cuda_shim::ptx
