// What the files of Hopper's twins (hopper.cpp, hopper_copies.cpp, hopper_products.cpp) share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/cuda_shim/fibers.h"
#include "tests/cuda_shim/switch.h"

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
void forget_products();
void check_products_done();

}  // namespace cuda_shim
