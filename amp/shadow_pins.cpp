#include "amp/shadow_pins.h"

#include <mutex>

#include "amp/autocast.h"
#include "autograd/grad_mode.h"
#include "core/recorded_memory.h"

namespace mantissa::amp {
namespace {

using autograd::LeafNode;

thread_local ShadowPins* recording = nullptr;

LeafNode& leaf_in(const autograd::NodeRef& node) { return static_cast<LeafNode&>(*node.get()); }
// The leaf's shadow is still the one that the graph knows.
bool holds(const LeafNode& leaf, const Tensor& copy) {
  return leaf.shadow.defined() && leaf.shadow.storage() == copy.storage();
}
// A step is recorded anew if the weight is frozen or moved, though its kernels may know only the copy.
void note_use(const Tensor& weight) {
  if (weight.device().is_cuda()) cuda_backend::note_use(weight.raw_data());
}
std::uint32_t version_of(const Tensor& weight) { return weight.storage()->version(); }

}  // namespace

void ShadowPins::Pin::make_current() const {
  const NoGrad no_grad;
  const OutsideAutocast off;
  renew(copy, weight);
}

ShadowPins::Recording::Recording(ShadowPins& pins) : before_(std::exchange(recording, &pins)) {}
ShadowPins::Recording::~Recording() { recording = before_; }

void ShadowPins::note_recorded() {
  for (Pin& pin : pins_) {
    if (!pin.leaf) {
      pin.ends_current = *pin.version == version_of(pin.weight);
      continue;
    }
    LeafNode& leaf = leaf_in(pin.leaf);
    const std::lock_guard lock(leaf.mutex);
    pin.ends_current = holds(leaf, pin.copy) && leaf.shadow_version == version_of(pin.weight);
  }
}

void ShadowPins::refresh() {
  for (const Pin& pin : pins_) {
    const std::uint32_t version = version_of(pin.weight);
    if (!pin.leaf) {
      if (*pin.version != version) pin.make_current();
      *pin.version = version;
      continue;
    }
    LeafNode& leaf = leaf_in(pin.leaf);
    const std::lock_guard lock(leaf.mutex);
    if (!holds(leaf, pin.copy) || leaf.shadow_version == version) continue;
    pin.make_current();
    leaf.shadow_version = version;
  }
}

void ShadowPins::note_replay() {
  for (const Pin& pin : pins_) {
    const std::uint32_t version = version_of(pin.weight) - (pin.ends_current ? 0 : 1);
    if (!pin.leaf) {
      *pin.version = version;
      continue;
    }
    LeafNode& leaf = leaf_in(pin.leaf);
    const std::lock_guard lock(leaf.mutex);
    if (holds(leaf, pin.copy)) leaf.shadow_version = version;
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
      pin.make_current();
      *pin.version = version_of(pin.weight);
      continue;
    }
    LeafNode& leaf = leaf_in(pin.leaf);
    const std::lock_guard lock(leaf.mutex);
    if (leaf.shadow_pins == 1) leaf.set_shadow({}, 0);
    else leaf.shadow_version = version_of(pin.weight) - 1;  // another captured step uses it, too
  }
  release();
}

void pin_shadow(const Tensor& parameter) {
  if (!recording) [[likely]] return;
  LeafNode& leaf = *autograd::leaf_of(parameter);
  for (const ShadowPins::Pin& pin : recording->pins_) {
    if (pin.leaf.get() == &leaf) return;
  }
  recording->pins_.push_back({autograd::NodeRef(&leaf), parameter.detach(), leaf.shadow, {}, write_cast});
  note_use(parameter);
  ++leaf.shadow_pins;
}

void pin_copy(const Tensor& weight, const Tensor& copy, const ShadowPins::Version& version, ShadowPins::Renew renew) {
  if (!recording) [[likely]] return;
  for (const ShadowPins::Pin& pin : recording->pins_) {
    if (pin.copy.storage() == copy.storage()) return;
  }
  recording->pins_.push_back({{}, weight.detach(), copy, version, renew});
  note_use(weight);
}

void write_cast(const Tensor& copy, const Tensor& weight) { Tensor(copy).copy_(weight); }

}  // namespace mantissa::amp
