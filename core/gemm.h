// Matrix products in the four floating dtypes.
// Work is cut by shape alone, so results do not depend on the number of threads. f32 goes to oneDNN, small matrices to
// core/cpu/gemm_small.cpp, f64 to core/cpu/gemm.cpp, f16 and bf16 to core/cpu/gemm_half.cpp: summed in f32, rounded
// once. Few rows by a weight that lies along k, as inference has them, go to core/cpu/gemm_few_rows.cpp.
#pragma once

#include <cstdint>

#include "core/packed_weights.h"
#include "core/tensor.h"

namespace mantissa {

// How many pieces a piece of work of so many floating-point operations is worth: a power of two.
std::int64_t pieces_for(double flops);

// Where matrix `item` of v [batch..., rows, columns] begins, in elements.
std::int64_t item_offset(const View& v, std::int64_t item);

namespace kernels {

// y = a @ b + bias over matrices: y [batch..., m, n] contiguous, a [batch..., m, k] and
// b [batch..., k, n] of the same rank and with any strides (0 where they repeat), bias [n] or absent. Products of
// halves into an f32 y keep the sums as they are.
// `kept` is that of b. With `add`, y += a @ b: y in f32 or f64, no bias.
void gemm(Device device, const View& y, const View& a, const View& b, const View& bias, const KeptWeight& kept = {},
          bool add = false);

}  // namespace kernels
}  // namespace mantissa
