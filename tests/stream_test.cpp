// Streams: order, shuffling, batches, the thread that reads ahead, and what goes wrong in it.
#include "data/stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "core/operators.h"
#include "core/ops.h"
#include "core/random.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

// 0, 1, ..., n - 1.
auto numbers(int n) {
  return [i = 0, n]() mutable -> std::optional<int> { return i < n ? std::optional(i++) : std::nullopt; };
}
template <class F> auto all_of(F stream, int prefetch = 0) {
  std::vector<data::StreamItem<F>> items;
  for (auto& item : data::StreamLoader(std::move(stream), prefetch)) items.push_back(std::move(item));
  return items;
}

}  // namespace

TEST_CASE("a stream's items come in order, however far ahead they are read") {
  for (const int prefetch : {0, 1, 2, 100})
    for (const int n : {0, 1, 2, 50}) {
      const std::vector<int> items = all_of(numbers(n), prefetch);
      CHECK(static_cast<int>(items.size()) == n);
      for (int i = 0; i < static_cast<int>(items.size()); ++i) CHECK(items[static_cast<std::size_t>(i)] == i);
    }
  data::StreamLoader loader(numbers(5));
  int item = -1;
  CHECK(loader.next(item));
  CHECK(item == 0);
  for (const int rest : loader) {  // a loop goes on where the last one stopped
    CHECK(rest == item + 1);
    item = rest;
    if (rest == 2) break;
  }
  CHECK((loader.next(item) && item == 3 && loader.next(item) && item == 4));
  CHECK(!loader.next(item));
  CHECK(!loader.next(item));
}

TEST_CASE("shuffled: every item once, another order for another seed, and no item before its time") {
  manual_seed(test::seed());
  for (const std::int64_t buffer : {1, 2, 10, 99, 1000}) {
    INFO("buffer " << buffer << ", seed " << test::seed());
    const std::vector<int> a = all_of(data::shuffled(numbers(100), buffer, 1)),
                           b = all_of(data::shuffled(numbers(100), buffer, 1), 3),
                           c = all_of(data::shuffled(numbers(100), buffer, 2));
    CHECK(a == b);
    CHECK((a == c) == (buffer == 1));
    CHECK(std::set(a.begin(), a.end()).size() == 100);
    for (std::int64_t i = 0; i < 100; ++i) CHECK(a[static_cast<std::size_t>(i)] < i + buffer);
  }
  const std::vector<int> first = all_of(data::shuffled(numbers(100), 50));
  const std::vector<int> second = all_of(data::shuffled(numbers(100), 50));
  CHECK(first != second);
  manual_seed(test::seed());
  CHECK(all_of(data::shuffled(numbers(100), 50)) == first);
  double sum = 0;  // with a buffer for all, the first item is any of them
  for (std::uint64_t seed = 0; seed < 400; ++seed) sum += *data::shuffled(numbers(101), 101, seed)();
  CHECK(std::abs(sum / 400 - 50) < 4 * 29.2 / 20);  // four standard errors
}

TEST_CASE("batches, of items that can only be moved, collated into tensors") {
  const auto sum = [](std::vector<std::unique_ptr<int>> batch) {
    std::vector<std::int64_t> v;
    for (const auto& item : batch) v.push_back(*item);
    return tensor(v);
  };
  for (const bool drop_last : {false, true}) {
    auto source = data::mapped(numbers(10), [](int i) { return std::make_unique<int>(i); });
    const std::vector<Tensor> batches = all_of(data::mapped(data::batched(std::move(source), 4, drop_last), sum), 2);
    REQUIRE(batches.size() == (drop_last ? 2 : 3));
    CHECK(batches[1].to_vector<std::int64_t>() == std::vector<std::int64_t>{4, 5, 6, 7});
    CHECK(batches.back().numel() == (drop_last ? 4 : 2));
  }
  CHECK_THROWS_WITH(data::batched(numbers(1), 0), Contains("at least 1"));
  CHECK_THROWS_WITH(data::shuffled(numbers(1), 0), Contains("at least 1"));
  CHECK_THROWS_WITH(data::StreamLoader(numbers(1), -1), Contains("must not be negative"));
}

TEST_CASE("an error in a stream comes after the items before it, and ends it") {
  for (const int prefetch : {0, 1, 5}) {
    const auto breaks = [](int i) { return i == 3 ? throw std::runtime_error("a broken line") : i; };
    data::StreamLoader loader(data::mapped(numbers(9), breaks), prefetch);
    std::vector<int> seen;
    const auto read = [&] { for (const int item : loader) seen.push_back(item); };
    CHECK_THROWS_WITH(read(), Contains("a broken line"));
    CHECK(seen == std::vector<int>{0, 1, 2});
    CHECK_NOTHROW(read());
    CHECK(seen.size() == 3);
  }
}

TEST_CASE("a stream is read ahead as far as asked, by one thread, and left when its loader is") {
  std::atomic<int> made = 0;
  const auto endless = [&made]() -> std::optional<int> { return ++made; };
  {
    data::StreamLoader loader(endless, 3);
    int item = 0;
    REQUIRE(loader.next(item));
    for (int i = 0; i < 2000 && made < 5; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(made == 5);  // one taken, three waiting, one that waits for room
  }
  const int left = made;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(made == left);
}
