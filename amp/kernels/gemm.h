// Matrix products, with what follows a product fused to it: of 16-bit floats on Tensor Cores, of f32 and f64 without.
//   c = activation(a @ b + bias)        c = activation'(saved) * (a @ b)        c += a @ b
// Sums are f32 (of f64 f64) and rounded once, at the end.
// One problem, several ways to compute it (amp/kernels/gemm_mma.cuh, gemm_sm90.cu, cuda/gemm_plain.cu,
// cuda/library/cublaslt.cpp); cuda/gemm.cpp chooses. No way ever adds partial sums in 16 bits.
#pragma once

#include <cstdint>

#include "core/activation.h"
#include "core/dtype.h"
#include "core/host_device.h"

namespace mantissa::tensor_core {

using mantissa::Activation;

// Where the matrices of a batch begin: sizes and strides of the leading dimensions, innermost last. Stride 0 repeats.
struct Batch {
  static constexpr int most = 6;
  int rank = 0;
  std::int64_t sizes[most] = {}, a[most] = {}, b[most] = {};

  // Where the matrices of an item begin, in elements.
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

// Sizes in elements. The matrices of c lie one after the other: matrix i begins at c + i * m * ldc.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0, items = 1;
  Dtype in = f16, out = f16;  // in: f16 or bf16; out: the same or f32. Or both f32, or both f64
  const void* a = nullptr;    // [m, k] rows lda apart; with a_transposed [k, m]
  const void* b = nullptr;    // [k, n] rows ldb apart; with b_transposed [n, k]
  const void* bias = nullptr;            // [n] in dtype `in`, or none
  void* c = nullptr;                     // [m, n] rows ldc apart
  void* before_activation = nullptr;     // like c: what the activation was applied to, for its gradient; or none
                                         // (rounded to `out` also where it is not stored)
  // like c: what the activation was applied to, of relu its result. a @ b is then the gradient that reaches the
  // activation, and c the one that leaves it; or none
  const void* saved = nullptr;
  // [items, m] in dtype `out`: sums over k of the rows of a (a bias's gradient); or none
  void* a_sums = nullptr;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool a_transposed = false, b_transposed = false;
  bool accumulate = false;  // c += instead of c =, a_sums too; no activation then
  Activation activation = Activation::none;
  Batch batch;
};

// The ways, on the current stream. Each returns false, and has done nothing, where it does not apply.
// mma.sync, sm_80 and later. tile: 64 or 128. parts: into how many k is cut; more than one need `partial`.
bool run_mma(const Gemm& g, int tile, int parts, float* partial);
std::int64_t partial_floats(const Gemm& g, int parts);
// wgmma and TMA, sm_90a. tile: 128 or 256 columns. blocks: how many share what they read of b; of tiles of 256, 2 can.
bool run_hopper(const Gemm& g, int tile, int blocks = 1);
// Ordinary arithmetic, f32 and f64, any GPU and layout. tile: 64, or of f32 also 128. Sums no a.
bool run_plain(const Gemm& g, int tile);

}  // namespace mantissa::tensor_core
