#include "amp/casts.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "amp/autocast.h"
#include "amp/custom.h"
#include "amp/frozen.h"
#include "amp/shadow_pins.h"
#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "core/ops.h"
#include "core/stream_link.h"

namespace mantissa::amp {
namespace {

using autograd::LeafNode;
using autograd::leaf_of;

constexpr std::int64_t no_budget = std::numeric_limits<std::int64_t>::max();

thread_local CastStatistics statistics;
constinit std::atomic<std::int64_t> budget{no_budget};
std::mutex budget_mutex;  // with a budget, shadows are measured and made one at a time

// Parameters whose shadows this thread drops when its outermost region ends.
struct Held {
  std::unordered_set<const autograd::Node*> known;
  std::vector<autograd::NodeRef> leaves;
};
Held& held() {
  static thread_local Held list;
  return list;
}

// Requires the leaf's mutex.
void hold_until_exit(const Tensor& parameter, LeafNode& leaf) {
  if (context().autocast.depth == 0 || !held().known.insert(&leaf).second) return;
  held().leaves.push_back(parameter.impl()->node);
  ++leaf.shadow_holders;
}
bool make_shadow(LeafNode& leaf, const Tensor& parameter, Dtype dtype, std::uint32_t version) {
  if (leaf.shadow_pins > 0 && leaf.shadow.defined()) {  // a captured step uses it
    if (leaf.shadow.dtype() != dtype) return false;
    const NoGrad no_grad;
    const OutsideAutocast off;
    leaf.shadow.copy_(parameter.detach());
    leaf.shadow_version = version;
    statistics.bytes += leaf.shadow.nbytes();
    ++statistics.misses;
    return true;
  }
  std::unique_lock<std::mutex> lock;
  if (const std::int64_t limit = budget.load(std::memory_order_relaxed); limit != no_budget) {
    lock = std::unique_lock(budget_mutex);
    const std::int64_t old = leaf.shadow.defined() ? leaf.shadow.nbytes() : 0;
    const std::int64_t fresh = parameter.numel() * static_cast<std::int64_t>(size_of(dtype));
    if (LeafNode::shadow_bytes() - old + fresh > limit) return false;
    leaf.set_shadow({}, 0);  // free it before the new one is allocated
  }
  const NoGrad no_grad;
  const OutsideAutocast off;
  Tensor fresh = cast(parameter.detach(), dtype);
  fresh.impl()->node = {};
  statistics.bytes += fresh.nbytes();
  ++statistics.misses;
  make_ready_for_all_streams(parameter.device());
  leaf.set_shadow(std::move(fresh), version);
  return true;
}
// Undefined if the budget does not allow one.
Tensor find_shadow(const Tensor& parameter, LeafNode& leaf, Dtype dtype) {
  const std::lock_guard lock(leaf.mutex);
  const std::uint32_t version = parameter.storage()->version();
  const bool current = leaf.shadow.defined() && leaf.shadow.dtype() == dtype && leaf.shadow_version == version;
  if (current) ++statistics.hits;
  else if (!make_shadow(leaf, parameter, dtype, version)) return {};
  pin_shadow(parameter);
  if (context().autocast.cache == CastCache::until_exit) hold_until_exit(parameter, leaf);
  // The stored tensor has no node (the LeafNode would own itself); each use gets a handle that has one.
  Tensor use = leaf.shadow.detach();
  use.impl()->node = parameter.impl()->node;
  return use;
}

// A cast that preserves the layout of a dense tensor: a transposed matrix stays transposed.
Tensor cast_in_layout(const Tensor& x, Dtype to) {
  if (x.is_contiguous()) return cast(x, to);
  Dims order, back = Dims::filled(x.dim(), 0);
  for (int d = 0; d < x.dim(); ++d) order.push_back(d);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return x.strides()[static_cast<int>(a)] > x.strides()[static_cast<int>(b)]; });
  const Tensor dense = permute(x, order);
  if (!dense.is_contiguous()) return cast(x, to);  // has gaps or overlaps
  for (int d = 0; d < x.dim(); ++d) back[static_cast<int>(order[d])] = d;
  return permute(cast(dense, to), back);
}

Tensor cast_uncached(const Tensor& x, Dtype to) {
  const OutsideAutocast off;  // the cast must not count as an operator of the region
  Tensor y = cast_in_layout(x, to);
  ++statistics.casts;
  statistics.bytes += y.nbytes();
  return y;
}

}  // namespace

Tensor cast_in_region(const Tensor& x, Dtype to) {
  const bool keep = context().autocast.cache != CastCache::off;
  LeafNode* leaf = leaf_of(x);
  if (leaf && keep && x.dtype() == f32 && is_half(to)) {
    Tensor use = find_shadow(x, *leaf, to);
    if (!use.defined()) {  // no memory may be spent on one, or a captured step has it in another dtype
      const NoGrad no_grad;
      use = cast_uncached(x.detach(), to);
      use.impl()->node = x.impl()->node;  // its gradient is as wide as a shadow's
    }
    return use;
  }
  if (keep && !x.requires_grad()) {
    bool made = false;
    Tensor y = frozen_cast(x, to, made);
    if (y.defined()) {
      ++(made ? statistics.misses : statistics.hits);
      if (made) statistics.bytes += y.nbytes();
      return y;
    }
  }
  return cast_uncached(x, to);
}

Tensor shadow(const Tensor& parameter, Dtype dtype) {
  LeafNode* leaf = parameter.defined() ? leaf_of(parameter) : nullptr;
  check(leaf, "shadow: needs a parameter, a leaf that requires a gradient, got ", parameter);
  Tensor use = find_shadow(parameter, *leaf, dtype);
  return use.defined() ? use : cast_in_region(parameter, dtype);
}

Tensor lowered(const Tensor& x) {
  const AutocastState& state = context().autocast;
  if (!x.defined() || !state.any() || !state.enabled_on(x.device())) return x;
  if (!x.is_floating() || x.dtype() == f64 || x.dtype() == state.dtype_on(x.device())) return x;
  return cast_in_region(x, state.dtype_on(x.device()));
}

Tensor cast_argument(const Tensor& x, Dtype dtype) {
  if (!x.defined() || !x.is_floating() || x.dtype() == f64 || x.dtype() == dtype || !is_enabled(x.device())) return x;
  return cast_in_region(x, dtype);
}

std::int64_t shadow_bytes(std::span<const Tensor> parameters) {
  std::int64_t bytes = 0;
  for (const Tensor& p : parameters) {
    LeafNode* leaf = p.defined() ? leaf_of(p) : nullptr;
    if (!leaf) continue;
    const std::lock_guard lock(leaf->mutex);
    if (leaf->shadow.defined()) bytes += leaf->shadow.nbytes();
  }
  return bytes;
}
void drop_shadows(std::span<const Tensor> parameters) {
  for (const Tensor& p : parameters) {
    LeafNode* leaf = p.defined() ? leaf_of(p) : nullptr;
    if (!leaf) continue;
    const std::lock_guard lock(leaf->mutex);
    if (leaf->shadow_pins == 0) leaf->set_shadow({}, 0);
  }
}
void end_of_regions() {
  Held& list = held();
  if (list.leaves.empty()) return;
  for (const autograd::NodeRef& node : list.leaves) {
    auto* leaf = static_cast<LeafNode*>(node.get());
    const std::lock_guard lock(leaf->mutex);
    if (--leaf->shadow_holders == 0 && leaf->shadow_pins == 0) leaf->set_shadow({}, 0);
  }
  list.leaves.clear();
  list.known.clear();
}

ShadowMemory shadow_memory() { return {LeafNode::shadow_bytes(), LeafNode::peak_shadow_bytes()}; }
void reset_peak_shadow_memory() { LeafNode::reset_peak_shadow_bytes(); }
void set_shadow_budget(std::int64_t bytes) {
  check(bytes >= 0, "set_shadow_budget: the bytes must not be negative, got ", bytes);
  budget.store(bytes, std::memory_order_relaxed);
}

CastStatistics cast_statistics() { return statistics; }

}  // namespace mantissa::amp
