// The layout of an operand in shared memory, as written by TMA and read by wgmma: boxes of lines of 64 elements (128
// bytes) whose 16-byte chunks are permuted within 8 lines (the 128-byte swizzle).
// Source: PTX ISA, "Matrix descriptor format" and "Canonical layouts".
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace mantissa::hopper {

inline constexpr int line = 64;  // 16-bit elements
inline constexpr int block_bytes = 8 * line * 2;

// An operand is a tile of `outer` rows of m or n by 64 of k. mn false: k is contiguous, and one box has a line per row.
// mn true: m or n is contiguous, and a box has 64 of its elements in lines of k; boxes are consecutive.
template <bool mn> MANTISSA_HD constexpr int boxes_of(int outer) { return mn ? outer / line : 1; }
inline constexpr int box_elements = line * line;  // of a box if m or n is contiguous

// Offset of the 16 columns of k from `k`, rows from `outer` on: in elements, from the start of the tile.
template <bool mn> MANTISSA_HD constexpr int operand_offset(int outer, int k) {
  return outer * line + (mn ? k * line : k);
}

// Their wgmma descriptor. address: in shared memory; the tile begins at a multiple of block_bytes. Groups of 8 lines
// are consecutive: along m or n if k is contiguous, otherwise along k; there the next 64 of m or n are one box further.
template <bool mn> MANTISSA_HD constexpr std::uint64_t descriptor(std::uint32_t address) {
  constexpr std::uint64_t lead = mn ? box_elements * 2 : 0, swizzle_128 = 1;
  return (address & 0x3ffffu) >> 4 | lead >> 4 << 16 | std::uint64_t{block_bytes >> 4} << 32 | swizzle_128 << 62;
}

}  // namespace mantissa::hopper
