// A caching allocator: freed blocks wait in exact size classes (four per doubling) and are handed
// out again, so a training step that repeats its shapes asks the system for nothing.
// Raw memory comes from a RawMemory, so that the same policy serves the CPU, pinned and device
// memory, and tests can make any allocation fail.
// Statistics follow PyTorch's meaning: allocated = in use by tensors, reserved = held from the system.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device.h"

namespace mantissa {

struct MemoryStats {
  std::int64_t allocated = 0;       // bytes in use, rounded to size classes
  std::int64_t reserved = 0;        // bytes held from the system: in use plus cached
  std::int64_t peak_allocated = 0;  // since the start or reset_peak
  std::int64_t peak_reserved = 0;
  std::int64_t allocations = 0;     // calls served
  std::int64_t system_calls = 0;    // of those, how many had to ask the system
};

class RawMemory {
 public:
  virtual ~RawMemory() = default;
  virtual void* take(std::size_t bytes) = 0;  // 64-byte aligned; null when there is none
  virtual void give(void* p, std::size_t bytes) noexcept = 0;
  // For the message when memory runs out: " on cuda:0", and the bytes the device still has (-1: unknown).
  virtual const char* place() const { return ""; }
  virtual std::int64_t free_bytes() const { return -1; }
};

class CachingAllocator {
 public:
  explicit CachingAllocator(RawMemory& raw);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;

  // Never null; bytes 0 gives a valid pointer. Throws OutOfMemory after emptying the cache and
  // trying once more. Thread-safe. A freed block serves only requests for the same `stream`: there, what
  // still uses it was launched before what will.
  void* allocate(std::size_t bytes, const void* stream = nullptr);
  // With the `bytes` and `stream` that allocate was called with.
  void deallocate(void* p, std::size_t bytes, const void* stream = nullptr) noexcept;

  void empty_cache();  // returns every cached block to the system
  MemoryStats stats() const;
  void reset_peak();

  static std::size_t round_up(std::size_t bytes);  // to its size class

 private:
  struct Impl;
  Impl* impl_;
};

CachingAllocator& cpu_allocator();
// Statistics of a device's allocator, peaks since the start or the last reset, and giving back what is cached.
MemoryStats memory_stats(Device device = cpu);
void reset_peak_memory_stats(Device device = cpu);
void empty_cache(Device device = cpu);

}  // namespace mantissa
