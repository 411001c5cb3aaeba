#include "amp/shadow_pins.h"

#include <atomic>
#include <mutex>

#include "amp/autocast.h"
#include "autograd/grad_mode.h"

namespace mantissa::amp {
namespace {

using autograd::LeafNode;

constinit std::atomic<std::uint64_t> replays{0};
thread_local ShadowPins* recording = nullptr;

LeafNode& leaf_in(const autograd::NodeRef& node) { return static_cast<LeafNode&>(*node.get()); }
// The leaf's shadow is still the one that the graph knows.
bool holds(const LeafNode& leaf, const Tensor& cast) {
  return leaf.shadow.defined() && leaf.shadow.storage() == cast.storage();
}
void write(Tensor cast, const Tensor& weight) {
  const NoGrad no_grad;
  const OutsideAutocast off;
  cast.copy_(weight);
}

}  // namespace

std::uint64_t replay_count() { return replays.load(std::memory_order_relaxed); }

ShadowPins::Recording::Recording(ShadowPins& pins) : before_(std::exchange(recording, &pins)) {}
ShadowPins::Recording::~Recording() { recording = before_; }

void ShadowPins::note_recorded() {
  for (Pin& pin : pins_) {
    if (!pin.leaf) {
      pin.written = pin.weight.storage()->version() != pin.version;
      continue;
    }
    LeafNode& leaf = leaf_in(pin.leaf);
    const std::lock_guard lock(leaf.mutex);
    pin.ends_current = holds(leaf, pin.cast) && leaf.shadow_version == pin.weight.storage()->version();
  }
}

void ShadowPins::refresh() {
  for (Pin& pin : pins_) {
    const std::uint32_t version = pin.weight.storage()->version();
    if (!pin.leaf) {
      if (pin.version != version) write(pin.cast, pin.weight);
      pin.version = version;
      continue;
    }
    LeafNode& leaf = leaf_in(pin.leaf);
    const std::lock_guard lock(leaf.mutex);
    if (!holds(leaf, pin.cast) || (leaf.shadow_version == version && leaf.shadow_replays == replay_count())) continue;
    write(pin.cast, pin.weight);
    leaf.shadow_version = version;
    leaf.shadow_replays = replay_count();
  }
}

void ShadowPins::note_replay() {
  const std::uint64_t now = replays.fetch_add(1, std::memory_order_relaxed) + 1;
  for (const Pin& pin : pins_) {
    if (pin.written) pin.weight.storage()->written_by("a captured step");
    if (!pin.ends_current) continue;
    LeafNode& leaf = leaf_in(pin.leaf);
    const std::lock_guard lock(leaf.mutex);
    if (holds(leaf, pin.cast)) leaf.shadow_replays = now;
  }
}

void ShadowPins::release() {
  for (const Pin& pin : pins_) {
    if (!pin.leaf) continue;
    LeafNode& leaf = leaf_in(pin.leaf);
    const std::lock_guard lock(leaf.mutex);
    --leaf.shadow_pins;
  }
  pins_.clear();
}

void ShadowPins::give_up() {
  for (const Pin& pin : pins_) {
    if (!pin.leaf) {
      write(pin.cast, pin.weight);
      continue;
    }
    LeafNode& leaf = leaf_in(pin.leaf);
    const std::lock_guard lock(leaf.mutex);
    if (leaf.shadow_pins == 1) leaf.set_shadow({}, 0);
    else leaf.shadow_version = pin.weight.storage()->version() - 1;  // another captured step uses it, too
  }
  release();
}

void pin_shadow(const Tensor& parameter) {
  if (!recording) [[likely]] return;
  LeafNode& leaf = *autograd::leaf_of(parameter);
  for (const ShadowPins::Pin& pin : recording->pins_) {
    if (pin.leaf.get() == &leaf) return;
  }
  recording->pins_.push_back({autograd::NodeRef(&leaf), parameter.detach(), leaf.shadow, 0});
  ++leaf.shadow_pins;
}

void pin_frozen(const Tensor& weight, const Tensor& cast, std::uint32_t version) {
  if (!recording) [[likely]] return;
  for (const ShadowPins::Pin& pin : recording->pins_) {
    if (pin.cast.storage() == cast.storage()) return;
  }
  recording->pins_.push_back({{}, weight.detach(), cast, version});
}

}  // namespace mantissa::amp
