// What a node stores about its inputs and about where their gradients go, without holding the tensors.
#pragma once

#include "core/tensor.h"

namespace mantissa {

struct InputMeta {  // kept for every input: to undo broadcasting, promotion and moves of scalars to a GPU
  Dims sizes;
  Dtype dtype = f32;
  Device device;
};
namespace autograd { class LeafNode; }
struct Destination {
  // of the gradient at its destination: f32 for a parameter whose f16 or bf16 shadow was read
  Dtype dtype = f32;
  autograd::LeafNode* leaf = nullptr;  // if not null, the rule may write its result there; null: the rule returns it
  Layout layout = Layout::contiguous;  // of the leaf for which the gradient is
  // Whether a gradient of dtype `other` is simply returned by the rule.
  bool is_plain(Dtype other) const { return !leaf && dtype == other; }
};

}  // namespace mantissa
