// Real memory exhaustion: on a GPU this fills the device, on the CPU shim its 1 GiB. After the error everything that
// was allocated is intact, and freed memory can be reused.
#include <vector>

#include "core/allocator.h"
#include "tests/testing.h"

using namespace mantissa;

TEST_CASE("a device filled to the last block survives") {
  if (!cuda_is_available()) {
    WARN("no GPU: nothing was tested");
    return;
  }
  const MemoryStats before = memory_stats(cuda);
  const std::int64_t floats = std::int64_t{1} << 25;  // 128 MiB at first
  std::vector<Tensor> held;
  std::string message;
  for (std::int64_t size = floats; message.empty(); size *= 2) {
    message = test::message_of([&] { held.push_back(zeros({size}, {.device = cuda})); });
    if (message.empty()) held.back().slice(0, size - 1).fill_(static_cast<double>(held.size()));
    REQUIRE(held.size() < 20);
  }
  CHECK_THAT(message,
             Catch::Matchers::Contains("out of memory on cuda:0: asked for") && Catch::Matchers::Contains("free"));
  for (std::size_t i = 0; i < held.size(); ++i) {
    CHECK(held[i].slice(0, held[i].numel() - 1).item() == static_cast<double>(i + 1));
  }
  held.clear();
  CHECK(memory_stats(cuda).allocated == before.allocated);
  CHECK(zeros({floats}, {.device = cuda}).slice(0, 5, 6).item() == 0);
  empty_cache(cuda);
  CHECK(memory_stats(cuda).reserved == memory_stats(cuda).allocated);
}

TEST_CASE("what is copied to the device is what the host had at that moment, however far ahead it is") {
  if (!cuda_is_available()) return;
  Tensor host = zeros({3000});
  std::vector<Tensor> copies;
  for (int i = 0; i < 50; ++i) {  // more than there are places to copy through
    host.fill_(i);
    copies.push_back(host.slice(0, 50 * i, 3000).to(cuda));
  }
  for (int i = 0; i < 50; ++i) {
    const auto values = copies[static_cast<std::size_t>(i)].to(cpu).to_vector<float>();
    CHECK(values == std::vector<float>(static_cast<std::size_t>(3000 - 50 * i), static_cast<float>(i)));
  }
}

TEST_CASE("more than any device has is refused at once") {
  if (!cuda_is_available()) return;
  CHECK_THAT(test::message_of([] { empty({std::int64_t{1} << 44}, {.device = cuda}); }),
             Catch::Matchers::Contains("out of memory"));
}
