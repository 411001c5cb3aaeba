// What core asks of the CUDA backend: memory, and the device that a kernel is about to run on. The
// definitions are in cuda/runtime.cpp. All of it is weak: null in a program without the backend, so that the
// same object files serve programs with it, without it, and with one that runs on the CPU
// (tests/cuda_shim). has_cuda_backend() is the question to ask first. What users call is in core/device.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/allocator.h"
#include "core/device.h"
#include "core/error.h"

#define MANTISSA_ACCELERATOR [[gnu::weak]]

namespace mantissa::cuda_backend {

MANTISSA_ACCELERATOR int device_count();  // 0 where there is no usable GPU
MANTISSA_ACCELERATOR const char* why_no_device();  // why it is 0
// Makes `device` the one that this thread's next launches go to.
MANTISSA_ACCELERATOR void activate(Device device);
// Waits for everything that was launched on the device, and throws what went wrong there.
MANTISSA_ACCELERATOR void synchronize(Device device);
// Memory for the current stream. `pool` receives what deallocate wants back.
MANTISSA_ACCELERATOR void* allocate(std::size_t bytes, Device device, void** pool);
MANTISSA_ACCELERATOR void deallocate(void* p, std::size_t bytes, void* pool) noexcept;
MANTISSA_ACCELERATOR MemoryStats memory_stats(Device device);
MANTISSA_ACCELERATOR void reset_peak(Device device);
MANTISSA_ACCELERATOR void empty_cache(Device device);
// Copies bytes between host and device; back when the host's side may be used again.
MANTISSA_ACCELERATOR void copy_bytes(void* to, Device to_device, const void* from, Device from_device,
                                     std::size_t bytes);

// What the host has seen of some bytes in device memory, asked for again and again without ever waiting.
struct Mirror;
MANTISSA_ACCELERATOR Mirror* make_mirror(std::size_t bytes);
MANTISSA_ACCELERATOR void destroy_mirror(Mirror* mirror) noexcept;
// Starts copying the bytes at `from`. While a graph is captured, every replay will copy them.
MANTISSA_ACCELERATOR void request(Mirror* mirror, const void* from);
// The newest bytes that have arrived; null while there are none.
MANTISSA_ACCELERATOR const void* latest(Mirror* mirror);

// A moment of the current stream: when the work given to it so far is done.
struct Moment;
MANTISSA_ACCELERATOR Moment* mark_moment(Device device);
MANTISSA_ACCELERATOR void destroy_moment(Moment* moment) noexcept;
// Waits for the later one. Both of one device.
MANTISSA_ACCELERATOR double milliseconds_between(Moment* earlier, Moment* later);

// Work of this thread on the current device, recorded once and run again as a whole (CUDA graphs). Memory that is
// allocated while recording belongs to the graph, and random numbers drawn then are drawn anew in every replay.
struct Graph;
MANTISSA_ACCELERATOR Graph* make_graph();
MANTISSA_ACCELERATOR void destroy_graph(Graph* graph) noexcept;
MANTISSA_ACCELERATOR void begin_recording(Graph* graph, std::uint64_t random_seed, std::uint64_t random_offset);
MANTISSA_ACCELERATOR void end_recording(Graph* graph);             // throws if something could not be recorded
MANTISSA_ACCELERATOR void give_up_recording(Graph* graph) noexcept;
MANTISSA_ACCELERATOR void replay(Graph* graph, std::uint64_t random_seed, std::uint64_t random_offset);
MANTISSA_ACCELERATOR std::size_t graph_bytes(Graph* graph);        // of device memory that it holds

bool has_cuda_backend();  // whether this program contains one
[[noreturn]] void fail_without_kernel();

// `kernel`, after its device was made the current one.
template <class F> F* prepare(F* kernel, Device device) {
  if (!kernel) fail_without_kernel();
  activate(device);
  return kernel;
}

}  // namespace mantissa::cuda_backend
