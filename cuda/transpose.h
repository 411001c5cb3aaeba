// Copies between memory orders, by tiles: where the neighbours of the result are far apart in the input.
#pragma once

#include "cuda/elementwise.h"

namespace mantissa::cuda_backend {

// Whether a loop of one input should be copied by tiles: both tensors have neighbours, along different dimensions, and
// enough of them to occupy a block.
bool can_transpose(const ElementwiseLoop& loop);
// Copies a part that can be indexed with 32 bits, converting the elements if the dtypes differ.
void transpose(const ElementwiseLoop& part);

}  // namespace mantissa::cuda_backend
