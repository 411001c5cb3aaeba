// Copies of weights in other dtypes whose addresses a captured step has recorded: shadows (amp/casts.h), casts of
// frozen weights (amp/frozen.h), masters (optim/master.h). While the step exists they are not freed. A parameter's
// shadow also stays its shadow: a stale one is refreshed in place, and a region of another dtype casts without one.
//
// A replay runs none of the code that compares versions. So before it, copies of weights that have been written to
// since are made current; and after it, those that are current when the step ends are known to be, and others not.
#pragma once

#include <cstdint>
#include <memory>
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

  // While it exists, this thread records a step: copies that it uses are added to `pins`.
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
  void note_replay();    // after a replay and what it announced (core/recorded_writes.h)
  void release();
  // After a recording that failed: what it seemed to write was never written.
  void give_up();

  using Renew = void (*)(const Tensor& copy, const Tensor& weight);
  // The version of a weight's storage that its copy was last made from, or rounded into.
  using Version = std::shared_ptr<std::uint32_t>;

 private:
  friend void pin_shadow(const Tensor& parameter);
  friend void pin_copy(const Tensor& weight, const Tensor& copy, const Version& version, Renew renew);
  struct Pin {
    autograd::NodeRef leaf;  // of a shadow, which has its version; none for other copies
    Tensor weight, copy;     // the memory that the graph knows
    Version version;
    Renew renew;
    bool ends_current = false;
    void make_current() const;
  };
  std::vector<Pin> pins_;
};

// Note that the step being recorded, if any, uses the parameter's shadow (requires the leaf's mutex), or another copy
// of a weight, which renew() makes current.
void pin_shadow(const Tensor& parameter);
void pin_copy(const Tensor& weight, const Tensor& copy, const ShadowPins::Version& version, ShadowPins::Renew renew);
void write_cast(const Tensor& copy, const Tensor& weight);  // Renew of casts

}  // namespace mantissa::amp
