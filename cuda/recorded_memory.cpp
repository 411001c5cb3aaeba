#include "cuda/recorded_memory.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "core/recorded_memory.h"
#include "cuda/runtime.h"

namespace mantissa::cuda_backend {
namespace {

struct All {  // of this process
  std::mutex mutex;
  std::vector<RecordedMemory*> recordings;
};
All& all() {
  static All& a = *new All;  // never destroyed: tensors in static objects are freed later
  return a;
}
thread_local RecordedMemory* recording = nullptr;

constexpr std::uintptr_t least_address = 1 << 16;  // below are small numbers

}  // namespace

void RecordedMemory::begin() {
  recording = this;
  const std::lock_guard lock(all().mutex);
  all().recordings.push_back(this);
  recordings = all().recordings.size();
}

void RecordedMemory::end(const Arena& own) {
  recording = nullptr;
  const std::lock_guard lock(all().mutex);
  std::erase_if(addresses_, [&](std::uintptr_t p) { return own.contains(reinterpret_cast<const void*>(p)); });
}

RecordedMemory::~RecordedMemory() {
  if (recording == this) recording = nullptr;
  const std::lock_guard lock(all().mutex);
  std::erase(all().recordings, this);
  recordings = all().recordings.size();
}

void note_use(const void* p) {
  if (!recording) return;
  const std::lock_guard lock(all().mutex);
  recording->addresses_.insert(reinterpret_cast<std::uintptr_t>(p));
}

void note_addresses(const void* bytes, std::size_t count) {
  if (!recording) return;
  for (std::size_t i = 0; i + sizeof(std::uintptr_t) <= count; i += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, static_cast<const char*>(bytes) + i, sizeof word);
    if (word >= least_address) note_use(reinterpret_cast<const void*>(word));
  }
}

void outdate_recordings(const void* p, std::size_t bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(p);
  const std::lock_guard lock(all().mutex);
  for (RecordedMemory* r : all().recordings) {
    const auto at = r->addresses_.lower_bound(first);
    if (at != r->addresses_.end() && *at - first < std::max<std::size_t>(bytes, 1)) r->outdated_ = true;
  }
}

}  // namespace mantissa::cuda_backend
