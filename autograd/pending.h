// The gradients that backward has computed for nodes that have not run yet: for each node the gradient of its result,
// summed so far. The next node to run is the one with the largest id. Every consumer of its result has a larger id and
// has therefore already contributed.
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
    const Node* from = nullptr;  // the first contributor
  };

  bool empty() const { return sums_.empty(); }
  Entry take_next();
  // g is a contribution of `from` (null: a root) to the gradient of `node`. With create_graph, additions are recorded.
  void add(const NodeRef& node, Tensor g, bool create_graph, const Node* from);
  // The same for a contribution equal to g in `part` of the gradient and zero elsewhere. Not recorded.
  void add_part(const NodeRef& node, const Tensor& g, const Part& part, const Node* from);
  // Takes the sum for `node` so far, for a rule that adds to it; undefined if there is none, or if a kernel could not
  // add to it: it must be whole, contiguous, and of the dtype and device of `input`.
  Tensor take(const Node& node, const InputMeta& input);

 private:
  struct Sum : Entry {
    bool own = false;  // allocated here: later terms may be added in place
    // For a gradient assembled from adjacent parts, until it is whole (part_dim = -1): indices part_begin to part_end
    // of this dimension have values.
    int part_dim = -1;
    std::int64_t part_begin = 0, part_end = 0;
    // a rule wrote the parts into this memory: those that have not arrived yet are in it and still needed
    bool in_place = false;

    bool may_grow() const;  // whether terms may be added in place
    void leave_place();
    void make_whole();
  };
  template <class T> struct PoolAllocator {  // so that a backward pass makes no calls to malloc
    using value_type = T;
    PoolAllocator() = default;
    template <class U> PoolAllocator(const PoolAllocator<U>&) {}
    // a map allocates its elements one by one
    T* allocate(std::size_t) { return static_cast<T*>(BlockPool<sizeof(T)>::take()); }
    void deallocate(T* p, std::size_t) noexcept { BlockPool<sizeof(T)>::give(p); }
    friend bool operator==(const PoolAllocator&, const PoolAllocator&) = default;
  };
  // by id, largest first
  std::map<std::uint64_t, Sum, std::greater<>, PoolAllocator<std::pair<const std::uint64_t, Sum>>> sums_;
};

}  // namespace mantissa::autograd
