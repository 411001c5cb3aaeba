// Runs a product with the fastest kernel for it. For callers that need more than kernels::gemm offers: activations, row
// sums, accumulation, f32 results of 16-bit operands.
#pragma once

#include <vector>

#include "amp/kernels/gemm.h"
#include "core/device.h"
#include "cuda/tuner.h"

namespace mantissa::cuda_backend {

void run(const tensor_core::Gemm& g, Device device);
// All that might be the fastest, in the order in which they are tried; g must outlive them.
std::vector<Way> ways_for(const tensor_core::Gemm& g, Device device);

}  // namespace mantissa::cuda_backend
