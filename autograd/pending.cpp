#include "autograd/pending.h"

#include <algorithm>
#include <utility>

#include "autograd/last_owner.h"
#include "core/kernel.h"
#include "core/ops.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)
MANTISSA_KERNEL(spread, const View& y, const View& x, int dim, std::int64_t begin, std::int64_t step)

namespace autograd {
namespace {

// A dense result that nobody else holds.
bool is_fresh(const Tensor& g) {
  return held_alone(g) && !g.requires_grad() && g.strides() == dense_strides(g.sizes(), g.layout());
}
// Whether `to += other` keeps other's precision.
bool fits(const Tensor& to, const Tensor& other) { return promote(to.dtype(), other.dtype()) == to.dtype(); }

}  // namespace

bool PendingGradients::Sum::may_grow() const { return own || is_fresh(gradient); }

// Moves parts that arrived in place to separate memory before anything else is written between them: others may hold
// the remaining parts.
void PendingGradients::Sum::leave_place() {
  if (!std::exchange(in_place, false) || held_alone(gradient)) return;
  const Tensor shared = gradient;
  gradient = Tensor::allocate(shared.sizes(), shared.dtype(), shared.device());
  const Part come{shared.sizes(), part_dim, part_begin, part_end - part_begin};
  kernels::copy(shared.device(), part_of(gradient, come).view(), part_of(shared, come).view());
  own = true;
}

// Fills with zeros where no part has arrived.
void PendingGradients::Sum::make_whole() {
  if (part_dim < 0) return;
  leave_place();
  const std::int64_t size = gradient.size(part_dim);
  for (const auto& [from, to] : {std::pair(std::int64_t{0}, part_begin), std::pair(part_end, size)}) {
    if (from == to) continue;
    const Tensor rest = part_of(gradient, {gradient.sizes(), part_dim, from, to - from});
    kernels::fill(rest.device(), rest.view(), 0.0);
  }
  part_dim = -1;
}

PendingGradients::Entry PendingGradients::take_next() {
  const auto next = sums_.begin();
  next->second.make_whole();
  Entry entry = std::move(next->second);
  sums_.erase(next);
  return entry;
}

void PendingGradients::add(const NodeRef& node, Tensor g, bool create_graph, const Node* from) {
  auto [it, first] = sums_.try_emplace(node->id());
  Sum& sum = it->second;
  if (first) {
    sum = {{.node = node, .gradient = std::move(g), .from = from}};
    return;
  }
  sum.make_whole();
  if (!create_graph && fits(sum.gradient, g) && sum.may_grow()) {
    sum.gradient.add_(g);
  } else if (!create_graph && fits(g, sum.gradient) && is_fresh(g)) {
    g.add_(sum.gradient);
    sum.gradient = std::move(g);
  } else {
    sum.gradient = mantissa::add(sum.gradient, g);  // recorded under create_graph
  }
  sum.own = true;
}

void PendingGradients::add_part(const NodeRef& node, const Tensor& g, const Part& part, const Node* from) {
  if (part.count == part.sizes[part.dim]) return add(node, g, false, from);
  const std::int64_t end = part.begin + part.count;
  auto [it, first] = sums_.try_emplace(node->id());
  Sum& sum = it->second;
  if (first && part.step > 1 && g.device().is_cpu()) {  // zeros and the part in one pass
    const Tensor whole = Tensor::allocate(part.sizes, g.dtype(), g.device());
    kernels::spread(g.device(), whole.view(), g.view(), part.dim, part.begin, part.step);
    sum = {{.node = node, .gradient = whole, .from = from}};
    sum.own = true;
    return;
  }
  const bool in_place = lies_in_place(g, part);
  if (first) {
    sum = {{.node = node,
            .gradient = in_place ? whole_around(g, part) : Tensor::allocate(part.sizes, g.dtype(), g.device()),
            .from = from}};
    sum.own = !in_place;
    sum.in_place = in_place;
    sum.part_dim = part.dim;
    sum.part_begin = sum.part_end = part.begin;
    if (part.step > 1) sum.make_whole();
  }
  const bool beside = sum.part_dim == part.dim && part.step == 1 && g.dtype() == sum.gradient.dtype() &&
                      (part.begin == sum.part_end || end == sum.part_begin);
  if (beside) {
    if (!(in_place && g.storage() == sum.gradient.storage())) {
      sum.leave_place();
      if (g.numel() > 0) kernels::copy(g.device(), part_of(sum.gradient, part).view(), g.view());
    }
    sum.part_begin = std::min(sum.part_begin, part.begin);
    sum.part_end = std::max(sum.part_end, end);
    if (sum.part_begin == 0 && sum.part_end == part.sizes[part.dim]) sum.part_dim = -1;
    return;
  }
  sum.make_whole();
  if (sum.may_grow() && fits(sum.gradient, g)) {
    part_of(sum.gradient, part).add_(g);
    sum.own = true;
  } else {
    Tensor whole = zeros(part.sizes, {.dtype = g.dtype(), .device = g.device()});
    part_of(whole, part).add_(g);
    add(node, std::move(whole), false, from);
  }
}

Tensor PendingGradients::take(const Node& node, const InputMeta& input) {
  const auto it = sums_.find(node.id());
  if (it == sums_.end() || it->second.part_dim >= 0) return {};  // a gradient assembled from parts waits for the rest
  Tensor& g = it->second.gradient;
  if (g.dtype() != input.dtype || !(g.device() == input.device) || !g.is_contiguous()) return {};
  Tensor taken = std::move(g);
  sums_.erase(it);
  return taken;
}

}  // namespace autograd
}  // namespace mantissa
