// A caching allocator: freed blocks are reused, so that a training step that repeats its shapes makes no system calls.
// Blocks of up to 64 KiB are cached in exact size classes (four per power of two), larger ones are cut from segments.
// Raw memory comes from a RawMemory, so that the same policy serves CPU, pinned and device memory, and tests can make
// any allocation fail. Statistics have PyTorch's meaning: allocated = in use by tensors, reserved = held from the
// system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/device.h"

namespace mantissa {

struct MemoryStats {
  std::int64_t allocated = 0;       // bytes in use, including rounding
  std::int64_t reserved = 0;        // bytes held from the system: in use plus cached
  std::int64_t peak_allocated = 0;  // since the start or the last reset_peak
  std::int64_t peak_reserved = 0;
  std::int64_t allocations = 0;     // calls to allocate
  std::int64_t system_calls = 0;    // of those, how many had to ask the system
};

class RawMemory {
 public:
  virtual ~RawMemory() = default;
  virtual void* take(std::size_t bytes) = 0;  // 64-byte aligned; null if out of memory
  virtual void give(void* p, std::size_t bytes) noexcept = 0;
  // For the out-of-memory message: " on cuda:0", and the bytes the device has left (-1: unknown).
  virtual const char* place() const { return ""; }
  virtual std::int64_t free_bytes() const { return -1; }
};

class CachingAllocator {
 public:
  // `whole`: an allocator whose statistics include this one's, as a device's those of its captured steps; it must live
  // longer.
  explicit CachingAllocator(RawMemory& raw, CachingAllocator* whole = nullptr);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;

  // Never null; bytes = 0 gives a valid pointer. If out of memory, empties the cache and retries once, then throws
  // OutOfMemory. Thread-safe. A freed block is reused only for the same `stream`, where its earlier uses were launched
  // before the later ones.
  void* allocate(std::size_t bytes, const void* stream = nullptr);
  // `bytes` and `stream` must be those passed to allocate.
  void deallocate(void* p, std::size_t bytes, const void* stream = nullptr) noexcept;

  void empty_cache();  // returns every cached block to the system
  MemoryStats stats() const;
  void reset_peak();

  static std::size_t round_up(std::size_t bytes);  // to the size class; above 64 KiB to pages

 private:
  struct Impl;
  Impl* impl_;
};

CachingAllocator& cpu_allocator();
// Statistics of a device's memory, that of captured steps included (peaks since the start or the last reset), and
// releasing cached memory.
MemoryStats memory_stats(Device device = cpu);
void reset_peak_memory_stats(Device device = cpu);
void empty_cache(Device device = cpu);
// This process holds at most so many bytes of the device's memory from now on (0: no limit); what exceeds them throws
// OutOfMemory, as a full device does. Leaves room for others on a shared GPU, and on the CPU turns what would end the
// process into an error that can be caught. As torch.cuda.set_per_process_memory_fraction, in bytes.
void set_memory_limit(Device device, std::int64_t bytes);
// The statistics as a small table to print.
std::string memory_summary(Device device = cpu);

}  // namespace mantissa
