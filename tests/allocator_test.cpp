// The caching allocator: reuse, statistics, alignment, and what happens when memory runs out.
#include "core/allocator.h"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <vector>

#include "autograd/backward.h"
#include "core/error.h"
#include "core/piece_memory.h"
#include "core/ops.h"
#include "tests/testing.h"

using namespace mantissa;
using test::message_of;
using Catch::Matchers::Contains;

namespace {
// System memory that counts outstanding bytes and can refuse allocations.
class CountingMemory final : public RawMemory {
 public:
  std::int64_t outstanding = 0, takes = 0;
  std::int64_t limit = std::int64_t{1} << 40;
  void* take(std::size_t bytes) override {
    if (outstanding + static_cast<std::int64_t>(bytes) > limit) return nullptr;
    ++takes;
    outstanding += static_cast<std::int64_t>(bytes);
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  }
  void give(void* p, std::size_t bytes) noexcept override {
    outstanding -= static_cast<std::int64_t>(bytes);
    std::free(p);
  }
};
}  // namespace

TEST_CASE("size classes waste at most a quarter and never shrink") {
  std::size_t before = 0;
  for (std::size_t bytes = 0; bytes < 100000; ++bytes) {
    const std::size_t rounded = CachingAllocator::round_up(bytes);
    if (rounded < bytes || rounded < before || (bytes > 64 && rounded * 4 > bytes * 5 + 3)) {
      FAIL("round_up(" << bytes << ") = " << rounded);
    }
    before = rounded;
  }
  for (int shift = 20; shift <= 47; ++shift) {
    const std::size_t power = std::size_t{1} << shift;
    CHECK(CachingAllocator::round_up(power) == power);
    if (shift < 47) CHECK(CachingAllocator::round_up(power + 1) > power);
  }
}

TEST_CASE("a freed block serves the next request of its class, and everything goes back in the end") {
  CountingMemory memory;
  {
    CachingAllocator allocator(memory);
    void* a = allocator.allocate(1000);
    CHECK(reinterpret_cast<std::uintptr_t>(a) % 64 == 0);
    allocator.deallocate(a, 1000);
    CHECK(allocator.allocate(1010) == a);
    const MemoryStats s = allocator.stats();
    CHECK(s.allocations == 2);
    CHECK(s.system_calls == 1);
    CHECK(s.allocated == 1024);
    CHECK(s.reserved == 1024);
    CHECK(memory.takes == 1);
    allocator.deallocate(a, 1010);
    CHECK(allocator.stats().allocated == 0);
    CHECK(allocator.stats().peak_allocated == 1024);
    allocator.reset_peak();
    CHECK(allocator.stats().peak_allocated == 0);
    CHECK(allocator.stats().peak_reserved == 1024);
    allocator.empty_cache();
    CHECK(memory.outstanding == 0);
    allocator.deallocate(allocator.allocate(0), 0);
  }
  CHECK(memory.outstanding == 0);
}

TEST_CASE("large blocks are cut from what is free and join again: other sizes need no memory of their own") {
  CountingMemory memory;
  CachingAllocator allocator(memory);
  constexpr std::size_t mb = 1 << 20;
  void* whole = allocator.allocate(8 * mb);
  allocator.deallocate(whole, 8 * mb);
  void* a = allocator.allocate(3 * mb);
  void* b = allocator.allocate(2 * mb + 1);
  void* c = allocator.allocate(mb);
  CHECK(a == whole);
  CHECK(allocator.stats().system_calls == 1);
  CHECK(allocator.stats().allocated == static_cast<std::int64_t>(6 * mb + 4096));
  allocator.deallocate(b, 2 * mb + 1);
  CHECK(allocator.allocate(2 * mb) == b);  // rather than from the larger remainder
  allocator.deallocate(a, 3 * mb);
  allocator.deallocate(c, mb);
  allocator.empty_cache();
  CHECK(memory.outstanding == 8 * static_cast<std::int64_t>(mb));  // part of it is in use
  allocator.deallocate(b, 2 * mb);
  CHECK(allocator.allocate(8 * mb) == whole);
  allocator.deallocate(whole, 8 * mb);
  CHECK(allocator.stats().peak_reserved == 8 * static_cast<std::int64_t>(mb));
  const int other_stream = 0;
  void* d = allocator.allocate(mb, &other_stream);  // not from blocks reserved for the first stream
  CHECK(allocator.stats().system_calls == 2);
  allocator.deallocate(d, mb, &other_stream);
  allocator.empty_cache();
  CHECK(memory.outstanding == 0);
}

TEST_CASE("an allocator's statistics include those of its parts, and lose them with the parts") {
  CountingMemory memory, of_part;
  CachingAllocator whole(memory);
  void* a = whole.allocate(1 << 20);
  const MemoryStats before = whole.stats();
  {
    CachingAllocator part(of_part, &whole);
    void* b = part.allocate(3 << 20);
    void* c = part.allocate(100);
    CHECK(whole.stats().allocated == before.allocated + part.stats().allocated);
    CHECK(whole.stats().reserved == before.reserved + part.stats().reserved);
    CHECK(whole.stats().peak_reserved == whole.stats().reserved);
    CHECK(whole.stats().allocations == before.allocations + 2);
    CHECK(whole.stats().system_calls == before.system_calls + 2);
    part.deallocate(b, 3 << 20);
    part.deallocate(c, 100);
    CHECK(whole.stats().allocated == before.allocated);
    CHECK(whole.stats().reserved == before.reserved + part.stats().reserved);
    CHECK(part.stats().reserved > 3 << 20);
  }
  CHECK(whole.stats().reserved == before.reserved);
  CHECK(whole.stats().peak_allocated > before.peak_allocated);
  whole.deallocate(a, 1 << 20);
}

namespace {
// One run of 64 KiB pieces, handed out from the end; any run of them may be returned.
class Pieces final : public PieceMemory {
 public:
  static constexpr std::size_t unit = 64 << 10, count = 1024;
  std::vector<bool> out = std::vector<bool>(count);
  char* begin = static_cast<char*>(std::aligned_alloc(unit, unit * count));
  ~Pieces() override { std::free(begin); }
  void* take(std::size_t bytes) override {
    if (bytes % unit) return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    const std::size_t n = bytes / unit;
    for (std::size_t i = count + 1; i-- > n;) {
      if (std::find(out.begin() + static_cast<long>(i - n), out.begin() + static_cast<long>(i), true) !=
          out.begin() + static_cast<long>(i))
        continue;
      std::fill_n(out.begin() + static_cast<long>(i - n), n, true);
      return begin + (i - n) * unit;
    }
    return nullptr;
  }
  void give(void* p, std::size_t bytes) noexcept override {
    if (bytes % unit) return std::free(p);
    const auto first = static_cast<std::size_t>(static_cast<char*>(p) - begin) / unit;
    for (std::size_t i = 0; i < bytes / unit; ++i) {
      if (!out[first + i]) std::abort();  // returned twice
      out[first + i] = false;
    }
  }
  std::size_t piece() const override { return unit; }
};

// Random sizes and orders: no two blocks overlap, and everything is returned.
template <class Memory> void exercise(Memory& memory, std::uint32_t seed) {
  struct Held { unsigned char* p; std::size_t bytes; unsigned char mark; const void* stream; };
  const int streams[2] = {};
  CachingAllocator allocator(memory);
  std::vector<Held> held;
  const auto draw = [&] { return (seed = seed * 1664525u + 1013904223u) >> 8; };
  for (int i = 0; i < 4000; ++i) {
    if (draw() % 40 == 0) allocator.empty_cache();
    if (held.size() < 24 && draw() % 2) {
      const std::size_t bytes = draw() % 4 ? draw() % 700000 : draw() % 5000;
      const void* stream = &streams[draw() % 2];
      const auto mark = static_cast<unsigned char>(draw());
      auto* p = static_cast<unsigned char*>(allocator.allocate(bytes, stream));
      REQUIRE(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
      std::fill_n(p, bytes, mark);
      held.push_back({p, bytes, mark, stream});
    } else if (!held.empty()) {
      std::swap(held[draw() % held.size()], held.back());
      const Held h = held.back();
      held.pop_back();
      REQUIRE(std::all_of(h.p, h.p + h.bytes, [&](unsigned char c) { return c == h.mark; }));
      allocator.deallocate(h.p, h.bytes, h.stream);
    }
  }
  for (const Held& h : held) allocator.deallocate(h.p, h.bytes, h.stream);
  CHECK(allocator.stats().allocated == 0);
  CHECK(allocator.stats().peak_reserved >= allocator.stats().peak_allocated);
  allocator.empty_cache();
  CHECK(allocator.stats().reserved == 0);
}
}  // namespace

TEST_CASE("random blocks never overlap and all memory is given back") {
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    CountingMemory whole;
    exercise(whole, seed);
    CHECK(whole.outstanding == 0);
    Pieces pieces;
    exercise(pieces, seed);
    CHECK(std::find(pieces.out.begin(), pieces.out.end(), true) == pieces.out.end());
  }
}

TEST_CASE("tensors of many sizes after one another hold little more than the largest was") {
  const auto use = [](std::int64_t n) { Tensor t = full({n}, 1); };
  empty_cache();
  const MemoryStats before = memory_stats();
  for (std::int64_t n = 1 << 24; n > 1 << 16; n = n * 7 / 8) use(n);
  CHECK(memory_stats().reserved - before.reserved <= (std::int64_t{1} << 26) + (4 << 20));
  empty_cache();
  CHECK(memory_stats().reserved <= before.reserved);
}

TEST_CASE("when the system refuses, the cache is emptied and the request tried again, then it is OutOfMemory") {
  CountingMemory memory;
  memory.limit = 4096;
  CachingAllocator allocator(memory);
  void* a = allocator.allocate(2048);
  allocator.deallocate(a, 2048);
  void* b = allocator.allocate(4096);  // requires the cached block to be freed
  CHECK(b != nullptr);
  const MemoryStats before = allocator.stats();
  CHECK_THROWS_AS(allocator.allocate(64), OutOfMemory);
  CHECK_THAT(message_of([&] { allocator.allocate(64); }),
             Contains("asked for 64 bytes with 4096 in use by tensors"));
  CHECK(allocator.stats().allocated == before.allocated);  // a refusal changes nothing
  CHECK(allocator.stats().allocations == before.allocations);
  allocator.deallocate(b, 4096);
  allocator.deallocate(allocator.allocate(64), 64);  // and the allocator recovers
}

TEST_CASE("a tensor that cannot fit is OutOfMemory or a size error, and names what was asked") {
  CHECK_THROWS_AS(Tensor::allocate({std::int64_t{1} << 46}, u8), OutOfMemory);
  CHECK_THROWS_AS(Tensor::allocate({std::int64_t{1} << 60}, f64), Error);
}

TEST_CASE("threads share one allocator") {
  CountingMemory memory;
  CachingAllocator allocator(memory);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const auto bytes = static_cast<std::size_t>(64 * (1 + (i * 7 + t) % 50));
        auto* p = static_cast<unsigned char*>(allocator.allocate(bytes));
        p[0] = static_cast<unsigned char>(t);
        p[bytes - 1] = static_cast<unsigned char>(t);
        if (p[0] != t || p[bytes - 1] != t) std::abort();  // handed out twice
        allocator.deallocate(p, bytes);
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(allocator.stats().allocated == 0);
  CHECK(allocator.stats().allocations == 8000);
}

TEST_CASE("repeating a step asks the system for nothing and leaves nothing behind") {
  const Tensor w = test::random_tensor({64, 64}, 1).to(f32).requires_grad_();
  const auto step = [&] {
    Tensor w2 = w;
    w2.set_grad({});
    sum(square(tanh(w * 0.5 + 1.0))).backward();
  };
  step();
  step();
  const MemoryStats before = memory_stats();
  for (int i = 0; i < 20; ++i) step();
  CHECK(memory_stats().system_calls == before.system_calls);
  CHECK(memory_stats().allocated == before.allocated);
}
