// The data loader: the same batches for any number of threads, exact resume, exceptions that arrive with the batch they
// belong to, and no deadlocks.
#include "data/loader.h"

#include <array>
#include <atomic>
#include <cmath>
#include <set>
#include <stdexcept>
#include <thread>

#include "catch_compat.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "core/random.h"
#include "data/pipeline.h"
#include "data/synthetic.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using data::Batch;
using data::Loader;

namespace {

// Sample i is a 1x2x2 image of the byte i, with label i.
class Counting : public data::Source {
 public:
  explicit Counting(std::int64_t n, std::int64_t broken = -1) : n_(n), broken_(broken) {}
  std::int64_t size() const override { return n_; }
  Dims image_sizes() const override { return {1, 2, 2}; }
  std::int64_t read(std::int64_t index, void* image) const override {
    if (index == broken_) throw std::runtime_error("the disk is on fire");
    for (int i = 0; i < 4; ++i) static_cast<std::uint8_t*>(image)[i] = static_cast<std::uint8_t>(index);
    return index;
  }

 private:
  std::int64_t n_, broken_;
};

data::Pipeline counting(std::int64_t n, std::int64_t broken = -1) {
  return data::Pipeline(std::make_shared<Counting>(n, broken));
}

// Labels and pixels of a batch, for comparison.
std::vector<double> content(const Batch& b) {
  std::vector<double> v = b.label.to_vector<double>();
  for (const double x : b.image.to_vector<double>()) v.push_back(x);
  return v;
}

// A pipeline with all random transforms enabled.
Loader random_loader(int threads, int prefetch = 4) {
  return data::Pipeline(data::synthetic_digits(100, 3))
      .shuffle(7).random_flip().random_crop(3).batch(16).threads(threads).prefetch(prefetch).loader();
}

std::vector<std::vector<double>> take(Loader& loader, int batches) {
  std::vector<std::vector<double>> all;
  Batch b;
  while (static_cast<int>(all.size()) < batches)
    if (loader.next(b)) all.push_back(content(b));
  return all;
}

}  // namespace

TEST_CASE("loader: an epoch holds every sample once, in order without shuffle, in another order with it") {
  std::vector<std::int64_t> plain, first, second;
  for (auto [image, label] : counting(10).batch(4)) {
    CHECK(image.sizes() == Dims{label.size(0), 1, 2, 2});
    CHECK(image.to_vector<double>()[0] == label.to_vector<double>()[0]);
    for (const auto x : label.to_vector<std::int64_t>()) plain.push_back(x);
  }
  CHECK(plain == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  Loader loader = counting(100).shuffle(1).batch(7).loader();
  for (auto [image, label] : loader) for (const auto x : label.to_vector<std::int64_t>()) first.push_back(x);
  for (auto [image, label] : loader) for (const auto x : label.to_vector<std::int64_t>()) second.push_back(x);
  CHECK(std::set<std::int64_t>(first.begin(), first.end()).size() == 100);
  CHECK(std::set<std::int64_t>(second.begin(), second.end()).size() == 100);
  CHECK(first != second);
}

TEST_CASE("loader: sizes of the last batch, drop_last, epochs of the loop") {
  std::vector<std::int64_t> sizes;
  for (auto [image, label] : counting(10).batch(4)) sizes.push_back(label.size(0));
  CHECK(sizes == std::vector<std::int64_t>{4, 4, 2});
  sizes.clear();
  for (auto [image, label] : counting(10).batch(4).drop_last().epochs(2)) sizes.push_back(label.size(0));
  CHECK(sizes == std::vector<std::int64_t>{4, 4, 4, 4});
  sizes.clear();
  for (auto [image, label] : counting(3).batch(8)) sizes.push_back(label.size(0));
  CHECK(sizes == std::vector<std::int64_t>{3});
  CHECK(counting(10).batch(5).loader().batches() == 2);
}

TEST_CASE("loader: each loop over a pipeline is its next epoch, one that was left early too; a copy counts anew") {
  const data::Pipeline pipeline = data::Pipeline(data::synthetic_digits(60, 3)).shuffle(7).random_crop(3).batch(16);
  Loader loader = pipeline.loader();
  const auto expected = take(loader, 16);  // four epochs
  const auto loop = [](const data::Pipeline& p, int most) {
    std::vector<std::vector<double>> all;
    for (const Batch& b : p) {
      all.push_back(content(b));
      if (static_cast<int>(all.size()) == most) break;
    }
    return all;
  };
  CHECK(loop(pipeline, 4) == std::vector(expected.begin(), expected.begin() + 4));
  CHECK(loop(pipeline, 1) == std::vector(expected.begin() + 4, expected.begin() + 5));
  CHECK(loop(data::Pipeline(pipeline), 4) == std::vector(expected.begin(), expected.begin() + 4));
  CHECK(loop(pipeline.epochs(2), 8) == std::vector(expected.begin(), expected.begin() + 8));
  CHECK(loop(pipeline, 4) == std::vector(expected.begin() + 8, expected.begin() + 12));
  CHECK(loop(pipeline, 4) == std::vector(expected.begin() + 12, expected.end()));
}

TEST_CASE("loader: steps leave a pipeline as it is; samples and batches of an epoch") {
  const data::Pipeline plain = counting(10), shuffled = plain.shuffle(1), fours = shuffled.batch(4);
  CHECK(plain.batches() == 10);
  CHECK(fours.batches() == 3);
  CHECK(fours.drop_last().batches() == 2);
  CHECK(fours.samples() == 10);
  CHECK(fours.shard(0, 2).samples() == 5);
  CHECK(fours.shard(0, 2).batches() == 2);
  std::vector<std::int64_t> order;
  for (auto [image, label] : plain) order.push_back(label.item<std::int64_t>());
  CHECK(order == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("loader: the seed of shuffle() and of a sampler is drawn from the default generator, if none was given") {
  const RngState before = rng_state();
  const auto seed_of = [](const data::Pipeline& p) { return p.loader().state().seed; };
  const auto draw = [&] { return std::array{seed_of(counting(9).shuffle()), seed_of(counting(9).shuffle())}; };
  manual_seed(5);
  const auto first = draw();
  CHECK(first[0] != first[1]);  // a pipeline made anew for each epoch has a new order
  manual_seed(5);
  CHECK(draw() == first);
  const RngState drawn = rng_state();
  CHECK(seed_of(counting(9).shuffle(3)) == 3);
  CHECK(seed_of(counting(9).seed(4).shuffle()) == 4);
  CHECK(seed_of(counting(9).seed(6).sampler(data::RandomSampler(9))) == 6);
  CHECK(seed_of(counting(9).random_flip()) == 0);
  CHECK(seed_of(counting(9).shard(0, 1).shuffle(3)) == 3);
  CHECK(seed_of(counting(9).shuffle(3).shard(1, 2)) == 3);
  CHECK(seed_of(counting(9).shard(1, 2).shuffle()) == 5);  // of manual_seed, whatever this rank has drawn
  CHECK(rng_state() == drawn);
  CHECK(seed_of(counting(9).shuffle().shard(1, 2)) == 5);
  CHECK(seed_of(counting(9).sampler(data::RandomSampler(9)).shard(1, 2)) == 5);
  CHECK(seed_of(counting(9).sampler(data::RandomSampler(9))) != seed_of(counting(9).sampler(data::RandomSampler(9))));
  set_rng_state(before);
}

TEST_CASE("loader: the same batches for 0, 1, 2 and 4 threads and any prefetch") {
  Loader synchronous = random_loader(0);
  const auto expected = take(synchronous, 20);  // nearly three epochs
  for (const int threads : {1, 2, 4})
    for (const int prefetch : {1, 3, 16}) {
      INFO(threads << " threads, prefetch " << prefetch);
      Loader loader = random_loader(threads, prefetch);
      CHECK(take(loader, 20) == expected);
    }
}

TEST_CASE("loader: resume in the middle of an epoch, at its end, and through a tensor") {
  Loader whole = random_loader(2);
  const auto expected = take(whole, 25);
  for (const int done : {0, 1, 5, 7, 8, 14, 20}) {
    INFO("after " << done << " batches");
    Loader before = random_loader(3);
    const auto head = take(before, done);
    const data::LoaderState state = data::loader_state_from_tensor(data::to_tensor(before.state()));
    CHECK(state == before.state());
    Loader after = random_loader(1);
    take(after, 2);  // wherever it was
    if (done % 2 == 0) after.restore(state);
    else after.load_state_dict(before.state_dict());
    CHECK(after.state() == state);
    const auto tail = take(after, 25 - done);
    CHECK(std::vector(expected.begin(), expected.begin() + done) == head);
    CHECK(std::vector(expected.begin() + done, expected.end()) == tail);
  }
}

TEST_CASE("loader: the end of an epoch is reported once, also after a resume there") {
  Loader loader = counting(4).batch(2).loader();
  Batch b;
  CHECK(loader.next(b));
  CHECK(loader.next(b));
  const data::LoaderState end = loader.state();
  CHECK(end.epoch == 0);
  CHECK(end.batch == 2);
  CHECK_FALSE(loader.next(b));
  CHECK(loader.state().epoch == 1);
  CHECK(loader.next(b));
  loader.restore(end);
  CHECK_FALSE(loader.next(b));
  CHECK(loader.next(b));
}

TEST_CASE("loader: a position of other data or options is refused") {
  Loader loader = counting(10).batch(4).loader();
  CHECK_THROWS_WITH(loader.restore(counting(10).batch(5).loader().state()), Contains("batches of 5"));
  CHECK_THROWS_WITH(loader.load_state_dict({{"step", zeros({7}, {.dtype = i64})}}),
                    Contains("one tensor \"state\"") && Contains("step"));
  CHECK_THROWS_WITH(loader.restore(counting(11).batch(4).loader().state()), Contains("11 samples"));
  CHECK_THROWS_WITH(loader.restore(counting(10).batch(4).shuffle(1).loader().state()),
                    Contains("shuffle true"));
  data::LoaderState state = loader.state();
  state.batch = 4;
  CHECK_THROWS_WITH(loader.restore(state), Contains("batch 4 of 3"));
  state.batch = 0;
  state.epoch = INT64_MAX;
  CHECK_THROWS_WITH(loader.restore(state), Contains("the saved position is epoch"));
  Batch b;
  CHECK(loader.next(b));  // untouched by the refusals
  CHECK_THROWS_WITH(data::loader_state_from_tensor(zeros({2})), Contains("i64[7]"));
}

TEST_CASE("loader: an exception arrives when its batch is due, names the sample, and is passed over") {
  for (const int threads : {0, 1, 3}) {
    INFO(threads << " threads");
    Loader loader = counting(12, 7).batch(3).threads(threads).loader();
    Batch b;
    CHECK(loader.next(b));
    CHECK(loader.next(b));
    CHECK(message_of([&] { loader.next(b); }) ==
          "data loader, epoch 0, batch 2: sample 7: the disk is on fire");
    REQUIRE(loader.next(b));
    CHECK(b.label.to_vector<std::int64_t>() == std::vector<std::int64_t>{9, 10, 11});
    CHECK_FALSE(loader.next(b));
  }
}

TEST_CASE("loader: an exception in a transform reaches the loop") {
  const auto run = [] {
    for (auto [image, label] :
         counting(8).batch(2).map([](Batch&, data::Draws&) { throw std::runtime_error("bad map"); }))
      FAIL("a batch came out");
  };
  CHECK_THROWS_WITH(run(), Contains("epoch 0, batch 0: bad map"));
  const auto wrong = [] {
    for (auto [image, label] : counting(8).batch(2).normalize({0.5f, 0.5f}, {1})) FAIL("a batch came out");
  };
  CHECK_THROWS_WITH(wrong(), Contains("normalize: 2 values for images of 1 channels"));
}

TEST_CASE("loader: bad options are refused in one line") {
  CHECK_THROWS_WITH(counting(4).batch(0).loader(), Contains("batch size must be at least 1, got 0"));
  CHECK_THROWS_WITH(counting(4).prefetch(0).loader(), Contains("prefetch must be at least 1"));
  CHECK_THROWS_WITH(counting(4).threads(-1).loader(), Contains("asked for -1"));
  CHECK_THROWS_WITH(counting(4).threads(100000).loader(), Contains("asked for 100000"));
  CHECK_THROWS_WITH(counting(0).loader(), Contains("the dataset is empty"));
  CHECK_THROWS_WITH(counting(4).batch(8).drop_last().loader(), Contains("fewer than one batch of 8"));
  CHECK_THROWS_WITH(counting(4).shard(4, 5, data::Uneven::keep).loader(), Contains("rank 4 of 5 gets no samples"));
  CHECK_THROWS_WITH(counting(9).shard(1, 2).batch(8).drop_last().loader(), Contains("rank 1 of 2 gets 5 samples"));
}

TEST_CASE("loader: destroyed, moved and restored in the middle of an epoch without hanging") {
  for (int trial = 0; trial < 50; ++trial) {
    Loader loader =
        counting(1000).shuffle(1).batch(2).threads(1 + trial % 4).prefetch(1 + trial % 5).loader();
    Batch b;
    for (int i = 0; i < trial % 7; ++i) loader.next(b);
    if (trial % 3 == 0) loader.restore(loader.state());
    Loader moved = std::move(loader);
    if (trial % 2) moved.next(b);
  }
  for (auto [image, label] : counting(1000).batch(1).threads(4).epochs(3)) break;
  SUCCEED();
}

TEST_CASE("loader: never more batches in memory than asked for") {
  static std::atomic<int> made;
  made = 0;
  Loader loader = counting(1000).batch(1).threads(3).prefetch(5)
                      .map([](Batch&, data::Draws&) { ++made; }).loader();
  Batch b;
  for (int i = 1; i <= 10; ++i) {
    loader.next(b);
    CHECK(made <= i + 5);
  }
}

TEST_CASE("loader: its threads leave the others to the step that trains") {
  static std::atomic<int> strangers;
  strangers = 0;
  Loader loader = counting(64).batch(4).threads(2).map([](Batch&, data::Draws&) {
    parallel_for(1 << 12, 1, [self = std::this_thread::get_id()](std::int64_t, std::int64_t) {
      strangers += std::this_thread::get_id() != self;
    });
  }).loader();
  Batch b;
  for (int i = 0; i < 8; ++i) loader.next(b);
  CHECK(strangers == 0);
}

TEST_CASE("loader: a set without mean and std: f32 rows come as they are, pixels in [-1, 1]") {
  const Tensor rows = full({4, 3}, 2), labels = zeros({4}, {.dtype = i64});
  const Tensor pixels = full({4, 1, 2, 2}, 255, {.dtype = u8});
  const auto batches = [&](const Tensor& images) {
    return data::Pipeline(data::Dataset{.images = images, .labels = labels, .classes = 1}).batch(4);
  };
  for (auto [x, y] : batches(rows)) CHECK(equal(x, rows));
  for (auto [x, y] : batches(pixels)) CHECK(equal(x, ones({4, 1, 2, 2})));
}

TEST_CASE("loader: one-batch epochs") {
  Loader loader = counting(3).shuffle(1).batch(8).threads(3).prefetch(8).loader();
  Loader reference = counting(3).shuffle(1).batch(8).threads(0).loader();
  CHECK(take(loader, 30) == take(reference, 30));
}

TEST_CASE("permutation: complete, different by seed and epoch, and fair") {
  for (const std::int64_t n : {0, 1, 2, 17, 1000}) {
    const auto p = data::permutation(n, 1, 2);
    CHECK(std::set<std::int64_t>(p.begin(), p.end()).size() == static_cast<std::size_t>(n));
  }
  CHECK(data::permutation(1000, 1, 0) == data::permutation(1000, 1, 0));
  CHECK(data::permutation(1000, 1, 0) != data::permutation(1000, 1, 1));
  CHECK(data::permutation(1000, 1, 0) != data::permutation(1000, 2, 0));
  // Each of the 24 orders of four items should occur 1/24 of the time (chi-squared, 23 degrees of freedom: 49.7 is
  // exceeded once in a thousand; the seed is fixed).
  std::vector<int> counts(256);
  for (std::uint64_t epoch = 0; epoch < 24'000; ++epoch) {
    const auto p = data::permutation(4, 5, epoch);
    ++counts[p[0] * 64 + p[1] * 16 + p[2] * 4 + p[3]];
  }
  double chi = 0;
  int seen = 0;
  for (const int c : counts) if (c > 0) chi += (c - 1000.0) * (c - 1000.0) / 1000, ++seen;
  CHECK(seen == 24);
  CHECK(chi < 49.7);
}
