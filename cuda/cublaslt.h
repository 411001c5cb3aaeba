// Matrix products by cuBLASLt, in f64, f32 and on Tensor Cores in f16 and bf16, always summed in f32 or f64.
// Under the CPU shim the CPU's product stands in for it (tests/cuda_shim/library/cublaslt.cpp).
#pragma once

#include <string>

#include "amp/kernels/gemm.h"

namespace mantissa::cuda_backend {

inline constexpr int most_cublaslt_plans = 8;

// Runs the plan that cuBLASLt's own estimate puts at place `plan` (0: the best). False where there are fewer plans, or
// where g asks for what cuBLASLt does not do: sums of a beside a bias or in a batch, an exact gelu, the value
// before another activation than the gelu by tanh, or a bias of another dtype than c's. Its gelu may be applied to
// sums that were not rounded before.
bool run_cublaslt(const tensor_core::Gemm& g, int plan);

// Whether products of f32 may round their inputs to TF32 (10 bits of mantissa). Off at start, as in PyTorch.
void allow_tf32(bool allowed);
bool is_tf32_allowed();

std::string cublaslt_version();  // "13.0.2"

}  // namespace mantissa::cuda_backend
