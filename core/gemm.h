// Matrix products in the four floating dtypes: f16 and bf16 are summed in f32 and rounded once.
// Work is cut by shape alone, so results do not depend on the number of threads. core/gemm.cpp lists the CPU's ways.
#pragma once

#include <cstdint>

#include "core/packed_weights.h"
#include "core/tensor.h"

namespace mantissa {

// How many pieces a piece of work of so many floating-point operations is worth: a power of two.
std::int64_t pieces_for(double flops);

// Where matrix `item` of v [batch..., rows, columns] begins, in elements.
inline std::int64_t item_offset(const View& v, std::int64_t item) {
  std::int64_t offset = 0;
  for (int d = v.dim() - 3; d >= 0; --d) {
    offset += item % v.size(d) * v.strides[d];
    item /= v.size(d);
  }
  return offset;
}

namespace kernels {

// y = a @ b + bias over matrices: y [batch..., m, n] contiguous, a [batch..., m, k] and
// b [batch..., k, n] of the same rank and with any strides (0 where they repeat), bias [n] or absent. Products of
// halves into an f32 y keep the sums as they are.
// `kept` is that of b. With `add`, y += a @ b: y in f32 or f64, no bias.
void gemm(Device device, const View& y, const View& a, const View& b, const View& bias, const KeptWeight& kept = {},
          bool add = false);

}  // namespace kernels
}  // namespace mantissa
