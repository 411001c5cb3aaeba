// Streams, events, memory and errors of the CUDA backend. Work is enqueued on the current stream of the current device,
// both per thread; nothing here blocks unless its name says so. Next: cuda/launch.cuh (kernel launches),
// core/accelerator.h (the interface that core uses).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "core/allocator.h"
#include "core/device.h"

namespace mantissa::cuda_backend {

// --- current device and stream ---
int current_device();
cudaStream_t stream();        // of this thread on the current device: the usual one, but for threads in a StreamScope
cudaStream_t usual_stream();  // of the current device, one for all threads

class Stream {
 public:
  Stream();  // on the current device
  ~Stream();
  Stream(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  void wait();  // for all work enqueued on it

 private:
  cudaStream_t stream_ = nullptr;
};
// During its lifetime this thread's work for the current device is enqueued on another stream of it.
class StreamScope {
 public:
  explicit StreamScope(cudaStream_t s);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;

 private:
  int device_;
  cudaStream_t before_;
};
class Event {
 public:
  explicit Event(bool timed = false);
  ~Event();
  Event(const Event&) = delete;
  void record();             // on the current stream
  void make_stream_wait();   // the current stream waits for the recorded work
  bool reached() const;
  void wait();
  float milliseconds_since(const Event& earlier) const;

 private:
  cudaEvent_t event_ = nullptr;
};

void wait_for_stream();  // the current one; throws errors that kernels reported
bool is_capturing();     // the current stream is capturing a graph: nothing may wait
bool records_here();     // this thread is between begin_recording and end_recording (core/accelerator.h)
void check_can_copy_to_or_from_host();  // throws while a graph is captured

// During its lifetime this thread may allocate, query events and load code while it captures a graph. By default CUDA
// rejects these calls and invalidates the capture (cudaThreadExchangeStreamCaptureMode); they are harmless if nothing
// that is captured depends on them. `wanted`: what runs all the time passes records_here(), and is spared two calls.
class CaptureRelaxed {
 public:
  explicit CaptureRelaxed(bool wanted = true) : wanted_(wanted) { exchange(); }
  ~CaptureRelaxed() { exchange(); }
  CaptureRelaxed(const CaptureRelaxed&) = delete;

 private:
  void exchange() {
    if (wanted_) (void)cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  bool wanted_;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // after construction: the previous mode
};

// --- memory ---
// Pinned host memory: the GPU copies to and from it without an intermediate buffer.
CachingAllocator& pinned_allocator();
void* allocate_pinned(std::size_t bytes);
void deallocate_pinned(void* p, std::size_t bytes) noexcept;

// A memory pool apart from the device's common one, for the tensors of a captured graph, which must keep their
// addresses as long as the graph can run. Blocks freed into an arena are only reused by it.
class Arena {
 public:
  Arena();  // for the current device
  ~Arena();  // blocks still in use keep its memory alive
  Arena(const Arena&) = delete;
  MemoryStats stats() const;
  bool contains(const void* p) const;
  void fill_with_zeros() noexcept;  // all of its memory

 private:
  friend class ArenaScope;
  struct Pool* pool_;
};
// During its lifetime, device memory that this thread allocates comes from the arena.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena);
  ~ArenaScope();
  ArenaScope(const ArenaScope&) = delete;

 private:
  struct Pool* before_;
};

// --- random numbers ---
// Position in the random number stream for a kernel. While a graph is captured it is read from device memory, so that
// every replay draws new numbers; otherwise `state` is null and the position is a launch argument.
struct RandomPosition {
  std::uint64_t seed = 0, offset = 0;
  const std::uint64_t* state = nullptr;  // {seed, offset}; `offset` above is relative to it
};
RandomPosition random_position(std::uint64_t seed, std::uint64_t offset);
// Set during a capture: positions are then relative to {seed, offset} at `state`. Null: positions are absolute.
void set_random_state(const std::uint64_t* state, std::uint64_t seed, std::uint64_t first_offset);

// --- errors found by kernels ---
// A kernel that finds an index out of range records a note and skips that element. The error is thrown the next time
// the host waits.
struct Note {
  int set;
  int kind;  // 0: index, 1: label, 2: region, 3: offset of a bag, 4: one of noted_messages.h, by its number
  long long value, size, position;
};
Note* note();        // of the current device; in host memory that kernels can write
void throw_notes();  // throws what was recorded so far, and clears it

// --- about the device ---
int multiprocessors();
int compute_capability();  // 90 for sm_90
std::string version_text(int of_cuda);  // 13010 gives 13.1

// --- launches (cuda/launch.cuh) ---
inline constexpr std::size_t shared_of_every_kernel = 48 * 1024;  // bytes; more must be requested
// Requests it once per kernel and device; the limit is never lowered.
void allow_shared(const void* kernel, std::size_t bytes, const char* name);
std::size_t most_shared();  // bytes, of a block: 227 KiB on Hopper, 99 KiB on sm_86, sm_89 and sm_120
// Called after every launch, with its status: throws if the launch failed, and waits if $MANTISSA_CUDA_SYNC is 1.
void after_launch(const char* kernel, cudaError_t status);
// Called after cuBLASLt or cuDNN has launched something: waits if $MANTISSA_CUDA_SYNC is 1.
void after_library_call(const char* what);

}  // namespace mantissa::cuda_backend
