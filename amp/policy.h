// What autocast does with an operator's inputs. A field of each operator, so that no list can drift; one table for
// all devices. A region may say otherwise for some operators or modules (amp/policies.h); PyTorch's own lists, which
// differ from device to device, are there as well.
#pragma once

#include <cstdint>

namespace mantissa {

enum class CastPolicy : std::uint8_t {
  keep,         // run in the dtypes that come in (they promote by the operator's own rule)
  lower,        // cast to the region's dtype: matmul, linear, convolution
  f32,          // cast to f32: exponentials, losses
  promote,      // cast all to the widest that comes in
  f32_inside,   // cast nothing: the kernel loads halves, computes in f32 and stores what came in: norms, softmax
  f32_default,  // as f32, for calls that name no dtype; those that do are left alone: sum, norm, cumsum
  banned,       // an error inside a region: binary_cross_entropy in PyTorch's list for CUDA
};

}  // namespace mantissa
