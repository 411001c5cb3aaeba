// Choice of the convolution algorithm. The rule comes from the tables in docs/experiments.md.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <unordered_map>

#include "core/amx.h"
#include "core/conv_algorithms.h"
#include "core/gemm_few_rows.h"
#include "core/kernel.h"
#include "core/tuner.h"
#include "core/winograd.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace conv {
namespace {

constexpr Way every_way[] = {Way::channels_last, Way::blocked,    Way::library_winograd,
                             Way::winograd,      Way::depthwise,  Way::few_pixels, Way::taps,
                             Way::unfolded};

bool is_3x3(const ConvShape& s) {
  bool yes = s.is_image() && s.groups == 1;
  for (int d = 0; d < 2; ++d) yes = yes && s.kernel[d] == 3 && s.stride[d] == 1 && s.dilation[d] == 1;
  return yes;
}
// Whether some kernel element only ever meets padding, at every output position: its gradient is 0.
bool has_blind_taps(const ConvShape& s) {
  const auto blind = [](std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                        std::int64_t padding, std::int64_t dilation) {
    for (std::int64_t k = 0; k < kernel; ++k) {  // meets the inputs o * stride + first for outputs o
      const std::int64_t first = k * dilation - padding, o = first < 0 ? (stride - 1 - first) / stride : 0;
      if (o >= out || o * stride + first >= in) return true;
    }
    return false;
  };
  const auto& z = s.depth;
  bool any = blind(z.in, z.out, z.kernel, z.stride, z.padding, z.dilation);
  for (int d = 0; d < 2; ++d)
    any = any || blind(s.in[d], s.out[d], s.kernel[d], s.stride[d], s.padding[d], s.dilation[d]);
  return any;
}
bool has_library(onednn::ConvKernel kernel, const Problem& p, bool any_speed = false) {
  // The library's bf16 kernels (2.6) leave uninitialised values in the gradients of such elements if there are strides.
  const bool half_read = p.pass == ConvPass::weight_gradient && inner_dtype(p.dtype) == bf16;
  if (half_read && has_blind_taps(p.shape)) return false;
  onednn::ConvolutionKey key{
      .kernel = kernel, .pass = p.pass, .shape = p.shape, .dtype = inner_dtype(p.dtype), .bias = p.bias};
  key.shape.batch = 1;
  key.a_last = key.y_last = p.shape.is_image();
  key.b_last = key.a_last && p.pass == ConvPass::weight_gradient;
  if (p.pass == ConvPass::weight_gradient) key.y_last = false;
  return onednn::convolution(key, any_speed) != nullptr;
}

// --- the choice for one problem, made once ---

struct Choice {
  std::vector<Way> ways;       // the applicable ones, the rule's first
  std::atomic<int> fixed{-1};  // index of the chosen one, or -1 during trials
  std::unique_ptr<tuner::Trials> trials;
  std::string key;
};

std::string key_of(const Problem& p) {
  const ConvShape& s = p.shape;
  const char* passes[] = {"forward", "input gradient", "weight gradient"};
  std::string k =
      std::string("conv ") + passes[static_cast<int>(p.pass)] + (p.bias ? " bias " : " ") + name_of(p.dtype) +
                  (p.winograd ? "" : " plain sums");
  const auto add = [&](const char* name, std::int64_t v) { k += std::string(" ") + name + std::to_string(v); };
  add("n", s.batch), add("c", s.in_channels), add("o", s.out_channels), add("g", s.groups);
  for (int d = 0; d < 2; ++d)
    add("in", s.in[d]), add("k", s.kernel[d]), add("s", s.stride[d]), add("p", s.padding[d]), add("d", s.dilation[d]);
  const auto& z = s.depth;
  if (!s.is_image()) add("in", z.in), add("k", z.kernel), add("s", z.stride), add("p", z.padding), add("d", z.dilation);
  return k;
}

struct Hash {
  std::size_t operator()(const Problem& p) const {
    const ConvShape& s = p.shape;
    std::size_t h =
        static_cast<std::size_t>(p.pass) * 128 + static_cast<std::size_t>(p.dtype) * 4 + p.bias * 2u + p.winograd;
    for (std::int64_t v : {s.batch, s.in_channels, s.out_channels, s.groups, s.in[0], s.in[1], s.kernel[0], s.kernel[1],
                           s.stride[0], s.padding[0], s.dilation[0], s.depth.in, s.depth.kernel}) {
      h = h * 0x9e3779b97f4a7c15u + static_cast<std::size_t>(v);
    }
    return h;
  }
};

std::shared_ptr<Choice> make_choice(const Problem& p) {
  auto c = std::make_shared<Choice>();
  c->ways.push_back(rule(p));
  c->fixed = 0;
  if (tuner::mode() == tuner::Mode::off || p.dtype == f64) return c;
  for (Way w : every_way) {
    if (w != c->ways[0] && applies(w, p)) c->ways.push_back(w);
  }
  c->key = key_of(p);
  if (const auto known = tuner::kept(c->key)) {
    for (std::size_t i = 0; i < c->ways.size(); ++i) {
      if (*known == name_of(c->ways[i])) {
        c->fixed = static_cast<int>(i);
        return c;
      }
    }
  }
  if (tuner::mode() == tuner::Mode::on && c->ways.size() > 1) {
    c->trials = std::make_unique<tuner::Trials>(c->ways.size());
    c->fixed = -1;
  }
  return c;
}

std::shared_ptr<Choice> choice_of(const Problem& p) {
  static std::mutex mutex;
  static std::unordered_map<Problem, std::shared_ptr<Choice>, Hash> known;
  constexpr std::size_t most = 1024;  // bounds the memory of programs with ever new shapes
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(p); found != known.end()) return found->second;
  if (known.size() >= most) known.clear();
  return known[p] = make_choice(p);
}

}  // namespace

const char* name_of(Way way) {
  switch (way) {
    case Way::channels_last: return "channels-last";
    case Way::blocked: return "blocked";
    case Way::library_winograd: return "library-winograd";
    case Way::winograd: return "winograd";
    case Way::depthwise: return "depthwise";
    case Way::few_pixels: return "few-pixels";
    case Way::taps: return "taps";
    default: return "unfolded";
  }
}

bool applies(Way way, const Problem& p) {
  const ConvShape& s = p.shape;
  if (p.dtype == f64) return way == Way::unfolded;
  switch (way) {
    case Way::channels_last: return s.is_image() && has_library(onednn::ConvKernel::channels_last, p);
    case Way::blocked: return has_library(onednn::ConvKernel::blocked, p);
    case Way::library_winograd: {
      const bool large = s.in_channels >= 16 && s.out_channels >= 16 && s.out[0] >= 4 && s.out[1] >= 4;
      return p.winograd && is_3x3(s) && large && inner_dtype(p.dtype) == f32 &&
             has_library(onednn::ConvKernel::winograd, p);
    }
    case Way::winograd: return p.winograd && s.is_image() && winograd_can(p.pass, s);
    case Way::depthwise:
      return p.pass == ConvPass::weight_gradient && s.is_image() && s.groups == s.in_channels &&
             s.groups == s.out_channels && s.groups >= 8;  // with fewer, vectors are mostly empty
    case Way::few_pixels:
      return p.pass == ConvPass::forward && s.is_image() && s.groups == 1 &&
             s.batch * s.out_pixels() <= most_few_pixels;
    case Way::taps:
      return p.pass == ConvPass::weight_gradient && s.is_image() && s.groups == 1 && s.in_channels >= 32 &&
             s.out_channels >= 32;
    default: return p.dtype == f32 || p.dtype == f64;
  }
}

void run(Way way, const Call& call) {
  switch (way) {
    case Way::channels_last: return run_library(onednn::ConvKernel::channels_last, call);
    case Way::blocked: return run_library(onednn::ConvKernel::blocked, call);
    case Way::library_winograd: return run_library(onednn::ConvKernel::winograd, call);
    case Way::winograd: return run_winograd(call);
    case Way::depthwise: return run_depthwise(call);
    case Way::few_pixels: return run_few_pixels(call);
    case Way::taps: return run_taps(call);
    default: return run_unfolded(call);
  }
}

Way rule(const Problem& p) {
  const ConvShape& s = p.shape;
  if (p.dtype == f64) return Way::unfolded;
  const auto first_that_applies = [&](std::initializer_list<Way> ways) {
    for (Way w : ways) {
      if (applies(w, p)) return w;
    }
    return has_library(onednn::ConvKernel::blocked, p, true) ? Way::blocked : Way::unfolded;
  };
  if (!s.is_image()) return first_that_applies({Way::blocked});
  // One or two images of at most 4 x 4: the time is that of reading the weight.
  if (s.weights() >= (32 << 10) && applies(Way::few_pixels, p)) return Way::few_pixels;
  const bool many_channels = s.in_channels >= 128 && s.out_channels >= 128;
  const bool small = std::min(s.out[0], s.out[1]) <= 4 && s.kernel[0] > 1;
  // A quarter of the multiplications; in f32 also for f16 and bf16, whose own instructions only double the throughput.
  // AMX has sixteen times that of f32, and the library uses it, but multiplies much padding on 4 x 4 maps.
  const bool by_amx = inner_dtype(p.dtype) == bf16 && uses_amx() && applies(Way::channels_last, p) &&
                      !(small && many_channels);
  if (p.winograd && !by_amx && winograd_fits(p.pass, s)) return Way::winograd;
  // For few input channels, the library's input gradient kernels work with mostly empty vectors.
  const bool narrow = s.in_channels <= 4 && s.out_channels >= 32 && std::min(s.in[0], s.in[1]) >= 8;
  if (p.pass == ConvPass::input_gradient && narrow && applies(Way::winograd, p)) return Way::winograd;
  // Patch embedding: few channels of bf16 are read faster in blocked layout than in place.
  bool patches = s.in_channels <= 4 && s.groups == 1 && inner_dtype(p.dtype) == bf16;
  for (int d = 0; d < 2; ++d) patches = patches && s.kernel[d] > 1 && s.kernel[d] == s.stride[d] && s.padding[d] == 0;
  // For the weight gradient only if an image has more than 8 x 8 patches.
  patches = patches && (p.pass == ConvPass::forward ||
                        (p.pass == ConvPass::weight_gradient && std::min(s.out[0], s.out[1]) > 8));
  if (patches) return first_that_applies({Way::blocked, Way::channels_last});
  // The library has a depthwise weight gradient kernel only for 3 x 3.
  const bool library_depthwise = s.kernel[0] == 3 && s.kernel[1] == 3 && s.dilation[0] == 1 && s.dilation[1] == 1;
  if (!library_depthwise && applies(Way::depthwise, p)) return Way::depthwise;
  // Few pixels with many channels: sums over all pixels at once, without edges.
  if (p.pass == ConvPass::weight_gradient && many_channels && s.batch * s.out_pixels() <= 4096) {
    return first_that_applies({Way::taps, Way::channels_last, Way::blocked});
  }
  // On 4 x 4 maps the blocked kernels skip the multiplications with padding.
  if (p.pass != ConvPass::weight_gradient && many_channels && small && inner_dtype(p.dtype) == bf16) {
    return first_that_applies({Way::blocked, Way::channels_last});
  }
  return first_that_applies({Way::channels_last, Way::blocked});
}

// 1 x 1 kernels with a stride read every other pixel of an image, or fewer. If the last row or column is not among
// them, the oneDNN 2.6 kernel for the weight gradient of fewer than 16 channels writes out of bounds
// (f32, 64 x 64 pixels and more). It is given only the pixels that are read, as a convolution of stride 1.
bool skips_pixels(const Call& c) {
  const ConvShape& s = c.shape;
  bool yes = c.pass == ConvPass::weight_gradient && s.is_image() && s.in_channels / s.groups < 16;
  for (int d = 0; d < 2; ++d) yes = yes && s.kernel[d] == 1 && s.padding[d] == 0;
  return yes && (s.stride[0] > 1 || s.stride[1] > 1);
}
void run_dense(const Call& c) {
  ConvShape dense = c.shape;
  View read = c.a;
  for (int d = 0; d < 2; ++d) {
    read.sizes[2 + d] = dense.in[d] = dense.out[d];
    read.strides[2 + d] *= dense.stride[d];
    dense.stride[d] = 1;
  }
  const Tensor pixels = Tensor::allocate(read.sizes, read.dtype, cpu, Layout::channels_last);
  const View a = pixels.view();
  kernels::copy(cpu, a, read);
  run_chosen({c.pass, dense, c.y, a, c.b, c.bias, c.kept});
}

void run_chosen(const Call& call) {
  if (skips_pixels(call)) return run_dense(call);
  const Problem p{call.pass, call.shape, call.a.dtype, static_cast<bool>(call.bias), winograd_allowed()};
  const auto choice = choice_of(p);
  if (const int fixed = choice->fixed; fixed >= 0) return run(choice->ways[static_cast<std::size_t>(fixed)], call);

  const std::size_t i = choice->trials->next();
  const auto start = std::chrono::steady_clock::now();
  run(choice->ways[i], call);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const auto winner = choice->trials->took(i, took.count());
  if (!winner) return;
  choice->fixed = static_cast<int>(*winner);
  tuner::keep(choice->key, name_of(choice->ways[*winner]));
}

}  // namespace conv
}  // namespace mantissa
