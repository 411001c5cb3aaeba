// Casts of weights (amp/casts.h, amp/frozen.h) whose addresses a captured step has recorded. While the step exists they
// are not freed. A parameter's shadow also stays its shadow: a stale one is refreshed in place, and a region of another
// dtype casts without a shadow.
//
// A replay changes weights without raising the versions of their storages. So it ends the validity of all shadows but
// those that are current when the step ends, since its optimizer writes them, too, or nothing writes the weights. It
// also raises the versions of the frozen weights that the step writes, such as a moving average's.
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

  // While it exists, this thread records a step: casts that it uses are added to `pins`.
  class Recording {
   public:
    explicit Recording(ShadowPins& pins);
    ~Recording();
    Recording(const Recording&) = delete;

   private:
    ShadowPins* before_;
  };

  void note_recorded();  // after the step has been recorded
  void refresh();        // before a replay
  void note_replay();    // after a replay
  void release();
  // After a recording that failed: what it seemed to write was never written.
  void give_up();

 private:
  friend void pin_shadow(const Tensor& parameter);
  friend void pin_frozen(const Tensor& weight, const Tensor& cast, std::uint32_t version);
  struct Pin {
    autograd::NodeRef leaf;   // none for a frozen weight
    Tensor weight, cast;      // the memory that the graph knows
    std::uint32_t version;    // of a frozen weight, from which the cast was made
    bool ends_current = false;  // of a parameter
    bool written = false;       // of a frozen weight: the step changes it after the cast
  };
  std::vector<Pin> pins_;
};

// Note that the step being recorded, if any, uses the parameter's shadow (requires the leaf's mutex), or a frozen
// weight's cast.
void pin_shadow(const Tensor& parameter);
void pin_frozen(const Tensor& weight, const Tensor& cast, std::uint32_t version);
// The number of replays so far.
std::uint64_t replay_count();

}  // namespace mantissa::amp
