// Matrix products by cuBLASLt, in f64, f32 and on Tensor Cores in f16 and bf16, accumulating in f32 (f64 for f64).
// Under the CPU shim tests/cuda_shim/cublaslt.cpp stands in for the library.
#pragma once

#include <string>

#include "amp/kernels/gemm.h"

namespace mantissa::cuda_backend {

inline constexpr int most_cublaslt_plans = 8;

// Runs plan number `plan` in the order of cuBLASLt's heuristic (0: the best). Returns false if there are fewer plans,
// if k is 0, or if g needs what cuBLASLt does not support: a_sums with a bias, an activation, a batch or f64; exact
// gelu; before_activation or saved with any activation but gelu_tanh, or not aligned; or a bias with a dtype other than
// c's. Its gelu may be applied to sums that were not rounded first. f32 operands may be rounded to TF32 if that is
// allowed (core/tf32.h).
bool run_cublaslt(const tensor_core::Gemm& g, int plan);

std::string cublaslt_version();  // "13.0.2"

}  // namespace mantissa::cuda_backend
