// Kernels go different ways by size: vectors side by side, short rows, few planes. Each way gives the bits of the plain
// one, which is had by asking for a part, or for operands that are written out. ctest runs it on each instruction set.
#include <cmath>
#include <limits>
#include <random>

#include "core/ops_special.h"
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
  struct Shapes { Dims a, b, y; };
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
    for (const Dims size : {Dims{1, 1}, {5, 7}, {70, 67}}) {
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
      // quotients around each power of two up to some that no vector divides, and those a rounding away from an integer
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
