// Parameters as one vector and back, as torch.nn.utils.parameters_to_vector and vector_to_parameters: for optimizers
// and analyses that see a model as a point.
//
//   const Tensor point = nn::parameters_to_vector(nn::parameters(net));
//   nn::vector_to_parameters(point + step, nn::parameters(net));
#pragma once

#include <vector>

#include "core/tensor.h"

namespace mantissa::nn {

// The elements one after another, in row-major order: [elements of all]. A copy; gradients go back to the parameters.
Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
// Copies the values in (PyTorch lets the parameters share the vector's memory); the vector must have as many elements.
void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters);

}  // namespace mantissa::nn
