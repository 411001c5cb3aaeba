// A tensor as the copy engine knows it: what cuTensorMapEncodeTiled writes into 128 bytes, and what a copy reads from
// them. The real layout of these bytes is the driver's secret; the shim has one of its own.
#pragma once

#include <cuda.h>

namespace cuda_shim {

struct TensorMap {
  char* address = nullptr;
  int rank = 0;
  unsigned element_bytes = 0;
  cuuint64_t sizes[5] = {1, 1, 1, 1, 1};  // in elements, the contiguous dimension first
  cuuint64_t strides[4] = {};             // in bytes, of all dimensions but the first
  cuuint32_t box[5] = {1, 1, 1, 1, 1};
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
};

// The driver's function: refuses what its documentation forbids. Only what the copies here can do is supported: no
// interleaving, a step of one element in every dimension, zeros out of bounds, swizzling of 128 bytes or none.
CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                      const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                      const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                      CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);
// Throws if these bytes are not what encode_tiled has written.
TensorMap decode(const void* map);

}  // namespace cuda_shim
