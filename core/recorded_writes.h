// What a step writes to while it is recorded (jit/capture.h): the device memory that it makes, or that was there
// before. Every replay writes it again, but without the operators that raise the versions of storages (core/storage.h);
// announce() raises them instead. So whoever compares versions learns of a replay what it would have learned of the
// step: backward passes that something they saved has changed, autocast that a weight must be cast again.
#pragma once

#include <unordered_set>

#include "core/storage.h"

namespace mantissa {

class RecordedWrites {
 public:
  RecordedWrites();
  ~RecordedWrites();
  RecordedWrites(const RecordedWrites&) = delete;
  RecordedWrites& operator=(const RecordedWrites&) = delete;

  // While it exists, this thread records a step: what it writes is added to `writes`.
  class Recording {
   public:
    explicit Recording(RecordedWrites& writes);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    RecordedWrites* before_;
  };

  void announce() const;  // after a replay

 private:
  friend void note_recorded_write(Storage* s);
  friend void forget_recorded_writes(Storage* s) noexcept;
  std::unordered_set<Storage*> storages_;  // those that still exist: their destructor removes them
};

}  // namespace mantissa
