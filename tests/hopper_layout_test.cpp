// The tiles of the wgmma product without a GPU: this program writes them as TMA does and reads them through the
// descriptors as wgmma does, by the rules of the PTX ISA. Every element has to arrive where the product wants it.
#include <vector>

#include "amp/kernels/hopper_layout.h"
#include "tests/catch_compat.h"

using namespace mantissa;

namespace {

constexpr std::uint32_t tile_at = 3 * 1024;  // somewhere in shared memory, as aligned as the kernel's tiles

// Bits 4 to 6 of an address are exchanged by bits 7 to 9.
std::uint32_t swizzle(std::uint32_t address) { return address ^ (address >> 7 & 7) << 4; }

// Shared memory after the boxes of a tile have arrived: element (row, k) is the number row * 64 + k.
template <bool mn> std::vector<int> copied(int outer) {
  std::vector<int> memory((tile_at + static_cast<std::uint32_t>(outer) * 128) / 2, -1);
  for (int box = 0; box < hopper::boxes_of<mn>(outer); ++box) {
    const int lines = mn ? 64 : outer;
    for (int y = 0; y < lines; ++y) {
      for (int x = 0; x < 64; ++x) {
        const int row = mn ? box * 64 + x : y, k = mn ? y : x;
        const auto place = tile_at + static_cast<std::uint32_t>(box * hopper::box_elements * 2 + y * 128 + x * 2);
        memory[swizzle(place) / 2] = row * 64 + k;
      }
    }
  }
  return memory;
}

struct Fields {
  std::uint32_t start, lead, stride, base, type;
  explicit Fields(std::uint64_t d)
      : start(static_cast<std::uint32_t>(d & 0x3fff) << 4), lead(static_cast<std::uint32_t>(d >> 16 & 0x3fff) << 4),
        stride(static_cast<std::uint32_t>(d >> 32 & 0x3fff) << 4), base(static_cast<std::uint32_t>(d >> 49 & 7)),
        type(static_cast<std::uint32_t>(d >> 62)) {}
};

// The element (row, k) of an operand that a descriptor leads to: k below 16.
template <bool mn> int read(const std::vector<int>& memory, std::uint64_t descriptor, int row, int k) {
  const Fields f(descriptor);
  REQUIRE(f.base == 0);
  REQUIRE(f.type == 1);
  const auto r = static_cast<std::uint32_t>(row), c = static_cast<std::uint32_t>(k);
  const std::uint32_t place = mn ? f.start + r / 64 * f.lead + r % 64 * 2 + c / 8 * f.stride + c % 8 * 128
                                 : f.start + r / 8 * f.stride + r % 8 * 128 + c * 2;
  return memory[swizzle(place) / 2];
}

template <bool mn> int wrong_elements(int outer, int rows) {
  const std::vector<int> memory = copied<mn>(outer);
  int wrong = 0;
  for (int first = 0; first < outer; first += rows) {
    for (int k = 0; k < 64; k += 16) {
      const auto at = tile_at + static_cast<std::uint32_t>(hopper::operand_offset<mn>(first, k)) * 2;
      const std::uint64_t descriptor = hopper::descriptor<mn>(at);
      for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < 16; ++column) {
          wrong += read<mn>(memory, descriptor, row, column) != (first + row) * 64 + k + column;
        }
      }
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("wgmma finds every element where TMA has put it, in every layout and tile") {
  CHECK(wrong_elements<false>(128, 64) == 0);  // a: 64 rows for each of two warpgroups
  CHECK(wrong_elements<true>(128, 64) == 0);
  for (const int tile : {128, 256}) {  // b: all columns at once
    CHECK(wrong_elements<false>(tile, tile) == 0);
    CHECK(wrong_elements<true>(tile, tile) == 0);
  }
}
