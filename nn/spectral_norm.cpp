#include "nn/spectral_norm.h"

#include "amp/autocast.h"
#include "autograd/grad_mode.h"
#include "core/random.h"

namespace mantissa::nn {

SpectralNorm::SpectralNorm(const Tensor& weight, const SpectralNormOptions& o) : original(weight), options(o) {
  check(weight.dim() >= 1 && o.dim >= -weight.dim() && o.dim < weight.dim(), "SpectralNorm: dim ", o.dim,
        " is out of range for ", weight);
  check(o.n_power_iterations > 0, "SpectralNorm: n_power_iterations must be positive, got ", o.n_power_iterations);
  if (weight.dim() == 1) return;  // for a vector, its norm is used
  const NoGrad no_grad;
  const Tensor matrix = as_matrix(weight);
  const TensorOptions like{.dtype = weight.dtype(), .device = weight.device()};
  u = normalize(randn({matrix.size(0)}, like), 2, {0}, o.eps);
  v = normalize(randn({matrix.size(1)}, like), 2, {0}, o.eps);
  iterate(matrix, 15);
}

Tensor SpectralNorm::as_matrix(const Tensor& weight) const {
  return flatten(movedim(weight, Dims{options.dim}, Dims{0}), 1);
}

void SpectralNorm::iterate(const Tensor& matrix, int times) const {
  const NoGrad no_grad;
  Tensor left = u, right = v;
  for (int i = 0; i < times; ++i) {
    left.copy_(normalize(mv(matrix, right), 2, {0}, options.eps));
    right.copy_(normalize(mv(transpose(matrix), left), 2, {0}, options.eps));
  }
}

Tensor SpectralNorm::operator()() const {
  const amp::OutsideAutocast exactly;  // a rounded singular value could let the norm exceed 1
  if (original.dim() == 1) return normalize(original, 2, {0}, options.eps);
  const Tensor matrix = as_matrix(original);
  if (mode.training) iterate(matrix.detach(), options.n_power_iterations);
  // Copies: the next call modifies the vectors, and a backward pass over two calls needs both values.
  return original / dot(u.clone(), mv(matrix, v.clone()));
}

SpectralNorm SpectralNorm::clone() const {
  SpectralNorm c;
  c.original = nn::clone(original);
  c.u = nn::clone(u);
  c.v = nn::clone(v);
  c.mode = mode;
  c.options = options;
  return c;
}

}  // namespace mantissa::nn
