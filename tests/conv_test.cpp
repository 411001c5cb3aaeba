// Every convolution algorithm against sums in f64 of the rounded inputs, within the tolerances for convolutions;
// layouts, threads, and the choice between algorithms. ctest runs it on each instruction set.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "core/conv_algorithms.h"
#include "core/kernel.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "core/tuner.h"
#include "core/winograd.h"
#include "tests/catch_compat.h"
#include "tests/temp_dir.h"
#include "tests/testing.h"

namespace mantissa {
MANTISSA_KERNEL(copy, const View& y, const View& x)
}
using namespace mantissa;

namespace {

using conv::Way;
constexpr Way ways[] = {Way::channels_last, Way::blocked, Way::library_winograd,
                        Way::winograd,      Way::depthwise,  Way::few_pixels,
                        Way::taps,          Way::unfolded};
constexpr ConvPass passes[] = {ConvPass::forward, ConvPass::input_gradient, ConvPass::weight_gradient};

ConvShape shape(std::int64_t n, std::int64_t in, std::int64_t out, std::array<std::int64_t, 2> size, std::int64_t k,
                std::int64_t stride = 1, std::int64_t pad = 0, std::int64_t groups = 1, std::int64_t dilation = 1) {
  ConvShape s{n, in, out, groups, {size[0], size[1]}, {}, {k, k}, {stride, stride}, {pad, pad}, {dilation, dilation}};
  for (int d = 0; d < 2; ++d) s.out[d] = (s.in[d] + 2 * pad - (k - 1) * dilation - 1) / stride + 1;
  return s;
}

Tensor random_tensor(const Dims& sizes, Dtype dtype, Layout layout, std::uint32_t seed) {
  const Tensor wide = Tensor::allocate(sizes, f32), y = Tensor::allocate(sizes, dtype, cpu, layout);
  std::mt19937 random(seed);
  std::normal_distribution<float> number(0, 1);
  for (std::int64_t i = 0; i < wide.numel(); ++i) wide.data<float>()[i] = number(random);
  kernels::copy(cpu, y.view(), wide.view());
  return y;
}
Tensor as(const Tensor& x, Dtype dtype, Layout layout = Layout::contiguous) {
  const Tensor y = Tensor::allocate(x.sizes(), dtype, cpu, layout);
  kernels::copy(cpu, y.view(), x.view());
  return y;
}

struct Operands {
  Tensor y, a, b, bias;
};
Operands operands(ConvPass pass, const ConvShape& s, Dtype dtype, bool bias, Layout layout) {
  Dims in{s.batch, s.in_channels}, out{s.batch, s.out_channels}, weight{s.out_channels, s.in_channels / s.groups};
  if (!s.is_image()) in.push_back(s.depth.in), out.push_back(s.depth.out), weight.push_back(s.depth.kernel);
  for (int d = 0; d < 2; ++d) in.push_back(s.in[d]), out.push_back(s.out[d]), weight.push_back(s.kernel[d]);
  const Tensor x = random_tensor(in, dtype, layout, 1), g = random_tensor(out, dtype, layout, 2);
  const Tensor w = random_tensor(weight, dtype, Layout::contiguous, 3);
  const Tensor add = bias ? random_tensor({s.out_channels}, dtype, Layout::contiguous, 4) : Tensor();
  if (pass == ConvPass::forward) return {g, x, w, add};
  if (pass == ConvPass::input_gradient) return {x, g, w, {}};
  return {w, x, g, {}};
}
void run(Way way, ConvPass pass, const ConvShape& s, const Operands& o) {
  conv::run(way, {pass, s, o.y.view(), o.a.view(), o.b.view(), o.bias.defined() ? o.bias.view() : View{}});
}

double largest(const std::vector<double>& v) {
  double m = 0;
  for (double x : v) m = std::max(m, std::abs(x));
  return m;
}

// The largest error in units of the tolerance for convolutions.
double error_of(Way way, ConvPass pass, const ConvShape& s, const Operands& o) {
  const bool has_bias = o.bias.defined();
  const Operands exact{Tensor::allocate(o.y.sizes(), f64), as(o.a, f64), as(o.b, f64),
                       has_bias ? as(o.bias, f64) : Tensor()};
  run(Way::unfolded, pass, s, exact);
  run(way, pass, s, o);
  const std::vector<double> expected = exact.y.to_vector<double>(), y = o.y.to_vector<double>();
  const std::int64_t taps = s.taps();
  const auto terms = static_cast<double>(pass == ConvPass::forward          ? taps * s.in_channels / s.groups
                                         : pass == ConvPass::input_gradient ? taps * s.out_channels / s.groups
                                                                            : s.batch * s.out_pixels());
  const double scale = std::sqrt(terms) * largest(exact.a.to_vector<double>()) * largest(exact.b.to_vector<double>());
  const double rounding = o.y.dtype() == f32 ? 0 : o.y.dtype() == bf16 ? 8e-3 : 1e-3;
  double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double allowed = 1e-6 * scale + (2e-6 * std::sqrt(terms) + rounding) * std::abs(expected[i]);
    worst = std::max(worst, std::isfinite(y[i]) ? std::abs(y[i] - expected[i]) / allowed : 1e30);
  }
  return worst;
}

ConvShape volume() {
  ConvShape s = shape(2, 6, 10, {5, 6}, 3, 1, 1);
  s.depth = {4, 4, 3, 1, 1, 1};
  return s;
}
ConvShape one_volume() {  // output channels are cut
  ConvShape s = shape(1, 3, 70, {10, 12}, 3, 1, 1);
  s.depth = {6, 6, 3, 1, 1, 1};
  return s;
}
const ConvShape shapes[] = {
    shape(2, 16, 16, {8, 8}, 3, 1, 1),
    shape(3, 17, 33, {7, 9}, 3, 1, 1),
    shape(2, 3, 20, {12, 11}, 3, 1, 1),
    shape(1, 1, 8, {13, 13}, 5),
    shape(5, 40, 70, {9, 8}, 3, 2, 1),
    shape(4, 33, 48, {8, 7}, 1, 2),
    shape(3, 64, 160, {4, 4}, 3, 1, 1),
    shape(2, 128, 128, {6, 5}, 3, 2, 1),
    shape(2, 24, 24, {9, 9}, 3, 1, 1, 24),
    shape(2, 12, 18, {6, 6}, 3, 1, 1, 3),
    shape(2, 20, 36, {10, 9}, 3, 1, 2, 1, 2),
    shape(1, 5, 3, {1, 1}, 1),
    shape(4, 6, 16, {14, 14}, 5),
    shape(9, 130, 257, {3, 3}, 2),
    shape(2, 3, 64, {9, 10}, 3, 1, 1),
    shape(2, 64, 256, {5, 5}, 3, 2, 1),
    shape(1, 64, 96, {14, 11}, 3, 2, 1),  // few images: rows are cut
    shape(3, 96, 96, {13, 9}, 5, 1, 1),
    shape(1, 40, 130, {4, 4}, 3, 1, 1),  // few pixels
    shape(2, 33, 70, {5, 6}, 3, 2, 1, 1, 2),
    shape(3, 75, 75, {11, 9}, 5, 2, 2, 75),  // by channel
    shape(2, 40, 40, {6, 7}, 7, 1, 3, 40),
    shape(1, 8, 8, {9, 12}, 2, 3, 0, 8, 4),
    shape(2, 130, 130, {30, 3}, 3, 1, 2, 130, 2),
    volume(),
    one_volume(),
};

}  // namespace

TEST_CASE("every way to convolve is within the tolerances of convolutions") {
  for (const ConvShape& s : shapes) {
    for (Dtype dtype : {f32, bf16, f16}) {
      for (ConvPass pass : passes) {
        for (Layout layout : {Layout::channels_last, Layout::contiguous}) {
          const bool bias = pass == ConvPass::forward && s.batch > 1;
          int tried = 0;
          for (Way way : ways) {
            if (!conv::applies(way, {pass, s, dtype, bias})) continue;
            if (way == Way::winograd && !winograd_fits(pass, s)) continue;  // its own test has the rest
            if (way == Way::library_winograd && !winograd_fits(pass, s)) continue;
            INFO(conv::name_of(way) << " pass " << static_cast<int>(pass) << ' ' << name_of(dtype) << " channels "
                                    << s.in_channels << " to " << s.out_channels << " last "
                                    << (layout == Layout::channels_last));
            CHECK(error_of(way, pass, s, operands(pass, s, dtype, bias, layout)) <= 1);
            ++tried;
          }
          CHECK(tried > 0);
          const Way rule = conv::rule({pass, s, dtype, bias});
          CHECK(error_of(rule, pass, s, operands(pass, s, dtype, bias, layout)) <= 1);
        }
      }
    }
  }
}

TEST_CASE("elements of a kernel that meet nothing but borders have the gradient 0, whatever memory held before") {
  const auto line = [](std::int64_t n, std::int64_t in, std::int64_t out, std::int64_t length, std::int64_t k,
                       std::int64_t stride, std::int64_t pad, std::int64_t groups) {
    return ConvShape{n, in, out, groups, {1, length}, {1, (length + 2 * pad - k) / stride + 1},
                     {1, k}, {1, stride}, {0, pad}, {1, 1}};
  };
  for (const ConvShape& s : {line(5, 4, 16, 2, 2, 3, 1, 2), line(1, 2, 1, 1, 3, 2, 1, 1), line(5, 2, 4, 1, 5, 2, 4, 2),
                             line(2, 16, 32, 1, 3, 2, 1, 1), shape(2, 4, 16, {1, 1}, 3, 2, 1),
                             shape(3, 16, 16, {2, 2}, 5, 3, 2)}) {
    for (const Dtype dtype : {f32, bf16, f16}) {
      constexpr ConvPass pass = ConvPass::weight_gradient;
      for (const Way way : ways) {
        if (!conv::applies(way, {pass, s, dtype, false})) continue;
        if (way == Way::winograd || way == Way::library_winograd) continue;
        INFO(conv::name_of(way) << ' ' << name_of(dtype) << " input " << s.in[0] << " x " << s.in[1]);
        const Operands o = operands(pass, s, dtype, false, Layout::contiguous);
        for (std::int64_t parts = 1; parts <= s.batch; ++parts) {  // what is freed here is allocated there
          const Tensor a = full({parts, s.weights()}, NAN), b = full({parts, s.weights()}, NAN);
        }
        CHECK(error_of(way, pass, s, o) <= 1);
      }
    }
  }
}

TEST_CASE("a convolution has the same bits for any layout and any number of threads") {
  const int before = num_threads();
  for (const ConvShape& s : shapes) {
    for (Dtype dtype : {f32, bf16, f16}) {
      for (ConvPass pass : passes) {
        for (Way way : ways) {
          if (!conv::applies(way, {pass, s, dtype, false})) continue;
          INFO(conv::name_of(way) << " pass " << static_cast<int>(pass) << ' ' << name_of(dtype) << " channels "
                                  << s.in_channels);
          std::vector<double> first;
          for (int threads : {1, 2, 3}) {
            for (Layout layout : {Layout::channels_last, Layout::contiguous}) {
              set_num_threads(threads);
              const Operands o = operands(pass, s, dtype, false, layout);
              run(way, pass, s, o);
              const std::vector<double> y = o.y.to_vector<double>();
              if (first.empty()) first = y;
              CHECK(y == first);
            }
          }
        }
      }
    }
  }
  set_num_threads(before);
}

// Regression test: the library's kernel for this case wrote out of bounds.
TEST_CASE("gradients of one-pixel kernels that skip the last row and column") {
  for (const Dtype t : {f32, bf16}) {
    for (const std::int64_t channels : {1, 3, 12}) {
      for (const std::int64_t size : {64, 112}) {
        const Tensor x = cast(rand({1, channels, size, size}, {.dtype = f64}) - 0.5, t);
        const Tensor w = cast(rand({16, channels, 1, 1}, {.dtype = f64}) - 0.5, t);
        const auto gradient = [&](Dtype dtype) {
          Tensor leaf = cast(w, dtype).detach().requires_grad_();
          sum(conv2d(cast(x, dtype), leaf, {}, {.stride = 2})).backward();
          return leaf.grad();
        };
        INFO(name_of(t) << ", " << channels << " channels of " << size << " x " << size);
        CHECK(test::difference(gradient(t), gradient(f64),
                               test::tolerance_for(t, static_cast<double>(size * size / 4))) == "");
      }
    }
  }
}

TEST_CASE("convolutions over an empty batch give no images and a zero gradient") {
  const Tensor x = zeros({0, 16, 8, 8}), w = ones({16, 16, 3, 3});
  CHECK(conv2d(x, w, {}, {.padding = {1, 1}}).sizes() == Dims{0, 16, 8, 8});
  const Tensor v = ones({16, 16, 3, 3}).requires_grad_();
  conv2d(x, v, {}, {.padding = {1, 1}}).sum().backward();
  CHECK(v.grad().to_vector<float>() == std::vector<float>(16 * 16 * 9, 0.0f));
}

TEST_CASE("the rule is a function of the shape") {
  tuner::set_mode(tuner::Mode::off);
  const ConvShape s = shape(2, 40, 24, {9, 9}, 3, 1, 1);
  const Operands once = operands(ConvPass::forward, s, f32, false, Layout::channels_last),
                 again = operands(ConvPass::forward, s, f32, false, Layout::channels_last);
  run(conv::rule({ConvPass::forward, s, f32, false}), ConvPass::forward, s, once);
  for (int i = 0; i < 3; ++i) {
    conv::run_chosen({ConvPass::forward, s, again.y.view(), again.a.view(), again.b.view(), View{}});
    CHECK(again.y.to_vector<float>() == once.y.to_vector<float>());
  }
}

TEST_CASE("who does not accept Winograd's rounding gets plain sums") {
  const ConvShape s = shape(2, 64, 64, {16, 16}, 3, 1, 1);
  for (ConvPass pass : passes) {
    const conv::Problem plain{pass, s, f32, false, false};
    CHECK_FALSE(conv::applies(Way::winograd, plain));
    CHECK_FALSE(conv::applies(Way::library_winograd, plain));
    CHECK(conv::rule(plain) != Way::winograd);
    CHECK(conv::applies(conv::rule(plain), plain));
  }
  CHECK(winograd_allowed());
  const Operands o = operands(ConvPass::forward, s, f32, false, Layout::channels_last);
  const auto result = [&] {
    const Tensor y = Tensor::allocate(o.y.sizes(), f32, cpu, Layout::channels_last);
    kernels::conv2d(cpu, ConvPass::forward, s, y.view(), o.a.view(), o.b.view(), View{});
    return y.to_vector<float>();
  };
  const auto fast = result();
  set_winograd(false);
  const auto plain = result();
  set_winograd(true);
  CHECK(fast != plain);
  CHECK(fast == result());
}

TEST_CASE("trials compute results, and their outcome is kept in a file") {
  const test::TempDir dir;
  const std::string path = dir.path() + "/cache/cpu.jsonl";
  tuner::use_file(path);
  tuner::set_mode(tuner::Mode::on);
  const ConvShape s = shape(3, 40, 56, {9, 10}, 3, 1, 1);
  const Operands o = operands(ConvPass::forward, s, f32, false, Layout::channels_last);
  const conv::Call call{ConvPass::forward, s, o.y.view(), o.a.view(), o.b.view(), View{}};
  const Operands exact{Tensor::allocate(o.y.sizes(), f64), as(o.a, f64), as(o.b, f64), {}};
  run(Way::unfolded, ConvPass::forward, s, exact);
  const std::vector<double> expected = exact.y.to_vector<double>();
  std::vector<double> last;
  for (int i = 0; i < 25; ++i) {
    conv::run_chosen(call);
    last = o.y.to_vector<double>();
    double worst = 0;
    for (std::size_t k = 0; k < last.size(); ++k) worst = std::max(worst, std::abs(last[k] - expected[k]));
    CHECK(worst < 1e-3);
  }
  std::ifstream in(path);
  std::string line;
  REQUIRE(std::getline(in, line));
  CHECK(line.find("conv forward f32 n3 c40 o56") != std::string::npos);
  CHECK_FALSE(std::getline(in, line));

  // Another run reads the stored choice.
  tuner::use_file(path);
  tuner::set_mode(tuner::Mode::kept);
  CHECK(tuner::kept("conv forward f32 n3 c40 o56 g1 in9 k3 s1 p1 d1 in10 k3 s1 p1 d1").has_value());
  // A file in another format is neither read nor written to.
  for (const char* text : {"not json\n", "{\"machine\": 3}\n", "[1, 2]\n", "{}\n"}) {
    std::ofstream(path) << text;
    tuner::use_file(path);
    CHECK_FALSE(tuner::kept("a").has_value());
    tuner::keep("a", "b");
    std::ifstream file(path);
    std::string all((std::istreambuf_iterator<char>(file)), {});
    CHECK(all == text);
  }
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  tuner::use_file(path);
  CHECK_FALSE(tuner::kept("a").has_value());
  tuner::use_file("");
  tuner::set_mode(tuner::Mode::off);
}
