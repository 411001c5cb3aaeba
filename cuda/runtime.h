// Streams, events, memory and errors of the CUDA backend. Work goes to the current stream of the current
// device, both belonging to the calling thread; nothing here waits unless its name says so.
// Next: cuda/launch.cuh (how kernels are launched), core/accelerator.h (what core asks for).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/allocator.h"
#include "core/device.h"

namespace mantissa::cuda_backend {

// --- where work goes ---
int current_device();
cudaStream_t stream();  // of this thread on the current device; each device has one of its own to begin with

class Stream {
 public:
  Stream();  // on the current device
  ~Stream();
  Stream(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  void wait();  // for all work put on it

 private:
  cudaStream_t stream_ = nullptr;
};
// While it lives, work of this thread goes to another stream.
class StreamScope {
 public:
  explicit StreamScope(cudaStream_t s);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;

 private:
  cudaStream_t before_;
};
class Event {
 public:
  explicit Event(bool timed = false);
  ~Event();
  Event(const Event&) = delete;
  void record();             // on the current stream
  void make_stream_wait();   // the current stream goes on only after what was recorded
  bool reached() const;
  void wait();
  float milliseconds_since(const Event& earlier) const;

 private:
  cudaEvent_t event_ = nullptr;
};

void wait_for_stream();  // the current one; throws what kernels reported
bool is_capturing();     // the current stream records a graph: nothing may be waited for

// While it lives, this thread may allocate, ask for events and load code although it captures a graph. CUDA
// refuses these by default and spoils the capture (cudaThreadExchangeStreamCaptureMode); they are harmless if
// nothing that is recorded depends on them.
class CaptureRelaxed {
 public:
  CaptureRelaxed() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~CaptureRelaxed() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  CaptureRelaxed(const CaptureRelaxed&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // then: what was before
};

// --- memory ---
// Memory that the host reads and writes and the GPU copies from and to without a detour.
CachingAllocator& pinned_allocator();
void* allocate_pinned(std::size_t bytes);
void deallocate_pinned(void* p, std::size_t bytes) noexcept;

// A set of blocks apart from the device's common ones: what a captured graph computes in, which must
// stay where it is as long as the graph can run. Blocks freed into an arena serve only it.
class Arena {
 public:
  Arena();  // for the current device
  ~Arena();  // blocks still in use keep it alive
  Arena(const Arena&) = delete;
  MemoryStats stats() const;

 private:
  friend class ArenaScope;
  struct Pool* pool_;
};
// While it lives, device memory that this thread allocates comes from the arena.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena);
  ~ArenaScope();
  ArenaScope(const ArenaScope&) = delete;

 private:
  struct Pool* before_;
};

// --- random numbers ---
// Where a kernel draws from. While a graph is captured the position is read from device memory, so that
// every replay draws anew; otherwise `state` is null and the position is in the launch itself.
struct RandomPosition {
  std::uint64_t seed = 0, offset = 0;
  const std::uint64_t* state = nullptr;  // {seed, offset}; `offset` above counts from there
};
RandomPosition random_position(std::uint64_t seed, std::uint64_t offset);
// Set by a capture: positions are then relative to {seed, offset} at `state`. Null: as they are.
void set_random_state(const std::uint64_t* state, std::uint64_t seed, std::uint64_t first_offset);

// --- what kernels find wrong ---
// A kernel that finds an index out of range leaves a note and goes on without it. The note is thrown at
// the next point where the host waits.
struct Note {
  int set;
  int kind;  // 0: index, 1: label
  long long value, size, position;
};
Note* note();        // of the current device; host memory that kernels can write
void throw_notes();  // what has been noted so far; forgets it

// --- about the device ---
int multiprocessors();
int compute_capability();  // 90 for sm_90

// --- launches (cuda/launch.cuh) ---
inline constexpr std::size_t shared_of_every_kernel = 48 * 1024;  // bytes; more must be asked for
// Asks once for each kernel and device; what a kernel may have is never lowered.
void allow_shared(const void* kernel, std::size_t bytes, const char* name);
// Called after every launch, with its status: throws if it was refused, and waits when $MANTISSA_CUDA_SYNC is 1.
void after_launch(const char* kernel, cudaError_t status);

}  // namespace mantissa::cuda_backend
