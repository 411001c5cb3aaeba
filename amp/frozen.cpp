#include "amp/frozen.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "amp/autocast.h"
#include "amp/shadow_pins.h"
#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "core/stream_link.h"

namespace mantissa::amp {
namespace {

std::mutex mutex;
FrozenCasts* living = nullptr;
std::atomic<bool> any{false};  // fast path without the lock: usually false

}  // namespace

FrozenCasts::FrozenCasts(std::span<const Tensor> weights) {
  for (const Tensor& w : weights) {
    check(w.defined(), "FrozenCasts: a weight is undefined");
    entries_.push_back({.weight = w, .cast = {}});
  }
  std::ranges::sort(entries_, {}, [](const Entry& e) { return e.weight.impl(); });
  const std::lock_guard lock(mutex);
  next_ = std::exchange(living, this);
  any.store(true, std::memory_order_release);
}

FrozenCasts::~FrozenCasts() {
  const std::lock_guard lock(mutex);
  for (FrozenCasts** p = &living; *p; p = &(*p)->next_) {
    if (*p != this) continue;
    *p = next_;
    break;
  }
  any.store(living != nullptr, std::memory_order_release);
}

std::int64_t FrozenCasts::bytes() const {
  const std::lock_guard lock(mutex);
  std::int64_t sum = 0;
  for (const Entry& e : entries_) sum += e.cast.defined() ? e.cast.nbytes() : 0;
  return sum;
}

Tensor frozen_cast(const Tensor& x, Dtype dtype, bool& made) {
  made = false;
  if (!any.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex);
  for (FrozenCasts* f = living; f; f = f->next_) {
    const auto at = std::ranges::lower_bound(f->entries_, x.impl(), {},
                                             [](const FrozenCasts::Entry& e) { return e.weight.impl(); });
    if (at == f->entries_.end() || at->weight.impl() != x.impl()) continue;
    const std::uint32_t version = x.storage()->version();
    if (!at->cast.defined() || at->cast.dtype() != dtype || *at->version != version) {
      const NoGrad no_grad;
      const OutsideAutocast off;
      at->cast = cast(x, dtype);
      make_ready_for_all_streams(x.device());
      at->version = std::make_shared<std::uint32_t>(version);
      made = true;
    }
    pin_copy(x, at->cast, at->version, write_cast);
    return at->cast;
  }
  return {};
}

}  // namespace mantissa::amp
