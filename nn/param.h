// The building blocks of modules: Param (a learned tensor), Buffer (saved but not learned) and Mode (the training
// flag). All are move-only or trivial, so a module cannot be copied by accident; nn::clone (nn/clone.h) makes an
// independent copy.
#pragma once

#include "autograd/unlisted.h"
#include "core/tensor.h"

namespace mantissa::distributed {
class ProcessGroup;
}

namespace mantissa::nn {

// A leaf tensor that requires a gradient; usable as a Tensor. Undefined when absent (no bias).
class Param : public Tensor {
 public:
  Param() = default;
  // Shares the storage of `value`, but not its graph.
  explicit Param(const Tensor& value) : Tensor(value.defined() ? value.detach() : value) {
    if (!defined()) return;
    requires_grad_();
    autograd::note_unlisted(*this);
  }
  Param(Param&&) = default;
  Param& operator=(Param&&) = default;
  Param& operator=(const Param&) = delete;  // one parameter in two places: tie(param, with), below
};

// Running statistics, counters. Undefined when absent. If a const operator() writes to it, declare it mutable:
//   mutable nn::Buffer seen{zeros({})};     seen.add_(1);
class Buffer : public Tensor {
 public:
  Buffer() = default;
  Buffer(const Tensor& value) : Tensor(value) {}
  Buffer(Buffer&&) = default;
  Buffer& operator=(Buffer&&) = default;
};

// The field of layers that behave differently in training; nn::train and nn::eval set it.
struct Mode {
  void set_training(bool on);  // what is written to the field directly, captured steps do not notice

  bool training = true;
  distributed::ProcessGroup* group = nullptr;  // batch norms use the statistics of all its ranks: nn/sync_batch_norm.h
};

// Makes `param` the same parameter as `with` (weight sharing); shapes must match. Afterwards both names refer to one
// tensor with one gradient, which parameters() and state_dict() list once.
void tie(Param& param, const Param& with);

// Independent copies; a parameter's copy starts without a gradient.
Param clone(const Param& param);
Buffer clone(const Buffer& buffer);

}  // namespace mantissa::nn
