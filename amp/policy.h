// What autocast does with an operator's inputs. A field of each operator, so that no list can drift.
// A region may say otherwise for some operators: amp/policies.h.
#pragma once

#include <cstdint>

namespace mantissa {

enum class CastPolicy : std::uint8_t {
  keep,        // run in the dtypes that come in (they promote by the operator's own rule)
  lower,       // cast to the region's dtype: matmul, linear, convolution
  f32,         // cast to f32: exponentials, sums, norms, losses
  promote,     // cast all to the widest that comes in
  f32_inside,  // cast nothing: the kernel loads halves, computes in f32 and stores what came in
};

}  // namespace mantissa
