// The memory behind one or more tensors, and a version counter that every in-place write increments: autograd compares
// it to detect a saved tensor that was modified before backward.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/device.h"
#include "core/ref.h"

namespace mantissa {

class Storage;
// For steps that are recorded to be replayed (core/recorded_writes.h).
inline constinit std::atomic<int> recordings_of_writes{0};  // threads that record one
void note_recorded_write(Storage* s);
void forget_recorded_writes(Storage* s) noexcept;

class Storage final : public RefCounted, public Pooled<Storage> {
 public:
  static Ref<Storage> allocate(std::int64_t nbytes, Device device);  // uninitialised
  // Memory with another owner; `release(owner)` is called when the last tensor over it is destroyed.
  static Ref<Storage> borrow(void* data, std::int64_t nbytes, Device device, void (*release)(void*), void* owner);
  static void destroy(Storage* s) { delete s; }
  ~Storage();

  void* data() const { return data_; }
  std::int64_t nbytes() const { return nbytes_; }
  Device device() const { return device_; }

  std::uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void written_by(const char* op) {  // `op` must be a string literal
    version_.fetch_add(1, std::memory_order_relaxed);
    last_writer_ = op;
    if (recordings_of_writes.load(std::memory_order_relaxed) != 0) [[unlikely]] note_recorded_write(this);
  }
  const char* last_writer() const { return last_writer_; }
  // For memory that takes the place of another's: what was noted about that one's contents must not hold for this one.
  void continue_version_of(const Storage& replaced) {
    version_.store(replaced.version() + 1, std::memory_order_relaxed);
  }

 private:
  friend void note_recorded_write(Storage* s);
  Storage() = default;
  static constexpr std::int64_t inline_capacity = 16;  // bytes; a scalar needs no second allocation

  void* data_ = nullptr;
  std::int64_t nbytes_ = 0;
  void (*release_)(void*) = nullptr;
  void* owner_ = nullptr;  // argument of release_; for device memory, the pool it came from
  const char* last_writer_ = "";
  std::atomic<std::uint32_t> version_{0};
  Device device_;
  bool is_noted_ = false;  // by a recording, which must learn of its end
  alignas(16) unsigned char inline_[inline_capacity];
};

}  // namespace mantissa
