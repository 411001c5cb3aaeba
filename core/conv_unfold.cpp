// Convolution by im2col: each image is unfolded into a matrix [channels * kernel, out pixels], on contiguous copies in
// f32 or f64. For cases where oneDNN has no fast kernel.
#include <algorithm>
#include <cstring>

#include "core/conv_algorithms.h"
#include "core/gemm.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace conv {
namespace {

// Calls f(index in the matrix, index in the image, count) for all runs of output pixels in a row whose tap at one
// kernel position is inside the image; pixels of a run are `stride` apart in the image.
template <class F> void for_taps(const ConvShape& s, F&& f) {
  std::int64_t row = 0;
  for (std::int64_t c = 0; c < s.in_channels / s.groups; ++c) {
    for (std::int64_t k = 0; k < s.taps(); ++k, ++row) {
      const std::int64_t kx = k % s.kernel[1], ky = k / s.kernel[1] % s.kernel[0], kz = k / s.kernel[1] / s.kernel[0];
      const std::int64_t shift = kx * s.dilation[1] - s.padding[1], stride = s.stride[1];
      const std::int64_t first = shift < 0 ? (-shift + stride - 1) / stride : 0;
      const std::int64_t last = std::min(s.out[1], s.in[1] > shift ? (s.in[1] - shift - 1) / stride + 1 : 0);
      if (last <= first) continue;
      for (std::int64_t oz = 0; oz < s.depth.out; ++oz) {
        const std::int64_t iz = oz * s.depth.stride - s.depth.padding + kz * s.depth.dilation;
        if (iz < 0 || iz >= s.depth.in) continue;
        for (std::int64_t oy = 0; oy < s.out[0]; ++oy) {
          const std::int64_t iy = oy * s.stride[0] - s.padding[0] + ky * s.dilation[0];
          if (iy < 0 || iy >= s.in[0]) continue;
          f(((row * s.depth.out + oz) * s.out[0] + oy) * s.out[1] + first,
            ((c * s.depth.in + iz) * s.in[0] + iy) * s.in[1] + first * stride + shift, last - first);
        }
      }
    }
  }
}

template <class T> View matrix(const T* data, std::int64_t rows, std::int64_t columns, bool transposed = false) {
  View v;
  v.data = const_cast<T*>(data);
  v.dtype = dtype_of<T>;
  v.sizes = transposed ? Dims{columns, rows} : Dims{rows, columns};
  v.strides = transposed ? Dims{1, columns} : Dims{columns, 1};
  return v;
}

// One image and group: a, b and y are that part of the operands.
template <class T> void convolve_image(ConvPass pass, const ConvShape& s, T* y, const T* a, const T* b, T* unfolded) {
  const std::int64_t rows = s.in_channels / s.groups * s.taps(), pixels = s.out_pixels();
  const std::int64_t outs = s.out_channels / s.groups, stride = s.stride[1];
  if (pass == ConvPass::input_gradient) {
    kernels::gemm(cpu, matrix<T>(unfolded, rows, pixels), matrix(b, outs, rows, true), matrix(a, outs, pixels), View{});
    std::fill_n(y, s.in_image() / s.groups, T(0));
    for_taps(s, [&](std::int64_t at, std::int64_t pixel, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) y[pixel + i * stride] += unfolded[at + i];
    });
    return;
  }
  std::fill_n(unfolded, rows * pixels, T(0));
  for_taps(s, [&](std::int64_t at, std::int64_t pixel, std::int64_t n) {
    if (stride == 1) std::memcpy(unfolded + at, a + pixel, static_cast<std::size_t>(n) * sizeof(T));
    else
      for (std::int64_t i = 0; i < n; ++i) unfolded[at + i] = a[pixel + i * stride];
  });
  if (pass == ConvPass::forward) {
    kernels::gemm(cpu, matrix<T>(y, outs, pixels), matrix(b, outs, rows), matrix<T>(unfolded, rows, pixels), View{});
  } else {
    kernels::gemm(cpu, matrix<T>(y, outs, rows), matrix(b, outs, pixels), matrix<T>(unfolded, rows, pixels, true),
                  View{});
  }
}

// Elements per image of the two operands and the result; 0 for a weight, which is not per image.
struct PerImage {
  std::int64_t a, b, y;
};
PerImage per_image(ConvPass pass, const ConvShape& s) {
  switch (pass) {
    case ConvPass::forward: return {s.in_image(), 0, s.out_image()};
    case ConvPass::input_gradient: return {s.out_image(), 0, s.in_image()};
    default: return {s.in_image(), s.out_image(), 0};
  }
}

// y[i] = partial[0][i] + partial[1][i] + ..., always in this order.
template <class T> void sum_partials(T* y, const T* partial, std::int64_t count, std::int64_t n) {
  parallel_for(n, grain_size, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(y + begin, partial + begin, static_cast<std::size_t>(end - begin) * sizeof(T));
    for (std::int64_t c = 1; c < count; ++c) {
      for (std::int64_t i = begin; i < end; ++i) y[i] += partial[c * n + i];
    }
  });
}

template <class T>
void convolve_unfolded(ConvPass pass, const ConvShape& s, T* y, const T* a, const T* b, const T* bias) {
  const PerImage size = per_image(pass, s);
  const bool to_weight = pass == ConvPass::weight_gradient;
  const std::int64_t pixels = s.out_pixels(), rows = s.in_channels / s.groups * s.taps();
  Tensor partial;
  if (to_weight) partial = Tensor::allocate({s.batch, s.weights()}, dtype_of<T>);
  const std::int64_t pieces = pieces_for(s.flops());
  parallel_for(s.batch, (s.batch + pieces - 1) / pieces, [&](std::int64_t begin, std::int64_t end) {
    const Tensor space = Tensor::allocate({rows * pixels}, dtype_of<T>);
    for (std::int64_t image = begin; image < end; ++image) {
      T* out = to_weight ? partial.data<T>() + image * s.weights() : y + image * size.y;
      for (std::int64_t g = 0; g < s.groups; ++g) {
        const T* left = a + image * size.a + g * size.a / s.groups;
        const T* right = b + (to_weight ? image * size.b + g * size.b / s.groups : g * s.weights() / s.groups);
        convolve_image(pass, s, out + g * (to_weight ? s.weights() : size.y) / s.groups, left, right, space.data<T>());
      }
      for (std::int64_t c = 0; bias && c < s.out_channels; ++c) {
        for (std::int64_t i = 0; i < pixels; ++i) out[c * pixels + i] += bias[c];
      }
    }
  });
  if (to_weight) sum_partials(y, partial.data<T>(), s.batch, s.weights());
}

template <class T> void run_as(const Call& c) {
  constexpr Dtype inner = dtype_of<T>;
  Tensor a_copy, b_copy, bias_copy, wide;
  if (c.y.dtype != inner || !c.y.is_contiguous()) wide = Tensor::allocate(c.y.sizes, inner, cpu);
  convolve_unfolded<T>(c.pass, c.shape, wide.defined() ? wide.data<T>() : c.y.as<T>(),
                       contiguous(c.a, inner, a_copy).as<const T>(), contiguous(c.b, inner, b_copy).as<const T>(),
                       contiguous(c.bias, inner, bias_copy).as<const T>());
  if (wide.defined()) kernels::copy(cpu, c.y, wide.view());
}

}  // namespace

void run_unfolded(const Call& c) {
  if (c.y.dtype == f64) run_as<double>(c);
  else run_as<float>(c);
}

}  // namespace conv
}  // namespace mantissa
