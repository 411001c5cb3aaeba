// A caching allocator: freed blocks wait in exact size classes (four per doubling) and are handed
// out again, so a training step that repeats its shapes asks the system for nothing.
// Raw memory comes from a RawMemory, so that the same policy serves the CPU, pinned and device
// memory, and tests can make any allocation fail.
// Statistics follow PyTorch's meaning: allocated = in use by tensors, reserved = held from the system.
#pragma once

#include <cstddef>
#include <cstdint>

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
};

class CachingAllocator {
 public:
  explicit CachingAllocator(RawMemory& raw);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;

  // Never null; bytes 0 gives a valid pointer. Throws OutOfMemory after emptying the cache and
  // trying once more. Thread-safe.
  void* allocate(std::size_t bytes);
  void deallocate(void* p, std::size_t bytes) noexcept;  // the `bytes` that allocate was called with

  void empty_cache();  // returns every cached block to the system
  MemoryStats stats() const;
  void reset_peak();

  static std::size_t round_up(std::size_t bytes);  // to its size class

 private:
  struct Impl;
  Impl* impl_;
};

CachingAllocator& cpu_allocator();
MemoryStats memory_stats();      // of cpu_allocator()
void reset_peak_memory_stats();
void empty_cache();

}  // namespace mantissa
