// Sequential: layers applied one after another. A layer is anything callable Tensor -> Tensor:
//
//   nn::Sequential body{nn::Conv2d{1, 8, 3}, relu, [](const Tensor& x) { return max_pool2d(x, 2); }};
//
// Parameters are named by position: "0.weight". Access a layer by type: body[0].as<nn::Conv2d>(). nn::clone of a
// Sequential throws for a layer that has a constructor but no clone() const (nn/clone.h).
#pragma once

#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include "nn/clone.h"
#include "nn/fields.h"

namespace mantissa::nn {

namespace detail {
[[noreturn]] void fail_layer(const std::type_info& wanted, const std::type_info& found);  // nn/functions.cpp
}

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
  // The layer itself; an Error if it is of another type.
  template <class M> M& as() {
    if (auto* of = dynamic_cast<Of<M>*>(self_.get())) return of->layer;
    detail::fail_layer(typeid(M), self_->type());
  }
  template <class M> const M& as() const { return const_cast<Layer&>(*this).as<M>(); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual Tensor call(const Tensor& x) const = 0;
    virtual void fields(Fields& visitor) = 0;
    virtual std::unique_ptr<Base> clone() const = 0;
    virtual const std::type_info& type() const = 0;
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
    const std::type_info& type() const override { return typeid(M); }
    M layer;
  };
  explicit Layer(std::unique_ptr<Base> self) : self_(std::move(self)) {}

  std::unique_ptr<Base> self_;
};

class Sequential {
 public:
  Sequential() = default;
  template <class... M>
    requires(sizeof...(M) > 0 && !(sizeof...(M) == 1 && (std::is_same_v<std::remove_cvref_t<M>, Sequential> && ...)))
  explicit Sequential(M&&... layer) {
    static_assert((std::is_constructible_v<Layer, M&&> && ...),
                  "nn::Sequential: a layer is called as `Tensor operator()(const Tensor& x) const`. One that is not "
                  "const, takes more, or gives more than a Tensor (as nn::LSTM does) goes into a struct that calls it");
    if constexpr ((std::is_constructible_v<Layer, M&&> && ...)) {
      layers.reserve(sizeof...(M));
      (layers.emplace_back(std::forward<M>(layer)), ...);
    }
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (const Layer& layer : layers) y = layer(y);
    return y;
  }
  void add(Layer layer) { layers.push_back(std::move(layer)); }
  void append(Layer layer) { add(std::move(layer)); }
  std::size_t size() const { return layers.size(); }
  // Zero-based; negative indices count from the end. body[-1] = nn::Linear(512, 10) replaces the last layer.
  Layer& operator[](std::int64_t i) { return layers[at(i)]; }
  const Layer& operator[](std::int64_t i) const { return layers[at(i)]; }

  std::vector<Layer> layers;
  void fields(Fields& visitor) {
    for (std::size_t i = 0; i < layers.size(); ++i) visitor.visit(std::to_string(i), layers[i]);
  }
  Sequential clone() const {
    Sequential copy;
    for (const Layer& layer : layers) copy.layers.push_back(layer.clone());
    return copy;
  }

 private:
  std::size_t at(std::int64_t i) const {
    const auto n = static_cast<std::int64_t>(layers.size());
    check(i >= -n && i < n, "Sequential: layer ", i, " of ", n);
    return static_cast<std::size_t>(i < 0 ? i + n : i);
  }
};

}  // namespace mantissa::nn
