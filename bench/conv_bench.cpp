// Every way to convolve (core/conv_algorithms.h) on the layers of the networks in bench/, channels-last: the table of
// docs/experiments.md. bench/conv_torch.py times PyTorch on the same layers.
//   conv_bench [threads=2] [f32|bf16|f16] [part of a layer's name] [seconds for each] [images in a batch]
// Prints, for each layer and pass, milliseconds and GFLOP/s of the definition (Winograd's are above the machine's peak)
// for each way; a star marks the rule's. Minimum of the runs that fit into the time.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/conv_algorithms.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(copy, const View& y, const View& x)
}
using namespace mantissa;

namespace {

struct Layer {
  const char* name;
  std::int64_t batch, in, out, size, kernel, stride, padding, groups = 1;
};
constexpr Layer layers[] = {
    {"ResNet-18 3-64 32x32", 32, 3, 64, 32, 3, 1, 1},      {"ResNet-18 64-64 32x32", 32, 64, 64, 32, 3, 1, 1},
    {"ResNet-18 64-128 /2", 32, 64, 128, 32, 3, 2, 1},     {"ResNet-18 64-128 1x1 /2", 32, 64, 128, 32, 1, 2, 0},
    {"ResNet-18 128-128 16x16", 32, 128, 128, 16, 3, 1, 1}, {"ResNet-18 128-256 /2", 32, 128, 256, 16, 3, 2, 1},
    {"ResNet-18 128-256 1x1 /2", 32, 128, 256, 16, 1, 2, 0}, {"ResNet-18 256-256 8x8", 32, 256, 256, 8, 3, 1, 1},
    {"ResNet-18 256-512 /2", 32, 256, 512, 8, 3, 2, 1},    {"ResNet-18 256-512 1x1 /2", 32, 256, 512, 8, 1, 2, 0},
    {"ResNet-18 512-512 4x4", 32, 512, 512, 4, 3, 1, 1},   {"SimpleCNN 3-64 32x32", 128, 3, 64, 32, 3, 1, 1},
    {"SimpleCNN 64-128 16x16", 128, 64, 128, 16, 3, 1, 1}, {"MNIST CNN 1-32 28x28", 128, 1, 32, 28, 3, 1, 0},
    {"MNIST CNN 32-64 26x26", 128, 32, 64, 26, 3, 1, 0},   {"LeNet 3-6 5x5", 4, 3, 6, 32, 5, 1, 0},
    {"LeNet 6-16 5x5", 4, 6, 16, 14, 5, 1, 0},             {"depthwise 96 112x112 /2", 4, 96, 96, 112, 3, 2, 1, 96},
    {"depthwise 144 56x56", 4, 144, 144, 56, 3, 1, 1, 144},
    {"depthwise 144 56x56 5x5 /2", 4, 144, 144, 56, 5, 2, 2, 144},
    {"depthwise 240 28x28 /2", 4, 240, 240, 28, 3, 2, 1, 240},
    {"depthwise 480 14x14 5x5", 4, 480, 480, 14, 5, 1, 2, 480},
    {"depthwise 1152 7x7 5x5", 4, 1152, 1152, 7, 5, 1, 2, 1152},
    {"depthwise 96 56x56 7x7", 4, 96, 96, 56, 7, 1, 3, 96},
};
constexpr conv::Way ways[] = {conv::Way::channels_last, conv::Way::blocked, conv::Way::library_winograd,
                              conv::Way::winograd,      conv::Way::depthwise, conv::Way::few_pixels, conv::Way::taps,
                              conv::Way::unfolded};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
Tensor numbers(const Dims& sizes, Dtype dtype, Layout layout) {
  const Tensor wide = Tensor::allocate(sizes, f32), y = Tensor::allocate(sizes, dtype, cpu, layout);
  std::uint32_t state = 12345;
  for (std::int64_t i = 0; i < wide.numel(); ++i) {
    state = state * 1664525u + 1013904223u;
    wide.data<float>()[i] = static_cast<float>(state >> 16) / 32768.0f - 1.0f;
  }
  kernels::copy(cpu, y.view(), wide.view());
  return y;
}
double best_time(conv::Way way, const conv::Call& call, double seconds) {
  conv::run(way, call);
  double best = 1e9;
  int runs = 0;
  for (const double end = now() + seconds; now() < end || runs < 3; ++runs) {
    const double start = now();
    conv::run(way, call);
    best = std::min(best, now() - start);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  set_num_threads(argc > 1 ? std::atoi(argv[1]) : 2);
  const std::string type = argc > 2 ? argv[2] : "f32", part = argc > 3 ? argv[3] : "";
  const Dtype dtype = type == "bf16" ? bf16 : type == "f16" ? f16 : f32;
  const double seconds = argc > 4 ? std::atof(argv[4]) : 0.03;
  const std::int64_t images = argc > 5 ? std::atoll(argv[5]) : 0;
  for (Layer l : layers) {
    if (images > 0) l.batch = images;
    if (!std::strstr(l.name, part.c_str())) continue;
    const std::int64_t out = (l.size + 2 * l.padding - l.kernel) / l.stride + 1;
    const ConvShape s{l.batch, l.in, l.out, l.groups, {l.size, l.size}, {out, out}, {l.kernel, l.kernel},
                      {l.stride, l.stride}, {l.padding, l.padding}, {1, 1}};
    const Dims in{l.batch, l.in, l.size, l.size}, result{l.batch, l.out, out, out};
    const Tensor x = numbers(in, dtype, Layout::channels_last), g = numbers(result, dtype, Layout::channels_last);
    const Tensor w = numbers({l.out, l.in / l.groups, l.kernel, l.kernel}, dtype, Layout::contiguous);
    const Tensor y = Tensor::allocate(result, dtype, cpu, Layout::channels_last);
    const Tensor dx = Tensor::allocate(in, dtype, cpu, Layout::channels_last), dw = Tensor::allocate(w.sizes(), dtype);
    const View views[3][3] = {
        {y.view(), x.view(), w.view()}, {dx.view(), g.view(), w.view()}, {dw.view(), x.view(), g.view()}};
    const char* names[] = {"forward", "input gradient", "weight gradient"};
    for (int pass = 0; pass < 3; ++pass) {
      const conv::Problem p{static_cast<ConvPass>(pass), s, dtype, false};
      const View none{};
      const conv::Call call{p.pass, s, views[pass][0], views[pass][1], views[pass][2], none};
      std::printf("| %s | %s |", l.name, names[pass]);
      for (conv::Way way : ways) {
        if (!conv::applies(way, p)) {
          std::printf(" |");
          continue;
        }
        const double t = best_time(way, call, seconds);
        std::printf(" %.3f ms %.0f%s |", t * 1e3, s.flops() / t * 1e-9, way == conv::rule(p) ? "*" : "");
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}
