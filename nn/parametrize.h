// Parametrized<Layer, How>: a layer whose weight is computed from other parameters before each call, as in
// torch.nn.utils.parametrize. Weight and spectral norm (nn/weight_norm.h, nn/spectral_norm.h) are such a How; you can
// write your own:
//
//   struct Symmetric {
//     explicit Symmetric(const Tensor& weight) : original(weight) {}    // from the layer's original weight
//     nn::Param original;
//     MANTISSA_FIELDS(original)
//     Tensor operator()() const { return triu(original) + transpose(triu(original, 1)); }
//     Symmetric clone() const { return Symmetric(original.detach().clone()); }
//   };
//   nn::Parametrized<nn::Linear, Symmetric> hidden{nn::Linear(64, 64)};
//
// Parameters, optimizers, state dicts and checkpoints see the fields of How, under PyTorch's names, and no weight:
// "hidden.bias", "hidden.parametrizations.weight.original". Layers are those with a Param named weight: linear layers,
// convolutions, embeddings. A call sets the layer's weight temporarily, so a module is not safe for concurrent calls.
#pragma once

#include <concepts>
#include <utility>

#include "nn/clone.h"
#include "nn/fields.h"

namespace mantissa::nn {

template <class L>
concept WeightedLayer = Module<L> && requires(L& l) {
  { l.weight } -> std::same_as<Param&>;
};

template <WeightedLayer Layer, Module How> class Parametrized {
 public:
  // `options` are passed to How's constructor after the weight.
  template <class... Options> explicit Parametrized(Layer layer, const Options&... options)
      : how_(made_from(layer.weight, options...)), layer_(std::move(layer)) {
    layer_.weight = Param();
  }
  // Calls the layer with the current weight.
  template <class... X> auto operator()(const X&... x) const {
    const amp::InModule here(*this);
    const Lent lent(layer_.weight, how_());
    return layer_(x...);
  }

  Tensor weight() const { return how_(); }  // as the next call would compute it
  const How& parametrization() const { return how_; }
  How& parametrization() { return how_; }
  const Layer& layer() const { return layer_; }  // its weight is undefined

  // The plain layer, with the current weight as a parameter; this module is not changed. PyTorch's
  // remove_parametrizations.
  Layer remove() const {
    const Tensor now = how_();
    Layer plain = detail::clone_value(layer_);
    plain.weight = Param(now.detach().clone());
    return plain;
  }

  void fields(Fields& visitor) {
    layer_.fields(visitor);
    visitor.visit("parametrizations.weight", how_);
  }
  Parametrized clone() const { return Parametrized(detail::clone_value(how_), detail::clone_value(layer_)); }

 private:
  struct Lent {
    Lent(Param& p, const Tensor& weight) : place(p) { static_cast<Tensor&>(place) = weight; }
    ~Lent() { place = Param(); }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    Param& place;
  };
  Parametrized(How how, Layer layer) : how_(std::move(how)), layer_(std::move(layer)) {}
  template <class... Options> static How made_from(const Param& weight, const Options&... options) {
    check(weight.defined(), "Parametrized: the layer has no weight; has it been moved from?");
    return How(weight.detach(), options...);
  }

  How how_;
  mutable Layer layer_;  // its weight is undefined except during a call
};

}  // namespace mantissa::nn
