// The caching allocator: reuse, statistics, alignment, and what happens when memory runs out.
#include "core/allocator.h"

#include <cstdlib>
#include <thread>
#include <vector>

#include "autograd/backward.h"
#include "core/error.h"
#include "core/ops.h"
#include "tests/testing.h"

using namespace mantissa;
using test::message_of;
using Catch::Matchers::Contains;

namespace {
// System memory that counts what is out and can refuse.
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

TEST_CASE("when the system refuses, the cache is emptied and the request tried again, then it is OutOfMemory") {
  CountingMemory memory;
  memory.limit = 4096;
  CachingAllocator allocator(memory);
  void* a = allocator.allocate(2048);
  allocator.deallocate(a, 2048);
  void* b = allocator.allocate(4096);  // needs the cached block to be given back
  CHECK(b != nullptr);
  const MemoryStats before = allocator.stats();
  CHECK_THROWS_AS(allocator.allocate(64), OutOfMemory);
  CHECK_THAT(message_of([&] { allocator.allocate(64); }),
             Contains("asked for 64 bytes with 4096 in use by tensors"));
  CHECK(allocator.stats().allocated == before.allocated);  // a refusal changes nothing
  CHECK(allocator.stats().allocations == before.allocations);
  allocator.deallocate(b, 4096);
  allocator.deallocate(allocator.allocate(64), 64);  // and it recovers
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
