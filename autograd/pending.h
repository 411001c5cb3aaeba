// What backward has computed for nodes that have not run yet: for each the gradient of its result, summed so far. The
// next node is the one with the largest id. Every consumer of its result has a larger id and has therefore already
// contributed.
//
// Gradients are accumulated in place if no other handle shares the memory. Gradients of slices (autograd/part.h) are
// copied into their places in one tensor, and only the elements that no slice covers are zero-filled.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "autograd/node.h"
#include "autograd/part.h"
#include "core/ref.h"

namespace mantissa::autograd {

class PendingGradients {
 public:
  struct Entry {
    NodeRef node;
    Tensor gradient;
    const Node* from = nullptr;  // the node that contributed first
  };

  bool empty() const { return sums_.empty(); }
  Entry take_next();
  // g is a contribution of `from` (null: a root) to the gradient of `node`. With create_graph additions are recorded.
  void add(const NodeRef& node, Tensor g, bool create_graph, const Node* from);
  // The same for a contribution that is g in `part` of the gradient and zero elsewhere. Not recorded.
  void add_part(const NodeRef& node, const Tensor& g, const Part& part, const Node* from);
  // Takes what `node` has so far, for a rule that adds to it; undefined if there is nothing, or nothing that a kernel
  // could add to: whole, contiguous, and of the dtype and device of `input`.
  Tensor take(const Node& node, const InputMeta& input);

 private:
  struct Sum : Entry {
    bool own = false;  // made here: later terms may be added in place
    // Of a gradient put together from parts that lie side by side, until it is whole (part_dim = -1): indices from
    // part_begin to part_end of this dimension have values.
    int part_dim = -1;
    std::int64_t part_begin = 0, part_end = 0;
    bool in_place = false;  // a rule wrote the parts into this memory: what has not come yet is there and still needed

    bool may_grow() const;  // whether terms may be added in place
    void leave_place();
    void make_whole();
  };
  template <class T> struct PoolAllocator {  // so that a backward pass asks the system for nothing
    using value_type = T;
    PoolAllocator() = default;
    template <class U> PoolAllocator(const PoolAllocator<U>&) {}
    // a map's elements come one by one
    T* allocate(std::size_t) { return static_cast<T*>(BlockPool<sizeof(T)>::take()); }
    void deallocate(T* p, std::size_t) noexcept { BlockPool<sizeof(T)>::give(p); }
    friend bool operator==(const PoolAllocator&, const PoolAllocator&) = default;
  };
  std::map<std::uint64_t, Sum, std::greater<>, PoolAllocator<std::pair<const std::uint64_t, Sum>>> sums_;  // by id
};

}  // namespace mantissa::autograd
