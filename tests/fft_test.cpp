// Fourier transforms beyond the lengths of the operators' samples (ops/fft.cpp): every path of the kernel compared with
// the definition, in all instruction sets and for any number of threads; ONNX's DFT. Comparison with PyTorch's numbers:
// tests/golden/ops_fft.h.
#include "core/fft.h"

#include <cstdio>

#include "core/ops_fft.h"
#include "mantissa.h"
#include "tests/op_testing.h"
#include "tests/temp_dir.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

double largest(const Tensor& x) { return x.numel() == 0 ? 0 : max(abs(cast(x, f64))).item<double>(); }

// Element k of the transform of the row that begins at x, by its definition; step 1: a real row, 2: complex pairs.
fourier::Root defined(const double* x, std::int64_t n, int step, std::int64_t k, bool inverse) {
  fourier::Root sum{0, 0};
  for (std::int64_t j = 0; j < n; ++j) {
    fourier::Root w = fourier::root(j * k % n, n);
    if (inverse) w.im = -w.im;
    const double re = x[step * j], im = step == 2 ? x[step * j + 1] : 0;
    sum.re += re * w.re - im * w.im;
    sum.im += re * w.im + im * w.re;
  }
  return sum;
}

// The error of some elements of each kind of transform of `rows` rows, relative to the row's norm.
double error_of(std::int64_t rows, std::int64_t n, Dtype dtype) {
  const Tensor x = cast(randn({rows, n}, {.dtype = dtype}), dtype), z = randn({rows, n, 2}, {.dtype = dtype});
  const auto wide = [](const Tensor& t) { return cast(t, f64).contiguous(); };
  const Tensor xs = wide(x), zs = wide(z);
  const Tensor real = wide(fft::rfft(x)), forward = wide(fft::fft(z)), back = wide(fft::ifft(z, {.norm = "forward"}));
  double worst = 0;
  const auto compare = [&](const Tensor& y, std::int64_t at, const fourier::Root& expected) {
    const double scale = std::sqrt(static_cast<double>(2 * n));
    const double* p = y.data<double>() + 2 * at;
    worst = std::max({worst, std::abs(p[0] - expected.re) / scale, std::abs(p[1] - expected.im) / scale});
  };
  for (const std::int64_t row : {std::int64_t{0}, rows - 1}) {
    for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, n / 3, n / 2, n - 1}) {
      if (k >= n) continue;
      const std::int64_t ends = n / 2 + 1;
      if (k < ends) compare(real, row * ends + k, defined(xs.data<double>() + row * n, n, 1, k, false));
      compare(forward, row * n + k, defined(zs.data<double>() + 2 * row * n, n, 2, k, false));
      compare(back, row * n + k, defined(zs.data<double>() + 2 * row * n, n, 2, k, true));
    }
  }
  return std::max(
      {worst, largest(fft::irfft(fft::rfft(x), {.n = n}) - x) / 4, largest(fft::ifft(fft::fft(z)) - z) / 4});
}

struct Net {
  nn::Mode mode{false};
  MANTISSA_FIELDS(mode)
  Tensor operator()(const Tensor& x) const {
    const Tensor s = fft::rfft(x);
    const Tensor z = fft::ifft(fft::fft(complex_mul(s, s)));
    return fft::irfft(z, {.n = x.size(-1)});
  }
};

}  // namespace

// Short rows and columns are processed side by side, long ones as matrices, and lengths with prime factors above 61 as
// convolutions.
TEST_CASE("transforms of any length and number of rows are what the definition says") {
  manual_seed(7);
  for (const std::int64_t n :
       {1,   2,   3,   4,   6,    7,    8,    15,   16,   61,   64,   67,   100,  121,  128,   129,  134,
        210, 256, 400, 512, 1000, 1001, 1009, 1024, 2018, 2048, 4096, 4099, 5000, 8192, 10007, 16384}) {
    for (const std::int64_t rows : {1, 3, 17}) {
      if (n * rows > 60000) continue;
      INFO(rows << " rows of " << n);
      CHECK(error_of(rows, n, f64) < 1e-13);
      CHECK(error_of(rows, n, f32) < 2e-6);
    }
  }
}

TEST_CASE("a transform along any dimension has the bits of that along the last one") {
  manual_seed(8);
  for (const std::int64_t n : {5, 12, 67, 300, 2100}) {
    INFO("n = " << n);
    const Tensor x = randn({3, n, 19}), last = x.transpose(1, 2).contiguous();
    CHECK(same_bits(fft::rfft(x, {.dim = 1}).transpose(1, 2).contiguous(), fft::rfft(last).contiguous()));
    const Tensor z = randn({3, n, 19, 2}), ended = z.permute({0, 2, 1, 3}).contiguous();
    CHECK(same_bits(fft::fft(z, {.dim = 1}).permute({0, 2, 1, 3}).contiguous(), fft::fft(ended)));
  }
}

TEST_CASE("the bits of a transform do not depend on the number of threads") {
  const int before = num_threads();
  manual_seed(9);
  for (const auto& [rows, n] : {std::pair<std::int64_t, std::int64_t>{300, 200}, {2, 65536}, {12, 4099}}) {
    const Tensor x = randn({rows, n});
    set_num_threads(1);
    const Tensor one = fft::rfft(x), back = fft::irfft(one, {.n = n});
    set_num_threads(4);
    CHECK(same_bits(fft::rfft(x), one));
    CHECK(same_bits(fft::irfft(one, {.n = n}), back));
    set_num_threads(before);
  }
}

TEST_CASE("a product of spectra is a cyclic convolution, and its gradient a correlation") {
  manual_seed(10);
  const Tensor a = randn({2, 60}, {.dtype = f64}).requires_grad_(), b = randn({60}, {.dtype = f64});
  const Tensor y = fft::irfft(complex_mul(fft::rfft(a), fft::rfft(b)), {.n = 60});
  Tensor expected = zeros({2, 60}, {.dtype = f64});
  for (std::int64_t shift = 0; shift < 60; ++shift) expected = expected + roll(a.detach(), {shift}, {1}) * b[shift];
  CHECK(largest(y.detach() - expected) < 1e-12);
  const Tensor g = randn({2, 60}, {.dtype = f64});
  backward(sum(y * g));
  Tensor correlation = zeros({2, 60}, {.dtype = f64});
  for (std::int64_t shift = 0; shift < 60; ++shift) correlation = correlation + roll(g, {-shift}, {1}) * b[shift];
  CHECK(largest(a.grad() - correlation) < 1e-12);
}

TEST_CASE("halves are computed in f32 and rounded once; autocast gives f32") {
  manual_seed(11);
  const Tensor x = cast(randn({4, 1024}), bf16);
  CHECK(same_bits(fft::rfft(x), cast(fft::rfft(cast(x, f32)), bf16)));
  const amp::Autocast region(bf16);
  CHECK(fft::rfft(x).dtype() == f32);
  CHECK(fft::rfft2(x).dtype() == f32);
}

TEST_CASE("long transforms are ONNX's DFT, which nn::OnnxModel reads") {
  manual_seed(12);
  const TempDir folder;
  for (const std::int64_t n : {600, 1024}) {
    const Tensor x = randn({3, n});
    nn::save_onnx(Net(), folder.path() + "/net.onnx", {x}, {.dynamic = {{"batch"}}});
    const nn::OnnxModel read(folder.path() + "/net.onnx");
    CHECK(largest(read(x) - Net()(x)) < 1e-4 * largest(Net()(x)));
  }
}

TEST_CASE("what cannot be transformed is said") {
  CHECK_THROWS_WITH(fft::fft(zeros({4, 3})), Catch::Matchers::Contains("fft: needs pairs of real and imaginary part") &&
                                                 Catch::Matchers::Contains("to_complex(x)"));
  CHECK_THROWS_WITH(fft::rfft(zeros({4}), {.n = -1}), Catch::Matchers::Contains("a signal of -1 elements"));
  CHECK_THROWS_WITH(fft::irfft(zeros({1, 2})), Catch::Matchers::Contains("a signal of 0 elements"));
  CHECK_THROWS_WITH(fft::rfft(zeros({4}), {.dim = 1}),
                    Catch::Matchers::Contains("rfft: dim 1 is out of range for 1 dim"));
  CHECK_THROWS_WITH(fft::rfft(zeros({4}), {.norm = "orth"}), Catch::Matchers::Contains("norm must be \"backward\""));
}
