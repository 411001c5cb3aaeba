// Sorting and extremes compared with plain C++ on lengths that cover every kernel path: short lines, lines sorted by
// radix sort, long lines shared by all threads, and strided lines.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/layout.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

// NaN counts as the largest value.
bool before(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }
std::vector<std::int64_t> order_of(const std::vector<double>& x, bool descending) {
  std::vector<std::int64_t> at(x.size());
  std::iota(at.begin(), at.end(), 0);
  const auto value = [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; };
  std::stable_sort(at.begin(), at.end(), [&](std::int64_t a, std::int64_t b) {
    return descending ? before(value(b), value(a)) : before(value(a), value(b));
  });
  return at;
}
// Lines with ties, negative zeros and, of floating numbers, infinities and NaN if asked for.
Tensor line_of(Dtype dtype, std::int64_t n, double range, bool nan) {
  Tensor x = dtype == boolean ? rand({n}) > 0.5 : (rand({n}, {.dtype = f64}) * (2 * range) - range).to(dtype);
  if (dtype == u8) x = randint(0, 256, {n}).to(u8);
  if (!x.is_floating() || n < 8) return x;
  const auto put = [&](std::int64_t i, double v) { slice(x, 0, i, i + 1).fill_(v); };
  put(n / 2, -0.0), put(n / 3, 0.0), put(n - 1, INFINITY), put(1, -INFINITY);
  if (nan) put(n / 4, NAN), put(n / 4 + 2, NAN);
  return x;
}
// Runs check() with one thread and with three.
template <class F> void with_threads(const F& check) {
  const int threads = num_threads();
  for (const int n : {1, 3}) {
    set_num_threads(n);
    check();
  }
  set_num_threads(threads);
}

}  // namespace

TEST_CASE("argsort and the places of medians are those of a stable sort, for lines of any length and dtype") {
  manual_seed(11);
  for (const std::int64_t n : {1, 7, 100, 700, 5000, 300000}) {
    for (const Dtype dtype : {f32, f64, bf16, f16, i64, i32, u8, boolean}) {
      for (const double range : {3.0, 1e12}) {
        if (range > 3 && dtype != i64 && dtype != f64) continue;
        const Tensor x = line_of(dtype, n, range, range > 3);
        INFO(name_of(dtype) << " " << n << " " << range);
        const std::vector<double> values = x.to_vector<double>();
        const std::vector<std::int64_t> up = order_of(values, false), down = order_of(values, true);
        with_threads([&] {
          CHECK(argsort(x, 0).to_vector<std::int64_t>() == up);
          CHECK(argsort(x, 0, true).to_vector<std::int64_t>() == down);
          for (const std::int64_t k : {std::int64_t{1}, n / 3 + 1, n})
            CHECK(kthvalue(x, k, 0).indices.item<std::int64_t>() == up[static_cast<std::size_t>(k - 1)]);
          const auto first_nan = std::find_if(values.begin(), values.end(), [](double v) { return std::isnan(v); });
          const std::int64_t middle =
              first_nan != values.end() ? first_nan - values.begin() : up[static_cast<std::size_t>((n - 1) / 2)];
          if (dtype != boolean) CHECK(median(x, 0).indices.item<std::int64_t>() == middle);
        });
      }
    }
  }
}

TEST_CASE("several lines, along any dimension, are put in order each by itself") {
  manual_seed(12);
  const Tensor x = randn({3, 600, 5}, {.dtype = f64});
  for (int d = 0; d < 3; ++d) {
    const Tensor order = argsort(x, d), middle = median(x, d).indices;
    const std::int64_t n = x.size(d);
    const Tensor lines = contiguous(movedim(x, {d}, {2})), orders = contiguous(movedim(order, {d}, {2}));
    for (std::int64_t i = 0; i < lines.size(0); ++i) {
      for (std::int64_t j = 0; j < lines.size(1); ++j) {
        const auto expected = order_of(select(select(lines, 0, i), 0, j).to_vector<double>(), false);
        CHECK(select(select(orders, 0, i), 0, j).to_vector<std::int64_t>() == expected);
        CHECK(select(select(middle, 0, i), 0, j).item<std::int64_t>() ==
              expected[static_cast<std::size_t>((n - 1) / 2)]);
      }
    }
  }
}

TEST_CASE("the largest of a line is the first in descending order, also of several lines and of NaN") {
  manual_seed(18);
  for (const Dtype dtype : {f32, f64, bf16, i64, i32, u8, boolean}) {
    Tensor x = dtype == boolean ? rand({40, 30}) > 0.5 : randint(0, 20, {40, 30}).to(dtype);
    if (x.is_floating()) slice(flatten(x), 0, 5, 7).fill_(NAN);
    for (const int d : {0, 1}) {
      INFO(name_of(dtype) << " along " << d);
      CHECK(same_bits(topk(x, 1, d).indices, slice(argsort(x, d, true), d, 0, 1)));
      CHECK(same_bits(topk(x, 1, d, false).indices, slice(argsort(x, d), d, 0, 1)));
    }
  }
}

TEST_CASE("the first k of a line are the first of the whole order, among ties, NaN and zeros of both signs") {
  manual_seed(21);
  for (const Dtype dtype : {f32, f64, f16, bf16, i64, i32, u8}) {
    for (const std::int64_t n : {70, 200, 1003, 5000}) {
      for (const bool has_nan : {false, true}) {
        if (has_nan && !is_floating(dtype)) continue;
        const std::int64_t values = n % 10 == 0 ? 20 : 200;  // few: mostly ties
        Tensor x = randint(0, values, {6, n}).to(dtype);
        if (dtype != u8) x = where(rand({6, n}) < 0.5, x * -1, x);
        if (has_nan) x = where(rand({6, n}) < 0.01, Tensor(NAN), x);
        const Tensor rising = sort(x).values;  // every key precedes the ones before it, or none does
        for (const Tensor& lines : {x, rising}) {
          const Tensor down = argsort(lines, 1, true), up = argsort(lines, 1);
          for (const std::int64_t k : {1, 2, 3, 7, 15, 64, 70}) {
            INFO(name_of(dtype) << " n " << n << " k " << k << (has_nan ? " with NaN" : ""));
            CHECK(equal(topk(lines, k, 1, true).indices, slice(down, 1, 0, k)));
            CHECK(equal(topk(lines, k, 1, false).indices, slice(up, 1, 0, k)));
          }
        }
      }
    }
  }
}

TEST_CASE("searchsorted finds the places of the standard library's bounds") {
  manual_seed(19);
  for (const std::int64_t n : {0, 1, 2, 3, 100, 1000}) {
    const Tensor sorted = n == 0 ? zeros({0}, {.dtype = f64}) : sort(randint(0, 50, {n}).to(f64) * 0.5).values;
    const std::vector<double> line = sorted.to_vector<double>();
    const Tensor values = randint(-4, 60, {300}).to(f64) * 0.5;
    const auto left = searchsorted(sorted, values).to_vector<std::int64_t>(),
               right = searchsorted(sorted, values, true).to_vector<std::int64_t>();
    const std::vector<double> v = values.to_vector<double>();
    for (std::size_t i = 0; i < v.size(); ++i) {
      CHECK(left[i] == std::lower_bound(line.begin(), line.end(), v[i]) - line.begin());
      CHECK(right[i] == std::upper_bound(line.begin(), line.end(), v[i]) - line.begin());
    }
  }
}

TEST_CASE("a long index is counted and summed exactly, for any number of threads") {
  manual_seed(20);
  const std::int64_t n = 200000;
  for (const std::int64_t bins : {3, 1000}) {
    const Tensor x = randint(0, bins, {n});
    std::vector<std::int64_t> counts(static_cast<std::size_t>(bins));
    for (const std::int64_t v : x.to_vector<std::int64_t>()) ++counts[static_cast<std::size_t>(v)];
    with_threads([&] { CHECK(bincount(x).to_vector<std::int64_t>() == counts); });
    const Tensor source = randint(-5, 5, {n}).to(i32), sum = scatter_add(ones({bins}, {.dtype = i32}), 0, x, source);
    CHECK(same_bits(sum, scatter_add(ones({bins}), 0, x, source.to(f32)).to(i32)));
  }
}

TEST_CASE("unique counts what lies in a small range and sorts what does not, with the same results") {
  manual_seed(13);
  for (const std::int64_t high : {3, 50, 100000}) {
    for (const Dtype dtype : {i64, i32, f32}) {
      const Tensor x = randint(-20, high, {40, 10}).to(dtype);
      INFO(name_of(dtype) << " " << high);
      std::map<double, std::int64_t> counts;
      for (const double v : x.to_vector<double>()) ++counts[v];
      std::vector<double> values;
      std::vector<std::int64_t> numbers;
      for (const auto& [v, n] : counts) values.push_back(v), numbers.push_back(n);
      const UniqueResult r = unique(x);
      CHECK(r.values.dtype() == dtype);
      CHECK(r.values.to_vector<double>() == values);
      CHECK(r.counts.to_vector<std::int64_t>() == numbers);
      CHECK(r.inverse.sizes() == x.sizes());
      CHECK(same_bits(index_select(r.values, 0, flatten(r.inverse)), flatten(x)));
    }
  }
}

TEST_CASE("maxima and minima of every dtype stand where they stand first, however x lies in memory") {
  manual_seed(14);
  for (const Dims& sizes : {Dims{3, 37, 77}, Dims{130, 200}, Dims{9, 700}, Dims{2000, 5}, Dims{40000}}) {
    for (const Dtype dtype : {f32, f64, bf16, i64, i32, u8}) {
      Tensor x = randint(dtype == u8 ? 0 : -40, 40, sizes).to(dtype);  // with ties
      if (x.is_floating()) slice(flatten(x), 0, 5, 6).fill_(NAN);
      for (const bool turned : {false, true}) {
        if (turned && x.dim() > 1) x = transpose(contiguous(transpose(x, 0, -1)), 0, -1);
        for (int d = 0; d < x.dim(); ++d) {
          INFO(x << " along " << d << (turned ? ", transposed" : ""));
          const std::int64_t n = x.size(d);
          const std::vector<double> lines = contiguous(movedim(x, {d}, {x.dim() - 1})).to_vector<double>();
          std::vector<std::int64_t> largest, least;
          std::vector<double> top, bottom;
          for (std::size_t i = 0; i < lines.size(); i += static_cast<std::size_t>(n)) {
            std::size_t a = i, b = i;
            for (std::size_t j = i; j < i + static_cast<std::size_t>(n); ++j) {
              const bool nan = std::isnan(lines[j]);
              if (!std::isnan(lines[a]) && (nan || lines[j] > lines[a])) a = j;
              if (!std::isnan(lines[b]) && (nan || lines[j] < lines[b])) b = j;
            }
            largest.push_back(static_cast<std::int64_t>(a - i)), least.push_back(static_cast<std::int64_t>(b - i));
            top.push_back(lines[a]), bottom.push_back(lines[b]);
          }
          const auto same = [](const Tensor& y, const std::vector<double>& expected) {
            const std::vector<double> v = y.to_vector<double>();
            return std::equal(v.begin(), v.end(), expected.begin(), expected.end(),
                              [](double p, double q) { return p == q || (std::isnan(p) && std::isnan(q)); });
          };
          with_threads([&] {
            CHECK(argmax(x, d).to_vector<std::int64_t>() == largest);
            CHECK(argmin(x, d).to_vector<std::int64_t>() == least);
            CHECK(max(x, d).indices.to_vector<std::int64_t>() == largest);
            CHECK(same(max(x, d).values, top));
            CHECK(same(amax(x, {d}), top));
            CHECK(same(amin(x, {d}), bottom));
          });
        }
      }
    }
  }
}

TEST_CASE("integers of few bits are added, multiplied and compared as wide ones are, and wrap where they are stored") {
  manual_seed(15);
  for (const Dtype dtype : {i32, u8, boolean}) {
    const Tensor a =
        dtype == boolean ? rand({7, 301}) > 0.5 : randint(0, 256, {7, 301}).to(dtype) * (dtype == i32 ? 1 << 24 : 1);
    const Tensor b = dtype == boolean ? rand({7, 301}) > 0.5 : randint(0, 256, {7, 301}).to(dtype);
    const Tensor wide_a = a.to(i64), wide_b = b.to(i64);
    INFO(name_of(dtype));
    for (const Dtype to : {f32, f64, bf16, f16, i64, i32}) CHECK(same_bits(b.to(to), b.to(f64).to(to)));
    if (dtype == boolean) continue;
    CHECK(same_bits(a + b, (wide_a + wide_b).to(dtype)));
    CHECK(same_bits(a - b, (wide_a - wide_b).to(dtype)));
    CHECK(same_bits(a * b, (wide_a * wide_b).to(dtype)));
    CHECK(same_bits(a + 200, (wide_a + 200).to(dtype)));
    CHECK(same_bits(a * 3, (wide_a * 3).to(dtype)));
    for (const std::int64_t n : {7, 300, -1}) {
      CHECK(same_bits(b == n, wide_b == n));
      CHECK(same_bits(b < n, wide_b < n));
      CHECK(same_bits(b >= n, wide_b >= n));
    }
    CHECK(same_bits(a == b, wide_a == wide_b));
    CHECK(same_bits(ne(a, b), ne(wide_a, wide_b)));
    CHECK(same_bits(a > b, wide_a > wide_b));
    CHECK(same_bits(a <= b, wide_a <= wide_b));
  }
  const Tensor x = randn({300, 200}), half = x.to(bf16), number = (x * 1000).to(i64);  // of what lies across memory
  CHECK(same_bits(transpose(half).to(f32), transpose(half.to(f32))));
  CHECK(same_bits(transpose(x).to(f16), transpose(x.to(f16))));
  CHECK(same_bits(transpose(number).to(f32), transpose(number.to(f32))));
}

TEST_CASE("a long line's border is made of its own elements") {
  manual_seed(16);
  const std::int64_t n = 1500;
  const Tensor x = randn({2, n});
  for (const auto& [left, right] :
       {std::pair<std::int64_t, std::int64_t>{5, 9}, {0, 1400}, {1499, 0}, {-3, 4}, {4, -3}}) {
    for (const std::string mode : {"reflect", "replicate", "circular"}) {
      INFO(mode << " " << left << " " << right);
      std::vector<std::int64_t> at;
      for (std::int64_t i = -left; i < n + right; ++i) {
        if (mode == "replicate") at.push_back(std::clamp<std::int64_t>(i, 0, n - 1));
        else if (mode == "circular") at.push_back((i + n) % n);
        else at.push_back(i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i);
      }
      Tensor places = zeros({static_cast<std::int64_t>(at.size())}, {.dtype = i64});
      std::copy(at.begin(), at.end(), places.data<std::int64_t>());
      const Tensor y = x.clone().requires_grad_(), z = x.clone().requires_grad_();
      const Tensor padded = pad(y, {left, right}, mode), chosen = index_select(z, 1, places);
      CHECK(same_bits(padded.detach(), chosen.detach()));
      const Tensor g = randn(padded.sizes());
      sum(padded * g).backward();
      sum(chosen * g).backward();
      CHECK(all_close(y.grad(), z.grad(), tolerance_for(f32, 1500, 4)));
    }
  }
}

TEST_CASE("large planes of many channels are pooled to the bits of channels-last images") {
  manual_seed(17);
  for (const Dtype dtype : {f32, bf16}) {
    const Tensor x = randn({2, 20, 70, 75}).to(dtype);
    const auto max = max_pool2d_with_indices(x, 3, {.stride = 2, .padding = 1}),
               other = max_pool2d_with_indices(channels_last(x), 3, {.stride = 2, .padding = 1});
    CHECK(max.values.is_contiguous());
    CHECK(same_bits(max.values, contiguous(other.values)));
    CHECK(same_bits(max.indices, contiguous(other.indices)));
    CHECK(same_bits(avg_pool2d(x, 3, {.stride = 2, .padding = 1}),
                    contiguous(avg_pool2d(channels_last(x), 3, {.stride = 2, .padding = 1}))));
  }
}
