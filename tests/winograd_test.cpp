// Winograd convolutions compared with sums in f64 of the rounded inputs: all passes, dtypes and instruction sets, odd
// shapes, within the tolerances for convolutions; the same bits for any number of threads.
#include "core/winograd.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/cpu/isa.h"
#include "core/parallel.h"
#include "tests/catch_compat.h"

using namespace mantissa;

namespace {

ConvShape shape_of(std::int64_t n, std::int64_t in, std::int64_t out, std::int64_t height, std::int64_t width,
                   std::int64_t pad) {
  ConvShape s{n,      in,     out,        1,     {height, width}, {height + 2 * pad - 2, width + 2 * pad - 2},
              {3, 3}, {1, 1}, {pad, pad}, {1, 1}};
  return s;
}

// Random numbers of a dtype; a 4-d tensor in channels-last strides if asked, with `gap` unused elements after each
// row of pixels.
Tensor random_tensor(const Dims& sizes, Dtype dtype, bool channels_last, std::uint32_t seed, std::int64_t gap = 0) {
  const std::int64_t n = numel_of(sizes) + (channels_last ? sizes[0] * sizes[2] * gap : 0);
  const Tensor flat = Tensor::allocate({n}, dtype);
  std::mt19937 random(seed);
  std::normal_distribution<float> number(0, 1);
  visit_floating(
      dtype, [&]<class T> { std::generate_n(flat.data<T>(), n, [&] { return static_cast<T>(number(random)); }); });
  if (!channels_last) return flat.as_strided(sizes, contiguous_strides(sizes));
  const std::int64_t row = sizes[3] * sizes[1] + gap;
  return flat.as_strided(sizes, {sizes[2] * row, 1, row, sizes[1]});
}

// Row-major copy.
std::vector<double> numbers(const Tensor& t) { return t.to_vector<double>(); }

struct Operands {
  Tensor y, a, b, bias;
};
Operands operands(ConvPass pass, const ConvShape& s, Dtype images, Dtype weights, bool bias,
                  bool weights_last = false, std::int64_t gap = 0) {
  const Dims in{s.batch, s.in_channels, s.in[0], s.in[1]}, out{s.batch, s.out_channels, s.out[0], s.out[1]};
  const Dims weight{s.out_channels, s.in_channels, 3, 3};
  const auto image = [&](const Dims& d, std::uint32_t seed) { return random_tensor(d, images, true, seed, gap); };
  const Tensor w = random_tensor(weight, weights, weights_last, 3);
  const Tensor add = bias ? random_tensor({s.out_channels}, weights, false, 4) : Tensor{};
  if (pass == ConvPass::forward) return {image(out, 5), image(in, 1), w, add};
  if (pass == ConvPass::input_gradient) return {image(in, 5), image(out, 2), w, {}};
  return {w, image(in, 1), image(out, 2), {}};
}

std::vector<double> by_definition(ConvPass pass, const ConvShape& s, const Operands& o) {
  const std::vector<double> a = numbers(o.a), b = numbers(o.b),
                            bias = o.bias.defined() ? numbers(o.bias) : std::vector<double>{};
  std::vector<double> y(static_cast<std::size_t>(o.y.numel()), 0.0);
  const auto in = [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    return static_cast<std::size_t>(((n * s.in_channels + c) * s.in[0] + h) * s.in[1] + w);
  };
  std::size_t out = 0;
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t k = 0; k < s.out_channels; ++k)
      for (std::int64_t h = 0; h < s.out[0]; ++h)
        for (std::int64_t w = 0; w < s.out[1]; ++w, ++out) {
          if (!bias.empty()) y[out] = bias[static_cast<std::size_t>(k)];
          for (std::int64_t c = 0; c < s.in_channels; ++c)
            for (std::int64_t i = 0; i < 3; ++i)
              for (std::int64_t j = 0; j < 3; ++j) {
                const std::int64_t ih = h + i - s.padding[0], iw = w + j - s.padding[1];
                if (ih < 0 || iw < 0 || ih >= s.in[0] || iw >= s.in[1]) continue;
                const auto weight = static_cast<std::size_t>(((k * s.in_channels + c) * 3 + i) * 3 + j);
                const std::size_t x = in(n, c, ih, iw);
                if (pass == ConvPass::forward)
                  y[out] += a[x] * b[weight];
                else if (pass == ConvPass::input_gradient)
                  y[x] += a[out] * b[weight];
                else
                  y[weight] += a[x] * b[out];
              }
        }
  return y;
}

double largest(const std::vector<double>& v) {
  double m = 0;
  for (double x : v) m = std::max(m, std::abs(x));
  return m;
}

// The largest error in units of the tolerance for convolutions.
double error_of(ConvPass pass, const ConvShape& s, const Operands& o) {
  const std::vector<double> expected = by_definition(pass, s, o);
  kernels::winograd(cpu, pass, s, o.y.view(), o.a.view(), o.b.view(), o.bias.defined() ? o.bias.view() : View{});
  const std::vector<double> y = numbers(o.y);
  const double terms = static_cast<double>(pass == ConvPass::forward          ? 9 * s.in_channels
                                           : pass == ConvPass::input_gradient ? 9 * s.out_channels
                                                                              : s.batch * s.out_pixels());
  const double scale = std::sqrt(terms) * largest(numbers(o.a)) * largest(numbers(o.b));
  const double rounding = o.y.dtype() == f32 ? 0 : o.y.dtype() == bf16 ? 8e-3 : 1e-3;
  double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double allowed = 1e-6 * scale + (2e-6 * std::sqrt(terms) + rounding) * std::abs(expected[i]);
    worst = std::max(worst, std::isfinite(y[i]) ? std::abs(y[i] - expected[i]) / allowed : 1e30);
  }
  return worst;
}

constexpr ConvPass passes[] = {ConvPass::forward, ConvPass::input_gradient, ConvPass::weight_gradient};
const char* name_of(ConvPass p) {
  return p == passes[0] ? "forward" : p == passes[1] ? "input gradient" : "weight gradient";
}

template <class F>
void for_instruction_sets(F&& f) {
  namespace backend = mantissa::cpu_backend;
  const backend::Isa before = backend::isa();
  for (const backend::Isa isa : {backend::Isa::baseline, backend::Isa::avx2, backend::Isa::avx512}) {
    if (isa > before) continue;
    backend::set_isa(isa);
    INFO("instruction set " << backend::name_of(isa));
    f();
  }
  backend::set_isa(before);
}

}  // namespace

TEST_CASE("Winograd convolutions are within the tolerances of convolutions") {
  const ConvShape shapes[] = {
      shape_of(2, 16, 16, 8, 8, 1),  shape_of(1, 17, 33, 3, 3, 1),   shape_of(3, 5, 40, 9, 7, 0),
      shape_of(2, 64, 32, 13, 6, 1), shape_of(5, 70, 19, 4, 4, 1),   shape_of(1, 16, 130, 3, 11, 0),
      shape_of(2, 3, 1, 5, 5, 1),    shape_of(1, 130, 16, 6, 17, 2), shape_of(40, 33, 20, 4, 5, 1),
      shape_of(40, 20, 20, 3, 3, 0), shape_of(2, 256, 48, 10, 5, 1), shape_of(40, 16, 20, 12, 12, 1),
  };
  double worst[3] = {};
  for_instruction_sets([&] {
    for (const ConvShape& s : shapes) {
      for (const ConvPass pass : passes) {
        for (const Dtype dtype : {f32, bf16, f16}) {
          INFO(name_of(pass) << " of " << s.batch << " images of " << s.in_channels << " to " << s.out_channels
                             << " channels, " << s.in[0] << " x " << s.in[1] << ", padding " << s.padding[0]
                             << ", dtype " << static_cast<int>(dtype));
          const double error = error_of(pass, s, operands(pass, s, dtype, dtype, true));
          if (dtype == f32) worst[static_cast<int>(pass)] = std::max(worst[static_cast<int>(pass)], error);
          CHECK(error <= 1);
        }
      }
    }
  });
  WARN("largest errors in f32, in units of the tolerance: forward " << worst[0] << ", input gradient " << worst[1]
                                                                    << ", weight gradient " << worst[2]);
}

TEST_CASE("Winograd convolutions of many channels, which go another way through the caches") {
  const ConvShape shapes[] = {shape_of(3, 200, 180, 6, 5, 1), shape_of(120, 176, 200, 4, 4, 1)};
  for (const ConvShape& s : shapes) {
    for (const ConvPass pass : passes) {
      for (const Dtype dtype : {f32, bf16}) {
        INFO(name_of(pass) << " of " << s.batch << " images, dtype " << static_cast<int>(dtype));
        CHECK(error_of(pass, s, operands(pass, s, dtype, dtype, true)) <= 1);
      }
    }
  }
}

TEST_CASE("Winograd convolutions take strides of any kind and weights of another dtype") {
  const ConvShape s = shape_of(2, 24, 40, 7, 9, 1);
  for (const ConvPass pass : passes) {
    INFO(name_of(pass));
    CHECK(error_of(pass, s, operands(pass, s, f32, f32, true, true, 48)) <= 1);
    Operands o = operands(pass, s, bf16, f32, true, false, 5);
    if (pass != ConvPass::weight_gradient)
      CHECK(error_of(pass, s, o) <= 1);
    else
      CHECK(error_of(pass, s, o) <= 1);
  }
}

TEST_CASE("Winograd convolutions have the same bits for any number of threads") {
  const int before = num_threads();
  for (const ConvShape& s :
       {shape_of(6, 40, 48, 14, 14, 1), shape_of(40, 176, 190, 4, 4, 1), shape_of(64, 20, 24, 12, 12, 1)}) {
    for (const ConvPass pass : passes) {
      std::vector<double> first;
      for (const int threads : {1, 2, 3, 5}) {
        set_num_threads(threads);
        const Operands o = operands(pass, s, f32, f32, true);
        kernels::winograd(cpu, pass, s, o.y.view(), o.a.view(), o.b.view(), o.bias.defined() ? o.bias.view() : View{});
        if (threads == 1) first = numbers(o.y);
        INFO(name_of(pass) << ", threads " << threads);
        CHECK(first == numbers(o.y));
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("Winograd convolutions write nothing between rows of pixels and refuse what they cannot do") {
  const ConvShape s = shape_of(2, 16, 20, 6, 6, 1);
  const Operands o = operands(ConvPass::forward, s, f32, f32, true, false, 7);
  const Tensor all = o.y.as_strided({o.y.stride(0) * 2}, {1});
  const std::vector<float> old = all.to_vector<float>();
  kernels::winograd(cpu, ConvPass::forward, s, o.y.view(), o.a.view(), o.b.view(), View{});
  const std::vector<float> now = all.to_vector<float>();
  for (std::size_t i = 0; i < old.size(); ++i) {
    if (static_cast<std::int64_t>(i) % o.y.stride(2) >= 6 * 20) REQUIRE(old[i] == now[i]);
  }
  ConvShape strided = s;
  strided.stride[0] = 2;
  CHECK_THROWS(kernels::winograd(cpu, ConvPass::forward, strided, o.y.view(), o.a.view(), o.b.view(), View{}));
  const Tensor planes = random_tensor({2, 16, 6, 6}, f32, false, 1);
  CHECK_THROWS(kernels::winograd(cpu, ConvPass::forward, s, o.y.view(), planes.view(), o.b.view(), View{}));
  CHECK(winograd_fits(ConvPass::forward, s));
  CHECK_FALSE(winograd_fits(ConvPass::forward, strided));
  CHECK_FALSE(winograd_fits(ConvPass::forward, shape_of(1, 64, 64, 5, 5, 1)));
}
