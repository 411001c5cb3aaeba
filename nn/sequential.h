// Sequential: layers applied one after another. A layer is anything callable Tensor -> Tensor:
//
//   nn::Sequential body{nn::Conv2d{1, 8, 3}, relu, [](const Tensor& x) { return max_pool2d(x, 2); }};
//
// Parameters are named by position: "0.weight". nn::clone of it throws for a layer that has a constructor and no
// clone() const (nn/clone.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/clone.h"
#include "nn/fields.h"

namespace mantissa::nn {

// One layer of any type, by value.
class Layer {
 public:
  template <class M>
    requires(!std::is_same_v<std::remove_cvref_t<M>, Layer> &&
             std::is_invocable_r_v<Tensor, const std::decay_t<M>&, const Tensor&>)
  Layer(M&& layer) : self_(new Of<std::decay_t<M>>(std::forward<M>(layer))) {}

  Tensor operator()(const Tensor& x) const { return self_->call(x); }
  void fields(Fields& visitor) { self_->fields(visitor); }
  Layer clone() const { return Layer(self_->clone()); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual Tensor call(const Tensor& x) const = 0;
    virtual void fields(Fields& visitor) = 0;
    virtual std::unique_ptr<Base> clone() const = 0;
  };
  template <class M> struct Of final : Base {
    explicit Of(M m) : layer(std::move(m)) {
      if constexpr (Module<M>) check_module<M>();
    }
    Tensor call(const Tensor& x) const override {
      const amp::InModule here(layer);
      return layer(x);
    }
    void fields([[maybe_unused]] Fields& visitor) override {
      visitor.at(layer);
      if constexpr (Module<M>) layer.fields(visitor);
    }
    std::unique_ptr<Base> clone() const override {
      if constexpr (detail::is_cloneable<M>()) return std::make_unique<Of>(detail::clone_value(layer));
      else detail::fail_clone(typeid(M));
    }
    M layer;
  };
  explicit Layer(std::unique_ptr<Base> self) : self_(std::move(self)) {}

  std::unique_ptr<Base> self_;
};

class Sequential {
 public:
  Sequential() = default;
  template <class... M>
    requires(sizeof...(M) > 0 && (std::is_constructible_v<Layer, M &&> && ...) &&
             !(sizeof...(M) == 1 && (std::is_same_v<std::remove_cvref_t<M>, Sequential> && ...)))
  explicit Sequential(M&&... layer) {
    layers.reserve(sizeof...(M));
    (layers.emplace_back(std::forward<M>(layer)), ...);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (const Layer& layer : layers) y = layer(y);
    return y;
  }
  void add(Layer layer) { layers.push_back(std::move(layer)); }
  std::size_t size() const { return layers.size(); }

  std::vector<Layer> layers;
  void fields(Fields& visitor) {
    for (std::size_t i = 0; i < layers.size(); ++i) visitor.visit(std::to_string(i), layers[i]);
  }
  Sequential clone() const {
    Sequential copy;
    for (const Layer& layer : layers) copy.layers.push_back(layer.clone());
    return copy;
  }
};

}  // namespace mantissa::nn
