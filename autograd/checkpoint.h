// checkpoint(fn, x...): computes fn(x...) without keeping the tensors that its operators save, and runs fn again in
// backward: trades time for memory. Follows torch.utils.checkpoint.
//
//   Tensor y = checkpoint([&](const Tensor& x) { return block(x); }, x);
//
// fn is called with the same inputs, random numbers (so dropout draws the same mask) and autocast region as in forward,
// and must be a function of them: state it changes, such as the running statistics of batch_norm, is changed twice.
// Gradients reach the inputs, and also the parameters and other tensors that fn captures; grad(), hooks and
// create_graph work through it. fn is copied and called in backward: whatever it captures by reference must outlive
// that.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace mantissa {

// Returns one tensor; `inputs` may be empty or contain undefined tensors.
Tensor checkpoint(std::function<Tensor(const std::vector<Tensor>&)> fn, std::vector<Tensor> inputs);

template <class F, class... T>
  requires(std::is_convertible_v<const T&, const Tensor&> && ...)
Tensor checkpoint(F fn, const T&... x) {
  std::function<Tensor(const std::vector<Tensor>&)> of_list = [fn = std::move(fn)](const std::vector<Tensor>& in) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) { return fn(in[i]...); }(std::index_sequence_for<T...>{});
  };
  return checkpoint(std::move(of_list), std::vector<Tensor>{x...});
}

}  // namespace mantissa
