// The shadows (amp/casts.h) whose addresses a captured step has recorded. While the step exists, they stay where they
// are: a stale one is refreshed in place, at the latest before a replay, and a region of another dtype casts without a
// shadow.
//
// A replay changes weights without raising the versions of their storages. So it also ends the validity of all shadows
// but those that the recorded optimizer writes itself.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "core/tensor.h"

namespace mantissa::amp {

class ShadowPins {
 public:
  ShadowPins() = default;
  ShadowPins(ShadowPins&& other) noexcept : pins_(std::exchange(other.pins_, {})) {}
  ShadowPins& operator=(ShadowPins&&) = delete;
  ~ShadowPins() { release(); }

  void release();
  // Before and after a replay.
  void refresh() const;
  void note_replay() const;

  // While it exists, this thread records a step: shadows that it uses are added to `pins`.
  class Recording {
   public:
    explicit Recording(ShadowPins& pins);
    ~Recording();
    Recording(const Recording&) = delete;

   private:
    ShadowPins* before_;
  };

 private:
  friend void pin_shadow(const Tensor& parameter, bool updates);
  struct Pin {
    autograd::NodeRef leaf;
    Tensor parameter, shadow;  // the memory that the graph knows
    bool updates;
  };
  std::vector<Pin> pins_;
};

// Notes that the step being recorded, if any, reads the parameter's shadow or, with `updates`, writes the new weights
// to it. Requires the leaf's mutex.
void pin_shadow(const Tensor& parameter, bool updates);
// The number of replays so far.
std::uint64_t replay_count();

}  // namespace mantissa::amp
