#include "core/conv.h"

#include <algorithm>
#include <cstring>

#include "core/gemm.h"
#include "core/kernel.h"
#include "core/onednn.h"
#include "core/parallel.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)

namespace {

// Elements per image of the two operands and the result. A weight is not per image: 0.
struct PerImage { std::int64_t a, b, y; };
PerImage per_image(ConvPass pass, const ConvShape& s) {
  switch (pass) {
    case ConvPass::forward: return {s.in_image(), 0, s.out_image()};
    case ConvPass::input_gradient: return {s.out_image(), 0, s.in_image()};
    default: return {s.in_image(), s.out_image(), 0};
  }
}

// y[i] = partial[0][i] + partial[1][i] + ..., always in this order.
template <class T> void add_partials(T* y, const T* partial, std::int64_t count, std::int64_t n) {
  parallel_for(n, grain_size, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(y + begin, partial + begin, static_cast<std::size_t>(end - begin) * sizeof(T));
    for (std::int64_t c = 1; c < count; ++c) {
      for (std::int64_t i = begin; i < end; ++i) y[i] += partial[c * n + i];
    }
  });
}

// --- f32: oneDNN ---

// A convolution of some images with its weight packed.
struct Chunk {
  std::shared_ptr<const onednn::Convolution> conv;
  Tensor packed;

  Chunk(ConvPass pass, ConvShape shape, std::int64_t images, const float* b, bool bias) {
    shape.batch = images;
    conv = onednn::convolution(pass, shape, bias);
    if (pass != ConvPass::weight_gradient) pack(b);
  }
  void pack(const float* b) {
    packed = Tensor::allocate({static_cast<std::int64_t>(conv->packed_bytes())}, u8);
    conv->pack(b, packed.raw_data());
  }
};

void convolve(ConvPass pass, const ConvShape& s, float* y, const float* a, const float* b, const float* bias) {
  const PerImage size = per_image(pass, s);
  const bool to_weight = pass == ConvPass::weight_gradient;
  // Each chunk of a weight gradient adds a partial sum as big as the weight: fewer chunks.
  const std::int64_t wanted = std::min(pieces_for(s.flops()), to_weight ? std::int64_t{4} : std::int64_t{16});
  const std::int64_t step = (s.batch + wanted - 1) / wanted, chunks = (s.batch + step - 1) / step, last = s.batch - (chunks - 1) * step;
  const Chunk full(pass, s, step, b, bias);
  const Chunk rest = last == step ? full : Chunk(pass, s, last, b, bias);
  Tensor partial;
  if (to_weight && chunks > 1) partial = Tensor::allocate({chunks, s.weights()}, f32);
  parallel_for(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Chunk chunk = i + 1 == chunks ? rest : full;
      if (to_weight) chunk.pack(b + i * step * size.b);
      float* out = partial ? partial.data<float>() + i * s.weights() : y + i * step * size.y;
      chunk.conv->run(a + i * step * size.a, chunk.packed.raw_data(), bias, out);
    }
  });
  if (partial) add_partials(y, partial.data<float>(), chunks, s.weights());
}

// --- f64: images unfolded into matrices [channels * kernel, out pixels] ---

// Calls f(row of the matrix, output row, output column, input index) for all kernel positions that
// fall inside the image, group by group of channels.
template <class F> void for_taps(const ConvShape& s, F&& f) {
  std::int64_t row = 0;
  for (std::int64_t c = 0; c < s.in_channels / s.groups; ++c) {
    for (std::int64_t ky = 0; ky < s.kernel[0]; ++ky) {
      for (std::int64_t kx = 0; kx < s.kernel[1]; ++kx, ++row) {
        for (std::int64_t oy = 0; oy < s.out[0]; ++oy) {
          const std::int64_t iy = oy * s.stride[0] - s.padding[0] + ky * s.dilation[0];
          if (iy < 0 || iy >= s.in[0]) continue;
          for (std::int64_t ox = 0; ox < s.out[1]; ++ox) {
            const std::int64_t ix = ox * s.stride[1] - s.padding[1] + kx * s.dilation[1];
            if (ix >= 0 && ix < s.in[1]) f((row * s.out[0] + oy) * s.out[1] + ox, (c * s.in[0] + iy) * s.in[1] + ix);
          }
        }
      }
    }
  }
}

View matrix(const double* data, std::int64_t rows, std::int64_t columns, bool transposed = false) {
  View v;
  v.data = const_cast<double*>(data);
  v.dtype = f64;
  v.sizes = transposed ? Dims{columns, rows} : Dims{rows, columns};
  v.strides = transposed ? Dims{1, columns} : Dims{columns, 1};
  return v;
}

// One image and group: a, b and y are that part of the operands. Weight gradients are added to y.
void convolve_image(ConvPass pass, const ConvShape& s, double* y, const double* a, const double* b, double* unfolded) {
  const std::int64_t rows = s.in_channels / s.groups * s.kernel[0] * s.kernel[1], pixels = s.out[0] * s.out[1];
  const std::int64_t outs = s.out_channels / s.groups;
  if (pass == ConvPass::input_gradient) {
    kernels::gemm(cpu, matrix(unfolded, rows, pixels), matrix(b, outs, rows, true), matrix(a, outs, pixels), View{});
    for_taps(s, [&](std::int64_t at, std::int64_t pixel) { y[pixel] += unfolded[at]; });
    return;
  }
  std::fill_n(unfolded, rows * pixels, 0.0);
  for_taps(s, [&](std::int64_t at, std::int64_t pixel) { unfolded[at] = a[pixel]; });
  if (pass == ConvPass::forward) {
    kernels::gemm(cpu, matrix(y, outs, pixels), matrix(b, outs, rows), matrix(unfolded, rows, pixels), View{});
  } else {
    kernels::gemm(cpu, matrix(y, outs, rows), matrix(b, outs, pixels), matrix(unfolded, rows, pixels, true), View{});
  }
}

void convolve(ConvPass pass, const ConvShape& s, double* y, const double* a, const double* b, const double* bias) {
  const PerImage size = per_image(pass, s);
  const bool to_weight = pass == ConvPass::weight_gradient;
  const std::int64_t unfolded = s.in_channels / s.groups * s.kernel[0] * s.kernel[1] * s.out[0] * s.out[1];
  Tensor partial;
  if (to_weight) partial = Tensor::allocate({s.batch, s.weights()}, f64);
  parallel_for(s.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    const Tensor space = Tensor::allocate({unfolded}, f64);
    for (std::int64_t image = begin; image < end; ++image) {
      double* out = to_weight ? partial.data<double>() + image * s.weights() : y + image * size.y;
      if (pass == ConvPass::input_gradient) std::fill_n(out, size.y, 0.0);
      for (std::int64_t g = 0; g < s.groups; ++g) {
        const double* left = a + image * size.a + g * size.a / s.groups;
        const double* right = b + (to_weight ? image * size.b + g * size.b / s.groups : g * s.weights() / s.groups);
        convolve_image(pass, s, out + g * (to_weight ? s.weights() : size.y) / s.groups, left, right, space.data<double>());
      }
      for (std::int64_t c = 0; bias && c < s.out_channels; ++c) {
        const std::int64_t pixels = s.out[0] * s.out[1];
        for (std::int64_t i = 0; i < pixels; ++i) out[c * pixels + i] += bias[c];
      }
    }
  });
  if (to_weight) add_partials(y, partial.data<double>(), s.batch, s.weights());
}

// `v` contiguous and in the dtype to compute in; `keep` owns the copy if one is needed.
const void* prepare(const View& v, Dtype compute, Tensor& keep) {
  if (!v || (v.dtype == compute && v.is_contiguous())) return v.data;
  keep = Tensor::allocate(v.sizes, compute, v.device);
  kernels::copy(v.device, keep.view(), v);
  return keep.raw_data();
}

template <class T> void convolve_views(ConvPass pass, const ConvShape& s, const View& y, const View& a, const View& b, const View& bias) {
  Tensor a_copy, b_copy, bias_copy, wide;
  if (y.dtype != dtype_of<T>) wide = Tensor::allocate(y.sizes, dtype_of<T>, y.device);
  convolve(pass, s, wide ? wide.data<T>() : y.as<T>(), static_cast<const T*>(prepare(a, dtype_of<T>, a_copy)),
           static_cast<const T*>(prepare(b, dtype_of<T>, b_copy)), static_cast<const T*>(prepare(bias, dtype_of<T>, bias_copy)));
  if (wide) kernels::copy(y.device, y, wide.view());
}

}  // namespace

void kernels::conv2d(Device device, ConvPass pass, const ConvShape& s, const View& y, const View& a, const View& b, const View& bias) {
  if (!device.is_cpu()) fail("has no cuda kernel in this build");
  if (y.numel() == 0) return;
  if (s.batch == 0) return kernels::fill(device, y, 0.0);  // the weight's gradient over no images
  if (y.dtype == f64) convolve_views<double>(pass, s, y, a, b, bias);
  else convolve_views<float>(pass, s, y, a, b, bias);
}

}  // namespace mantissa
