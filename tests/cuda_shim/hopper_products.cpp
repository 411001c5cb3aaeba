// Twins of wgmma. A product reads shared memory when its warp waits for it, unless it is early; until then the
// registers that it writes are NaN. Warps are kept apart: wgmma.wait_group says something about the warp that executes
// it and nothing about the other three of its warpgroup. Not instrumented by ThreadSanitizer, like fibers.cpp: it is
// told what is read. Source: PTX ISA, section "Asynchronous warpgroup level matrix instructions".
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "core/half.h"
#include "tests/cuda_shim/hopper.h"
#include "tests/cuda_shim/hopper_parts.h"

namespace cuda_shim {
namespace {

constexpr std::uint32_t poison = 0x7fc0dead;  // a NaN: what a register holds that a product under way will write

// Registers of a warp that products under way add to.
struct Registers {
  float* of_lane[32] = {};
  int n = 0, users = 0;
  std::vector<float> sums;  // 16 rows of n
};
struct Flight {  // one product of a warp: 16 rows
  Product p{};
  float* registers = nullptr;  // of lane 0, which name them
  std::vector<float> result;   // empty: shared memory has not been read yet
};
struct Warp {
  std::vector<Flight> open;                // not committed
  std::deque<std::vector<Flight>> groups;  // committed
  std::deque<Registers> held;
  bool fenced = false;
};
struct Products {
  std::vector<Warp> warps = std::vector<Warp>((threads_together() + 31) / 32);
  SameInWarpgroup<Product> same{"wgmma"};
};
std::unique_ptr<Products> of_block;  // made when it first executes an instruction of this file
Products& products() {
  if (!of_block) of_block = std::make_unique<Products>();
  return *of_block;
}

const float* table_of(bool bf16) {
  static const auto make = []<class T>(T) {
    std::vector<float> table(65536);
    for (unsigned i = 0; i < table.size(); ++i) {
      T v;
      const auto bits = static_cast<std::uint16_t>(i);
      std::memcpy(static_cast<void*>(&v), &bits, 2);
      table[i] = static_cast<float>(v);
    }
    return table;
  };
  static const std::vector<float> half = make(mantissa::Half()), bfloat = make(mantissa::BFloat16());
  return (bf16 ? bfloat : half).data();
}

struct Descriptor {
  std::uint32_t start, lead, stride;  // in bytes
  explicit Descriptor(std::uint64_t d)
      : start(static_cast<std::uint32_t>(d & 0x3fff) << 4), lead(static_cast<std::uint32_t>(d >> 16 & 0x3fff) << 4),
        stride(static_cast<std::uint32_t>(d >> 32 & 0x3fff) << 4) {
    constexpr std::uint64_t reserved =
        std::uint64_t{3} << 14 | std::uint64_t{3} << 30 | std::uint64_t{7} << 46 | std::uint64_t{0x3ff} << 52;
    if (d & reserved) fail("a descriptor of wgmma has bits that must be zero");
    if (d >> 62 != 1) fail("a descriptor of wgmma without the 128-byte swizzle, which the shim does not know");
    if ((d >> 49 & 7) != (start >> 7 & 7))
      fail("the base offset of a descriptor of wgmma: its tile does not begin on 1024 bytes");
    if ((d >> 49 & 7) != 0) fail("a descriptor of wgmma with a base offset, which the shim does not know");
  }
};

// Element (row, k) of an operand to out[row * across + k * down], of rows first to first + count - 1, 8 at once.
void load(std::uint64_t descriptor, bool mn, const float* table, unsigned first, unsigned count, float* out,
          unsigned across, unsigned down) {
  const Descriptor d(descriptor);
  const auto chunk = [&](std::uint32_t place, std::uint16_t (&v)[8]) {
    const char* p = shared_at(own_block(), swizzle_128(place), 16, "an operand of wgmma");
    tsan_read(p, 16);
    std::memcpy(v, p, 16);
  };
  std::uint16_t v[8];
  if (!mn) {
    for (unsigned r = 0; r < count; ++r) {
      const unsigned row = first + r;
      for (unsigned k = 0; k < 16; k += 8) {
        chunk(d.start + row / 8 * d.stride + row % 8 * 128 + k * 2, v);
        for (unsigned i = 0; i < 8; ++i) out[r * across + (k + i) * down] = table[v[i]];
      }
    }
  } else {
    for (unsigned k = 0; k < 16; ++k) {
      for (unsigned r = 0; r < count; r += 8) {
        const unsigned row = first + r;
        chunk(d.start + row / 64 * d.lead + row % 64 * 2 + k / 8 * d.stride + k % 8 * 128, v);
        for (unsigned i = 0; i < 8; ++i) out[(r + i) * across + k * down] = table[v[i]];
      }
    }
  }
}

// The 16 rows of a product that a warp computes.
std::vector<float> compute(const Product& p, unsigned quarter) {
  static float a[16 * 16], b[16 * 256];
  const auto n = static_cast<unsigned>(p.n);
  load(p.a, p.a_mn, table_of(p.bf16), 16 * quarter, 16, a, 16, 1);
  load(p.b, p.b_mn, table_of(p.bf16), 0, n, b, 1, n);
  std::vector<float> result(16 * n);
  for (unsigned row = 0; row < 16; ++row) {
    float* sums = &result[row * n];
    for (unsigned k = 0; k < 16; ++k) {
      const float factor = a[row * 16 + k];
      for (unsigned j = 0; j < n; ++j) sums[j] += factor * b[k * n + j];
    }
  }
  return result;
}

// Register i of a lane is this element of the 16 rows of its warp (PTX ISA, "Register Fragments for
// wgmma.mma_async.m64nNk16").
std::size_t element_of(unsigned lane, int i, int n) {
  const auto row = lane / 4 + 8 * static_cast<unsigned>(i / 2 % 2),
             column = 8 * static_cast<unsigned>(i / 4) + lane % 4 * 2 + static_cast<unsigned>(i % 2);
  return row * static_cast<unsigned>(n) + column;
}

struct ProductOfLane {
  Product p;
  float* d;
  bool operator==(const ProductOfLane& other) const { return p == other.p; }
};

void issue(unsigned number, const void* const* lanes) {
  Warp& warp = products().warps[number];
  const auto of = [&](unsigned lane) -> const ProductOfLane& {
    return *static_cast<const ProductOfLane*>(lanes[lane]);
  };
  const Product& p = common<ProductOfLane>(lanes).p;
  products().same.execute(number, p);
  auto at =
      std::find_if(warp.held.begin(), warp.held.end(), [&](const Registers& r) { return r.of_lane[0] == of(0).d; });
  if (at == warp.held.end()) {
    if (!warp.fenced) fail("wgmma.mma_async without wgmma.fence: its registers may have been touched before");
    Registers r;
    r.n = p.n;
    r.sums.resize(static_cast<std::size_t>(16 * p.n));
    for (unsigned l = 0; l < 32; ++l) {
      r.of_lane[l] = of(l).d;
      for (int i = 0; i < p.n / 2; ++i) {
        if (p.add) std::memcpy(&r.sums[element_of(l, i, p.n)], of(l).d + i, 4);
        std::memcpy(of(l).d + i, &poison, 4);
      }
    }
    warp.held.push_back(std::move(r));
    at = warp.held.end() - 1;
  } else if (at->n != p.n) {
    fail("products of different shapes in the same registers without a wait");
  }
  ++at->users;
  Flight flight;
  flight.p = p;
  flight.registers = of(0).d;
  if (happens_now()) flight.result = compute(p, number % 4);
  warp.open.push_back(std::move(flight));
}

void finish(unsigned number, const Flight& flight) {
  Warp& warp = products().warps[number];
  const auto at = std::find_if(warp.held.begin(), warp.held.end(),
                               [&](const Registers& r) { return r.of_lane[0] == flight.registers; });
  const std::vector<float> result = flight.result.empty() ? compute(flight.p, number % 4) : flight.result;
  for (std::size_t i = 0; i < result.size(); ++i) at->sums[i] = (flight.p.add ? at->sums[i] : 0.0f) + result[i];
  if (--at->users > 0) return;
  for (unsigned l = 0; l < 32; ++l) {
    for (int i = 0; i < at->n / 2; ++i) {
      std::uint32_t now;
      std::memcpy(&now, at->of_lane[l] + i, 4);
      if (now != poison) fail("registers of a product under way were written");
      at->of_lane[l][i] = at->sums[element_of(l, i, at->n)];
    }
  }
  warp.held.erase(at);
  warp.fenced = false;  // the thread has them back
}

void begin(unsigned number, const void* const*) {
  products().warps[number].fenced = true;
}
void commit(unsigned number, const void* const*) {
  Warp& warp = products().warps[number];
  warp.groups.push_back(std::exchange(warp.open, {}));
}
void wait_for_groups(unsigned number, const void* const* lanes) {
  Warp& warp = products().warps[number];
  const int pending = common<int>(lanes);
  while (warp.groups.size() > static_cast<std::size_t>(pending)) {
    for (const Flight& f : warp.groups.front()) finish(number, f);
    warp.groups.pop_front();
  }
}

}  // namespace

void wgmma(const Product& p, float* d) {
  const ProductOfLane mine{p, d};
  warp_together("wgmma.mma_async", &issue, &mine);
}
void wgmma_begin() { warp_together("wgmma.fence", &begin, nullptr); }
void wgmma_commit() { warp_together("wgmma.commit_group", &commit, nullptr); }
void wgmma_wait(int pending) { warp_together("wgmma.wait_group", &wait_for_groups, &pending); }


void forget_products() { of_block.reset(); }
void check_products_done() {
  if (!of_block) return;
  for (const Warp& warp : of_block->warps) {
    if (!warp.held.empty()) fail("a block ends while products are under way");
  }
  of_block->same.check_all_done();
}

}  // namespace cuda_shim
