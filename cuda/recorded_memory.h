// Finds out which memory a recorded step uses (core/recorded_memory.h): while it is recorded, whatever may be an
// address among the parameters of its launches is noted; each block that is freed later is looked up among them. So
// operators need not say what they use, and nothing is noted or looked up while no step is recorded.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>

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

// The step that this thread records, if any, uses the memory at p.
void note_use(const void* p);
// The same for whatever may be an address in a launch's parameter.
void note_parameter(const void* parameter, std::size_t bytes);

}  // namespace mantissa::cuda_backend
