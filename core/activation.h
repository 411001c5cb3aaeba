// Activations that can be fused into a matrix product (core/fused_ops.h, core/gemm.h, amp/kernels/gemm.h).
#pragma once

#include <cstdint>

namespace mantissa {

enum class Activation : std::uint8_t { none, relu, gelu, gelu_tanh };  // gelu: the exact one, with erf

}  // namespace mantissa
