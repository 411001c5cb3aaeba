// Comparison of tensors in tests: tolerances per dtype, bitwise equality, and readable descriptions of differences.
// Expected values are always f64 (higher precision than the tested dtype), computed from inputs that were already
// rounded to the tested dtype. Read next: tests/op_testing.h.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/ops.h"
#include "core/random.h"
#include "core/tensor.h"
#include "tests/catch_compat.h"

namespace mantissa::test {

// |got - expected| <= atol + rtol * |expected|.
struct Tolerance { double rtol, atol; };

// `length`: the number of products or terms summed per result (1: elementwise). `scale`: the largest term. f16 and bf16
// accumulate in f32 and round once.
inline Tolerance tolerance_for(Dtype dtype, double length = 1, double scale = 1) {
  const double root = std::sqrt(std::max(length, 1.0)), size = std::max(scale, 1.0);
  const double f32_atol = 1e-6 * root * (length > 1 ? size : 1);
  switch (dtype) {
    case Dtype::f64: return {1e-12 * root, 1e-14 * root * (length > 1 ? size : 1)};
    case Dtype::f32: return {length > 1 ? 2e-6 * root : 1.3e-6, f32_atol};
    case Dtype::bf16: return {8e-3, f32_atol};
    case Dtype::f16: return {1e-3, f32_atol};
    default: return {0, 0};
  }
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (!(a.sizes() == b.sizes()) || a.dtype() != b.dtype()) return false;
  const Tensor x = a.detach().to(cpu).contiguous(), y = b.detach().to(cpu).contiguous();
  return std::memcmp(x.raw_data(), y.raw_data(), static_cast<std::size_t>(x.nbytes())) == 0;
}

// "" if `got` has the expected shape and values (rounded to its dtype); otherwise a description of the difference.
enum class Nan { differs, equal };
inline std::string difference(const Tensor& got, const Tensor& expected, Tolerance t, Nan nan = Nan::differs) {
  if (!got.defined() || !expected.defined()) return got.defined() == expected.defined() ? "" : "one is undefined";
  if (!(got.sizes() == expected.sizes())) return concat("shape ", got.sizes(), " instead of ", expected.sizes());
  const std::vector<double> a = got.detach().to_vector<double>();
  const std::vector<double> b = expected.detach().to(got.dtype()).to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (nan == Nan::equal && std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i] || std::abs(a[i] - b[i]) <= t.atol + t.rtol * std::abs(b[i])) continue;
    return concat("element ", static_cast<unsigned long>(i), " of ", describe(got), " is ", std::to_string(a[i]),
                  " instead of ", std::to_string(b[i]), ", off by ", std::abs(a[i] - b[i]), ", allowed ",
                  t.atol + t.rtol * std::abs(b[i]));
  }
  return "";
}
inline bool all_close(const Tensor& got, const Tensor& expected, Tolerance t) {
  return difference(got, expected, t).empty();
}
inline bool all_close(const Tensor& got, const Tensor& expected) {
  return all_close(got, expected, tolerance_for(got.dtype()));
}

// Random f64 values, independent of the default generator, so that tests do not depend on their order.
inline Tensor random_tensor(const Dims& sizes, std::uint64_t stream, double low = -1, double high = 1) {
  Tensor t = Tensor::allocate(sizes, f64);
  const Philox philox{seed()};
  double* p = t.data<double>();
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    p[i] =
        low + (high - low) * static_cast<double>(uniform_from_bits(philox(static_cast<std::uint64_t>(i), stream).v[0]));
  }
  return t;
}

}  // namespace mantissa::test

// Prints the seed if a later check fails.
#define MANTISSA_PRINT_SEED() INFO("MANTISSA_TEST_SEED=" << ::mantissa::test::seed())
