// data/batch_loader.h: batches of any type, with the same order and content for any number of threads; errors;
// resuming.
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/ops.h"
#include "data/batch_loader.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

struct Padded {
  Tensor tokens, lengths;
};
// Sample i has 1 + i % 7 tokens, all i.
Padded padded(std::span<const std::int64_t> indices) {
  std::int64_t longest = 0;
  for (const std::int64_t i : indices) longest = std::max(longest, 1 + i % 7);
  Padded p{zeros({static_cast<std::int64_t>(indices.size()), longest}, {.dtype = i64}), {}};
  std::vector<std::int64_t> lengths;
  for (std::size_t row = 0; row < indices.size(); ++row) {
    lengths.push_back(1 + indices[row] % 7);
    for (std::int64_t t = 0; t < lengths.back(); ++t)
      p.tokens[static_cast<std::int64_t>(row)][t].fill_(double(indices[row]));
  }
  p.lengths = from_data(lengths, static_cast<std::int64_t>(lengths.size()));
  return p;
}
std::string text(const Padded& p) { return to_string(p.tokens) + to_string(p.lengths); }

}  // namespace

TEST_CASE("batches of different sizes, each sample once in an epoch", "[data]") {
  data::BatchLoader loader(23, padded, {.batch = 4, .shuffle = true, .seed = 3, .threads = 2});
  static_assert(std::is_same_v<decltype(loader), data::BatchLoader<Padded>>);
  CHECK(loader.batches() == 6);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::set<std::int64_t> seen, widths;
    for (auto& [tokens, lengths] : loader) {
      CHECK(tokens.size(1) == max(lengths).item<std::int64_t>());
      widths.insert(tokens.size(1));
      for (const std::int64_t first : tokens[{all, 0}].to_vector<std::int64_t>()) seen.insert(first);
    }
    CHECK(seen.size() == 23);
    CHECK(widths.size() > 1);
  }
}

TEST_CASE("batches do not depend on threads, and go on where a position says", "[data]") {
  const auto noisy = [](std::span<const std::int64_t> indices, data::Draws& draws) {
    std::map<std::string, double> batch;  // any type
    for (const std::int64_t i : indices) batch[std::to_string(i)] = draws.uniform();
    return batch;
  };
  using Batches = std::vector<std::map<std::string, double>>;
  const auto read = [&](int threads, int from) {
    data::BatchLoader loader(50, noisy, {.batch = 8, .shuffle = true, .seed = 9, .threads = threads});
    Batches all;
    std::map<std::string, double> batch;
    data::LoaderState state;
    for (int epoch = 0; epoch < 2; ++epoch) {
      while (loader.next(batch)) {
        all.push_back(batch);
        if (static_cast<int>(all.size()) == from) state = loader.state();
      }
    }
    if (from == 0) return all;
    data::BatchLoader resumed(50, noisy, {.batch = 8, .shuffle = true, .threads = threads});
    resumed.restore(state);
    all.resize(static_cast<std::size_t>(from));
    for (int ends = 0; ends < (from < 7 ? 2 : 1);) {
      if (resumed.next(batch)) all.push_back(batch);
      else ++ends;
    }
    return all;
  };
  const Batches expected = read(0, 0);
  CHECK(expected.size() == 14);
  CHECK(expected[0] != expected[7]);
  CHECK(read(1, 0) == expected);
  CHECK(read(3, 0) == expected);
  CHECK(read(2, 3) == expected);
  CHECK(read(2, 9) == expected);
}

TEST_CASE("batches that cannot be copied, and a sampler of one's own", "[data]") {
  struct Grouped final : data::BatchSampler {  // samples of one length together
    std::int64_t batches() const override { return 7; }
    Batches order(std::uint64_t, std::uint64_t) const override {
      Batches all(7);
      for (std::int64_t i = 0; i < 28; ++i) all[static_cast<std::size_t>(i % 7)].push_back(i);
      return all;
    }
  };
  const auto make = [](std::span<const std::int64_t> indices) { return std::make_unique<Padded>(padded(indices)); };
  data::BatchLoader loader(28, make, {}, {.batches = std::make_shared<Grouped>()});
  int count = 0;
  for (auto& batch : loader) {
    CHECK(batch->tokens.sizes() == Dims{4, count + 1});
    ++count;
  }
  CHECK(count == 7);
}

TEST_CASE("an exception comes when its batch is due, with its number, and the next batch after it", "[data]") {
  const auto make = [](std::span<const std::int64_t> indices) {
    if (indices[0] == 4) throw std::runtime_error("sample 4 is broken");
    return padded(indices);
  };
  data::BatchLoader loader(8, make, {.batch = 2, .threads = 2});
  Padded batch;
  CHECK(loader.next(batch));
  CHECK(loader.next(batch));
  CHECK_THROWS_WITH(loader.next(batch), Contains("data loader, epoch 0, batch 2: sample 4 is broken"));
  CHECK(loader.next(batch));
  CHECK(text(batch) == text(padded(std::vector<std::int64_t>{6, 7})));
  CHECK(!loader.next(batch));
}

TEST_CASE("a loader of nothing, or on a device, is refused", "[data]") {
  CHECK_THROWS_WITH(data::BatchLoader(0, padded), Contains("the dataset is empty"));
  CHECK_THROWS_WITH(data::BatchLoader(3, padded, {.batch = 0}), Contains("batch size must be at least 1"));
  CHECK_THROWS_WITH(data::BatchLoader(3, padded, {.device = cuda}), Contains("batches come on the CPU"));
}
