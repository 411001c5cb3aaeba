// A function of tensors, as taken by gradcheck, jacobian etc.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace mantissa {

// Wraps a function that returns one or several tensors.
class TensorFunction {
 public:
  template <class F>
    requires std::is_invocable_v<const F&, const std::vector<Tensor>&>
  TensorFunction(F f)
      : f_([f = std::move(f)](const std::vector<Tensor>& x) {
          if constexpr (std::is_same_v<std::decay_t<decltype(f(x))>, std::vector<Tensor>>) return f(x);
          else return std::vector<Tensor>{f(x)};
        }) {}
  std::vector<Tensor> operator()(const std::vector<Tensor>& x) const { return f_(x); }

 private:
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> f_;
};

}  // namespace mantissa
