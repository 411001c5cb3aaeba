// Samplers, subsets, splits and concatenations, alone and with the loader.
#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "catch_compat.h"
#include "data/pipeline.h"
#include "data/subset.h"
#include "data/synthetic.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using Order = std::vector<std::int64_t>;

namespace {

// Sample i is the number i, as image and as label (plus `first`).
class Counting : public data::Source {
 public:
  explicit Counting(std::int64_t n, std::int64_t first = 0) : n_(n), first_(first) {}
  std::int64_t size() const override { return n_; }
  Dims image_sizes() const override { return {1, 1, 1}; }
  std::int64_t read(std::int64_t index, void* image) const override {
    *static_cast<std::uint8_t*>(image) = static_cast<std::uint8_t>(first_ + index);
    return first_ + index;
  }
  data::Info info() const override { return {.classes = 7, .name = "counting"}; }

 private:
  std::int64_t n_, first_;
};

Order labels(data::Loader& loader) {
  Order all;
  data::Batch b;
  while (loader.next(b))
    for (const auto x : b.label.to_vector<std::int64_t>()) all.push_back(x);
  return all;
}
Order labels(const data::SourcePtr& source) {
  data::Loader loader = data::Pipeline(source).batch(3).loader();
  return labels(loader);
}

}  // namespace

TEST_CASE("samplers: sequential, random, with replacement, of a subset") {
  CHECK(data::SequentialSampler(4).order(1, 2) == Order{0, 1, 2, 3});
  const data::RandomSampler random(100);
  const Order a = random.order(1, 0);
  CHECK(std::set<std::int64_t>(a.begin(), a.end()).size() == 100);
  CHECK(a == random.order(1, 0));
  CHECK(a != random.order(1, 1));
  CHECK(a != random.order(2, 0));
  const Order more = data::RandomSampler(10, false, 25).order(1, 0);
  REQUIRE(more.size() == 25);
  CHECK(std::set<std::int64_t>(more.begin(), more.begin() + 10).size() == 10);
  CHECK(std::set<std::int64_t>(more.begin() + 10, more.begin() + 20).size() == 10);
  CHECK(Order(more.begin(), more.begin() + 10) != Order(more.begin() + 10, more.begin() + 20));
  const Order drawn = data::RandomSampler(10, true, 1000).order(1, 0);
  std::vector<int> count(10);
  for (const auto i : drawn) ++count.at(static_cast<std::size_t>(i));
  for (const int n : count) CHECK((n > 60 && n < 150));
  Order some = data::SubsetRandomSampler({5, 9, 2}).order(3, 0);
  std::sort(some.begin(), some.end());
  CHECK(some == Order{2, 5, 9});
  CHECK_THROWS_WITH(data::RandomSampler(0, true, 5), Contains("cannot draw 5 samples of 0"));
}

TEST_CASE("samplers: weights") {
  const data::WeightedRandomSampler sampler({1, 0, 3, 4}, 8000);
  std::vector<int> count(4);
  for (const auto i : sampler.order(1, 0)) ++count.at(static_cast<std::size_t>(i));
  CHECK(count[1] == 0);
  CHECK(std::abs(count[0] - 1000) < 150);
  CHECK(std::abs(count[2] - 3000) < 250);
  // Without replacement: every sample with a nonzero weight, heavier ones earlier.
  int heavy_first = 0;
  for (std::uint64_t epoch = 0; epoch < 300; ++epoch) {
    Order order = data::WeightedRandomSampler({1, 0, 9}, 2, false).order(1, epoch);
    heavy_first += order[0] == 2;
    std::sort(order.begin(), order.end());
    REQUIRE(order == Order{0, 2});
  }
  CHECK((heavy_first > 245 && heavy_first < 292));  // nine tenths
  CHECK_THROWS_WITH(data::WeightedRandomSampler({1, 0}, 2, false),
                    Contains("2 samples cannot be drawn of 1 with a weight"));
  CHECK_THROWS_WITH(data::WeightedRandomSampler({0, 0}, 1), Contains("positive, finite sum"));
  CHECK_THROWS_WITH(data::WeightedRandomSampler({-1, 2}, 1), Contains("a weight is -1"));
}

TEST_CASE("loader: with a sampler, a batch sampler, and a state that can be resumed") {
  const auto source = std::make_shared<Counting>(10);
  data::Loader loader = data::Pipeline(source).sampler(data::SubsetRandomSampler({1, 3, 5, 7})).batch(2).loader();
  CHECK(loader.batches() == 2);
  Order seen = labels(loader);
  std::sort(seen.begin(), seen.end());
  CHECK(seen == Order{1, 3, 5, 7});

  struct Pairs final : data::BatchSampler {  // batches of different sizes
    std::int64_t batches() const override { return 3; }
    Batches order(std::uint64_t, std::uint64_t epoch) const override {
      return {{0, 9}, {static_cast<std::int64_t>(epoch)}, {4, 5, 6}};
    }
  };
  data::Loader pairs = data::Pipeline(source).sampler(Pairs{}).threads(2).loader();
  CHECK(labels(pairs) == Order{0, 9, 0, 4, 5, 6});
  CHECK(labels(pairs) == Order{0, 9, 1, 4, 5, 6});

  data::Loader whole = data::Pipeline(source).seed(4).sampler(data::RandomSampler(10, true, 20)).batch(3).loader();
  data::Loader part = data::Pipeline(source).seed(4).sampler(data::RandomSampler(10, true, 20)).batch(3).loader();
  data::Batch a, b;
  for (int i = 0; i < 4; ++i) whole.next(a);
  part.restore(whole.state());
  while (whole.next(a)) {
    REQUIRE(part.next(b));
    CHECK(a.label.to_vector<int>() == b.label.to_vector<int>());
  }
  CHECK_THROWS_WITH(data::Pipeline(source).shuffle(1).sampler(data::RandomSampler(10)).loader(),
                    Contains("a loader with a sampler cannot shuffle"));
  CHECK_THROWS_WITH(data::Pipeline(source).sampler(data::SequentialSampler(11)).batch(11).threads(0).loader().next(a),
                    Contains("epoch 0, batch 0"));
}

TEST_CASE("subset, concat and random_split read through and keep what the set says of itself") {
  const data::SourcePtr source = std::make_shared<Counting>(10);
  CHECK(labels(data::subset(source, {7, 0, 7})) == Order{7, 0, 7});
  CHECK(data::subset(source, {1})->info().name == "counting");
  CHECK_THROWS_WITH(data::subset(source, {10}), Contains("index 10 is not in a set of 10"));
  const data::SourcePtr both = data::concat({source, std::make_shared<Counting>(3, 100), data::subset(source, {4})});
  CHECK(labels(both) == Order{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 100, 101, 102, 4});
  CHECK_THROWS_WITH(data::concat({source, data::as_source(data::synthetic_digits(2))}),
                    Contains("concat: images [1, 28, 28]"));
  CHECK_THROWS_WITH(data::concat({}), Contains("at least one set"));

  const auto [train, test] = data::random_split(source, {0.75, 0.25}, 3);
  CHECK((train->size() == 8 && test->size() == 2));  // 7.5 and 2.5: what is left goes to the first
  Order all = labels(train);
  for (const auto x : labels(test)) all.push_back(x);
  std::sort(all.begin(), all.end());
  CHECK(all == labels(source));
  CHECK(labels(data::random_split(source, {0.75, 0.25}, 3)[0]) == labels(train));
  CHECK(labels(data::random_split(source, {0.75, 0.25}, 4)[0]) != labels(train));
  CHECK(data::random_split(source, {3, 7}, 3)[1]->size() == 7);
  manual_seed(1);
  const Order drawn = labels(data::random_split(source, {3, 7})[1]);
  CHECK(labels(data::random_split(source, {3, 7})[1]) != drawn);
  manual_seed(1);
  CHECK(labels(data::random_split(source, {3, 7})[1]) == drawn);
  CHECK_THROWS_WITH(data::random_split(source, {3, 6}, 3), Contains("the parts add up to 9, the set has 10"));
  CHECK_THROWS_WITH(data::random_split(source, {0.5, 0.6}, 3), Contains("fractions that add up to 1 or whole numbers"));
}

TEST_CASE("a split of a set in memory is normalised as the set") {
  const data::Dataset digits = data::synthetic_digits(20);
  const auto [part, rest] = data::random_split(data::as_source(digits), {5, 15}, 1);
  data::Batch a;
  data::Pipeline(part).batch(5).loader().next(a);
  CHECK(a.image.dtype() == f32);
  CHECK(std::abs(a.image.min().item() - (0 - 0.12f) / 0.256f) < 1e-5f);
  CHECK(rest->info().classes == 10);
}

TEST_CASE("subset and random_split of a pipeline keep its steps") {
  const auto values = [](const data::Pipeline& p) {
    Order all;
    for (auto [image, label] : p)
      for (const auto x : label.to_vector<std::int64_t>()) all.push_back(x);
    return all;
  };
  const data::Pipeline whole = data::Pipeline(Counting(10)).batch(3);
  CHECK(values(whole.subset({7, 0, 7})) == Order{7, 0, 7});
  CHECK(whole.subset({1, 2, 3, 4}).batches() == 2);
  CHECK(values(whole.take(4)) == Order{0, 1, 2, 3});
  CHECK(whole.take(100).samples() == 10);
  CHECK_THROWS_WITH(whole.take(0), Contains("take: at least 1 sample is needed, got 0"));
  const auto [train, rest] = whole.random_split({0.7, 0.3}, 5);
  const auto parts = data::random_split(std::make_shared<Counting>(10), {0.7, 0.3}, 5);
  CHECK(values(train) == labels(parts[0]));
  CHECK(values(rest) == labels(parts[1]));
  CHECK(rest.batches() == 1);
  CHECK_THROWS_WITH(whole.sampler(data::SequentialSampler(10)).subset({1}), Contains("come before sampler()"));
}

TEST_CASE("A distributed sampler deals out every sample of an epoch, as PyTorch's does") {
  for (std::int64_t n = 1; n <= 12; ++n) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      CAPTURE(n, ranks);
      const auto all = std::make_shared<data::RandomSampler>(n);
      const Order order = all->order(7, 3);
      const std::int64_t even = n / ranks, left = n % ranks;
      Order kept;
      for (int rank = 0; rank < ranks; ++rank) {
        const data::DistributedSampler repeat(all, rank, ranks), drop(all, rank, ranks, data::Uneven::drop),
            keep(all, rank, ranks, data::Uneven::keep);
        // torch.utils.data.DistributedSampler: the order, repeated or truncated to a multiple of the ranks, then
        // [rank::ranks]
        Order expected;
        for (std::int64_t i = rank; i < (even + (left > 0)) * ranks; i += ranks)
          expected.push_back(order[static_cast<std::size_t>(i % n)]);
        CHECK(repeat.order(7, 3) == expected);
        CHECK(repeat.size() == static_cast<std::int64_t>(expected.size()));
        expected.resize(static_cast<std::size_t>(even));
        CHECK(drop.order(7, 3) == expected);
        CHECK(drop.size() == even);
        const Order own = keep.order(7, 3);
        CHECK(keep.size() == static_cast<std::int64_t>(own.size()));
        kept.insert(kept.end(), own.begin(), own.end());
      }
      std::ranges::sort(kept);
      Order counting(static_cast<std::size_t>(n));
      std::iota(counting.begin(), counting.end(), 0);
      CHECK(kept == counting);  // each once
    }
  }
  CHECK_THROWS_WITH(data::DistributedSampler(std::make_shared<data::SequentialSampler>(3), 2, 2), Contains("rank 2"));
}

TEST_CASE("Shards of a pipeline share an order, draw other numbers, and resume") {
  const auto shard = [](int rank, int ranks) {
    return data::Pipeline(Counting(23)).shuffle(5).shard(rank, ranks).batch(4).threads(2).loader();
  };
  data::Loader whole = shard(0, 1), first = shard(0, 2), second = shard(1, 2);
  CHECK(first.batches() == 3);
  for (int epoch = 0; epoch < 2; ++epoch) {
    const Order all = labels(whole), a = labels(first), b = labels(second);
    REQUIRE(a.size() == 12);
    REQUIRE(b.size() == 12);
    for (std::size_t i = 0; i < 23; ++i) CHECK(all[i] == (i % 2 == 0 ? a : b)[i / 2]);
    CHECK(b.back() == all[0]);  // 24 samples of 23: the first is visited again
  }
  data::Batch batch;
  data::Loader stopped = shard(1, 2), resumed = shard(1, 2), other = shard(0, 3);
  REQUIRE(stopped.next(batch));
  resumed.restore(stopped.state());
  CHECK(labels(resumed) == labels(stopped));
  CHECK_THROWS_WITH(other.restore(stopped.state()), Contains("resume with the same data"));

  // The same sample at the same position of both shards, randomly rotated: different random numbers.
  const auto turned = [](int rank) {
    data::Loader l = data::Pipeline(data::synthetic_digits(64, 3)).sampler(data::RandomSampler(64, true, 64))
                         .shard(rank, 2).random_crop(3).batch(32).raw().loader();
    data::Batch b;
    REQUIRE(l.next(b));
    return b.image.to_vector<double>();
  };
  CHECK(turned(0) == turned(0));
  CHECK(turned(0) != turned(1));
  CHECK_THROWS_WITH(data::Pipeline(data::synthetic_digits(64, 3)).shard(2, 2), Contains("rank 2 is not one of 2"));
}
