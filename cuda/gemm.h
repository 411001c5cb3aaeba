// Runs a described product by the way that is fastest for it. For callers that want more than kernels::gemm offers:
// activations, sums of rows, accumulation, f32 results of 16-bit operands.
#pragma once

#include "amp/kernels/gemm.h"
#include "core/device.h"

namespace mantissa::cuda_backend {

void run(const tensor_core::Gemm& g, Device device);

}  // namespace mantissa::cuda_backend
