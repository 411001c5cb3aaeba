// Matrix products in the four floating dtypes: f16 and bf16 are summed in f32 and rounded once. Work is cut by shape
// alone, so results do not depend on the number of threads. core/gemm.cpp lists the CPU algorithms.
#pragma once

#include <cstdint>

#include "core/flops.h"
#include "core/packed_weights.h"
#include "core/tensor.h"

namespace mantissa {

// Number of pieces (a power of two) to cut work of this many floating-point operations into.
std::int64_t pieces_for(double flops);

// Of y = a @ b.
inline double product_flops(const View& y, const View& a) {
  return 2.0 * static_cast<double>(y.numel()) * static_cast<double>(a.size(a.dim() - 1));
}

// Offset of matrix `item` of v [batch..., rows, columns], in elements.
inline std::int64_t item_offset(const View& v, std::int64_t item) {
  std::int64_t offset = 0;
  for (int d = v.dim() - 3; d >= 0; --d) {
    offset += item % v.size(d) * v.strides[d];
    item /= v.size(d);
  }
  return offset;
}

namespace kernels {

// y = a @ b + bias over matrices: y [batch..., m, n] contiguous, a [batch..., m, k] and b [batch..., k, n] of the same
// rank and with any strides (0 for broadcast dims), bias [n] or absent. For f16 or bf16 operands y may be f32: the sums
// are not rounded then. `kept` belongs to b. With `add`, y += a @ b: y in f32 or f64, no bias.
void gemm(Device device, const View& y, const View& a, const View& b, const View& bias, const KeptWeight& kept = {},
          bool add = false);

}  // namespace kernels
}  // namespace mantissa
