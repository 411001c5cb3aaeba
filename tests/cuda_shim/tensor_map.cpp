// Encoding and decoding tensor maps. Source of the rules: CUDA driver API, "Tensor Map Object Management".
#include "tests/cuda_shim/tensor_map.h"

#include <cstring>
#include <stdexcept>

namespace cuda_shim {
namespace {

// 128 bytes: a mark, the address, one word of small fields, 5 sizes, 4 strides, the box, a check sum.
constexpr cuuint64_t mark = 0xf1e1dca9e0000001;
enum Word { at_mark, at_address, at_fields, at_sizes, at_strides = at_sizes + 5, at_box = at_strides + 4, at_sum = 15 };

cuuint64_t sum_of(const cuuint64_t* words) {
  cuuint64_t sum = mark;
  for (int i = 0; i < at_sum; ++i) sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15;
  return sum | cuuint64_t{1} << 63;
}

unsigned bytes_of(CUtensorMapDataType type) {
  constexpr unsigned bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && type < static_cast<int>(sizeof bytes / sizeof *bytes) ? bytes[type] : 0;
}
bool is_floating(CUtensorMapDataType type) { return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16; }

}  // namespace

CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                      const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                      const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                      CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  const auto number = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  const unsigned element = bytes_of(type);
  bool valid =
      map && number(map) % 64 == 0 && element > 0 && rank >= 1 && rank <= 5 && address && number(address) % 16 == 0;
  valid = valid && promotion >= CU_TENSOR_MAP_L2_PROMOTION_NONE && promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  if (!valid) return CUDA_ERROR_INVALID_VALUE;
  for (cuuint32_t d = 0; d < rank; ++d) {
    valid = valid && sizes[d] >= 1 && sizes[d] <= cuuint64_t{1} << 32 && box[d] >= 1 && box[d] <= 256 &&
            steps[d] >= 1 && steps[d] <= 8;
    if (d + 1 < rank) valid = valid && strides[d] % 16 == 0 && strides[d] < cuuint64_t{1} << 40;
    if (d + 1 < rank && d > 0) valid = valid && strides[d] >= sizes[d];
  }
  const cuuint64_t line = cuuint64_t{box[0]} * element;
  if (interleave == CU_TENSOR_MAP_INTERLEAVE_NONE) {
    const cuuint64_t span = swizzle == CU_TENSOR_MAP_SWIZZLE_32B ? 32 : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 64 : 128;
    valid = valid && line % 16 == 0 && (swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || line <= span);
  }
  if (fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) valid = valid && is_floating(type);
  if (!valid) return CUDA_ERROR_INVALID_VALUE;

  bool supported = interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  supported =
      supported && (swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || (swizzle == CU_TENSOR_MAP_SWIZZLE_128B && line == 128));
  for (cuuint32_t d = 1; d < rank; ++d) supported = supported && steps[d] == 1;
  if (!supported) return CUDA_ERROR_NOT_SUPPORTED;

  cuuint64_t* words = map->opaque;
  std::memset(words, 0, sizeof map->opaque);
  words[at_mark] = mark;
  words[at_address] = number(address);
  words[at_fields] = rank | element << 4 | static_cast<unsigned>(swizzle) << 8;
  for (cuuint32_t d = 0; d < rank; ++d) {
    words[at_sizes + d] = sizes[d];
    if (d + 1 < rank) words[at_strides + d] = strides[d];
    words[at_box] |= cuuint64_t{box[d]} << 9 * d;
  }
  words[at_sum] = sum_of(words);
  return CUDA_SUCCESS;
}

TensorMap decode(const void* map) {
  cuuint64_t words[16];
  std::memcpy(words, map, sizeof words);
  if (words[at_mark] != mark || words[at_sum] != sum_of(words)) {
    throw std::runtime_error("cuda_shim: a copy is given something that is not a tensor map");
  }
  TensorMap m;
  m.address = reinterpret_cast<char*>(words[at_address]);
  m.rank = static_cast<int>(words[at_fields] & 15);
  m.element_bytes = static_cast<unsigned>(words[at_fields] >> 4 & 15);
  m.swizzle = static_cast<CUtensorMapSwizzle>(words[at_fields] >> 8);
  for (int d = 0; d < m.rank; ++d) {
    m.sizes[d] = words[at_sizes + d];
    if (d + 1 < m.rank) m.strides[d] = words[at_strides + d];
    m.box[d] = static_cast<cuuint32_t>(words[at_box] >> 9 * d & 511);
  }
  return m;
}

}  // namespace cuda_shim
