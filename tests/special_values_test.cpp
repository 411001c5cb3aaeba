// NaN, infinities and signed zeros in operators, from one table, on every instruction set and in both positions: inside
// SIMD vectors and in the tail.
#include <cmath>
#include <limits>

#include "core/cpu/isa.h"
#include "core/ops.h"
#include "tests/testing.h"

using namespace mantissa;
using test::same_bits;

namespace {
constexpr double inf = std::numeric_limits<double>::infinity(), qnan = std::numeric_limits<double>::quiet_NaN();

// Every element of f() must be `expected`, with its sign.
template <class F> void check_all(const char* name, F&& f, double expected) {
  for (double v : f().template to_vector<double>()) {
    if (std::isnan(expected) ? std::isnan(v) : v == expected && std::signbit(v) == std::signbit(expected)) continue;
    FAIL_CHECK(name << " gave " << v << " instead of " << expected);
    return;
  }
}
}  // namespace

TEST_CASE("special values propagate by the table") {
  using cpu_backend::Isa;
  const Isa before = cpu_backend::isa();
  for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > cpu_backend::best_isa()) continue;
    cpu_backend::set_isa(isa);
    for (Dtype dtype : {f64, f32, f16, bf16}) {
      INFO(cpu_backend::name_of(isa) << " " << name_of(dtype));
      const auto x = [&](double v) { return full({37}, v, {.dtype = dtype}); };
      check_all("nan == nan", [&] { return eq(x(qnan), x(qnan)); }, 0);
      check_all("nan != nan", [&] { return ne(x(qnan), x(qnan)); }, 1);
      check_all("nan != 1", [&] { return ne(x(qnan), x(1)); }, 1);
      check_all("nan < 1", [&] { return lt(x(qnan), x(1)); }, 0);
      check_all("1 < nan", [&] { return lt(x(1), x(qnan)); }, 0);
      check_all("nan <= nan", [&] { return le(x(qnan), x(qnan)); }, 0);
      check_all("nan > 1", [&] { return gt(x(qnan), x(1)); }, 0);
      check_all("nan >= nan", [&] { return ge(x(qnan), x(qnan)); }, 0);
      check_all("0 == -0", [&] { return eq(x(0.0), x(-0.0)); }, 1);
      check_all("maximum(nan, 1)", [&] { return maximum(x(qnan), x(1)); }, qnan);
      check_all("maximum(1, nan)", [&] { return maximum(x(1), x(qnan)); }, qnan);
      check_all("minimum(nan, 1)", [&] { return minimum(x(qnan), x(1)); }, qnan);
      check_all("minimum(1, nan)", [&] { return minimum(x(1), x(qnan)); }, qnan);
      check_all("relu(nan)", [&] { return relu(x(qnan)); }, qnan);
      check_all("relu(-inf)", [&] { return relu(x(-inf)); }, 0);
      check_all("clamp(nan)", [&] { return clamp(x(qnan), -1, 1); }, qnan);
      check_all("clamp(inf)", [&] { return clamp(x(inf), -1, 1); }, 1);
      check_all("abs(-0)", [&] { return abs(x(-0.0)); }, 0.0);
      check_all("neg(0)", [&] { return neg(x(0.0)); }, -0.0);
      check_all("exp(-inf)", [&] { return exp(x(-inf)); }, 0);
      check_all("exp(inf)", [&] { return exp(x(inf)); }, inf);
      check_all("exp(nan)", [&] { return exp(x(qnan)); }, qnan);
      check_all("exp(1000)", [&] { return exp(x(1000)); }, inf);
      check_all("log(0)", [&] { return log(x(0)); }, -inf);
      check_all("log(inf)", [&] { return log(x(inf)); }, inf);
      check_all("log(-1)", [&] { return log(x(-1)); }, qnan);
      check_all("sqrt(-1)", [&] { return sqrt(x(-1)); }, qnan);
      check_all("rsqrt(0)", [&] { return rsqrt(x(0)); }, inf);
      check_all("tanh(inf)", [&] { return tanh(x(inf)); }, 1);
      check_all("tanh(-1000)", [&] { return tanh(x(-1000)); }, -1);
      check_all("tanh(nan)", [&] { return tanh(x(qnan)); }, qnan);
      check_all("sigmoid(-inf)", [&] { return sigmoid(x(-inf)); }, 0);
      check_all("sigmoid(1000)", [&] { return sigmoid(x(1000)); }, 1);
      check_all("erf(inf)", [&] { return erf(x(inf)); }, 1);
      check_all("erf(nan)", [&] { return erf(x(qnan)); }, qnan);
      check_all("gelu(100)", [&] { return gelu(x(100)); }, 100);
      check_all("silu(-1000)", [&] { return silu(x(-1000)); }, -0.0);
      check_all("1 / 0", [&] { return div(x(1), x(0)); }, inf);
      check_all("0 / 0", [&] { return div(x(0), x(0)); }, qnan);
      check_all("pow(0, 0)", [&] { return pow(x(0), x(0)); }, 1);
      check_all("pow(nan, 0)", [&] { return pow(x(qnan), x(0)); }, 1);
      check_all("pow(0, 2)", [&] { return pow(x(0), x(2)); }, 0);
      check_all("pow(0, -1)", [&] { return pow(x(0), x(-1)); }, inf);
      check_all("pow(inf, 2)", [&] { return pow(x(inf), x(2)); }, inf);
      check_all("pow(inf, -1)", [&] { return pow(x(inf), x(-1)); }, 0);
      check_all("pow(0.5, inf)", [&] { return pow(x(0.5), x(inf)); }, 0);
      CHECK(test::all_close(pow(x(-2), x(3)), full({37}, -8, {.dtype = f64})));
      check_all("pow(-8, 0.5)", [&] { return pow(x(-8), x(0.5)); }, qnan);
      check_all("where", [&] { return where(eq(x(1), x(1)), x(2), x(qnan)); }, 2);
      check_all("amax with nan", [&] { return amax(cat({x(1), x(qnan)})); }, qnan);
      check_all("amin with nan", [&] { return amin(cat({x(qnan), x(1)})); }, qnan);
      check_all("amax(-inf)", [&] { return amax(x(-inf)); }, -inf);
      check_all("max with nan", [&] { return max(cat({x(1), x(qnan)}), 0).values; }, qnan);
      check_all("sum(inf, -inf)", [&] { return sum(cat({x(inf), x(-inf)})); }, qnan);
      check_all("softmax of equal huge values", [&] { return softmax(full({4, 8}, 6e4, {.dtype = dtype}), 1); }, 0.125);
      check_all("softmax(-inf beside 0)", [&] { return softmax(cat({x(-inf), x(0)}), 0).slice(0, 0, 37); }, 0);
      check_all("log_softmax of one", [&] { return log_softmax(full({3, 1}, -5e4, {.dtype = dtype}), 1); }, 0);
    }
  }
  cpu_backend::set_isa(before);
}

// PyTorch's results for -0.
TEST_CASE("odd functions keep the sign of zero") {
  using cpu_backend::Isa;
  using Unary = Tensor (*)(const Tensor&);
  const Unary odd[] = {&expm1,
                       &log1p,
                       &erfinv,
                       &erf,
                       &sin,
                       &tan,
                       &asin,
                       &atan,
                       &sinh,
                       &tanh,
                       &asinh,
                       &atanh,
                       &selu,
                       &silu,
                       &mish,
                       &hardswish,
                       &softsign,
                       &floor,
                       &ceil,
                       &trunc,
                       &round,
                       &sqrt,
                       [](const Tensor& x) { return elu(x); },
                       [](const Tensor& x) { return celu(x, 2); },
                       [](const Tensor& x) { return gelu(x); },
                       [](const Tensor& x) { return gelu(x, "tanh"); },
                       [](const Tensor& x) { return leaky_relu(x); },
                       [](const Tensor& x) { return softshrink(x); },
                       [](const Tensor& x) { return hardtanh(x); }};
  const Isa before = cpu_backend::isa();
  for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > cpu_backend::best_isa()) continue;
    cpu_backend::set_isa(isa);
    for (Dtype dtype : {f64, f32, f16, bf16}) {
      for (std::size_t i = 0; i < std::size(odd); ++i) {
        INFO(cpu_backend::name_of(isa) << " " << name_of(dtype) << " function " << i);
        check_all("f(-0)", [&] { return odd[i](full({37}, -0.0, {.dtype = dtype})); }, -0.0);
        if (i == 0) check_all("ceil(-0.3)", [&] { return ceil(full({37}, -0.3, {.dtype = dtype})); }, -0.0);
        if (i == 0) check_all("round(-0.3)", [&] { return round(full({37}, -0.3, {.dtype = dtype})); }, -0.0);
        check_all("f(0)", [&] { return odd[i](full({37}, 0.0, {.dtype = dtype})); }, 0.0);
      }
    }
  }
  cpu_backend::set_isa(before);
}
