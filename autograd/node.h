// The graph that backward traverses. Each recorded operator creates a Node; its edges lead to the nodes of its inputs.
// Ids increase with creation, and a consumer is always created after its producers, so descending id is a valid reverse
// order: the engine (autograd/backward.cpp) needs no other.
//
// A leaf (a parameter) has a LeafNode, which owns the gradient. The graph has no references back to tensors, so there
// are no cycles. A shadow, the same parameter in a lower precision (amp/autocast.h), simply shares the parameter's
// LeafNode.
#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <vector>

#include "autograd/input_meta.h"
#include "core/ref.h"
#include "core/tensor.h"

namespace mantissa::autograd {

struct Hooks;            // autograd/hooks.h
struct Part;             // autograd/part.h
struct SavedActivation;  // autograd/rule.h
struct SavedTensor;      // below

class Node : public RefCounted {
 public:
  explicit Node(const char* name) : id_(next_id()), name_(name) {}
  virtual ~Node();

  std::uint64_t id() const { return id_; }
  // Allocates an id: every node created later has a larger one.
  static std::uint64_t next_id() {
    static constinit std::atomic<std::uint64_t> counter{1};
    return counter.fetch_add(1, std::memory_order_relaxed);
  }
  const char* name() const { return name_; }
  virtual bool is_leaf() const { return false; }
  std::span<const NodeRef> edges() const { return edges_; }

  // Non-null (the metadata of input 0) if backward() accumulates into input 0 by itself: input_gradients[0] then holds
  // the gradient accumulated so far, contiguous or undefined. For other nodes all input_gradients start undefined.
  virtual const InputMeta* adds_to() const { return nullptr; }
  struct Pass {  // permissions in the running backward pass
    // the graph is not retained, so a node may give its saved tensors to its rules, which may overwrite them
    // (autograd/last_owner.h)
    bool last = false;
    bool to_leaves = false;  // rules may add to gradients of leaves (autograd/place.h)
    // Of an input's node: that input's gradient is then the one before this activation.
    const SavedActivation* activation = nullptr;
  };
  // Computes, from the gradient of result 0, the gradients of the inputs that have an edge. One left undefined is zero,
  // or has already been added to its leaf (Pass::to_leaves).
  virtual void backward(Tensor gradient, std::span<Tensor> input_gradients, Pass pass) = 0;
  virtual void release_saved() {}
  // Appends what it has saved, for replays of its forward pass, after which it saves the same memory anew.
  virtual void list_saved([[maybe_unused]] std::vector<SavedTensor*>& all) {}
  // Whether the gradient of the only input is that of result 0 in one part and zero elsewhere; sets the part.
  virtual bool is_part(Part&) const { return false; }
  // Whether this is an activation whose derivative a consumer can apply to the gradient that it computes. Sets which
  // one it is, and what it saved for that, if `saved` is not null.
  virtual bool is_activation([[maybe_unused]] SavedActivation* saved) const { return false; }
  // The input whose rule does so (Pass::activation); -1: none.
  virtual int differentiates_activation_of() const { return -1; }

  Hooks& hooks();  // made on first use
  bool has_hooks() const { return hooks_.load(std::memory_order_acquire) != nullptr; }

 protected:
  void set_edges(std::span<const NodeRef> edges) { edges_ = edges; }

 private:
  std::uint64_t id_;
  const char* name_;
  std::span<const NodeRef> edges_;
  std::atomic<Hooks*> hooks_ = nullptr;  // owned; one thread's backward() may make a leaf's while another's asks
};

// The node of a parameter or another leaf; it owns the gradient.
class LeafNode final : public Node {
 public:
  LeafNode(const Dims& sizes, Dtype dtype, Device device, Layout layout)
      : Node("leaf"), sizes_(sizes), dtype_(dtype), layout_(layout), device_(device) {}
  ~LeafNode() override;
  bool is_leaf() const override { return true; }
  void backward(Tensor, std::span<Tensor>, Pass) override {}

  // Adds to the gradient: takes `g` over if no one else holds it, else adds in place (in the leaf's dtype). With
  // create_graph the sum is a recorded operator. Locked: backward passes of several threads may reach the same leaf
  // (in unspecified order).
  void accumulate(Tensor g, bool create_graph);

  // While it exists, this thread may modify `grad`: it holds the lock and has applied pending scalings. Its destructor
  // tags the gradient with the loss scales of the running backward pass (amp/scale_ledger.h).
  class Update {
   public:
    explicit Update(LeafNode& leaf);
    ~Update();
    Update(const Update&) = delete;

   private:
    LeafNode& leaf_;
    std::lock_guard<std::mutex> lock_;
    bool tagged_, as_noted_ = false;
  };

  Tensor grad;
  Tensor shadow;                     // the leaf's value in a lower precision (set_shadow) ...
  std::uint32_t shadow_version = 0;  // ... valid while the leaf's storage has this version
  int shadow_holders = 0;            // autocast regions still using the shadow; the last to end drops it
  int shadow_pins = 0;               // captured steps that use the shadow's memory: it must stay where it is
  std::atomic<bool> unlisted = false;  // autograd/unlisted.h
  std::mutex mutex;

  // Requires the mutex. An undefined tensor drops the shadow.
  void set_shadow(Tensor fresh, std::uint32_t version);
  static std::int64_t shadow_bytes();       // current total over all leaves
  static std::int64_t peak_shadow_bytes();  // maximum since the start or the last reset
  static void reset_peak_shadow_bytes();

  const Dims& sizes() const { return sizes_; }
  Dtype dtype() const { return dtype_; }
  void set_dtype(Dtype d, Device device) { dtype_ = d; device_ = device; }
  Layout layout() const { return layout_; }  // of the leaf, and of gradients made for it (autograd/place.h)
  void set_layout(Layout layout) { layout_ = layout; }

 private:
  Dims sizes_;
  Dtype dtype_;
  Layout layout_;
  Device device_;
};

void forget_unlisted(LeafNode& leaf);  // autograd/unlisted.cpp

// The LeafNode of a leaf; null for the result of an operator and for a tensor that requires no gradient.
inline LeafNode* leaf_of(const Tensor& t) {
  Node* node = t.impl()->node.get();
  return node && node->is_leaf() ? static_cast<LeafNode*>(node) : nullptr;
}

// Sums over broadcast dims and casts to the input's dtype, or keeps the dtype of the leaf that `edge` leads to: the
// gradient of a shadow may be as wide as the parameter's.
Tensor fit_gradient(Tensor g, const InputMeta& input, const NodeRef& edge);
// Destination of the gradient of `input`.
Destination destination_of(const NodeRef& edge, const InputMeta& input, Node::Pass pass);

// A tensor kept for backward, and the version of its storage at that time.
struct SavedTensor {
  Tensor tensor;
  std::uint32_t version = 0;

  void save(const Tensor& t) {
    tensor = t;
    version = t.defined() ? t.storage()->version() : 0;
  }
  void save_again() { version = tensor.defined() ? tensor.storage()->version() : 0; }
  bool is_changed() const { return tensor.defined() && tensor.storage()->version() != version; }
  // Throws `"mul" saved its input b (version 3), since changed by add_ (version 4)`.
  const Tensor& unpack(const char* op, const char* what) const {
    if (is_changed()) changed(op, what);
    return tensor;
  }

 private:
  [[noreturn]] void changed(const char* op, const char* what) const;
};

[[noreturn]] void fail_second_backward(const char* op);

}  // namespace mantissa::autograd
