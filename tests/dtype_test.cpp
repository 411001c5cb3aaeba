// Dtypes: conversions of f16 and bf16 over all bit patterns, promotion, dispatch.
#include <cmath>
#include <limits>

#include "core/finfo.h"
#include "core/ops.h"
#include "core/tensor.h"
#include "tests/testing.h"

using namespace mantissa;

namespace {
// The nearest value of a 16-bit format by search over its neighbours, ties to the even bit pattern.
template <class T> bool is_nearest(float x, T got) {
  const float g = got;
  if (std::isinf(g)) return true;  // the threshold is checked apart
  const double error = std::abs(static_cast<double>(x) - g);
  for (int step : {-1, 1}) {
    T other;
    other.bits = static_cast<std::uint16_t>(got.bits + step);
    if ((other.bits ^ got.bits) & 0x8000 || !std::isfinite(static_cast<float>(other))) continue;
    const double e = std::abs(static_cast<double>(x) - static_cast<float>(other));
    if (e < error || (e == error && (got.bits & 1))) return false;
  }
  return true;
}
template <class T> void check_all_patterns() {
  int wrong_round_trips = 0, wrong_roundings = 0;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    T h;
    h.bits = static_cast<std::uint16_t>(bits);
    const float f = h;
    if (std::isnan(f)) {
      if (!std::isnan(static_cast<float>(T(f)))) ++wrong_round_trips;
      continue;
    }
    if (T(f).bits != h.bits) ++wrong_round_trips;
    if (std::isinf(f)) continue;
    T next;
    next.bits = static_cast<std::uint16_t>(bits + 1);
    const float middle = (f + static_cast<float>(next)) / 2;
    for (float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 2 * middle), f * 1.0001f}) {
      if (std::isfinite(x) && !is_nearest(x, T(x))) ++wrong_roundings;
    }
  }
  CHECK(wrong_round_trips == 0);
  CHECK(wrong_roundings == 0);
}
}  // namespace

TEST_CASE("every f16 and bf16 pattern survives the way through f32, and rounding is to nearest even") {
  check_all_patterns<Half>();
  check_all_patterns<BFloat16>();
}

TEST_CASE("halves overflow to infinity where IEEE 754 says") {
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(static_cast<float>(Half(65519.996f)) == 65504.0f);
  CHECK(static_cast<float>(Half(65520.0f)) == inf);
  CHECK(static_cast<float>(Half(-1e30f)) == -inf);
  CHECK(static_cast<float>(Half(0x1p-24f)) == 0x1p-24f);  // the smallest subnormal
  CHECK(static_cast<float>(Half(0x1p-25f)) == 0.0f);      // a tie: to even
  CHECK(Half(-0.0f).bits == 0x8000);
  CHECK(static_cast<float>(BFloat16(std::numeric_limits<float>::max())) == inf);
  CHECK(BFloat16(-0.0f).bits == 0x8000);
}

TEST_CASE("vector conversions of tensors equal the scalar ones") {
  for (Dtype to : {f16, bf16}) {
    Tensor x = Tensor::allocate({4096 + 3}, f32);
    for (int i = 0; i < x.numel(); ++i)
      x.data<float>()[i] = std::ldexp(1.0f + 0.00037f * static_cast<float>(i), i % 45 - 26);
    const std::vector<float> got = cast(x, to).to_vector<float>();
    int wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const float v = x.data<float>()[i];
      wrong += got[i] != (to == f16 ? static_cast<float>(Half(v)) : static_cast<float>(BFloat16(v)));
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("f64 to a half rounds once or through f32, never worse than f32 rounding") {
  const Tensor x = from_data<double>(std::vector<double>{1.0, -2.5, 65519.0, 1e-7, 3e38}, {5});
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(cast(x, f16).to_vector<float>() ==
        std::vector<float>{1.0f, -2.5f, 65504.0f, static_cast<float>(Half(1e-7f)), inf});
}

TEST_CASE("promotion") {
  CHECK(promote(f16, f32) == f32);
  CHECK(promote(f16, bf16) == f32);
  CHECK(promote(i64, f16) == f16);
  CHECK(promote(boolean, u8) == u8);
  CHECK(promote(i32, i64) == i64);
  CHECK(promote(f64, bf16) == f64);
  for (int a = 0; a < dtype_count; ++a) {
    for (int b = 0; b < dtype_count; ++b) {
      const auto x = static_cast<Dtype>(a), y = static_cast<Dtype>(b);
      CHECK(promote(x, y) == promote(y, x));
      CHECK(size_of(promote(x, y)) >= std::min(size_of(x), size_of(y)));
    }
  }
}

TEST_CASE("converting floats to integers saturates and is defined for every value") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = from_data<double>(std::vector<double>{1.9, -1.9, 1e30, -1e30, inf, -inf, std::nan("")}, {7});
  const auto big = std::numeric_limits<std::int32_t>::max(), small = std::numeric_limits<std::int32_t>::min();
  CHECK(cast(x, i32).to_vector<std::int32_t>() == std::vector<std::int32_t>{1, -1, big, small, big, small, 0});
  CHECK(cast(x, u8).to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 0, 255, 0, 255, 0, 0});
  CHECK(cast(x, boolean).to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("visit reaches the type of each dtype") {
  for (int i = 0; i < dtype_count; ++i) {
    const auto t = static_cast<Dtype>(i);
    CHECK(visit(t, []<class T> { return dtype_of<T>; }) == t);
    CHECK(visit(t, []<class T> { return sizeof(T); }) == size_of(t));
  }
}

TEST_CASE("finfo and iinfo: each number is in the dtype, and the next one is not") {
  for (const Dtype t : {f16, bf16, f32, f64}) {
    INFO(name_of(t));
    const FloatInfo info = finfo(t);
    const auto in = [&](double x) { return scalar(x, {.dtype = t}).item<double>(); };
    CHECK(in(info.max) == info.max);
    CHECK(in(info.min) == -info.max);
    if (t != f64) CHECK(std::isinf(in(info.max * (1 + info.eps))));
    CHECK(in(1 + info.eps) == 1 + info.eps);
    CHECK(in(1 + info.eps / 2) == 1);
    CHECK(in(info.tiny) == info.tiny);
    CHECK(in(info.tiny * (1 + info.eps)) == info.tiny * (1 + info.eps));
    CHECK(info.bits == static_cast<int>(8 * size_of(t)));
  }
  for (const Dtype t : {u8, i32, i64}) {
    INFO(name_of(t));
    const IntegerInfo info = iinfo(t);
    CHECK(info.bits == static_cast<int>(8 * size_of(t)));
    CHECK(info.min == (t == u8 ? 0 : -info.max - 1));
    CHECK(static_cast<std::uint64_t>(info.max) == ~std::uint64_t{0} >> (64 - info.bits + (t == u8 ? 0 : 1)));
  }
  CHECK_THROWS_WITH(finfo(i64), Catch::Matchers::Contains("i64 is no floating dtype"));
  CHECK_THROWS_WITH(iinfo(f32), Catch::Matchers::Contains("f32 is no integer dtype"));
}
