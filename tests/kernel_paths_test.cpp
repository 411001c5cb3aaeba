// Kernels choose different code paths by size: SIMD vectors, short rows, few planes. Each path gives the bits of the
// plain one, which is selected by asking for a part, or with explicitly expanded operands. ctest runs it on each
// instruction set.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "autograd/backward.h"
#include "core/indexing.h"
#include "core/ops_numeric.h"
#include "core/ops_special.h"
#include "core/parallel.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

Tensor some_numbers(const Dims& sizes, Dtype dtype, std::uint64_t seed) {
  manual_seed(seed);
  return cast(randn(sizes, {.dtype = f32}) * 3.0, dtype);
}

}  // namespace

TEST_CASE("operands that repeat within short rows give what they give when written out") {
  struct Shapes {
    Dims a, b, y;
  };
  std::vector<Shapes> shapes;
  for (const std::int64_t n : {1, 2, 3, 4, 5, 9, 16, 17, 33, 47, 65, 127, 128, 200}) {
    shapes.push_back({{301, n}, {301, 1}, {301, n}});
    shapes.push_back({{23, 7, 1}, {23, 1, n}, {23, 7, n}});
    shapes.push_back({{5, 1, 3, n}, {5, 11, 3, 1}, {5, 11, 3, n}});
    shapes.push_back({{13, n, 1}, {n, 3}, {13, n, 3}});
  }
  for (const Shapes& s : shapes) {
    for (const Dtype dtype : {f32, f64, bf16, f16, i64, i32, u8}) {
      INFO(name_of(dtype) << " " << describe(zeros(s.a)) << " " << describe(zeros(s.b)));
      const Tensor a = some_numbers(s.a, dtype, 1), b = some_numbers(s.b, dtype, 2);
      const Tensor wide_a = contiguous(expand(a, s.y)), wide_b = contiguous(expand(b, s.y));
      CHECK(same_bits(a + b, wide_a + wide_b));
      CHECK(same_bits(maximum(b, a), maximum(wide_b, wide_a)));
      // columns of a wider matrix, and a result in another dtype
      const Tensor wider = some_numbers({s.b[0], 2 * s.b[s.b.rank() - 1] + 1}, dtype, 3);
      const Tensor part = wider.slice(1, 1, 1 + s.b[s.b.rank() - 1]);
      if (s.b.rank() == 2) CHECK(same_bits(a * part, wide_a * contiguous(expand(part, s.y))));
      CHECK(same_bits(lt(a, b), lt(wide_a, wide_b)));
    }
  }
}

TEST_CASE("images of few channels change their layout without changing elements") {
  for (const std::int64_t channels : {1, 2, 3, 4, 5}) {
    for (const Dims& size : {Dims{1, 1}, {5, 7}, {70, 67}}) {
      for (const Dtype dtype : {f32, f64, bf16, u8}) {
        const Tensor x = some_numbers({2, channels, size[0], size[1]}, dtype, 4), y = channels_last(x);
        const Tensor part = channels_last(x.slice(3, 0, (size[1] + 1) / 2));
        INFO(describe(x));
        CHECK(x.to_vector<double>() == y.to_vector<double>());
        CHECK(contiguous(y).to_vector<double>() == x.to_vector<double>());
        CHECK(part.to_vector<double>() == contiguous(x.slice(3, 0, (size[1] + 1) / 2)).to_vector<double>());
      }
    }
  }
}

TEST_CASE("pooling many channels gives what pooling each of them gives") {
  const auto each = [](const Tensor& x, const auto& pool) {
    std::vector<Tensor> parts;
    for (std::int64_t c = 0; c < x.size(1); ++c) parts.push_back(pool(contiguous(x.slice(1, c, c + 1))));
    return cat(parts, 1);
  };
  for (const Dtype dtype : {f32, f64, bf16, f16}) {
    for (const double nan : {0.0, std::numeric_limits<double>::quiet_NaN()}) {
      Tensor x = some_numbers({2, 37, 5, 6, 9}, dtype, 5);
      if (nan != 0) x = where(gt(x, Tensor(7.0)), Tensor(nan), x);
      const auto check = [&](const char* name, const auto& pool) {
        INFO(name << " " << describe(x));
        CHECK(same_bits(pool(x), each(x, pool)));
      };
      check("max_pool3d", [](const Tensor& v) { return max_pool3d(v, {2, 3, 2}, {.padding = {1, 1, 1}}); });
      check("max_pool3d, dilated", [](const Tensor& v) {
        return max_pool3d(v, {2, 2, 3}, {.stride = {1, 2, 1}, .dilation = {2, 1, 3}});
      });
      check("places of max_pool3d", [](const Tensor& v) {
        return max_pool3d_with_indices(v, {2, 3, 2}, {.stride = {1, 2, 2}, .padding = {1, 1, 0}}).indices;
      });
      check("avg_pool3d", [](const Tensor& v) { return avg_pool3d(v, {2, 3, 2}, {.padding = {1, 1, 1}}); });
      check("adaptive_avg_pool3d", [](const Tensor& v) { return adaptive_avg_pool3d(v, {2, 3, 4}); });
      check("adaptive_avg_pool3d to one", [](const Tensor& v) { return adaptive_avg_pool3d(v, {1, 1, 1}); });
      check("max_pool1d", [](const Tensor& v) {
        return max_pool1d(reshape(v, {2, v.size(1), 270}), 3, {.stride = 2, .padding = 1});
      });
    }
  }
}

TEST_CASE("the remainder of a division is exact for quotients of any size") {
  std::mt19937_64 random(6);
  const auto check = [&]<class C>(C, Dtype dtype) {
    constexpr int digits = std::numeric_limits<C>::digits, largest = std::numeric_limits<C>::max_exponent;
    std::vector<C> a, b;
    std::uniform_real_distribution<C> mantissa(1, 2);
    for (int i = 0; i < 40000; ++i) {
      const C y = std::ldexp(mantissa(random), static_cast<int>(random() % 40) - 20);
      // quotients around each power of two, up to some beyond the vector path, and those within rounding of an integer
      const int power = static_cast<int>(random() % (static_cast<unsigned>(digits) + 12)) - 6;
      C x = i % 2 ? y * std::ldexp(mantissa(random), power) : y * std::trunc(std::ldexp(mantissa(random), power));
      for (std::uint64_t step = random() % 3; step > 0; --step) x = std::nextafter(x, C(0));
      a.push_back(random() % 2 ? x : -x);
      b.push_back(random() % 2 ? y : -y);
      if (i % 1000 < 20) {  // whole vectors of what is not divided so
        const C special[] = {C(0), std::numeric_limits<C>::infinity(), std::ldexp(C(1), largest - 1)};
        a.back() = special[random() % 3];
      }
      if (i % 997 == 0) b.back() = std::numeric_limits<C>::infinity();
    }
    const auto tensor_of = [&](const std::vector<C>& v) {
      const Tensor t = Tensor::allocate({static_cast<std::int64_t>(v.size())}, dtype);
      std::copy(v.begin(), v.end(), t.data<C>());
      return t;
    };
    const Tensor y = fmod(tensor_of(a), tensor_of(b));
    int wrong = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const C expected = std::fmod(a[i], b[i]), got = y.data<C>()[i];
      const bool same = got == expected && std::signbit(got) == std::signbit(expected);
      if (std::isnan(expected) ? std::isnan(got) : same) continue;
      if (++wrong < 5) FAIL_CHECK("fmod(" << a[i] << ", " << b[i] << ") is " << got << " instead of " << expected);
    }
    CHECK(wrong == 0);
  };
  check(float(), f32);
  check(double(), f64);
}

TEST_CASE("floor_divide rounds the exact quotient down") {
  const std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> a{least, least, most, most, 7, -7, 7, -7, 0}, b{1, 2, -1, 2, 2, 2, -2, -2, -3};
  std::mt19937_64 random(7);
  for (int i = 0; i < 5000; ++i) {
    a.push_back(static_cast<std::int64_t>(random()) >> random() % 63);
    b.push_back((static_cast<std::int64_t>(random()) >> random() % 63) | 1);
  }
  const auto n = static_cast<std::int64_t>(a.size());
  const std::vector<std::int64_t> y = floor_divide(from_data(a, {n}), from_data(b, {n})).to_vector<std::int64_t>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (b[i] == -1) continue;  // the negative wraps around
    const std::int64_t rest = a[i] % b[i];
    CHECK(y[i] == a[i] / b[i] - (rest != 0 && (rest < 0) != (b[i] < 0)));
  }
  CHECK(floor_divide(from_data<std::int64_t>({5, least}, {2}), Tensor(-1)).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{-5, least});
  // a quotient that is rounded up to an integer: 0.9999999 * 3 / 3
  const Tensor below = from_data<float>({std::nextafter(3e6f, 0.0f)}, {1});
  CHECK(floor_divide(below, Tensor(3.0)).item<float>() == 999999);
}

TEST_CASE("reductions of integers of every width are exact") {
  for (const Dims& sizes :
       {Dims{3, 1}, Dims{5, 7}, Dims{9, 70}, Dims{70, 9}, Dims{3, 1100}, Dims{1100, 65}, Dims{2, 70000}}) {
    const Tensor x = cast(some_numbers(sizes, f64, 8) * 20.0 + 100.0, u8);
    for (const Dtype dtype : {u8, i32, i64, boolean}) {
      const Tensor narrow = cast(x, dtype), wide = cast(narrow, f64), across = contiguous(transpose(narrow));
      for (const int dim : {0, 1}) {
        INFO(describe(narrow) << " over " << dim);
        const auto check = [&](const char* what, const Tensor& found, const Tensor& expected) {
          INFO(what);
          CHECK(found.to_vector<double>() == expected.to_vector<double>());
        };
        for (const Tensor& t : {narrow, transpose(across)}) {
          check("sum", sum(t, {dim}), sum(wide, {dim}));
          check("amax", amax(t, {dim}), amax(wide, {dim}));
          check("amin", amin(t, {dim}), amin(wide, {dim}));
          check("argmax", argmax(t, dim), argmax(wide, dim));
          check("count_nonzero", count_nonzero(t, {dim}), count_nonzero(wide, {dim}));
          check("any", any(t, {dim}), any(wide, {dim}));
          check("all", all(t, {dim}), all(wide, {dim}));
        }
      }
      CHECK(sum(narrow).item<double>() == sum(wide).item<double>());
    }
  }
}

TEST_CASE("norms and sums without NaN are those of the squares and of the other elements, to the bit") {
  for (const Dims& sizes :
       {Dims{3, 1}, Dims{7, 40}, Dims{40, 77}, Dims{77, 40}, Dims{21, 196}, Dims{5, 1300}, Dims{1300, 9}}) {
    for (const Dtype dtype : {f32, f64}) {
      const Tensor x = some_numbers(sizes, dtype, 9), odd = where(gt(x, Tensor(2.0)), Tensor(double{NAN}), x);
      for (const Dims& dims : {Dims{0}, Dims{1}, Dims{}}) {
        INFO(concat(describe(x), " over ", dims));
        CHECK(equal(norm(x, 2, dims), sqrt(sum(square(x), dims))));
        CHECK(equal(nansum(odd, dims), sum(nan_to_num(odd, 0), dims)));
      }
    }
  }
  CHECK(nansum(tensor({1.0, NAN, -HUGE_VAL})).item() == -HUGE_VAL);
}

TEST_CASE("any and all of few elements, and of none") {
  for (const Dtype dtype : {u8, boolean, i32, f32}) {
    const Tensor x = cast(tensor({{0, 0, 0}, {0, 255, 0}, {1, 2, 255}}), dtype);
    INFO(name_of(dtype));
    CHECK(any(x, {1}).to_vector<int>() == std::vector<int>{0, 1, 1});
    CHECK(all(x, {1}).to_vector<int>() == std::vector<int>{0, 0, 1});
    const Tensor none = zeros({2, 0}, {.dtype = dtype});
    CHECK(any(none, {1}).to_vector<int>() == std::vector<int>{0, 0});
    CHECK(all(none, {1}).to_vector<int>() == std::vector<int>{1, 1});
  }
  CHECK(all(tensor({1.0, NAN})).item<bool>());
  CHECK(any(tensor({0.0, NAN})).item<bool>());
}

TEST_CASE("slices that a vector of indices picks are written as slice after slice, in the order of the vector") {
  for (const Dims& sizes : {Dims{9, 40, 3}, Dims{4, 6, 50}, Dims{2, 5, 2100}}) {
    for (const Dtype dtype : {f32, bf16, f64, i64}) {
      const Tensor x = some_numbers(sizes, dtype, 3);
      for (int dim = 0; dim < 3; ++dim) {
        const std::vector<std::int64_t> named{1, -1, 0, 1, sizes[dim] - 2, 1};
        const Tensor rows = from_data(named, {6});
        Dims picked = sizes;
        picked[dim] = 6;
        Dims one = sizes;
        one[dim] = 1;
        for (const Dims& given : {picked, one, Dims{}}) {
          const Tensor v = some_numbers(given, dtype, 4), all_v = broadcast_to(v, picked);
          for (const bool accumulate : {false, true}) {
            Tensor expected = cast(x, accumulate ? f64 : dtype).clone();
            for (std::int64_t i = 0; i < 6; ++i) {
              const std::int64_t row = named[static_cast<std::size_t>(i)];
              Tensor to = select(expected, dim, row);
              if (accumulate) to.add_(cast(select(all_v, dim, i), f64));
              else to.copy_(select(all_v, dim, i));
            }
            const auto put = [&](const Tensor& t, bool in_place) {
              const auto with = [&](auto f) {
                return dim == 0 ? f({rows}) : dim == 1 ? f({all, rows}) : f({all, all, rows});
              };
              return with([&](std::initializer_list<AnyIndex> at) {
                if (!in_place) return index_put(t, at, v, accumulate);
                index_put_(t, at, v, accumulate);
                return t;
              });
            };
            INFO(concat(describe(x), " dim ", dim, " of ", given, accumulate ? " added" : ""));
            const Tensor across = transpose(contiguous(transpose(x, 0, 2)), 0, 2);  // other strides
            for (const Tensor& found :
                 {put(x, false), put(x.clone(), true), put(across, false), put(across.clone(), true)}) {
              if (accumulate && is_half(dtype)) CHECK(allclose(cast(found, f64), expected, 8e-3, 1e-2));
              else if (accumulate && dtype == f32) CHECK(allclose(cast(found, f64), expected, 1e-6, 1e-6));
              else CHECK(equal(found, cast(expected, dtype)));
            }
          }
        }
      }
    }
  }
  const Tensor x = zeros({2, 3}, {.requires_grad = true}), v = ones({2, 2}, {.requires_grad = true});
  const Tensor y = index_put(x, {all, tensor({2, 0})}, v);
  const auto g = grad(y, {x, v}, tensor({{1, 2, 3}, {4, 5, 6}}, {.dtype = f32}));
  CHECK(g[0].to_vector<int>() == std::vector<int>{0, 2, 0, 0, 5, 0});
  CHECK(g[1].to_vector<int>() == std::vector<int>{3, 1, 6, 4});
  CHECK_THAT(message_of([&] { index_put(x, {all, tensor({3})}, 1.0); }),
             Catch::Matchers::Contains("index_put of x") && Catch::Matchers::Contains("index 3 is out of range"));
}

TEST_CASE("a histogram counts what lies between its edges, for any number of threads") {
  const int threads = num_threads();
  for (const std::int64_t n : {0, 7, 1000, 300000}) {
    for (const Dtype dtype : {f32, f64}) {
      Tensor x = floor(some_numbers({n}, dtype, 5) * 2.0) * 0.5;  // many lie on edges
      const Tensor w = abs(some_numbers({n}, dtype, 6));
      if (n > 6) x = index_put(x, {tensor({1, 3, 5})}, tensor({double{NAN}, HUGE_VAL, -HUGE_VAL}, {.dtype = dtype}));
      for (const Tensor& edges : {linspace(-3, 3, 13, {.dtype = dtype}), linspace(-3, 3, 8, {.dtype = dtype}),
                                  tensor({-9.0, -1.0, -1.0, 0.5, 2.0}, {.dtype = dtype}),
                                  tensor({-1.0, 1.0}, {.dtype = dtype}),
                                  tensor({-HUGE_VAL, 0.0, 1.0}, {.dtype = dtype})}) {
        const auto e = edges.to_vector<double>(), numbers = x.to_vector<double>(), each = w.to_vector<double>();
        std::vector<double> counts(e.size() - 1), sums(e.size() - 1);
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          if (!(numbers[i] >= e.front() && numbers[i] <= e.back())) continue;
          const auto above = static_cast<std::size_t>(std::upper_bound(e.begin(), e.end(), numbers[i]) - e.begin());
          const std::size_t bin = std::min(above, e.size() - 1) - 1;
          counts[bin] += 1, sums[bin] += each[i];
        }
        INFO(concat(n, " ", dtype, " between ", edges));
        const Tensor found = histogram(x, edges, w).hist;
        for (const int t : {1, 3}) {
          set_num_threads(t);
          CHECK(histogram(x, edges).hist.to_vector<double>() == counts);
          CHECK(equal(histogram(x, edges, w).hist, found));
        }
        set_num_threads(threads);
        CHECK(allclose(found, cast(from_data(sums, found.sizes()), dtype), dtype == f32 ? 2e-6 : 1e-12, 0));
      }
    }
  }
}

TEST_CASE("counts of integers are exact for few and for many values") {
  for (const std::int64_t n : {0, 5, 200000}) {
    for (const std::int64_t most : {3, 1000, 5000}) {
      const Tensor x = cast(floor(rand({n}, {.dtype = f64}) * static_cast<double>(most)), i64);
      std::vector<std::int64_t> expected(static_cast<std::size_t>(most));
      for (const std::int64_t v : x.to_vector<std::int64_t>()) ++expected[static_cast<std::size_t>(v)];
      CHECK(bincount(x, {}, most).to_vector<std::int64_t>() == expected);
    }
  }
  CHECK_THAT(message_of([] { bincount(tensor({1, -1})); }), Catch::Matchers::Contains("index -1 is out of range"));
}

TEST_CASE("long runs are copied wherever they begin, and halves times a number are rounded once") {
  for (const Dtype dtype : {u8, bf16, f32, f64}) {
    const Tensor x = some_numbers({9000}, dtype, 7);
    const auto numbers = x.to_vector<double>();
    for (const int first : {1, 2, 3, 17, 63, 64}) {
      auto rolled = numbers;
      std::rotate(rolled.begin(), rolled.begin() + first, rolled.end());
      CHECK(roll(x, {-first}, {0}).to_vector<double>() == rolled);
    }
  }
  for (const Dtype dtype : {bf16, f16}) {
    const Tensor x = some_numbers({5, 700}, dtype, 8), wide = cast(x, f32);
    for (const double number : {2.0, 3.0, 0.1, -0.0, 1e5, 1e-30, HUGE_VAL, double{NAN}}) {
      INFO(concat(dtype, " and ", number));
      CHECK(same_bits(x * number, cast(wide * number, dtype)));
      CHECK(same_bits(number - x, cast(number - wide, dtype)));
      CHECK(same_bits(slice(x, 0, 0, 5, 2) / number, cast(slice(wide, 0, 0, 5, 2) / number, dtype)));
      CHECK(same_bits(maximum(x, Tensor(number)), cast(maximum(wide, Tensor(number)), dtype)));
    }
  }
}

TEST_CASE("nonzero lists the places of all that is not 0, in order") {
  for (const Dims& sizes : {Dims{1}, Dims{100000}, Dims{300, 333}, Dims{20000, 5}, Dims{7, 1000, 3, 5}}) {
    for (const Dtype dtype : {boolean, u8, i64, f32, bf16}) {
      const Tensor x = cast(some_numbers(sizes, f32, 9) > 2.0, dtype);
      for (const Tensor& t : {x, transpose(contiguous(transpose(unsqueeze(x, 0)))).select(0, 0)}) {
        INFO(describe(t));
        const std::vector<double> values = t.to_vector<double>();
        std::vector<std::int64_t> expected;
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (values[i] == 0) continue;
          std::int64_t rest = static_cast<std::int64_t>(i), at[Dims::max_rank];
          for (int d = sizes.rank() - 1; d >= 0; rest /= sizes[d--]) at[d] = rest % sizes[d];
          expected.insert(expected.end(), at, at + sizes.rank());
        }
        CHECK(nonzero(t).to_vector<std::int64_t>() == expected);
      }
    }
  }
}

TEST_CASE("unique counts what a map counts, for few and for many values") {
  std::mt19937_64 random(10);
  for (const std::int64_t n : {1, 300, 5000, 40000}) {
    for (const std::uint64_t values : {2ull, 3000ull, 1ull << 31, 1ull << 60}) {
      std::vector<std::int64_t> x(static_cast<std::size_t>(n));
      for (std::int64_t& v : x) v = static_cast<std::int64_t>(random() % values) - 1000;
      std::map<std::int64_t, std::int64_t> counts;
      for (const std::int64_t v : x) ++counts[v];
      const UniqueResult r = unique(from_data(x, {n}));
      std::vector<std::int64_t> keys, lengths;
      for (const auto& [key, count] : counts) keys.push_back(key), lengths.push_back(count);
      INFO(n << " below " << values);
      CHECK(r.values.to_vector<std::int64_t>() == keys);
      CHECK(r.counts.to_vector<std::int64_t>() == lengths);
      CHECK(index_select(r.values, 0, r.inverse).to_vector<std::int64_t>() == x);
    }
  }
}

TEST_CASE("rows of two to five equal elements are copied as any") {
  for (const std::int64_t repeats : {1, 2, 3, 4, 5, 70}) {
    for (const Dtype dtype : {f32, f64, bf16, u8}) {
      const Tensor x = some_numbers({301, 129}, dtype, 11), y = repeat_interleave(x, repeats, 1);
      INFO(describe(y));
      for (std::int64_t k = 0; k < repeats; ++k) CHECK(same_bits(contiguous(y.slice(1, k, INT64_MAX, repeats)), x));
    }
  }
}

TEST_CASE("the weight's gradient of one image is that of its parts") {
  for (const Dims& image : {Dims{1, 3, 112, 112}, Dims{1, 16, 67, 61}, Dims{2, 8, 90, 45}}) {
    for (const int stride : {1, 2}) {
      for (const Dtype dtype : {f32, bf16}) {
        const Conv2dOptions options{.stride = stride, .padding = 1};
        const Tensor x = cast(some_numbers(image, dtype, 12), f64),
                     start = some_numbers({32, image[1], 3, 3}, dtype, 13);
        const auto gradient = [&](Dtype in, bool last) -> Tensor {
          const Tensor w = cast(start, in).detach().requires_grad_(), images = cast(x, in);
          const Tensor y = conv2d(last ? channels_last(images) : images, w, {}, options);
          const Tensor g = cast(some_numbers(y.sizes(), dtype, 14), in);
          backward(sum(y * (last ? channels_last(g) : g)));
          return cast(w.grad(), f64);
        };
        INFO(describe(x) << " " << stride << " " << name_of(dtype));
        const Tensor expected = gradient(f64, false);
        const double most = amax(abs(expected)).item<double>(), allowed = dtype == f32 ? 1e-5 : 1e-2;
        for (const bool last : {false, true})
          CHECK(amax(abs(gradient(dtype, last) - expected)).item<double>() < allowed * most);
      }
    }
  }
}

TEST_CASE("a power is the same wherever its element lies and whatever exponents are beside it") {
  for (const Dtype dtype : {f32, f64}) {
    const Tensor x = abs(some_numbers({101}, dtype, 15));
    for (const double e : {2.0, 3.0, -1.0, 0.5, 0.0, 1.7}) {
      INFO(name_of(dtype) << " to the power of " << e);
      const Tensor whole = pow(x, e), exponents = full({101}, e, {.dtype = dtype});
      CHECK(same_bits(pow(x, exponents), whole));
      for (const std::int64_t n : {1, 3, 7, 15, 16, 31})
        CHECK(same_bits(pow(contiguous(x.slice(0, 0, n)), e), contiguous(whole.slice(0, 0, n))));
      Tensor mixed = clone(exponents);
      for (std::int64_t i = 0; i < 101; i += 3) mixed.slice(0, i, i + 1).fill_(1.25);
      const Tensor kept = mixed == exponents;
      CHECK(same_bits(masked_select(pow(x, mixed), kept), masked_select(whole, kept)));
    }
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor special = tensor({0.0, -0.0, infinity, -infinity, -1.0, 4.0}, {.dtype = f64});
  CHECK(same_bits(pow(special, 0.5).slice(0, 0, 4), tensor({0.0, 0.0, infinity, infinity}, {.dtype = f64})));
  CHECK(same_bits(pow(special, -1).slice(0, 0, 4), tensor({infinity, -infinity, 0.0, -0.0}, {.dtype = f64})));
}

TEST_CASE("gradients of softmax of rows of halves are rounded once, wherever they lie") {
  for (const Dtype dtype : {bf16, f16}) {
    for (const std::int64_t n : {1, 5, 16, 77, 512, 1300}) {
      const Tensor x = some_numbers({9, n}, dtype, 16), g = some_numbers({9, n}, dtype, 17);
      INFO(describe(x));
      for (const auto& f : {+[](const Tensor& t) { return softmax(t, -1); },
                            +[](const Tensor& t) { return log_softmax(t, -1); }}) {
        const auto gradient = [&](const Tensor& in, const Tensor& grad) {
          const Tensor leaf = in.detach().clone().requires_grad_();
          f(leaf).backward(grad);
          return leaf.grad();
        };
        // The saved result has been rounded too, unlike that of f64.
        const Tensor got = gradient(x, g), wanted = gradient(cast(x, f64), cast(g, f64));
        CHECK(difference(got, wanted, {dtype == bf16 ? 4e-2 : 5e-3, dtype == bf16 ? 4e-2 : 5e-3}) == "");
        CHECK(same_bits(gradient(x, transpose(contiguous(transpose(g)))), got));
      }
    }
  }
}

TEST_CASE("integers are divided exactly whatever their size") {
  std::mt19937_64 random(10);
  for (const int bits : {6, 30, 51, 52, 53, 63}) {
    const std::int64_t largest = static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1);
    std::vector<std::int64_t> a, b;
    for (int i = 0; i < 3000; ++i) {
      std::int64_t y = static_cast<std::int64_t>(random() >> (64 - bits)) >> random() % static_cast<unsigned>(bits);
      if (y == 0) y = 1;
      const std::int64_t x = static_cast<std::int64_t>(random() >> (64 - bits));
      const std::int64_t near = x / y * y - static_cast<std::int64_t>(random() % 2);  // a multiple, or just below one
      a.push_back(i % 5 == 0 ? largest : i % 3 == 0 ? std::max<std::int64_t>(near, 0) : x);
      b.push_back(i % 7 == 0 ? largest : y);
      if (random() % 2) a.back() = -a.back();
      if (random() % 2) b.back() = -b.back();
    }
    const auto n = static_cast<std::int64_t>(a.size());
    const Tensor x = from_data(a, {n}), y = from_data(b, {n});
    const auto trunc_rest = fmod(x, y).to_vector<std::int64_t>();
    const auto floor_rest = remainder(x, y).to_vector<std::int64_t>();
    const auto quotient = floor_divide(x, y).to_vector<std::int64_t>();
    int wrong = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::int64_t rest = a[i] % b[i], below = rest != 0 && (rest < 0) != (b[i] < 0);
      wrong += trunc_rest[i] != rest || floor_rest[i] != rest + below * b[i] || quotient[i] != a[i] / b[i] - below;
    }
    CHECK(wrong == 0);
    const auto by_seven = remainder(x, Tensor(7)).to_vector<std::int64_t>();
    for (std::size_t i = 0; i < a.size(); ++i) wrong += by_seven[i] != (a[i] % 7 + 7) % 7;
    CHECK(wrong == 0);
  }
  // The extremes of i32, which are all divided as i64; the largest i64 among other values is divided one by one.
  std::vector<std::int32_t> s, d;
  for (const std::int32_t a : {INT32_MIN, INT32_MIN + 1, -7, -1, 0, 1, 7, INT32_MAX - 1, INT32_MAX})
    for (const std::int32_t b : {INT32_MIN, -7, -2, -1, 1, 2, 7, INT32_MAX}) s.push_back(a), d.push_back(b);
  const auto n = static_cast<std::int64_t>(s.size());
  const Tensor a = from_data(s, {n}), b = from_data(d, {n});
  for (const auto& f : {+[](const Tensor& x, const Tensor& y) { return fmod(x, y); },
                        +[](const Tensor& x, const Tensor& y) { return remainder(x, y); },
                        +[](const Tensor& x, const Tensor& y) { return floor_divide(x, y); }}) {
    const Tensor wide = f(cast(a, i64), cast(b, i64));
    CHECK(f(a, b).to_vector<std::int32_t>() == cast(wide, i32).to_vector<std::int32_t>());
  }
  const Tensor least = full({3}, static_cast<double>(INT64_MIN), {.dtype = i64});
  const Tensor by = from_data(std::vector<std::int64_t>{3, -3, INT64_MAX}, {3});
  CHECK(fmod(least, by).to_vector<std::int64_t>() == std::vector<std::int64_t>{-2, -2, -1});
  CHECK(remainder(least, by).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, -2, INT64_MAX - 1});
  CHECK(floor_divide(least, by).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{INT64_MIN / 3 - 1, INT64_MIN / -3, -2});
}

TEST_CASE("signs of halves are set for every number, wherever it lies") {
  for (const Dtype dtype : {bf16, f16}) {
    const Tensor x = Tensor::allocate({65536}, dtype);
    for (int i = 0; i < 65536; ++i) static_cast<std::uint16_t*>(x.raw_data())[i] = static_cast<std::uint16_t>(i);
    const Tensor wide = cast(x, f32), twice = reshape(stack({x, x}, 1), {131072});
    const Tensor apart = slice(twice, 0, 0, 131072, 2);
    const auto agree = [](const Tensor& got, const Tensor& wanted) {
      const auto a = got.to_vector<float>(), b = wanted.to_vector<float>();
      for (std::size_t i = 0; i < b.size(); ++i) {
        const bool same = a[i] == b[i] && std::signbit(a[i]) == std::signbit(b[i]);
        if (!same && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
      }
      return a.size() == b.size();
    };
    CHECK(agree(-x, -wide));
    CHECK(agree(abs(x), abs(wide)));
    CHECK(agree(-apart, -wide));
    for (const double by : {1.0, -1.0, 0.0, -0.0, -HUGE_VAL, HUGE_VAL, double{NAN}, -double{NAN}}) {
      INFO(concat(dtype, " with the sign of ", by));
      const Tensor sign = full({65536}, by, {.dtype = dtype});
      CHECK(agree(copysign(x, sign), copysign(wide, cast(sign, f32))));
      CHECK(agree(copysign(sign, x), copysign(cast(sign, f32), wide)));
      CHECK(agree(copysign(apart, sign), copysign(wide, cast(sign, f32))));
    }
  }
}

TEST_CASE("operands that lie alike across the result give what their copies give") {
  for (const Dims& sizes : {Dims{77, 1000}, Dims{64, 64}, Dims{3, 201, 77}, Dims{40, 5, 6, 50}}) {
    for (const Dtype dtype : {f32, f64, bf16, i64, u8}) {
      const auto turned = [&](std::uint64_t seed) { return transpose(some_numbers(sizes, dtype, seed), 0, -1); };
      const Tensor a = turned(12), b = turned(13), c = turned(14);
      const Tensor x = contiguous(a), y = contiguous(b), z = contiguous(c);
      INFO(describe(a));
      CHECK(same_bits(a + b, x + y));
      CHECK(same_bits(lt(a, b), lt(x, y)));
      CHECK(same_bits(where(lt(a, b), c, Tensor(3)), where(lt(x, y), z, Tensor(3))));
      CHECK(same_bits(where(lt(x, y), b, c), where(lt(x, y), y, z)));
      CHECK(same_bits(a * z, x * z));
      if (is_floating(dtype)) CHECK(same_bits(addcmul(a, b, c, 0.5), addcmul(x, y, z, 0.5)));
      CHECK(same_bits(slice(a, 0, 1) + slice(b, 0, 1), slice(x, 0, 1) + slice(y, 0, 1)));  // with gaps
    }
  }
}

TEST_CASE("sums and extremes of rows are those of each row alone") {
  for (const std::int64_t n : {513, 1000, 1024, 1300, 5000}) {
    for (const Dtype dtype : {f32, bf16}) {
      Tensor x = some_numbers({37, n}, dtype, 15);
      x[{5, n - 1}].fill_(NAN);
      std::vector<Tensor> sums, largest;
      for (std::int64_t r = 0; r < 37; ++r) {
        sums.push_back(sum(x[r]));
        largest.push_back(amax(x[r]));
      }
      INFO(describe(x));
      for (const Tensor& rows : {x, slice(cat({x, x}, 1), 1, 0, n)}) {
        CHECK(same_bits(sum(rows, {1}), stack(sums)));
        CHECK(same_bits(amax(rows, {1}), stack(largest)));
      }
    }
  }
}

TEST_CASE("normalized halves are rounded once, with a gradient and without") {
  for (const Dtype dtype : {bf16, f16}) {
    for (const std::int64_t n : {1, 5, 16, 77, 512, 1300}) {
      const Tensor x = some_numbers({9, n}, dtype, 18);
      x[3].fill_(0);
      INFO(describe(x));
      const Tensor y = normalize(x);
      CHECK(difference(y, normalize(cast(x, f64)), tolerance_for(dtype)) == "");
      CHECK(same_bits(y, normalize(x.detach().clone().requires_grad_()).detach()));
      CHECK(same_bits(normalize(transpose(contiguous(transpose(x)))), y));
      CHECK(difference(normalize(x, 2, {}, 1e3), cast(x, f64) / 1e3, tolerance_for(dtype)) == "");
    }
  }
}

TEST_CASE("in place: add_ and mul_ give the same bits wherever the elements are, for all pairs of dtypes") {
  manual_seed(test::seed());
  const auto numbers = [](const Dims& sizes, Dtype t) { return (rand(sizes) * 8 - 4).to(t); };
  // The elements of x in a larger tensor: as rows of its last dimension, every second one, or by columns.
  const std::vector<Tensor (*)(const Tensor&)> places{
      [](const Tensor& x) { return x.clone(); },
      [](const Tensor& x) {
        Tensor wide = zeros({x.size(0), x.size(1) + 3}, {.dtype = x.dtype()});
        return wide.slice(1, 2, 2 + x.size(1)).copy_(x);
      },
      [](const Tensor& x) {
        Tensor wide = zeros({x.size(0), 2 * x.size(1)}, {.dtype = x.dtype()});
        return wide.slice(1, 0, {}, 2).copy_(x);
      },
      [](const Tensor& x) {
        Tensor turned = zeros({x.size(1), x.size(0)}, {.dtype = x.dtype()});
        return turned.transpose(0, 1).copy_(x);
      }};
  for (const Dtype to : {f32, f16, bf16, f64, i32, i64})
    for (const Dtype from : {f32, f16, bf16, f64, i32, i64}) {
      if ((to == i32 || to == i64) && from != i32 && from != i64) continue;
      for (const std::int64_t length : {1, 7, 16, 17, 41}) {
        const Tensor y = numbers({37, length}, to), x = numbers({37, length}, from);
        const double alpha = to == i32 || to == i64 ? 2 : 0.75;
        const Tensor added = y.clone().add_(x, alpha), multiplied = y.clone().mul_(x);
        INFO(name_of(to) << " and " << name_of(from) << ", rows of " << length << ", seed " << test::seed());
        const double length_of_sum = 2;
        CHECK(difference(added, y.to(f64) + x.to(f64) * alpha, tolerance_for(to, length_of_sum, 8)) == "");
        CHECK(difference(multiplied, y.to(f64) * x.to(f64), tolerance_for(to)) == "");
        for (const auto& place_y : places)
          for (const auto& place_x : places) {
            CHECK(same_bits(place_y(y).add_(place_x(x), alpha), added));
            CHECK(same_bits(place_y(y).mul_(place_x(x)), multiplied));
          }
        const Tensor row = x.slice(0, 0, 1), column = x.slice(1, 0, 1);
        CHECK(same_bits(places[1](y).add_(row), y.clone().add_(contiguous(row.expand({37, length})))));
        CHECK(same_bits(places[1](y).mul_(column), y.clone().mul_(contiguous(column.expand({37, length})))));
      }
    }
}

TEST_CASE("constant padding writes every row, short or long, and nothing else") {
  for (const std::int64_t width : {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 50, 64, 65, 127, 128, 129, 300})
    for (const Dtype dtype : {u8, f16, f32, f64})
      for (const Dims& borders : {Dims{1, 1, 1, 1}, Dims{0, 2, 3, 0}, Dims{16, 0, 0, 0}, Dims{2, 1, 0, 1, 1, 2}}) {
        INFO(name_of(dtype) << ", rows of " << width << ", borders " << concat(borders));
        const Tensor x = cast(some_numbers({5, 13, width + 3}, f32, 4) * 20.0, dtype).slice(2, 1, 1 + width);
        const Tensor y = pad(x, borders, "constant", 3);
        Tensor expected = full(y.sizes(), 3, {.dtype = dtype});
        Tensor inside = expected;
        for (int d = 0; d < borders.rank() / 2; ++d)
          inside = inside.slice(2 - d, borders[2 * d], y.size(2 - d) - borders[2 * d + 1]);
        inside.copy_(x);
        CHECK(same_bits(y, expected));
        CHECK(same_bits(pad(contiguous(x), borders, "constant", 3), expected));
      }
}
