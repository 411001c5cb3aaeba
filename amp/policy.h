// What autocast does with an operator's inputs. A field of each operator, so that no list can drift; one table for
// all devices. A region may say otherwise for some operators or modules (amp/policies.h); PyTorch's own lists, which
// differ from device to device, are there as well.
#pragma once

#include <cstdint>

namespace mantissa {

// In PyTorch's at::autocast: lower is lower_precision_fp, f32 is fp32, f32_default is fp32_set_opt_dtype, promote is
// promote, keep is a fallthrough; f32_inside it does not have.
enum class CastPolicy : std::uint8_t {
  keep,         // run in the inputs' dtypes (mixed ones promote by the operator's own rule)
  lower,        // cast to the region's dtype: matmul, linear, convolution
  f32,          // cast to f32: exponentials, losses
  promote,      // cast all to the widest input dtype
  f32_inside,   // cast nothing: the kernel computes in f32 and returns the input's dtype: norms, softmax
  f32_default,  // as f32, for calls that name no dtype; those that do are left alone: sum, norm, cumsum
  banned,       // an error inside a region: binary_cross_entropy in PyTorch's list for CUDA
};

}  // namespace mantissa
