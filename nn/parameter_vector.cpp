#include "nn/parameter_vector.h"

#include "autograd/grad_mode.h"
#include "core/ops.h"

namespace mantissa::nn {

Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  check(!parameters.empty(), "parameters_to_vector: there are no parameters");
  std::vector<Tensor> parts;
  for (const Tensor& p : parameters) {
    check(p.device() == parameters[0].device(), "parameters_to_vector: ", parameters[0], " and ", p,
          " are on different devices");
    parts.push_back(reshape(p, {-1}));
  }
  return cat(parts);
}

void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters) {
  std::int64_t wanted = 0;
  for (const Tensor& p : parameters) wanted += p.numel();
  check(vector.dim() == 1 && vector.numel() == wanted, "vector_to_parameters: the parameters have ", wanted,
        " elements, the vector is ", vector);
  const NoGrad no_grad;
  std::int64_t at = 0;
  for (Tensor p : parameters) {
    p.copy_(reshape(vector.detach().slice(0, at, at + p.numel()), p.sizes()));
    at += p.numel();
  }
}

}  // namespace mantissa::nn
