// Finds out which memory a recorded step uses (core/recorded_memory.h): while it is recorded, whatever may be an
// address among the parameters of its launches is noted; each block that is freed later is looked up among them. So
// operators need not say what they use, and nothing is noted or looked up while no step is recorded.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <type_traits>

namespace mantissa::cuda_backend {

class Arena;

// The memory that one recording uses.
class RecordedMemory {
 public:
  RecordedMemory() = default;
  ~RecordedMemory();
  RecordedMemory(const RecordedMemory&) = delete;

  void begin();                // once: what this thread launches from now on is noted
  void end(const Arena& own);  // no longer; what lies in the graph's own memory is no concern
  bool is_outdated() const { return outdated_.load(std::memory_order_relaxed); }

 private:
  friend void note_use(const void* p);
  friend void outdate_recordings(const void* p, std::size_t bytes) noexcept;
  std::set<std::uintptr_t> addresses_;
  std::atomic<bool> outdated_{false};
};

// Recordings of this process: read by whatever frees memory.
inline constinit std::atomic<std::size_t> recordings{0};

void note_use(const void* p);  // core/recorded_memory.h
// The same for whatever may be an address among these bytes.
void note_addresses(const void* bytes, std::size_t count);
// The same for a launch's parameter of type P. What lies between a struct's members is set to zero, since it may hold
// parts of old addresses. (Compilers that cannot do that note it, too: a step may be recorded more often than needed.)
template <class P, class A> void note_parameter(const A& parameter) {
  if constexpr (std::is_pointer_v<P>) {
    note_use(parameter);
  } else if constexpr (std::is_class_v<P>) {
    P copy = parameter;
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&copy);
#endif
    note_addresses(&copy, sizeof copy);
  }
}

}  // namespace mantissa::cuda_backend
