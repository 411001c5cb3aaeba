// Winograd convolutions (core/cpu/winograd.cpp) against what kernels::conv2d chooses, by layer and pass, on
// channels-last images: minimum of alternating turns, as effective GFLOP/s (of the definition's operations). A ratio
// above 1 says that the choice is not the best one.
//   winograd_bench [dtype f32|bf16|f16] [seconds per case] [layer or -1] [pass or -1] [alone: without conv2d]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/conv.h"
#include "core/parallel.h"
#include "core/winograd.h"

using namespace mantissa;

namespace {

struct Layer {
  const char* name;
  std::int64_t batch, in, out, size, padding;
};
constexpr Layer layers[] = {{"resnet 64@32", 32, 64, 64, 32, 1},       {"resnet 128@16", 32, 128, 128, 16, 1},
                            {"resnet 256@8", 32, 256, 256, 8, 1},      {"resnet 512@4", 32, 512, 512, 4, 1},
                            {"simple 64-128@16", 128, 64, 128, 16, 1}, {"simple 32-64@16", 128, 32, 64, 16, 1},
                            {"mnist 32-64@28", 128, 32, 64, 28, 0}};

Tensor numbers(const Dims& sizes, Dtype dtype, bool channels_last) {
  const Tensor t = Tensor::allocate(sizes, dtype);
  visit_floating(dtype, [&]<class T> {
    for (std::int64_t i = 0; i < t.numel(); ++i)
      t.data<T>()[i] = static_cast<T>(static_cast<float>(i * 7919 % 1001) / 500 - 1);
  });
  if (!channels_last) return t;
  return t.raw_view(sizes, {sizes[1] * sizes[2] * sizes[3], 1, sizes[3] * sizes[1], sizes[1]});
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

int main(int count, char** words) {
  const Dtype dtype = count > 1 && !std::strcmp(words[1], "bf16")  ? bf16
                      : count > 1 && !std::strcmp(words[1], "f16") ? f16
                                                                   : f32;
  const double seconds = count > 2 ? std::atof(words[2]) : 0.3;
  const int only_layer = count > 3 ? std::atoi(words[3]) : -1, only_pass = count > 4 ? std::atoi(words[4]) : -1;
  const bool alone = count > 5;
  std::printf("%-18s %-8s %10s %10s %8s\n", "layer", "pass", "winograd", "conv2d", "ratio");
  for (int l = 0; l < static_cast<int>(std::size(layers)); ++l) {
    const Layer& layer = layers[l];
    if (only_layer >= 0 && only_layer != l) continue;
    const std::int64_t out = layer.size + 2 * layer.padding - 2;
    const ConvShape s{layer.batch,
                      layer.in,
                      layer.out,
                      1,
                      {layer.size, layer.size},
                      {out, out},
                      {3, 3},
                      {1, 1},
                      {layer.padding, layer.padding},
                      {1, 1}};
    const Tensor x = numbers({layer.batch, layer.in, layer.size, layer.size}, dtype, true),
                 y = numbers({layer.batch, layer.out, out, out}, dtype, true);
    const Tensor w = numbers({layer.out, layer.in, 3, 3}, dtype, false);
    const struct {
      const char* name;
      ConvPass pass;
      Tensor y, a, b;
    } passes[] = {{"forward", ConvPass::forward, y, x, w},
                  {"dx", ConvPass::input_gradient, x, y, w},
                  {"dw", ConvPass::weight_gradient, w, x, y}};
    for (const auto& p : passes) {
      if (only_pass >= 0 && only_pass != static_cast<int>(p.pass)) continue;
      double best[2] = {1e9, 1e9};
      const double end = now() + seconds;
      for (int turn = 0; turn < 6 || now() < end; ++turn) {
        const double start = now();
        if (turn % 2 == 0 || alone)
          kernels::winograd(cpu, p.pass, s, p.y.view(), p.a.view(), p.b.view(), View{});
        else
          kernels::conv2d(cpu, p.pass, s, p.y.view(), p.a.view(), p.b.view(), View{});
        const double t = now() - start;
        if (t < best[turn % 2]) best[turn % 2] = t;
      }
      std::printf("%-18s %-8s %10.0f %10.0f %8.2f   (%.3f ms)\n", layer.name, p.name, s.flops() / best[0] * 1e-9,
                  s.flops() / best[1] * 1e-9, best[1] / best[0], best[0] * 1e3);
    }
  }
}
