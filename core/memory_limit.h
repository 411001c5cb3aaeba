// A bound on what a process takes from a device's memory, for RawMemory to ask (core/allocator.h: set_memory_limit).
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace mantissa {

class MemoryLimit {
 public:
  void set(std::int64_t bytes) { limit_ = bytes > 0 ? bytes : none; }
  // Counts `bytes` as held, unless they would exceed the limit.
  bool admit(std::size_t bytes) {
    const auto n = static_cast<std::int64_t>(bytes);
    if (held_.fetch_add(n) + n <= limit_) return true;
    held_ -= n;
    return false;
  }
  void release(std::size_t bytes) { held_ -= static_cast<std::int64_t>(bytes); }
  bool exists() const { return limit_ != none; }
  std::int64_t left() const { return limit_ - held_; }

 private:
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> limit_{none}, held_{0};
};

}  // namespace mantissa
