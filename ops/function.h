// User-defined differentiable functions with a hand-written gradient, both made of operators, like
// torch.autograd.Function. A function that needs a kernel of its own should be an operator instead (ops/op.h).
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
// Arguments are tensors, vectors of tensors, and values of any other type, which have no gradient. forward is not
// recorded. backward may return an undefined tensor for a zero gradient, and a tensor instead of a vector for a single
// input. It can be differentiated again, through the saved inputs.
//
// With several results forward returns a vector of tensors, and backward takes a vector of their gradients:
//
//   struct SinCos {
//     static constexpr auto name = "sin_cos";
//     std::vector<Tensor> forward(Saved& saved, const Tensor& x) const {
//       saved.save({x});
//       return {sin(x), cos(x)};
//     }
//     std::vector<Tensor> backward(const Saved& saved, const std::vector<Tensor>& g) const {
//       return {g[0] * cos(saved[0]) - g[1] * sin(saved[0])};
//     }
//   };
//   const std::vector<Tensor> y = apply_function(SinCos{}, x);
//
// The gradient of an unused result is zeros, or with
//   static constexpr bool materialize_grads = false;     // like ctx.set_materialize_grads(False)
// an undefined tensor. Results that are integers, undefined, or named by saved.mark_non_differentiable({1}) have no
// gradient. A backward that cannot be differentiated again (because it reads values, say) declares
//   static constexpr bool once_differentiable = true;    // not recorded, even with create_graph; a second
//                                                        // differentiation throws
// saved.needs_input_grad(i), in forward and in backward: whether the gradient of tensor input i is needed.
//
// Autocast: forward and backward both run in the autocast region of the call. With cast_inputs, floating inputs are
// cast to that dtype if the call is in a region, and autocast is off in forward and backward. (This is
// torch.amp.custom_fwd and custom_bwd in one: backward needs no annotation.)
#pragma once

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <vector>

#include "amp/custom.h"
#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "autograd/results.h"

namespace mantissa {

// Tensors kept for backward. A result may be saved for its values, but has no gradient yet inside forward.
class Saved {
 public:
  void save(std::vector<Tensor> tensors) {
    saved_.clear();
    for (const Tensor& t : tensors) saved_.emplace_back().save(t);
  }
  // Throws if the tensor was modified in place after it was saved.
  const Tensor& operator[](std::size_t i) const {
    check(i < saved_.size(), name_, ": saved tensor ", i, " does not exist, ", saved_.size(), " were saved");
    return saved_[i].unpack(name_, "saved tensor");
  }
  std::size_t size() const { return saved_.size(); }

  bool needs_input_grad(std::size_t i) const {
    check(i < needs_.size(), name_, ": tensor input ", i, " does not exist, there are ", needs_.size());
    return needs_[i];
  }
  void mark_non_differentiable(std::vector<std::size_t> results) { without_gradient_ = std::move(results); }

 private:
  template <class F> friend class FunctionNode;
  template <class F, class... A> friend auto apply_function(const F& f, A&&... arguments);
  const char* name_ = "function";
  std::vector<autograd::SavedTensor> saved_;
  std::vector<bool> needs_;
  std::vector<std::size_t> without_gradient_;
};

namespace detail {
template <class T> void collect_tensors(std::vector<Tensor>& all, const T& value) {
  if constexpr (std::is_convertible_v<const T&, const Tensor&>) all.push_back(value);
  else if constexpr (std::is_same_v<T, std::vector<Tensor>>) all.insert(all.end(), value.begin(), value.end());
}
// Optional members of a function.
template <class F> constexpr bool once_differentiable() {
  if constexpr (requires { F::once_differentiable; }) return F::once_differentiable;
  else return false;
}
template <class F> constexpr bool materialize_grads() {
  if constexpr (requires { F::materialize_grads; }) return F::materialize_grads;
  else return true;
}
template <class F>
inline constexpr bool has_several_results = requires(const F& f, const Saved& saved, const std::vector<Tensor>& g) {
  f.backward(saved, g);
};
}  // namespace detail

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
    std::vector<Tensor> found, of_results;
    if constexpr (detail::has_several_results<F>) of_results = collected();
    else of_results = {std::move(g)};
    {
      const amp::Autocast region(state);
      if (detail::once_differentiable<F>()) {
        const NoGrad not_recorded;
        found = run(of_results);
      } else {
        found = run(of_results);
      }
    }
    check(found.size() == edges_.size(), F::name, ": backward gave ", found.size(), " gradients for ", edges_.size(),
          " tensor inputs");
    if (detail::once_differentiable<F>() && grad_enabled()) mark_once(found, of_results);
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      if (!edges_[i] || !found[i].defined()) continue;
      check(found[i].sizes() == meta_[i].sizes, F::name, ": gradient ", i, " has shape ", found[i].sizes(),
            " for an input of shape ", meta_[i].sizes);
      gradients[i] = autograd::fit_gradient(std::move(found[i]), meta_[i], edges_[i]);
    }
  }
  void list_saved(std::vector<autograd::SavedTensor*>& all) override {
    for (autograd::SavedTensor& s : saved.saved_) all.push_back(&s);
  }
  void release_saved() override {
    released_ = true;
    saved.saved_.clear();
  }

  Saved saved;
  AutocastState state;             // the autocast state during forward
  std::vector<InputMeta> results;  // for functions with several results

 private:
  std::vector<Tensor> run(const std::vector<Tensor>& g) const {
    if constexpr (detail::has_several_results<F>) return listed(f_.backward(saved, g));
    else return listed(f_.backward(saved, g[0]));
  }
  static std::vector<Tensor> listed(std::vector<Tensor> gradients) { return gradients; }
  static std::vector<Tensor> listed(Tensor gradient) { return {std::move(gradient)}; }
  std::vector<Tensor> collected() const {
    std::vector<Tensor> g = std::move(autograd::gradients_of_results(this));
    g.resize(results.size());
    for (std::size_t k = 0; detail::materialize_grads<F>() && k < g.size(); ++k) {
      if (g[k].defined()) continue;
      g[k] = zeros(results[k].sizes, {.dtype = results[k].dtype, .device = results[k].device});
    }
    return g;
  }
  // Marks the gradients as depending on `of_results` and on the inputs in a way that cannot be differentiated.
  void mark_once(std::vector<Tensor>& found, const std::vector<Tensor>& of_results) const {
    std::vector<autograd::NodeRef> on = edges_;
    for (const Tensor& g : of_results)
      if (g.requires_grad()) on.push_back(g.impl()->node);
    for (Tensor& t : found) {
      if (!t.defined()) continue;
      t = t.detach();
      t.impl()->node = autograd::NodeRef(new autograd::OnceNode(F::name, on));
    }
  }

  F f_;
  bool released_ = false;
  std::vector<InputMeta> meta_;
  std::vector<autograd::NodeRef> edges_;
};

// Returns the results of f.forward: a Tensor or a vector of them.
template <class F, class... A> auto apply_function(const F& f, A&&... arguments) {
  static_assert(requires { F::name; }, "apply_function needs a struct with name, forward and backward");
  // Tensors are held by value (a Param as a Tensor), so that casts can replace them.
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
  bool wanted = false;
  for (const Tensor& t : inputs) {
    saved.needs_.push_back(t.requires_grad());
    wanted = wanted || t.requires_grad();
  }
  const auto forward = [&] {
    const amp::Autocast region(state);
    const NoGrad no_grad;
    return std::apply([&](const auto&... one) { return f.forward(saved, one...); }, x);
  };
  auto y = forward();
  wanted = wanted && grad_enabled();
  const auto node_of = [&] {
    auto* node = new FunctionNode<F>(f, inputs);
    node->state = state;
    node->saved = std::move(saved);
    return node;
  };
  const auto attach = [](Tensor& t, autograd::NodeRef node) {
    t = t.detach();  // forward may have returned one of its inputs
    t.impl()->node = std::move(node);
  };
  if constexpr (detail::has_several_results<F>) {
    static_assert(std::is_same_v<decltype(y), std::vector<Tensor>>,
                  "backward takes a vector of gradients: forward gives a vector of tensors");
    std::vector<bool> differentiable;
    for (const Tensor& t : y) differentiable.push_back(wanted && t.defined() && t.is_floating());
    for (const std::size_t k : saved.without_gradient_) {
      check(k < y.size(), F::name, ": result ", k, " does not exist, there are ", y.size());
      differentiable[k] = false;
    }
    if (std::find(differentiable.begin(), differentiable.end(), true) == differentiable.end()) return y;
    FunctionNode<F>* const node = node_of();
    const autograd::NodeRef function(node);
    for (const Tensor& t : y)
      node->results.push_back(t.defined() ? InputMeta{t.sizes(), t.dtype(), t.device()} : InputMeta{});
    for (std::size_t k = 0; k < y.size(); ++k)
      if (differentiable[k]) attach(y[k], autograd::NodeRef(new autograd::ResultNode(F::name, function, k)));
    return y;
  } else {
    check(y.defined(), F::name, ": forward gave an undefined tensor");
    if (wanted && y.is_floating() && saved.without_gradient_.empty()) attach(y, autograd::NodeRef(node_of()));
    return y;
  }
}

}  // namespace mantissa
