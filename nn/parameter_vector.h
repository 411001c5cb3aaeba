// All parameters as one vector and back, as torch.nn.utils.parameters_to_vector and vector_to_parameters: for
// optimizers and analyses that treat a model as a point in parameter space.
//
//   const Tensor point = nn::parameters_to_vector(nn::parameters(net));
//   nn::vector_to_parameters(point + step, nn::parameters(net));
#pragma once

#include <vector>

#include "core/tensor.h"

namespace mantissa::nn {

// All elements concatenated, in row-major order: a copy [total elements]. Gradients flow back to the parameters.
Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
// Copies the values in (in PyTorch the parameters become views of the vector). The number of elements must match.
void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters);

}  // namespace mantissa::nn
