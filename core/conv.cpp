// Entry point of convolutions: dispatch by device, empty tensors, and helpers of the CPU algorithms. Next:
// core/conv_choice.cpp.
#include "core/conv.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/conv_algorithms.h"
#include "core/flops.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/pointwise.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)
MANTISSA_KERNEL(add_in_place, const View& y, const View& x, double alpha)
MANTISSA_CUDA_KERNEL(conv2d, ConvPass pass, const ConvShape& shape, const View& y, const View& a, const View& b,
                     const View& bias, bool add, const ConvRelu& relu)
MANTISSA_KERNEL(pointwise, int opcode, const void* formula, Dtype compute, const View& y,
                std::span<const View* const> x)

namespace {
std::atomic<bool> winograd_on = [] {
  const char* v = std::getenv("MANTISSA_WINOGRAD");
  const std::string_view wish = v ? v : "";
  if (!wish.empty() && wish != "on" && wish != "off") {
    std::fprintf(stderr, "mantissa: MANTISSA_WINOGRAD is neither 'on' nor 'off', and is ignored\n");
  }
  return wish != "off";
}();
}  // namespace
void set_winograd(bool on) { winograd_on = on; }
bool winograd_allowed() { return winograd_on; }

Layout conv_layout(const ConvShape& s, Dtype dtype, Device device) {
  // On a GPU f32 does not use Tensor Cores and both layouts are equally fast: keep contiguous.
  const bool fast = s.out_channels >= 8 && (device.is_cpu() ? s.is_image() && dtype != f64 : is_half(dtype));
  return fast ? Layout::channels_last : Layout::contiguous;
}

namespace conv {

Dtype inner_dtype(Dtype dtype) { return dtype == bf16 && onednn::has_bf16() ? bf16 : f32; }

View images(const View& v, std::int64_t first, std::int64_t count) {
  View part = v;
  part.sizes[0] = count;
  part.data = v.as<char>() + first * v.strides[0] * static_cast<std::int64_t>(size_of(v.dtype));
  return part;
}

bool is_last(const View& v) { return is_channels_last(v.sizes, v.strides); }

View contiguous(const View& v, Dtype dtype, Tensor& keep) {
  if (!v || (v.dtype == dtype && v.is_contiguous())) return v;
  keep = Tensor::allocate(v.sizes, dtype, cpu);
  kernels::copy(cpu, keep.view(), v);
  return keep.view();
}
View dense(const View& v, Dtype dtype, Tensor& keep) {
  return v.dtype == dtype && is_last(v) ? v : contiguous(v, dtype, keep);
}

void add_partials(const View& y, float* partial, std::int64_t count) {
  const std::int64_t n = y.numel();
  const bool direct = y.dtype == f32 && y.is_contiguous();
  float* out = direct ? y.as<float>() : partial;
  parallel_for(n, grain_size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; direct && i < end; ++i) out[i] = partial[i];
    for (std::int64_t c = 1; c < count; ++c) {
      for (std::int64_t i = begin; i < end; ++i) out[i] += partial[c * n + i];
    }
  });
  if (direct) return;
  View sum = y;
  sum.data = partial;
  sum.dtype = f32;
  sum.strides = contiguous_strides(y.sizes);
  kernels::copy(cpu, y, sum);
}

}  // namespace conv

namespace {
View without_depth(View v) {
  v.sizes.erase(2);
  v.strides.erase(2);
  return v;
}
}  // namespace

void ConvRelu::apply_to(const View& y) const {
  using Relu = pointwise::Relu;
  using Derivative = pointwise::GradOf<Relu>;
  const View* inputs[] = {&y, made};
  const auto run = [&]<class F>(const F& formula, std::span<const View* const> x) {
    kernels::pointwise(y.device, pointwise::opcode<F>, &formula, compute_dtype(y.dtype), y, x);
  };
  if (after) run(Relu(), std::span(inputs, 1));
  else if (made) run(Derivative(), inputs);
}

void kernels::conv2d(Device device, ConvPass pass, const ConvShape& s, const View& y, const View& a, const View& b,
                     const View& bias, const KeptWeight& kept, bool add, const ConvRelu& relu) {
  if (s.is_image() && y.dim() == 5) {  // volumes with one layer: the code below takes images as 4-d
    const View made = relu.made ? without_depth(*relu.made) : View{};
    return conv2d(device, pass, s, without_depth(y), without_depth(a), without_depth(b), bias, kept, add,
                  {relu.after, relu.made ? &made : nullptr});
  }
  if (y.numel() == 0 || (s.batch == 0 && add)) return;
  if (s.batch == 0) return kernels::fill(device, y, 0.0);  // weight gradient of an empty batch
  const CountedFlops counted(s.flops());
  if (!device.is_cpu()) return cuda_backend::prepare(&cuda_backend::conv2d, device)(pass, s, y, a, b, bias, add, relu);
  if (add || (pass == ConvPass::weight_gradient && !y.is_contiguous())) {  // the algorithms write contiguous weights
    const Tensor apart = Tensor::allocate(y.sizes, y.dtype);
    conv::run_chosen({pass, s, apart.view(), a, b, bias, kept});
    if (add) kernels::add_in_place(cpu, y, apart.view(), 1.0);
    else kernels::copy(cpu, y, apart.view());
  } else {
    conv::run_chosen({pass, s, y, a, b, bias, kept});
    relu.apply_to(y);
  }
}

}  // namespace mantissa
