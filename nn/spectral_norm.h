// Spectral normalisation (Miyato et al., 2018), as torch.nn.utils.parametrizations.spectral_norm: the weight is divided
// by its largest singular value, which a power iteration of each call in training follows. For discriminators of GANs.
//
//   nn::Parametrized<nn::Conv2d, nn::SpectralNorm> conv{nn::Conv2d(3, 8, 3)};
//   auto up = nn::spectral_norm(nn::ConvTranspose2d(8, 3, 4));
//
// Gradients go through the weight, not through the iteration: its vectors count as constants, as in the paper.
#pragma once

#include "core/ops.h"
#include "nn/conv_other.h"
#include "nn/parametrize.h"

namespace mantissa::nn {

struct SpectralNormOptions {
  int n_power_iterations = 1;  // of a call in training
  int dim = 0;                 // of the outputs: the weight is a matrix of its slices. 1 for transposed convolutions
  double eps = 1e-12;          // norms of the vectors are at least this
};

class SpectralNorm {
 public:
  // Starts with 15 iterations from random vectors (of the default generator).
  explicit SpectralNorm(const Tensor& weight, const SpectralNormOptions& o = {});
  Tensor operator()() const;

  Param original;  // the weight that is divided
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
template <class Layer> inline constexpr int output_dim = 0;  // of the weight
template <int n> inline constexpr int output_dim<ConvTranspose<n>> = 1;
}  // namespace detail

// dim is that of the layer's outputs.
template <WeightedLayer Layer>
Parametrized<Layer, SpectralNorm> spectral_norm(Layer layer,
                                                const SpectralNormOptions& o = {.dim = detail::output_dim<Layer>}) {
  return Parametrized<Layer, SpectralNorm>(std::move(layer), o);
}

}  // namespace mantissa::nn
