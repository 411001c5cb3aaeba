// Asks cuDNN, for a GPU that is described instead of present, which engines it has for our graphs: a graph that it
// does not know, or whose engines all break our promises, would be computed by slower kernels without a word.
// Compiled by tests/cudnn_engines_test.sh, once for convolutions and once (-DATTENTION) for attention: both files name
// things alike.
#include <cstdio>
#include <string>
#include <string_view>

#if defined(ATTENTION)
#include "cuda/library/cudnn_attention.cpp"
#else
#include "cuda/library/cudnn.cpp"
#endif

namespace mantissa::cuda_backend {
int current_device() { return 0; }
cudaStream_t stream() { return nullptr; }
}  // namespace mantissa::cuda_backend

namespace {

using namespace mantissa;
using namespace mantissa::cuda_backend;

// An H200. cuDNN names what it wants to know; rates are in kHz.
constexpr std::string_view h200 = R"({"deviceName": "NVIDIA H200", "cudaDeviceId": 0, "deviceVer": 900,
  "smVersion": 900, "multiProcessorCount": 132, "driverVer": 13000, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "totalGlobalMem": 150000000000,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
  "maxRegistersPerSM": 65536, "warpSize": 32, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
  "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1,
  "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "l2CacheSize": 62914560})";

int failures = 0;
using Text = std::string;
Text name(Dtype t) { return t == f64 ? " f64" : t == f32 ? " f32" : t == f16 ? " f16" : " bf16"; }

template <class F> void count(const Text& what, F&& make) {
  std::size_t engines = 0;
  const char* why = "";
  try {
    engines = make().configs.size();
  } catch (const cudnn::Refused& r) {
    why = cudnnGetErrorString(r.status);
  }
  std::printf("%-64s %zu engines %s\n", what.c_str(), engines, why);
  failures += engines == 0;
}

#if defined(ATTENTION)
void count_all() {
  static float anywhere;
  const std::pair<const char*, AttentionBias> masks[] = {{"", {}},
                                                         {", mask [T, T]", {&anywhere, {1, 1, 512, 512}}},
                                                         {", mask [B, 1, 1, T]", {&anywhere, {4, 1, 1, 512}}}};
  for (const Dtype t : {f16, bf16}) {
    for (const int width : {64, 128}) {
      for (const std::int64_t kv_heads : {8, 2}) {
        AttentionProblem a;
        a.dtype = t, a.batch = 4, a.heads = 8, a.kv_heads = kv_heads, a.queries = a.keys = 512;
        a.width = a.v_width = width;
        const std::int64_t row = (8 + 2 * kv_heads) * width;  // of a product that q, k and v are parts of
        a.q = a.dq = a.k = a.dk = a.v = a.dv = {nullptr, 512 * row, width, row};
        a.y = a.dy = {nullptr, 8 * 512 * width, width, 8 * width};
        const Text heads = " heads of " + std::to_string(width) + ", 8 to " + std::to_string(kv_heads);
        for (const bool backward : {false, true}) {
          const Text what = Text("attention") + (backward ? " backward" : "") + name(t);
          for (const auto& [mask, bias] : masks) {
            count(what + heads + mask, [&] { return make_attention(a, bias, backward); });
          }
          a.causal = true;
          count(what + " causal" + heads, [&] { return make_attention(a, {}, backward); });
          a.causal = false;
        }
      }
    }
  }
}
#else
void count_all() {
  const ConvShape three{16, 64, 128, 1, {28, 28}, {28, 28}, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  const ConvShape one{16, 64, 128, 1, {28, 28}, {14, 14}, {1, 1}, {2, 2}, {0, 0}, {1, 1}};
  const ConvShape first{16, 3, 64, 1, {32, 32}, {32, 32}, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  ConvShape volume = three;
  volume.depth = {8, 8, 3, 1, 1, 1};
  const char* passes[] = {"forward", "input gradient", "weight gradient"};
  for (const Dtype t : {f64, f32, f16, bf16}) {
    for (const auto& [kernel, shape] :
         {std::pair{"3x3", three}, {"1x1, stride 2", one}, {"3x3 of 3 channels", first}, {"3x3x3", volume}}) {
      for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
        if (layout == Layout::channels_last && !is_half(t)) continue;  // nobody asks for it
        for (int pass = 0; pass < 3; ++pass) {
          const Text where = layout == Layout::channels_last ? ", channels-last" : "";
          count(Text("conv") + name(t) + " " + kernel + " " + passes[pass] + where, [&] {
            return make_problem({.pass = static_cast<ConvPass>(pass), .shape = shape, .layout = layout, .dtype = t});
          });
          if (pass == 2 && layout == Layout::channels_last && shape.in_channels > 3) {
            count(Text("conv") + name(t) + " " + kernel + " weight gradient in f32" + where, [&] {
              return make_problem({.pass = ConvPass::weight_gradient, .shape = shape, .layout = layout, .dtype = t,
                                   .wide = true});
            });
          }
          if (pass > 1 || !is_half(t)) continue;
          for (const bool relu : {false, true}) {
            if (pass == 1 && (!relu || shape.in_channels == 3)) continue;
            if (relu && layout == Layout::contiguous) continue;  // it has none
            const char* more = pass == 1 ? " to a relu" : relu ? " with a bias and relu" : " with a bias";
            count(Text("conv") + name(t) + " " + kernel + " " + passes[pass] + more + where, [&] {
              return make_problem({.pass = static_cast<ConvPass>(pass), .shape = shape, .layout = layout, .dtype = t,
                                   .has_bias = pass == 0, .relu = relu});
            });
          }
        }
      }
    }
  }
}
#endif

}  // namespace

int main() {
  using namespace mantissa::cuda_backend::cudnn;
  Descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(h200.size()),
             h200.data());
  device.finalize();
  described_device = device.get();
  count_all();
  return failures > 0;
}
