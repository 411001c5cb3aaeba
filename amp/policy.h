// How autocast treats an operator's inputs. The policy is a field of each operator, so there is no separate list to
// keep in sync; it is the same on all devices. A region may override it for some operators or modules (amp/policies.h),
// also with PyTorch's own lists, which differ between devices.
#pragma once

#include <cstdint>

namespace mantissa {

// Names in PyTorch's at::autocast: lower is lower_precision_fp, f32 is fp32, f32_default is fp32_set_opt_dtype, promote
// is promote, keep is a fallthrough; it has no f32_inside.
enum class CastPolicy : std::uint8_t {
  keep,         // run in the inputs' dtypes (mixed ones follow the operator's own promotion)
  lower,        // cast to the region's dtype: matmul, linear, convolution
  f32,          // cast to f32: exponentials, losses
  promote,      // cast all to the widest input dtype
  f32_inside,   // cast nothing: the kernel computes in f32 and returns the input's dtype: norms, softmax
  f32_default,  // as f32, for calls without an explicit dtype; others are left alone: sum, norm, cumsum
  banned,       // an error inside a region: binary_cross_entropy in PyTorch's list for CUDA
};

}  // namespace mantissa
