// Matrix products on the CPU: every dtype, layout and instruction set compared with a product in f64, odd sizes, and
// the same bits for any number of threads.
#include "core/cpu/isa.h"
#include "core/gemm.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "core/random.h"
#include "tests/testing.h"

using namespace mantissa;

namespace {

using cpu_backend::Isa;

struct Case { std::int64_t m, n, k; };
// Around the sizes of tiles (6 or 14 rows, 16 or 32 columns), of a part of k (256, 2048), of few rows (8, 16, 32), and
// of a work item; one row, one column, also of short sums; tiny matrices; few columns, half a panel of them, and sums
// in two parts; rows that are 4 KiB apart.
const Case cases[] = {{1, 1, 129}, {1, 40, 33},  {13, 31, 7},    {14, 32, 16},   {15, 33, 17},     {29, 65, 127},
                      {6, 16, 1},  {7, 200, 64}, {100, 96, 255}, {300, 65, 128}, {40, 70, 4099}, {333, 257, 190},
                      {2, 50, 700}, {5, 13, 77},   {8, 200, 64},   {16, 47, 1030}, {31, 600, 900},
                      {1, 701, 67}, {1, 5000, 1}, {1027, 1, 41},  {35, 1, 4099}, {700, 3, 3},     {3, 900, 4},
                      {700, 2, 70}, {333, 6, 129}, {64, 61, 1024}, {90, 17, 2048}, {900, 1, 8},    {517, 1, 16},
                      {1, 1030, 5}, {101, 9, 65},  {40, 16, 1101}, {37, 15, 1030}, {1, 1, 17},    {1, 1, 4259}};

// A matrix of dtype `t` in one of four layouts: by rows, by columns, every other row of a larger one, every other
// column.
Tensor matrix(std::int64_t rows, std::int64_t columns, Dtype t, int layout) {
  switch (layout) {
    case 0: return cast(rand({rows, columns}, {.dtype = f64}) - 0.5, t);
    case 1: return cast(rand({columns, rows}, {.dtype = f64}) - 0.5, t).t();
    case 2: return cast(rand({2 * rows, columns}, {.dtype = f64}) - 0.5, t).slice(0, 0, 2 * rows, 2);
    default: return cast(rand({rows, 2 * columns}, {.dtype = f64}) - 0.5, t).slice(1, 0, 2 * columns, 2);
  }
}

// The product in f64, of the numbers as stored. (op_test compares the f64 product with explicit sums.)
std::string wrong(const Tensor& y, const Tensor& wanted, std::int64_t k) {
  return test::difference(y, wanted, test::tolerance_for(y.dtype(), static_cast<double>(k)));
}

}  // namespace

TEST_CASE("products agree with f64 in every dtype, layout and instruction set") {
  const Isa before = cpu_backend::isa();
  manual_seed(7);
  for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > cpu_backend::best_isa()) {
      WARN("this machine does not run " << cpu_backend::name_of(isa));
      continue;
    }
    cpu_backend::set_isa(isa);
    for (Dtype t : {f32, f16, bf16}) {
      int layout = 0;
      for (const Case& c : cases) {
        for (int i = 0; i < 4; ++i, ++layout) {
          const Tensor a = matrix(c.m, c.k, t, layout % 4), b = matrix(c.k, c.n, t, (layout / 4 + i) % 4);
          INFO(cpu_backend::name_of(isa) << " " << name_of(t) << " " << c.m << " x " << c.n << " x " << c.k
                                         << ", layouts " << layout % 4 << " " << (layout / 4 + i) % 4);
          CHECK(wrong(matmul(a, b), matmul(cast(a, f64), cast(b, f64)), c.k) == "");
          const Tensor bias = cast(rand({c.n}, {.dtype = f64}) - 0.5, t);
          CHECK(wrong(linear(a, b.t(), bias), matmul(cast(a, f64), cast(b, f64)) + cast(bias, f64), c.k) == "");
          const Tensor sums = empty({c.m, c.n});  // f16 or bf16 operands, not rounded
          kernels::gemm(cpu, sums.view(), a.view(), b.view(), bias.view());
          CHECK(wrong(sums, matmul(cast(a, f64), cast(b, f64)) + cast(bias, f64), c.k) == "");
          kernels::gemm(cpu, sums.view(), a.view(), b.view(), {}, {}, true);
          CHECK(wrong(sums, 2.0 * matmul(cast(a, f64), cast(b, f64)) + cast(bias, f64), 2 * c.k) == "");
        }
      }
      const Tensor a = cast(rand({5, 1, 20, 33}, {.dtype = f64}) - 0.5, t);
      const Tensor b = cast(rand({3, 33, 40}, {.dtype = f64}) - 0.5, t);
      CHECK(wrong(matmul(a, b), matmul(cast(a, f64), cast(b, f64)), 33) == "");
      for (const Case& c : {Case{4, 4, 4}, Case{16, 16, 16}, Case{9, 33, 17}, Case{1, 64, 64}, Case{30, 20, 64},
                            Case{3, 3, 3}, Case{2, 4, 1}, Case{800, 3, 4}, Case{4, 200, 2}, Case{30, 40, 1},
                            Case{1, 70, 200}, Case{1, 10, 50}, Case{8, 8, 8}, Case{8, 11, 9}, Case{15, 5, 64},
                            Case{3, 16, 6}, Case{37, 1, 8}, Case{1, 9, 8}}) {
        const Tensor left = cast(rand({7, c.m, c.k}, {.dtype = f64}) - 0.5, t);
        const Tensor right = cast(rand({7, c.k, c.n}, {.dtype = f64}) - 0.5, t);
        const Tensor y = matmul(left, right), turned = contiguous(transpose(left)), wide = cat({right, right}, 2);
        CHECK(wrong(y, matmul(cast(left, f64), cast(right, f64)), c.k) == "");
        CHECK(equal(matmul(transpose(turned), slice(wide, 2, c.n)), y));
      }
      const Tensor across = cast(rand({7, 33, 60}, {.dtype = f64}) - 0.5, t);  // transposed, times a column
      const Tensor column = cast(rand({7, 33, 1}, {.dtype = f64}) - 0.5, t);
      const Tensor wanted = matmul(transpose(cast(across, f64)), cast(column, f64));
      CHECK(wrong(matmul(transpose(across), column), wanted, 33) == "");
    }
  }
  cpu_backend::set_isa(before);
}

TEST_CASE("products have the same bits for any number of threads, and in any layout in sixteen bits") {
  const int before = num_threads();
  for (Dtype t : {f64, f32, f16, bf16}) {
    for (const Case& c : {Case{1024, 128, 128}, Case{128, 512, 1024}, Case{70, 200, 5000}, Case{333, 257, 190}}) {
      const Tensor a = matrix(c.m, c.k, t, 0), b = matrix(c.k, c.n, t, 1);
      set_num_threads(1);
      const std::vector<double> one = matmul(a, b).to_vector<double>();
      for (int threads : {2, 3, 5}) {
        set_num_threads(threads);
        CHECK(matmul(a, b).to_vector<double>() == one);
      }
      if (is_half(t)) CHECK(matmul(a.t().contiguous().t(), b.contiguous()).to_vector<double>() == one);
    }
  }
  for (Dtype t : {f32, f16, bf16}) {
    for (const Case& c : {Case{1, 3000, 500}, Case{3000, 1, 500}, Case{1, 90000, 1}, Case{9000, 3, 3}, Case{3, 9000, 4},
                          Case{3000, 2, 70}, Case{64, 500, 2048}}) {
      for (const int layout : {0, 1}) {
        const Tensor a = matrix(c.m, c.k, t, layout), b = matrix(c.k, c.n, t, layout);
        set_num_threads(1);
        const Tensor one = matmul(a, b);
        set_num_threads(3);
        CHECK(equal(matmul(a, b), one));
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("a product of two vectors keeps its digits however long it is, and its bits however they lie") {
  const int before = num_threads();
  const Isa isa_before = cpu_backend::isa();
  constexpr std::int64_t n = 1'000'003;
  for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > cpu_backend::best_isa()) continue;
    cpu_backend::set_isa(isa);
    for (Dtype t : {f64, f32, f16, bf16}) {
      INFO(cpu_backend::name_of(isa) << " " << name_of(t));
      const Tensor a = full({n}, 0.1, {.dtype = t}), b = cast(rand({2 * n}, {.dtype = f64}) - 0.5, t);
      const Tensor tenths = empty({1, 1}, {.dtype = t == f64 ? f64 : f32});  // f16 or bf16 operands, not rounded
      kernels::gemm(cpu, tenths.view(), unsqueeze(a, 0).view(), ones({n, 1}, {.dtype = t}).view(), {});
      const double wanted = a[0].item<double>() * n;
      CHECK(std::abs(tenths.item<double>() - wanted) <= (t == f64 ? 1e-13 : 5e-6) * wanted);
      const Tensor apart = slice(b, 0, 0, 2 * n, 2), dense = apart.contiguous();
      set_num_threads(1);
      const Tensor one = dot(a, dense);
      CHECK(wrong(one, dot(cast(a, f64), cast(dense, f64)), n) == "");
      set_num_threads(3);
      CHECK(test::same_bits(dot(a, dense), one));
      CHECK(test::same_bits(dot(a, apart), one));
      CHECK(test::same_bits(dot(apart, a), one));
      CHECK(test::same_bits(dot(expand(a[0], {n}), apart), one));
    }
  }
  cpu_backend::set_isa(isa_before);
  set_num_threads(before);
}

TEST_CASE("products of sixteen-bit floats carry infinities, NaN and overflow to the result, and to nothing else") {
  for (Dtype t : {f16, bf16}) {
    Tensor a = cast(ones({17, 35}), t), b = cast(ones({35, 37}), t);
    a[3][5].fill_(INFINITY);
    a[4][34].fill_(NAN);
    const std::vector<double> y = matmul(a, b).to_vector<double>();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t row = i / 37;
      wrong += row == 3 ? !(y[i] == INFINITY) : row == 4 ? !std::isnan(y[i]) : y[i] != 35;
    }
    CHECK(wrong == 0);
  }
  const Tensor large = cast(full({2, 2}, 300), f16);
  CHECK(matmul(large, large).to_vector<double>()[0] == INFINITY);  // 180000 is beyond f16
}
