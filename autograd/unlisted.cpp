#include "autograd/unlisted.h"

#include <mutex>
#include <unordered_set>

#include "autograd/node.h"
#include "core/error.h"

namespace mantissa::autograd {
namespace {

struct Unlisted {
  std::mutex mutex;
  std::unordered_set<LeafNode*> leaves;
};
Unlisted& unlisted() {
  static Unlisted& all = *new Unlisted;  // must outlive parameters of static modules
  return all;
}

}  // namespace

void note_unlisted(const Tensor& parameter) {
  LeafNode* leaf = leaf_of(parameter);
  const std::lock_guard lock(unlisted().mutex);
  unlisted().leaves.insert(leaf);
  leaf->unlisted = true;
}

void note_listed(const Tensor& parameter) {
  LeafNode* leaf = leaf_of(parameter);
  if (leaf && leaf->unlisted) forget_unlisted(*leaf);
}

void forget_unlisted(LeafNode& leaf) {
  const std::lock_guard lock(unlisted().mutex);
  unlisted().leaves.erase(&leaf);
  leaf.unlisted = false;
}

std::string unlisted_with_gradients() {
  std::string shapes;
  const std::lock_guard lock(unlisted().mutex);
  for (LeafNode* leaf : unlisted().leaves) {
    const std::lock_guard leaf_lock(leaf->mutex);
    if (leaf->grad.defined()) shapes += concat(shapes.empty() ? "" : ", ", leaf->sizes());
  }
  return shapes;
}

}  // namespace mantissa::autograd
