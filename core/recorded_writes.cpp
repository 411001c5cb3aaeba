#include "core/recorded_writes.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace mantissa {
namespace {

struct All {  // of this process
  std::mutex mutex;
  std::vector<RecordedWrites*> lists;
};
All& all() {
  static All& a = *new All;  // never destroyed: tensors in static objects are freed later
  return a;
}
thread_local RecordedWrites* recording = nullptr;

}  // namespace

RecordedWrites::RecordedWrites() {
  const std::lock_guard lock(all().mutex);
  all().lists.push_back(this);
}
RecordedWrites::~RecordedWrites() {
  const std::lock_guard lock(all().mutex);
  std::erase(all().lists, this);
}

RecordedWrites::Recording::Recording(RecordedWrites& writes) : before_(std::exchange(recording, &writes)) {
  ++recordings_of_writes;
}
RecordedWrites::Recording::~Recording() {
  --recordings_of_writes;
  recording = before_;
}

void RecordedWrites::announce() const {
  const std::lock_guard lock(all().mutex);
  for (Storage* s : storages_) s->written_by("a captured step");
}

void note_recorded_write(Storage* s) {
  if (!recording || s->device().is_cpu()) return;  // what it writes on the host, a replay does not
  const std::lock_guard lock(all().mutex);
  recording->storages_.insert(s);
  s->is_noted_ = true;
}

void forget_recorded_writes(Storage* s) noexcept {
  const std::lock_guard lock(all().mutex);
  for (RecordedWrites* list : all().lists) list->storages_.erase(s);
}

}  // namespace mantissa
