// What the files of Hopper's twins (hopper.cpp, hopper_copies.cpp, hopper_products.cpp) share.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/cuda_shim/fibers.h"
#include "tests/cuda_shim/switch.h"
#include "tests/cuda_shim/tensor_map.h"

namespace cuda_shim {

[[noreturn]] inline void fail(const std::string& text) { throw std::runtime_error("cuda_shim: " + text); }

// Bits 4 to 6 of an address are xored with bits 7 to 9, which are those of shared memory and not of a tile.
inline std::uint32_t swizzle_128(std::uint32_t address) { return address ^ (address >> 7 & 7) << 4; }

bool happens_now();      // whether a copy or product that begins happens at once, by set_asynchrony
bool is_order_random();  // in which those happen that are late

// What a warp's lanes bring to an instruction must be the same for all.
template <class T> const T& common(const void* const* lanes) {
  const T& first = *static_cast<const T*>(lanes[0]);
  for (unsigned l = 1; l < 32; ++l) {
    if (!(*static_cast<const T*>(lanes[l]) == first)) {
      fail("the lanes of a warp give an instruction different operands");
    }
  }
  return first;
}

// Where something lies in the shared memory of the blocks that run together.
struct Place {
  unsigned block = 0;
  std::uint32_t address = 0;
  auto operator<=>(const Place&) const = default;

  Place in(unsigned other) const { return {other, address}; }
  Place plus(std::uint32_t bytes) const { return {block, address + bytes}; }
  char* at(std::size_t bytes, const char* what) const { return shared_at(block, address, bytes, what); }
};
inline Place own_place(const void* p) { return {own_block(), shared_address(p)}; }

// The box of a tensor that a copy moves.
struct Box {
  TensorMap map;
  Place place;           // its first byte in shared memory
  long long at[3] = {};  // in the tensor, innermost first

  unsigned bytes() const { return map.box[0] * map.box[1] * map.box[2] * map.element_bytes; }
  // Calls f(shared, tensor, inside) for each 16 bytes: where they lie in shared memory, in the tensor, and how many of
  // their bytes, from the first on, are inside of the tensor.
  template <class F> void each_chunk(F&& f) const {
    const unsigned line = map.box[0] * map.element_bytes;
    std::uint32_t offset = 0;
    for (unsigned z = 0; z < map.box[2]; ++z) {
      for (unsigned y = 0; y < map.box[1]; ++y, offset += line) {
        const bool row_inside = inside(1, at[1] + y) && inside(2, at[2] + z);
        char* row = map.address + (at[1] + y) * static_cast<long long>(map.strides[0]) +
                    (at[2] + z) * static_cast<long long>(map.strides[1]);
        for (unsigned chunk = 0; chunk < line; chunk += 16) {
          const long long x = at[0] + chunk / map.element_bytes;
          const std::uint32_t address = place.address + offset + chunk;
          const Place there{place.block, map.swizzle == CU_TENSOR_MAP_SWIZZLE_128B ? swizzle_128(address) : address};
          if (x < 0 && x * map.element_bytes > -16) fail("the shim does not cut 16 bytes at the begin of a row");
          const long long rest = (static_cast<long long>(map.sizes[0]) - x) * map.element_bytes;
          const long long left = row_inside && x >= 0 ? rest : 0;
          f(there, row + x * map.element_bytes, static_cast<std::size_t>(left < 0 ? 0 : left > 16 ? 16 : left));
        }
      }
    }
  }

 private:
  bool inside(int d, long long i) const { return i >= 0 && i < static_cast<long long>(map.sizes[d]); }
};

inline Box box_of(const void* map, Place place, int x, int y, int z) {
  check_aligned(map, 64, "a tensor map");
  const Box box{decode(map), place, {x, y, z}};
  if (box.map.rank != 3) fail("a copy of three dimensions with a tensor map of " + std::to_string(box.map.rank));
  return box;
}

// Instructions that all four warps of a warpgroup must execute, each in its own time: the first one of them to come to
// the i-th says what it is.
template <class T> class SameInWarpgroup {
 public:
  explicit SameInWarpgroup(const char* name)
      : name_(name), done_((threads_together() + 31) / 32), known_((done_.size() + 3) / 4) {}
  void execute(unsigned warp, const T& mine) {
    const TsanIgnore ignore;
    if (threads_together() < (warp / 4 + 1) * 128) fail(name_ + " needs a whole warpgroup of 128 threads");
    std::vector<T>& known = known_[warp / 4];
    const std::size_t i = done_[warp]++;
    if (i == known.size()) known.push_back(mine);
    else if (!(known[i] == mine)) fail("the warps of a warpgroup execute different " + name_);
  }
  void check_all_done() const {
    for (std::size_t w = 0; w < done_.size(); ++w) {
      if (done_[w] != known_[w / 4].size()) fail("not all warps of a warpgroup executed the same " + name_);
    }
  }

 private:
  std::string name_;
  std::vector<std::size_t> done_;      // by warp
  std::vector<std::vector<T>> known_;  // by warpgroup
};

// Each of a running block; begun anew for the next one. The checks throw if something is still under way.
void forget_copies();
void check_copies_done();
void abandon_copies();
void forget_copies_out();
void check_copies_out_done();
void forget_products();
void check_products_done();

}  // namespace cuda_shim
