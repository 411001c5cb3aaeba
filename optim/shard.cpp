// Optimizers whose state is sharded over the processes of a run (MemoryOptions::shard).
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/memory_order.h"
#include "io/process_group.h"
#include "optim/optimizer.h"

namespace mantissa::optim {

// Largest parameter first, each to the rank with the least so far. Deterministic: equal on all ranks.
void Optimizer::choose_owners(Group& g) {
  if (!memory_.shard || memory_.shard->size() == 1) return;
  shares_.resize(static_cast<std::size_t>(memory_.shard->size()));
  std::vector<std::size_t> order(g.parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return g.parameters[i].numel(); });
  g.owners.resize(order.size());
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(shares_);
    g.owners[i] = static_cast<int>(least - shares_.begin());
    *least += std::max<std::int64_t>(g.parameters[i].numel(), 1);
  }
}

bool Optimizer::is_mine(const Group& g, std::size_t i) const {
  return g.owners.empty() || g.owners[i] == memory_.shard->rank();
}

// Broadcasts each of `tensors` from its owner to all ranks.
void Optimizer::share(std::span<const Tensor> tensors, std::span<const int> owners) const {
  struct Key {  // one broadcast per root, dtype and device
    int owner;
    Dtype dtype;
    int device;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::vector<Tensor>> calls;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    calls[{owners[i], t.dtype(), t.device().is_cpu() ? -1 : t.device().index}].push_back(as_it_lies(t));
  }
  for (const auto& [key, list] : calls) memory_.shard->broadcast(list, key.owner);
}

void Optimizer::share_parameters(Group& g) {
  std::vector<Tensor> changed;
  std::vector<int> owners;
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    if (!g.parameters[i].grad().defined()) continue;
    changed.push_back(g.parameters[i].detach());
    owners.push_back(g.owners[i]);
  }
  share(changed, owners);
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    if (g.masters[i].defined()) *g.versions[i] = g.parameters[i].storage()->version();  // equal to what was sent
  }
}

}  // namespace mantissa::optim
