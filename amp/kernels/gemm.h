// Matrix products with a fused epilogue: 16-bit floats on Tensor Cores, f32 and f64 without.
//   c = activation(a @ b + bias)        c = activation'(saved) * (a @ b)        c += a @ b
// Sums are f32 (f64 for f64) and rounded once, at the end. There are several implementations (amp/kernels/gemm_mma.cuh,
// gemm_sm90.cu, cuda/gemm_plain.cu, cuda/library/cublaslt.cpp); cuda/gemm.cpp chooses. None adds partial sums in 16
// bits.
#pragma once

#include <cstdint>

#include "core/activation.h"
#include "core/dtype.h"
#include "core/host_device.h"

namespace mantissa::tensor_core {

using mantissa::Activation;

// Start offsets of a batch's matrices: sizes and strides of the batch dimensions, innermost last. Stride 0 broadcasts.
struct Batch {
  static constexpr int most = 6;
  int rank = 0;
  std::int64_t sizes[most] = {}, a[most] = {}, b[most] = {};

  // Offsets of an item's matrices, in elements.
  MANTISSA_HD void offsets(std::int64_t item, std::int64_t* a_offset, std::int64_t* b_offset) const {
    *a_offset = *b_offset = 0;
    for (int d = rank - 1; d >= 0; --d) {
      const std::int64_t i = item % sizes[d];
      *a_offset += i * a[d];
      *b_offset += i * b[d];
      item /= sizes[d];
    }
  }
};

// Sizes in elements. The matrices of c are consecutive: matrix i begins at c + i * m * ldc.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0, items = 1;
  Dtype in = f16, out = f16;  // in: f16 or bf16; out: the same or f32. Or both f32, or both f64
  const void* a = nullptr;    // [m, k] rows lda apart; with a_transposed [k, m]
  const void* b = nullptr;    // [k, n] rows ldb apart; with b_transposed [n, k]
  const void* bias = nullptr;            // [n] in dtype `in`, or null
  void* c = nullptr;                     // [m, n] rows ldc apart
  void* before_activation = nullptr;     // like c, optional: stores the activation's input, for its gradient (rounded
                                         // to `out` even if it is not stored)
  // Like c, or null: the activation's saved input (for relu its result). a @ b is then the gradient with respect to the
  // activation's result, and c that with respect to its input.
  const void* saved = nullptr;
  // [items, m] in dtype `out`, or null: sums over k of the rows of a (a bias gradient).
  void* a_sums = nullptr;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool a_transposed = false, b_transposed = false;
  bool accumulate = false;  // c += instead of c =, a_sums too; no activation in that case
  Activation activation = Activation::none;
  Batch batch;
};

// The implementations, on the current stream. Each returns false without doing anything if it is not applicable.
// mma.sync, sm_80 and later. tile: 64 or 128. parts: split-K factor; above 1 needs `partial`.
bool run_mma(const Gemm& g, int tile, int parts, float* partial);
std::int64_t partial_floats(const Gemm& g, int parts);
// wgmma and TMA, sm_90a. They support a_sums if a is transposed, as in a weight's gradient.
// tile: 128 or 256 columns. blocks: cluster size that shares reads of b; 2 needs tiles of 256.
bool run_hopper(const Gemm& g, int tile, int blocks = 1);
// Equal shares of all steps along k for this many clusters of two blocks (stream-K), tiles of 256 columns: no
// multiprocessor is idle at the end. space: shares_floats(clusters) floats.
bool run_hopper_shares(const Gemm& g, int clusters, float* space);
std::int64_t shares_floats(int clusters);
// For small results: a cluster of 2 or 4 blocks computes each tile of 128 columns, a part of k each. Without a_sums.
bool run_hopper_split(const Gemm& g, int parts);
// No Tensor Cores, f32 and f64, any GPU and layout. tile: 64, for f32 also 128. Does not support a_sums.
bool run_plain(const Gemm& g, int tile);

}  // namespace mantissa::tensor_core
