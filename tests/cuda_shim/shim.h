// What tests say to the machine that runs CUDA kernels on the CPU, and what its parts say to each
// other. One launch runs at a time in a process; device memory can be read by kernels and copies only.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <map>
#include <string>

namespace cuda_shim {

// The order in which the threads of a block run between barriers. A result that depends on it is a race.
enum class Order { forward, reverse, random };
void set_order(Order order, unsigned seed = 1);

// Work is done at once (the default), or as late as streams and events allow, in an order of its own.
void set_late(bool late, unsigned seed = 1);

void set_device_count(int count);                 // 1 at start, at most 4; 0: a machine without a GPU
void set_memory_limit(std::size_t bytes);         // of each device; 1 GiB at start
void fail_next_launch(cudaError_t error);         // sticky errors stay, as on a GPU
void forget_errors();                             // a new process, as far as errors go
std::uint64_t launches();                         // kernels run so far
std::size_t device_bytes();                       // taken by cudaMalloc and not given back
bool is_device_pointer(const void* p);

// While one lives, this thread's calls of the runtime are counted by name; a launch is "cudaLaunchKernel". Scopes nest; the
// innermost one counts.
class CallCounter {
 public:
  CallCounter();
  ~CallCounter();
  CallCounter(const CallCounter&) = delete;
  std::map<std::string, int> calls;

 private:
  CallCounter* before_;
};
// A null device takes kernels, copies and memsets and does none of them, so that what a program spends is its own work on
// the host. Results are whatever lay in memory; what the host copies from there is zero.
void set_null_device(bool on);
extern bool null_device;

// --- between the parts ---
// Runs all blocks of a grid. Throws what a kernel did wrong: a barrier that not all threads reach.
void run_grid(const std::function<void()>& thread, dim3 grid, dim3 block, std::size_t shared);
// Puts work on a stream: done at once, later, or recorded by a capture.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);
cudaError_t launch(cudaStream_t stream, std::function<void()> thread, dim3 grid, dim3 block, std::size_t shared);

class DeviceAccess {  // while one lives, this process may touch device memory
 public:
  DeviceAccess();
  ~DeviceAccess();
};

}  // namespace cuda_shim
