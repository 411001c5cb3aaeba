// A differentiable function of one's own, with its gradient by hand, in terms of operators. For a new kernel write an
// operator instead (ops/op.h). Follows torch.autograd.Function.
//
//   struct ScaledMm {
//     static constexpr auto name = "scaled_mm";
//     static constexpr Dtype cast_inputs = f32;      // optional: see below
//     double scale = 1;
//     Tensor forward(Saved& saved, const Tensor& a, const Tensor& b) const {
//       saved.save({a, b});
//       return scale * matmul(a, b);
//     }
//     std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {   // one per tensor input, in order
//       return {scale * matmul(g, saved[1].t()), scale * matmul(saved[0].t(), g)};
//     }
//   };
//   Tensor y = apply_function(ScaledMm{.scale = 2}, a, b);
//
// Inputs are tensors, vectors of tensors, and anything else, which has no gradient. Forward is not recorded. A
// gradient may be undefined; backward may be differentiated again, with respect to what was saved of the inputs.
//
// Autocast: forward and backward both see the region that the function was called in. With cast_inputs, floating
// inputs arrive in that dtype in a region, and autocast is off in forward and backward. (torch.amp.custom_fwd and
// custom_bwd; here backward needs no mark of its own.)
#pragma once

#include <vector>

#include "amp/custom.h"
#include "autograd/grad_mode.h"
#include "autograd/node.h"

namespace mantissa {

// Tensors kept for backward. Of the result only values may be saved: it has no gradient here yet.
class Saved {
 public:
  void save(std::vector<Tensor> tensors) {
    saved_.clear();
    for (const Tensor& t : tensors) saved_.emplace_back().save(t);
  }
  // Throws when the tensor has been changed in place since.
  const Tensor& operator[](std::size_t i) const {
    check(i < saved_.size(), name_, ": saved tensor ", static_cast<std::int64_t>(i), " does not exist, ",
        static_cast<std::int64_t>(saved_.size()),
          " were saved");
    return saved_[i].unpack(name_, "saved tensor");
  }
  std::size_t size() const { return saved_.size(); }

 private:
  template <class F> friend class FunctionNode;
  template <class F, class... A> friend Tensor apply_function(const F& f, A&&... arguments);
  const char* name_ = "function";
  std::vector<autograd::SavedTensor> saved_;
};

template <class F> class FunctionNode final : public autograd::Node {
 public:
  FunctionNode(const F& f, const std::vector<Tensor>& inputs) : Node(F::name), f_(f) {
    for (const Tensor& x : inputs) {
      meta_.push_back(x.defined() ? InputMeta{x.sizes(), x.dtype(), x.device()} : InputMeta{});
      edges_.push_back(x.defined() ? x.impl()->node : autograd::NodeRef());
    }
    set_edges(edges_);
  }
  void backward(Tensor g, std::span<Tensor> gradients, Pass) override {
    if (released_) autograd::fail_second_backward(F::name);
    std::vector<Tensor> found;
    {
      const amp::Autocast region(state);
      found = f_.backward(saved, g);
    }
    check(found.size() == edges_.size(), F::name, ": backward gave ", static_cast<std::int64_t>(found.size()),
        " gradients for ",
          static_cast<std::int64_t>(edges_.size()), " tensor inputs");
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      if (!edges_[i] || !found[i].defined()) continue;
      check(found[i].sizes() == meta_[i].sizes, F::name, ": gradient ", static_cast<std::int64_t>(i), " has shape ",
          found[i].sizes(),
            " for an input of shape ", meta_[i].sizes);
      gradients[i] = autograd::fit_gradient(std::move(found[i]), meta_[i], edges_[i]);
    }
  }
  void release_saved() override {
    released_ = true;
    saved.saved_.clear();
  }

  Saved saved;
  AutocastState state;  // of forward

 private:
  F f_;
  bool released_ = false;
  std::vector<InputMeta> meta_;
  std::vector<autograd::NodeRef> edges_;
};

namespace detail {
template <class T> void collect_tensors(std::vector<Tensor>& all, const T& value) {
  if constexpr (std::is_convertible_v<const T&, const Tensor&>) all.push_back(value);
  else if constexpr (std::is_same_v<T, std::vector<Tensor>>) all.insert(all.end(), value.begin(), value.end());
}
}  // namespace detail

template <class F, class... A> Tensor apply_function(const F& f, A&&... arguments) {
  // Tensors by value (a Param as a Tensor), so that casts can take their place.
  std::tuple<std::conditional_t<std::is_convertible_v<A&&, const Tensor&>, Tensor, std::decay_t<A>>...> x(
      std::forward<A>(arguments)...);
  AutocastState state = amp::capture();
  if constexpr (requires { F::cast_inputs; }) {
    if (amp::is_enabled(cpu) || amp::is_enabled(cuda)) {
      amp::cast_arguments(x, F::cast_inputs);
      state.enabled[0] = state.enabled[1] = false;
    }
  }
  std::vector<Tensor> inputs;
  std::apply([&](const auto&... one) { (detail::collect_tensors(inputs, one), ...); }, x);
  Saved saved;
  saved.name_ = F::name;
  Tensor y;
  {
    const amp::Autocast region(state);
    const NoGrad no_grad;
    y = std::apply([&](const auto&... one) { return f.forward(saved, one...); }, x);
  }
  check(y.defined(), F::name, ": forward gave an undefined tensor");
  bool wanted = false;
  for (const Tensor& t : inputs) wanted = wanted || t.requires_grad();
  if (!wanted || !grad_enabled() || !y.is_floating()) return y;
  auto* node = new FunctionNode<F>(f, inputs);
  node->state = state;
  node->saved = std::move(saved);
  Tensor result = y.detach();  // forward may have given one of its inputs
  result.impl()->node = autograd::NodeRef(node);
  return result;
}

}  // namespace mantissa
