// parallel_for: every item exactly once, the same blocks for any number of threads, exceptions, nesting; and large
// operators that give the same bits on 1, 2 and 3 threads.
#include "core/parallel.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/error.h"
#include "core/ops.h"
#include "tests/testing.h"

using namespace mantissa;
using test::message_of;
using test::random_tensor;
using Catch::Matchers::Contains;

namespace {
struct Threads {  // sets the number of threads for a scope
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before = num_threads();
};
std::set<std::pair<std::int64_t, std::int64_t>> blocks(int threads, std::int64_t n, std::int64_t grain) {
  const Threads scope(threads);
  std::set<std::pair<std::int64_t, std::int64_t>> found;
  std::mutex mutex;
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    found.insert({begin, end});
  });
  return found;
}
}  // namespace

TEST_CASE("blocks cover the range once and do not depend on the number of threads") {
  for (std::int64_t n : {0, 1, 7, 64, 1000}) {
    for (std::int64_t grain : {1, 8, 999, 5000}) {
      const auto one = blocks(1, n, grain);
      std::int64_t next = 0;
      for (auto [begin, end] : one) {
        CHECK(begin == next);
        CHECK(end > begin);
        next = end;
      }
      CHECK(next == n);
      CHECK(blocks(2, n, grain) == one);
      CHECK(blocks(3, n, grain) == one);
    }
  }
}

TEST_CASE("an exception in a block reaches the caller and later work still runs") {
  const Threads scope(3);
  CHECK_THAT(message_of([] {
               parallel_for(100, 1,
                            [](std::int64_t begin, std::int64_t) { check(begin != 57, "block ", begin, " failed"); });
             }),
             Contains("block 57 failed"));
  std::atomic<int> sum{0};
  parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) { sum += static_cast<int>(end - begin); });
  CHECK(sum == 100);
}

TEST_CASE("nested calls run serially and workers see the caller's modes") {
  const Threads scope(2);
  const NoGrad guard;
  std::atomic<int> sum{0}, recording{0};
  parallel_for(8, 1, [&](std::int64_t, std::int64_t) {
    recording += grad_enabled();
    parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end) { sum += static_cast<int>(end - begin); });
  });
  CHECK(sum == 64);
  CHECK(recording == 0);
}

TEST_CASE("denormals are flushed in workers and in new threads, unless switched off") {
  // The number of kernel results with nonzero bits: 1e-30 * 1e-10 is below the normal range. Bits, because a float
  // comparison would see a denormal as 0 while flushing is on.
  const auto survivors = [] {
    const std::vector<float> v = (full({100000}, 1e-30) * full({100000}, 1e-10)).to_vector<float>();
    return std::count_if(v.begin(), v.end(), [](float x) { return std::bit_cast<std::uint32_t>(x) != 0; });
  };
  const Threads scope(2);
  CHECK(survivors() == 0);
  std::ptrdiff_t in_thread = 1;
  std::thread([&] { in_thread = survivors(); }).join();
  CHECK(in_thread == 0);
  set_flush_denormals(false);
  CHECK(survivors() == 100000);
  set_flush_denormals(true);
  CHECK(survivors() == 0);
}

TEST_CASE("set_num_threads refuses nonsense") {
  CHECK_THAT(message_of([] { set_num_threads(0); }), Contains("at least 1 thread, got 0"));
}

TEST_CASE("large operators, forward and backward, give the same bits on 1, 2 and 3 threads") {
  const Tensor a = random_tensor({257, 300}, 1).to(f32), b = random_tensor({300, 129}, 2).to(f32);
  const Tensor image = random_tensor({4, 6, 40, 40}, 3).to(f32), kernel = random_tensor({8, 6, 3, 3}, 4).to(f32);
  const Tensor labels = cast(random_tensor({257}, 5, 0, 300), i64);
  const Tensor indices = cast(random_tensor({5000}, 8, 0, 257), i64);
  const Tensor w = random_tensor({300}, 6).to(f32), c = random_tensor({6}, 7).to(f32);
  using F = std::function<Tensor(const Tensor&, const Tensor&)>;
  struct Case { const char* name; Tensor x, y; F f; };
  const std::vector<Case> cases = {
      {"mul", a, w, [](auto& x, auto& y) { return x * y; }},
      {"gelu", a, w, [](auto& x, auto&) { return gelu(x); }},
      {"sum", a, w, [](auto& x, auto&) { return sum(x); }},
      {"sum dim", a, w, [](auto& x, auto&) { return sum(x, {0}); }},
      {"var", a, w, [](auto& x, auto&) { return var(x, {1}); }},
      {"softmax", a, w, [](auto& x, auto&) { return softmax(x, 1); }},
      {"log_softmax 0", a, w, [](auto& x, auto&) { return log_softmax(x, 0); }},
      {"layer_norm", a, w, [](auto& x, auto& y) { return layer_norm(x, {300}, y, y); }},
      {"rms_norm", a, w, [](auto& x, auto& y) { return rms_norm(x, {300}, y); }},
      {"group_norm", image, c, [](auto& x, auto& y) { return group_norm(x, 3, y, y); }},
      {"group_norm channels-last", channels_last(image), c, [](auto& x, auto& y) { return group_norm(x, 3, y, y); }},
      {"cross_entropy", a, w, [&](auto& x, auto&) { return cross_entropy(x, labels); }},
      {"matmul", a, b, [](auto& x, auto& y) { return matmul(x, y); }},
      {"conv2d", image, kernel, [](auto& x, auto& y) { return conv2d(x, y, {}, {.padding = {1, 1}}); }},
      {"max_pool2d", image, c, [](auto& x, auto&) { return max_pool2d(x, 2); }},
      {"avg_pool2d", image, c, [](auto& x, auto&) { return avg_pool2d(x, 3); }},
      {"batch_norm", image, c, [](auto& x, auto& y) { return batch_norm(x, y, y, {}, {}, true); }},
      {"embedding", a, w, [&](auto& x, auto&) { return embedding(x, indices); }},
      {"cat", a, w, [](auto& x, auto&) { return cat({x, x}, 1); }},
  };
  for (const Case& one : cases) {
    INFO(one.name);
    std::vector<std::vector<Tensor>> runs;
    for (int threads : {1, 2, 3, 2}) {
      const Threads scope(threads);
      Tensor x = one.x.clone().requires_grad_(), y = one.y.clone().requires_grad_();
      const Tensor out = one.f(x, y);
      sum(out * random_tensor(out.sizes(), 9).to(f32)).backward();
      runs.push_back({out, x.grad(), y.grad()});
    }
    for (std::size_t r = 1; r < runs.size(); ++r) {
      for (std::size_t k = 0; k < 3; ++k) CHECK(test::same_bits(runs[r][k], runs[0][k]));
    }
  }
}
