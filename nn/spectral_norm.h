// Spectral normalisation (Miyato et al., 2018), as torch.nn.utils.parametrizations.spectral_norm: the weight is divided
// by its largest singular value, tracked by power iteration at each call in training. For GAN discriminators.
//
//   nn::Parametrized<nn::Conv2d, nn::SpectralNorm> conv{nn::Conv2d(3, 8, 3)};
//   auto up = nn::spectral_norm(nn::ConvTranspose2d(8, 3, 4));
//
// Gradients flow through the weight, not through the iteration: its vectors are treated as constants, as in the paper.
#pragma once

#include "core/ops.h"
#include "nn/conv_other.h"
#include "nn/parametrize.h"

namespace mantissa::nn {

struct SpectralNormOptions {
  int n_power_iterations = 1;  // per call in training
  int dim = 0;                 // output dim: the weight is seen as [size(dim), rest]. 1 for transposed convolutions
  double eps = 1e-12;          // lower bound of the vectors' norms
};

class SpectralNorm {
 public:
  // Starts with 15 iterations from random vectors (default generator).
  explicit SpectralNorm(const Tensor& weight, const SpectralNormOptions& o = {});
  Tensor operator()() const;

  Param original;  // the unnormalised weight
  Buffer u, v;     // the singular vectors [outputs], [the rest]; "0._u" and "0._v" in files. Undefined for a vector
  Mode mode;
  SpectralNormOptions options;
  void fields(Fields& visitor) {
    visitor.visit("original", original);
    visitor.visit("0._u", u);
    visitor.visit("0._v", v);
    visitor.visit("mode", mode);
  }
  SpectralNorm clone() const;

 private:
  SpectralNorm() = default;
  void iterate(const Tensor& matrix, int times) const;
  Tensor as_matrix(const Tensor& weight) const;
};

namespace detail {
template <class Layer> inline constexpr int output_dim = 0;  // output dimension of the weight
template <int n> inline constexpr int output_dim<ConvTranspose<n>> = 1;
}  // namespace detail

// dim defaults to the layer's output dimension.
template <WeightedLayer Layer>
Parametrized<Layer, SpectralNorm> spectral_norm(Layer layer,
                                                const SpectralNormOptions& o = {.dim = detail::output_dim<Layer>}) {
  return Parametrized<Layer, SpectralNorm>(std::move(layer), o);
}

}  // namespace mantissa::nn
