// Selects the instance of gemm_hopper, and creates its tensor maps. MANTISSA_NO_SM90A: no target GPU of the build is
// sm_90a.
#include "amp/kernels/gemm_sm90.cuh"
#include "core/error.h"

namespace mantissa::tensor_core {

bool launch_hopper_f16(const Gemm& g, int tile, int blocks);
bool launch_hopper_bf16(const Gemm& g, int tile, int blocks);
bool launch_hopper_shares_f16(const Gemm& g, int clusters, float* space);
bool launch_hopper_shares_bf16(const Gemm& g, int clusters, float* space);
bool launch_hopper_split_f16(const Gemm& g, int parts);
bool launch_hopper_split_bf16(const Gemm& g, int parts);

namespace {

bool aligned(const void* p, std::int64_t leading) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0 && leading % 8 == 0;
}

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                            const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// The driver's function, looked up at run time so that the library does not link to libcuda.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found) !=
      cudaSuccess)
    return nullptr;
#else
  if (cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found) != cudaSuccess)
    return nullptr;
#endif
  return found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
}

}  // namespace

bool sm90::make_map(CUtensorMap* map, Dtype dtype, const void* p, std::int64_t columns, std::int64_t rows,
                    std::int64_t leading, std::int64_t items, std::int64_t item_stride, int box_rows) {
  static const Encode encode = find_encode();
  if (!encode) return false;
  const cuuint64_t sizes[3] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows),
                               static_cast<cuuint64_t>(items)};
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(leading) * 2,
                                 static_cast<cuuint64_t>(items > 1 ? item_stride : leading * rows) * 2};
  const cuuint32_t box[3] = {64, static_cast<cuuint32_t>(box_rows), 1}, steps[3] = {1, 1, 1};
  return encode(map, dtype == f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3,
                const_cast<void*>(p), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

namespace {

#if defined(MANTISSA_NO_SM90A)
constexpr bool compiled = false;
#else
constexpr bool compiled = true;
#endif

// Whether TMA can copy the operands of g, and the kernels know its epilogue.
bool is_applicable(const Gemm& g) {
  if (!compiled) return false;
  const bool one_stride =
      g.batch.rank <= 1 &&
      (g.items == 1 || (g.batch.a[0] > 0 && g.batch.a[0] % 8 == 0 && g.batch.b[0] > 0 && g.batch.b[0] % 8 == 0));
  constexpr std::int64_t most = INT32_MAX - 255;  // TMA's coordinates are ints, also those at the end of the last tile
  if (g.m > most || g.n > most || g.k > most || g.items > most) return false;
  if (g.a_sums && !g.a_transposed) return false;
  return is_half(g.in) && g.k != 0 && one_stride && aligned(g.a, g.lda) && aligned(g.b, g.ldb);
}

}  // namespace

bool run_hopper(const Gemm& g, int tile, int blocks) {
  if (!is_applicable(g)) return false;
  check((tile == 128 && blocks == 1) || (tile == 256 && (blocks == 1 || blocks == 2)),
        "internal error: no product of Hopper with tiles of ", tile, " columns by ", blocks, " blocks together");
  return g.in == f16 ? launch_hopper_f16(g, tile, blocks) : launch_hopper_bf16(g, tile, blocks);
}

std::int64_t shares_floats(int clusters) { return sm90::exchange_floats(2 * clusters, 256); }

bool run_hopper_shares(const Gemm& g, int clusters, float* space) {
  if (!is_applicable(g) || !space) return false;
  check(clusters > 0, "internal error: shares for ", clusters, " clusters");
  return g.in == f16 ? launch_hopper_shares_f16(g, clusters, space) : launch_hopper_shares_bf16(g, clusters, space);
}

bool run_hopper_split(const Gemm& g, int parts) {
  check(parts == 2 || parts == 4, "internal error: a tile for ", parts, " blocks");
  const bool long_enough = g.k > (parts - 1) * sm90::tile_k;  // a step for each
  if (!is_applicable(g) || g.a_sums || !long_enough) return false;
  return g.in == f16 ? launch_hopper_split_f16(g, parts) : launch_hopper_split_bf16(g, parts);
}

}  // namespace mantissa::tensor_core
