#include "amp/shadow_pins.h"

#include <atomic>
#include <mutex>

#include "amp/autocast.h"
#include "autograd/grad_mode.h"

namespace mantissa::amp {
namespace {

constinit std::atomic<std::uint64_t> replays{0};
thread_local ShadowPins* recording = nullptr;

}  // namespace

std::uint64_t replay_count() { return replays.load(std::memory_order_relaxed); }

ShadowPins::Recording::Recording(ShadowPins& pins) : before_(std::exchange(recording, &pins)) {}
ShadowPins::Recording::~Recording() { recording = before_; }

void ShadowPins::release() {
  for (const Pin& pin : pins_) {
    auto& leaf = static_cast<autograd::LeafNode&>(*pin.leaf.get());
    const std::lock_guard lock(leaf.mutex);
    --leaf.shadow_pins;
  }
  pins_.clear();
}

void ShadowPins::note_replay() const {
  const std::uint64_t now = replays.fetch_add(1, std::memory_order_relaxed) + 1;
  for (const Pin& pin : pins_) {
    if (!pin.updates) continue;
    auto& leaf = static_cast<autograd::LeafNode&>(*pin.leaf.get());
    const std::lock_guard lock(leaf.mutex);
    leaf.shadow_replays = now;
  }
}

void ShadowPins::refresh() const {
  for (const Pin& pin : pins_) {
    auto& leaf = static_cast<autograd::LeafNode&>(*pin.leaf.get());
    const std::lock_guard lock(leaf.mutex);
    const std::uint32_t version = pin.parameter.storage()->version();
    if (leaf.shadow_version == version || !leaf.shadow.defined() || leaf.shadow.storage() != pin.shadow.storage())
      continue;
    const NoGrad no_grad;
    const OutsideAutocast off;
    Tensor(pin.shadow).copy_(pin.parameter);
    leaf.shadow_version = version;
  }
}

void pin_shadow(const Tensor& parameter, bool updates) {
  if (!recording) [[likely]] return;
  autograd::LeafNode& leaf = *autograd::leaf_of(parameter);
  for (ShadowPins::Pin& pin : recording->pins_) {
    if (pin.leaf.get() != &leaf) continue;
    pin.updates = pin.updates || updates;
    return;
  }
  recording->pins_.push_back({autograd::NodeRef(&leaf), parameter.detach(), leaf.shadow, updates});
  ++leaf.shadow_pins;
}

}  // namespace mantissa::amp
