// Hooked<Layer>: a layer with functions called before and after it, like PyTorch's register_forward_pre_hook and
// register_forward_hook. Transparent to parameter names, files and optimizers.
//
//   nn::Hooked<nn::Conv2d> conv{nn::Conv2d(3, 16, 3)};                      // a member of a net, instead of the Conv2d
//   nn::Hook seen = net.conv.after([&](const Tensor& x, const Tensor& y) { activation = y.detach(); });
//   net.conv.after([&](const Tensor& x, const Tensor& y) {                   // a backward hook
//     y.on_grad([&](const Tensor& gradient) { arrived = gradient; });
//   });
//   net.conv.before([](const Tensor& x) { return x + 0.1 * randn_like(x); });  // a returned tensor replaces x
//   seen.remove();
//
// Tapping a layer of an existing Sequential:
//
//   nn::Hooked tap(std::move(net.features.layers[4]));
//   tap.after(...);
//   net.features.layers[4] = std::move(tap);
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <memory>
#include <type_traits>
#include <utility>

#include "nn/clone.h"
#include "nn/fields.h"
#include "nn/sequential.h"

namespace mantissa::nn {

// Handle to one hooked function, to remove it. May outlive the layer; destroying the handle does not unhook.
class Hook {
 public:
  Hook() = default;
  void remove() {
    if (const std::shared_ptr<void> all = all_.lock()) remove_(all.get(), id_);
    all_.reset();
  }

 private:
  template <class Layer> friend class Hooked;
  using Remove = void (*)(void* all, const void* id);
  Hook(const std::shared_ptr<void>& all, const void* id, Remove remove) : all_(all), id_(id), remove_(remove) {}
  std::weak_ptr<void> all_;
  const void* id_ = nullptr;
  Remove remove_ = nullptr;
};

template <class Layer = nn::Layer> class Hooked {
  static_assert(std::is_invocable_r_v<Tensor, const Layer&, const Tensor&>,
                "Hooked<Layer>: a layer is called with a Tensor and gives one; around others write a struct with the "
                "layer as its field");

 public:
  explicit Hooked(Layer hooked) : layer(std::move(hooked)), hooks_(std::make_shared<Hooks>()) {}

  Tensor operator()(const Tensor& x) const {
    const std::shared_ptr<Hooks> hooks = hooks_;
    Tensor in = x;
    for (const auto& f : hooks->before)
      if (Tensor given = f(in); given.defined()) in = given;
    Tensor y;
    {
      const amp::InModule here(layer);
      y = layer(in);
    }
    for (const auto& f : hooks->after)
      if (Tensor given = f(in, y); given.defined()) y = given;
    return y;
  }

  // Hooks are called in the order in which they were added: f(x) before the layer, f(x, y) after it. A hook that
  // returns a tensor replaces x, or y, by it; one that returns nothing, or an undefined tensor, only observes. Hooks
  // must not add or remove hooks of this layer.
  template <class F> requires std::is_invocable_v<F&, const Tensor&> Hook before(F f) {
    return add(hooks_->before, [f = std::move(f)](const Tensor& x) mutable { return given(f, x); });
  }
  template <class F> requires std::is_invocable_v<F&, const Tensor&, const Tensor&> Hook after(F f) {
    return add(hooks_->after, [f = std::move(f)](const Tensor& x, const Tensor& y) mutable { return given(f, x, y); });
  }

  Layer layer;
  void fields([[maybe_unused]] Fields& visitor) {
    if constexpr (Module<Layer>) {
      visitor.at(layer);
      layer.fields(visitor);
    }
  }
  Hooked clone() const { return Hooked(detail::clone_value(layer)); }  // hooks are not copied

 private:
  struct Hooks {
    std::list<std::function<Tensor(const Tensor&)>> before;
    std::list<std::function<Tensor(const Tensor&, const Tensor&)>> after;
  };
  template <class F, class... X> static Tensor given(F& f, const X&... x) {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, const X&...>>) {
      f(x...);
      return {};
    } else {
      return f(x...);
    }
  }
  template <class Functions, class F> Hook add(Functions& functions, F f) {
    functions.emplace_back(std::move(f));
    return Hook(hooks_, &functions.back(), [](void* all, const void* id) {
      auto* hooks = static_cast<Hooks*>(all);
      hooks->before.remove_if([&](const auto& one) { return &one == id; });
      hooks->after.remove_if([&](const auto& one) { return &one == id; });
    });
  }

  std::shared_ptr<Hooks> hooks_;
};

}  // namespace mantissa::nn
