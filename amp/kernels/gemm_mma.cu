// Selects the instance of gemm_mma.
#include "amp/kernels/gemm.h"

namespace mantissa::tensor_core {

void launch_mma_f16_64(const Gemm& g, bool vector, int parts, float* partial);
void launch_mma_f16_128(const Gemm& g, int parts, float* partial);
void launch_mma_bf16_64(const Gemm& g, bool vector, int parts, float* partial);
void launch_mma_bf16_128(const Gemm& g, int parts, float* partial);

namespace {

// Whether every row of every matrix begins at a multiple of 16 bytes.
bool has_aligned_rows(const void* p, std::int64_t leading, const std::int64_t* batch, int rank) {
  bool aligned = reinterpret_cast<std::uintptr_t>(p) % 16 == 0 && leading % 8 == 0;
  for (int d = 0; d < rank; ++d) aligned = aligned && batch[d] % 8 == 0;
  return aligned;
}

}  // namespace

std::int64_t partial_floats(const Gemm& g, int parts) {
  return parts > 1 ? parts * g.items * (g.m * g.n + (g.a_sums ? g.m : 0)) : 0;
}

bool run_mma(const Gemm& g, int tile, int parts, float* partial) {
  if (g.in != f16 && g.in != bf16) return false;
  const bool vector =
      has_aligned_rows(g.a, g.lda, g.batch.a, g.batch.rank) && has_aligned_rows(g.b, g.ldb, g.batch.b, g.batch.rank);
  if (tile == 128 && !vector) return false;  // odd layouts have the small tile only
  if (parts > 1 && !partial) return false;
  if (g.in == f16) tile == 128 ? launch_mma_f16_128(g, parts, partial) : launch_mma_f16_64(g, vector, parts, partial);
  else tile == 128 ? launch_mma_bf16_128(g, parts, partial) : launch_mma_bf16_64(g, vector, parts, partial);
  return true;
}

}  // namespace mantissa::tensor_core
