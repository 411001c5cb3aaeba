// bf16 products by AMX: compared with f64, the same bits for any number of threads and any layout, and registers
// released. On a processor without AMX the instructions are emulated (tests/amx_machine.h), so that the tested machine
// code is the library's own.
#include "core/amx.h"
#include "core/gemm.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "core/random.h"
#include "tests/testing.h"
#include "tests/with_amx.h"

using namespace mantissa;

#if defined(MANTISSA_HAS_AMX_MACHINE)
namespace {

// A matrix of numbers stored by rows, by columns, or with gaps.
Tensor matrix(std::int64_t rows, std::int64_t columns, int layout) {
  switch (layout) {
    case 0: return cast(rand({rows, columns}, {.dtype = f64}) - 0.5, bf16);
    case 1: return cast(rand({columns, rows}, {.dtype = f64}) - 0.5, bf16).t();
    case 2: return cast(rand({2 * rows, columns}, {.dtype = f64}) - 0.5, bf16).slice(0, 0, 2 * rows, 2);
    default: return cast(rand({rows, 2 * columns}, {.dtype = f64}) - 0.5, bf16).slice(1, 0, 2 * columns, 2);
  }
}
std::string wrong(const Tensor& y, const Tensor& wanted, std::int64_t k) {
  return test::difference(y, wanted, test::tolerance_for(y.dtype(), static_cast<double>(k)));
}

}  // namespace

TEST_CASE("AMX is not used where a trial product comes out wrong") {
  if (!test::amx_is_possible()) return;
  test::WithAmx amx;
  CHECK(amx_trial());
  if (amx.real) return;
  amx_machine::broken = true;
  CHECK(!amx_trial());
  amx_machine::broken = false;
}

TEST_CASE("products of bf16 by AMX agree with f64 in every layout") {
  if (!test::amx_is_possible()) return;
  manual_seed(7);
  // Around the sizes of a tile (16 rows, 32 of k), of a block (32 by 32), of a part of k (512), and of the blocks that
  // are packed together (256 rows); rows half a page apart; few rows of b along k, which computes the transposed
  // product.
  struct Case { std::int64_t m, n, k; };
  const Case cases[] = {{33, 32, 32},  {40, 31, 31},   {47, 33, 33},   {64, 65, 511}, {49, 200, 512},  {48, 64, 513},
                        {300, 65, 96}, {35, 70, 1100}, {257, 33, 544}, {34, 40, 1},   {100, 34, 1024}, {20, 300, 96},
                        {256, 257, 64}};
  test::WithAmx amx;
  const long before = amx_machine::products;
  int i = 0;
  for (const Case& c : cases) {
    for (int layout = 0; layout < 4; ++layout, ++i) {
      const Tensor a = matrix(c.m, c.k, layout), b = matrix(c.k, c.n, (layout + i / 4) % 4);
      INFO(c.m << " x " << c.n << " x " << c.k << ", layouts " << layout << " " << (layout + i / 4) % 4);
      const Tensor exact = matmul(cast(a, f64), cast(b, f64)), bias = cast(rand({c.n}, {.dtype = f64}) - 0.5, bf16);
      CHECK(wrong(matmul(a, b), exact, c.k) == "");
      CHECK(wrong(linear(a, b.t(), bias), exact + cast(bias, f64), c.k) == "");
      const Tensor sums = empty({c.m, c.n});  // not rounded
      kernels::gemm(cpu, sums.view(), a.view(), b.view(), bias.view());
      CHECK(wrong(sums, exact + cast(bias, f64), c.k) == "");
      kernels::gemm(cpu, sums.view(), a.view(), b.view(), {}, {}, true);
      CHECK(wrong(sums, 2.0 * exact + cast(bias, f64), 2 * c.k) == "");
    }
  }
  const Tensor a = cast(rand({5, 1, 20, 33}, {.dtype = f64}) - 0.5, bf16);
  const Tensor b = cast(rand({3, 33, 40}, {.dtype = f64}) - 0.5, bf16);
  CHECK(wrong(matmul(a, b), matmul(cast(a, f64), cast(b, f64)), 33) == "");
  if (!amx.real) {
    CHECK(amx_machine::products > before);
    CHECK(amx_machine::configurations >= amx_machine::releases);
    CHECK(amx_machine::releases > 0);
    CHECK(!amx_machine::configured);  // in this thread, at least
  }
}

TEST_CASE("products of bf16 by AMX have the same bits for any number of threads and any layout") {
  if (!test::amx_is_possible()) return;
  test::WithAmx amx;
  manual_seed(8);
  const int before = num_threads();
  struct Case { std::int64_t m, n, k; };
  for (const Case& c : {Case{256, 128, 128}, Case{128, 256, 700}, Case{70, 100, 2100}, Case{333, 257, 190}}) {
    const Tensor a = matrix(c.m, c.k, 0), b = matrix(c.k, c.n, 1);
    set_num_threads(1);
    const Tensor one = matmul(a, b);
    for (int threads : {2, 5}) {
      set_num_threads(threads);
      CHECK(equal(matmul(a, b), one));
    }
    CHECK(equal(matmul(a.t().contiguous().t(), b.contiguous()), one));
  }
  set_num_threads(before);
}

TEST_CASE("products of bf16 by AMX carry infinities and NaN to their rows, and to nothing else") {
  if (!test::amx_is_possible()) return;
  test::WithAmx amx;
  Tensor a = cast(ones({37, 35}), bf16), b = cast(ones({35, 37}), bf16);
  a[3][5].fill_(INFINITY);
  a[34][34].fill_(NAN);
  const std::vector<double> y = matmul(a, b).to_vector<double>();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t row = i / 37;
    wrong += row == 3 ? !(y[i] == INFINITY) : row == 34 ? !std::isnan(y[i]) : y[i] != 35;
  }
  CHECK(wrong == 0);
}
#else
TEST_CASE("products of bf16 by AMX are for x86-64") { WARN("skipped: this is another processor"); }
#endif
