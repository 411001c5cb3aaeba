// What a node knows of its inputs and of where their gradients go, without the tensors.
#pragma once

#include "core/tensor.h"

namespace mantissa {

struct InputMeta {  // what is kept of every input: to undo broadcasting, promotion and moves of numbers to a GPU
  Dims sizes;
  Dtype dtype = f32;
  Device device;
};
namespace autograd { class LeafNode; }
struct Destination {
  // of the gradient when it gets there: f32 for a parameter whose shadow in halves was read
  Dtype dtype = f32;
  autograd::LeafNode* leaf = nullptr;  // that a rule may give its result to, or null: the rule returns it
  // Whether a result of `other` is to be returned as from any rule.
  bool is_plain(Dtype other) const { return !leaf && dtype == other; }
};

}  // namespace mantissa
