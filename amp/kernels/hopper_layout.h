// Where the elements of an operand lie in shared memory between TMA, which writes them, and wgmma, which reads them:
// boxes of lines of 64 elements (128 bytes) whose 16-byte chunks are exchanged within 8 lines (the 128-byte swizzle).
// Source: PTX ISA, "Matrix descriptor format" and "Canonical layouts".
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace mantissa::hopper {

inline constexpr int line = 64;  // elements of 16 bits
inline constexpr int block_bytes = 8 * line * 2;

// An operand is a tile of `outer` rows of m or n by 64 of k. mn false: k is contiguous, and one box holds a line for
// each row. mn true: m or n is contiguous, and a box holds 64 of its elements in lines of k; boxes follow each other.
template <bool mn> MANTISSA_HD constexpr int boxes_of(int outer) { return mn ? outer / line : 1; }
inline constexpr int box_elements = line * line;  // of a box where m or n is contiguous

// Where the 16 columns of k from `k`, rows from `outer` on, begin: in elements, from the tile's first one.
template <bool mn> MANTISSA_HD constexpr int operand_offset(int outer, int k) {
  return outer * line + (mn ? k * line : k);
}

// Describes them to wgmma. address: in shared memory; the tile begins at a multiple of block_bytes. Blocks of 8 lines
// follow each other: along m or n where k is contiguous, else along k; there the next 64 of m or n lie a box further.
template <bool mn> MANTISSA_HD constexpr std::uint64_t descriptor(std::uint32_t address) {
  constexpr std::uint64_t lead = mn ? box_elements * 2 : 0, swizzle_128 = 1;
  return (address & 0x3ffffu) >> 4 | lead >> 4 << 16 | std::uint64_t{block_bytes >> 4} << 32 | swizzle_128 << 62;
}

}  // namespace mantissa::hopper
