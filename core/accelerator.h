// The interface of core to the CUDA backend: memory, and the device that a kernel is about to run on. Defined in
// cuda/runtime.cpp. All symbols are weak: null in a program without the backend, so that the same object files work
// with it, without it, and with a stand-in that runs on the CPU (tests/cuda_shim). Call has_cuda_backend() first. The
// user's interface is core/device.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/allocator.h"
#include "core/device.h"
#include "core/error.h"

#define MANTISSA_ACCELERATOR [[gnu::weak]]

namespace mantissa::cuda_backend {

MANTISSA_ACCELERATOR int device_count();  // 0 where there is no usable GPU
MANTISSA_ACCELERATOR const char* why_no_device();  // the reason why it is 0
// Makes `device` the target of this thread's next launches.
MANTISSA_ACCELERATOR void activate(Device device);
// Waits for everything launched on the device, and throws its errors.
MANTISSA_ACCELERATOR void synchronize(Device device);
// Memory for the current stream. `pool` receives the handle to pass to deallocate.
MANTISSA_ACCELERATOR void* allocate(std::size_t bytes, Device device, void** pool);
MANTISSA_ACCELERATOR void deallocate(void* p, std::size_t bytes, void* pool) noexcept;
MANTISSA_ACCELERATOR MemoryStats memory_stats(Device device);
MANTISSA_ACCELERATOR void reset_peak(Device device);
MANTISSA_ACCELERATOR void empty_cache(Device device);
MANTISSA_ACCELERATOR void set_memory_limit(Device device, std::int64_t bytes);
// Copies bytes between host and device; returns when the host memory may be reused.
MANTISSA_ACCELERATOR void copy_bytes(void* to, Device to_device, const void* from, Device from_device,
                                     std::size_t bytes);

// A host copy of some bytes in device memory that can be polled without ever waiting.
struct Mirror;
MANTISSA_ACCELERATOR Mirror* make_mirror(std::size_t bytes);
MANTISSA_ACCELERATOR void destroy_mirror(Mirror* mirror) noexcept;
// Starts copying the bytes at `from`. If a graph is being captured, every replay will copy them.
MANTISSA_ACCELERATOR void request(Mirror* mirror, const void* from);
// The newest bytes that have arrived; null if there are none yet.
MANTISSA_ACCELERATOR const void* latest(Mirror* mirror);

// An event on the current stream: complete when all work submitted so far is done.
struct Moment;
MANTISSA_ACCELERATOR Moment* mark_moment(Device device);
MANTISSA_ACCELERATOR void destroy_moment(Moment* moment) noexcept;
// Waits for the later one. Both must be on one device.
MANTISSA_ACCELERATOR double milliseconds_between(Moment* earlier, Moment* later);

// Work of this thread on the current device, recorded once and replayed as a whole (CUDA graphs). Memory allocated
// while recording belongs to the graph; random numbers drawn while recording are drawn anew in every replay.
struct Graph;
MANTISSA_ACCELERATOR Graph* make_graph();
MANTISSA_ACCELERATOR void destroy_graph(Graph* graph) noexcept;
MANTISSA_ACCELERATOR void begin_recording(Graph* graph, std::uint64_t random_seed, std::uint64_t random_offset);
MANTISSA_ACCELERATOR void end_recording(Graph* graph);             // throws if something could not be recorded
MANTISSA_ACCELERATOR void give_up_recording(Graph* graph) noexcept;
// Bytes of device memory that are copied before a replay. Those of one replay must not overlap.
struct GraphInput {
  void* to;
  const void* from;
  std::size_t bytes;
};
MANTISSA_ACCELERATOR void replay(Graph* graph, std::span<const GraphInput> inputs, std::uint64_t random_seed,
                                 std::uint64_t random_offset);
MANTISSA_ACCELERATOR std::size_t graph_bytes(Graph* graph);        // device memory that it holds

bool has_cuda_backend();  // whether this program contains one
[[noreturn]] void fail_without_kernel();

// Makes `device` current and returns `kernel`.
template <class F> F* prepare(F* kernel, Device device) {
  if (!kernel) fail_without_kernel();
  activate(device);
  return kernel;
}

}  // namespace mantissa::cuda_backend
