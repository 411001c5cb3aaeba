// What tests say to the machine that runs CUDA kernels on the CPU, and what its parts say to each
// other. One launch runs at a time in a process; device memory can be read by kernels and copies only.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace cuda_shim {

// The order in which the threads of a block run between barriers. A result that depends on it is a race.
enum class Order { forward, reverse, random };
void set_order(Order order, unsigned seed = 1);
// When the copies of the copy engine (TMA) arrive and products of warpgroups (wgmma) read shared memory: as late as
// a kernel allows (the default), at once, or now this, now that, in the random numbers of set_order.
// MANTISSA_SHIM_LATE begins with random.
enum class Asynchrony { late, early, random };
void set_asynchrony(Asynchrony when);

// Work is done at once (the default), or as late as streams and events allow, in an order of its own. Copies then read
// and write host memory late, too. MANTISSA_SHIM_LATE=<seed> in the environment begins so.
void set_late(bool late, unsigned seed = 1);

void set_device_count(int count);                 // 1 at start, at most 4; 0: a machine without a GPU
// For which CUDA the driver is; 13000, as the toolkit, at start. Less: it is too old for the build. 0: there is none.
void set_driver_version(int version);
void set_memory_limit(std::size_t bytes);         // of each device; 1 GiB at start
void set_cudnn(bool on);                          // whether there is one; only with MANTISSA_SHIM_CUDNN at start
void set_shared_limit(std::size_t bytes);         // of a block; 227 KiB at start, and 99 KiB on sm_86, sm_89 and sm_120
void set_ptx_version(int version);                // that kernels were compiled for; 90 at start
void fail_next_launch(cudaError_t error);         // sticky errors stay, as on a GPU
// The next call of a library's function gives this status and does nothing: "cublasLtMatmul",
// "cublasLtMatmulAlgoGetHeuristic", "cudnnBackendExecute", "cudnnBackendFinalize of a graph", "... of a plan",
// "ncclGetVersion", "ncclGroupEnd" or "ncclCommAbort".
void fail_next_call(const char* name, int status);
void forget_errors();                             // a new process, as far as errors go
std::uint64_t launches();                         // kernels run so far
std::size_t device_bytes();                       // taken by cudaMalloc and not given back
bool is_device_pointer(const void* p);

// While one lives, this thread's calls of the runtime are counted by name; a launch is "cudaLaunchKernel". Scopes
// nest; the innermost one counts.
class CallCounter {
 public:
  CallCounter();
  ~CallCounter();
  CallCounter(const CallCounter&) = delete;
  std::map<std::string, int> calls;

 private:
  CallCounter* before_;
};
// A null device takes kernels, copies and memsets and does none of them, so that what a program spends is its own work
// on the host. Results are whatever lay in memory; what the host copies from there is zero.
void set_null_device(bool on);
extern bool null_device;

// --- between the parts ---
int planned_status(const char* call);  // of fail_next_call, once; else 0
struct Fault : std::runtime_error {  // what a kernel did wrong
  Fault(cudaError_t e, const std::string& text) : std::runtime_error(text), error(e) {}
  cudaError_t error;
};
// What is known of a kernel (kernels.cpp): its name, the static variables that are its shared memory, and the registers
// that cuda/kernel_resources.txt says a thread of it has; 0 where it is not listed.
struct Kernel {
  struct Variable { char* at; std::size_t bytes; };
  std::string name;
  std::vector<Variable> shared;
  std::size_t shared_bytes = 0;
  unsigned registers = 0;
  unsigned listed_registers = 0;  // the most of all instances of a template
  std::string mangled, file;      // as the symbol table has it; the file only of a kernel in an unnamed namespace
};
const Kernel& kernel_at(const void* function);
// Where a parameter of a launch lies on the host.
struct Argument {
  const void* at = nullptr;
  std::size_t bytes = 0;
  bool is_pointer = false;
};
// How a kernel is launched.
struct Shape {
  dim3 grid, block;
  std::size_t shared = 0;  // bytes of dynamic shared memory
  unsigned cluster = 1;    // so many blocks, side by side along x, run together
  bool waits = false;      // every thread must call wait_for_previous_kernel() once
};
inline constexpr unsigned most_cluster = 8;
// Runs all blocks of a grid. Throws what a kernel did wrong: a barrier that not all
// threads reach, a misaligned address.
void run_grid(const Kernel& kernel, const std::function<void()>& thread, const Shape& shape);
// Puts work on a stream: done at once, later, or recorded by a capture.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);
// Refuses what a GPU of compute capability 9.0 refuses. `arguments` end with an empty one.
cudaError_t launch(cudaStream_t stream, const void* kernel, const Argument* arguments, std::function<void()> thread,
                   const Shape& shape);

class DeviceAccess {  // while one lives, this process may touch device memory
 public:
  DeviceAccess();
  ~DeviceAccess();
};

}  // namespace cuda_shim
