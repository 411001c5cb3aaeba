// A row of the unfolded matrix holds the inputs of one output pixel: for every kernel tap the channels of its input
// pixel, which are contiguous and moved 16 bytes at a time.
//   y [pixels, out] = matrix [pixels, taps * in] @ weight^T        the bias is added inside the product
//   dmatrix = g @ weight, folded back into dx        dweight = g^T @ matrix, summed in f32 over all images
// A 1x1 kernel needs no matrix: the images already are one.
#include "cuda/conv_channels.h"

#include "core/kernel.h"
#include "cuda/gemm.h"
#include "cuda/rows.cuh"
#include "cuda/split.cuh"

namespace mantissa {
MANTISSA_KERNEL(add_in_place, const View& y, const View& x, double alpha)
}

namespace mantissa::cuda_backend {
namespace {

constexpr std::int64_t most_unfolded = std::int64_t{1} << 27;  // elements of the matrix at a time

std::int64_t row_of(const ConvShape& s) { return s.taps() * s.in_channels; }
bool is_one_pixel(const ConvShape& s) {
  const auto plain = [&](int d) { return s.kernel[d] == 1 && s.stride[d] == 1 && s.padding[d] == 0; };
  return plain(0) && plain(1);
}

// Parameters for threads: a word is as many channels as fit into 16 bytes, or one. Strides of x are in words.
struct Unfolding {
  ConvShape s;
  std::int64_t words, image, channel, down, across, count;
  Split row, tap, pixel, line;
  Unfolding(const ConvShape& shape, const Dims& strides, std::int64_t images, std::int64_t per)
      : s(shape), words(s.in_channels / per), image(strides[0] / per), channel(per > 1 ? 1 : strides[1]),
        down(strides[2] / per), across(strides[3] / per), count(images * s.out_pixels() * s.taps() * words),
        row(s.taps() * words, count), tap(words, count), pixel(s.out_pixels(), count), line(s.out[1], count) {}
};
template <class Word> __global__ void unfold_rows(Word* to, const Word* x, Unfolding u) {
  wait_for_previous_kernel();
  const ConvShape& s = u.s;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < u.count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const Split::Parts row = u.row(i), tap = u.tap(row.rest), pixel = u.pixel(row.quotient), at = u.line(pixel.rest);
    const int kernel = static_cast<int>(tap.quotient), width = static_cast<int>(s.kernel[1]);
    const std::int64_t iy = at.quotient * s.stride[0] - s.padding[0] + kernel / width * s.dilation[0];
    const std::int64_t ix = at.rest * s.stride[1] - s.padding[1] + kernel % width * s.dilation[1];
    const bool inside = iy >= 0 && iy < s.in[0] && ix >= 0 && ix < s.in[1];
    to[i] = inside ? x[pixel.quotient * u.image + iy * u.down + ix * u.across + tap.rest * u.channel] : Word{};
  }
}

// One thread per `width` channels of an input pixel sums the elements it contributed to, in the order of the taps.
struct Folding {
  ConvShape s;
  std::int64_t count;
  Split slot, pixel, line;
  Folding(const ConvShape& shape, std::int64_t images, int width)
      : s(shape), count(images * s.in_pixels() * (s.in_channels / width)), slot(s.in_channels / width, count),
        pixel(s.in_pixels(), count), line(s.in[1], count) {}
};
template <class C, int width> __global__ void fold_rows(RowOperand dx, RowOperand from, Folding f) {
  wait_for_previous_kernel();
  const ConvShape& s = f.s;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < f.count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const Split::Parts slot = f.slot(i), pixel = f.pixel(slot.quotient), at = f.line(pixel.rest);
    const std::int64_t channel = slot.rest * width, row = s.taps() * s.in_channels;
    C sum[width] = {};
    for (std::int64_t ky = 0; ky < s.kernel[0]; ++ky) {
      const std::int64_t down = at.quotient + s.padding[0] - ky * s.dilation[0];
      if (down < 0 || down % s.stride[0] != 0 || down / s.stride[0] >= s.out[0]) continue;
      for (std::int64_t kx = 0; kx < s.kernel[1]; ++kx) {
        const std::int64_t across = at.rest + s.padding[1] - kx * s.dilation[1];
        if (across < 0 || across % s.stride[1] != 0 || across / s.stride[1] >= s.out[1]) continue;
        const std::int64_t place = (pixel.quotient * s.out[0] + down / s.stride[0]) * s.out[1] + across / s.stride[1];
        C v[width];
        load_slot(v, from, place * row + (ky * s.kernel[1] + kx) * s.in_channels + channel);
#pragma unroll
        for (int k = 0; k < width; ++k) sum[k] += v[k];
      }
    }
    store_slot(dx, i * width, sum);
  }
}

// --- host ---
void* element(void* p, Dtype dtype, std::int64_t i) {
  return static_cast<char*>(p) + i * static_cast<std::int64_t>(size_of(dtype));
}
Grid grid_of(std::int64_t n) { return grid_for(std::min<std::int64_t>(n, std::int64_t{1} << 30)); }

void unfold(void* to, const View& x, const ConvShape& s, std::int64_t first, std::int64_t images) {
  const void* from = element(x.data, x.dtype, first * x.strides[0]);
  const auto run = [&]<class Word>(std::int64_t per) {
    const Unfolding u(s, x.strides, images, per);
    launch("unfold", &unfold_rows<Word>, grid_of(u.count), static_cast<Word*>(to), static_cast<const Word*>(from), u);
  };
  const auto per = static_cast<std::int64_t>(16 / size_of(x.dtype));
  const bool whole = s.in_channels % per == 0 && lies_in(x, Layout::channels_last) &&
                     reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
  if (whole) return run.template operator()<uint4>(per);
  switch (size_of(x.dtype)) {
    case 8: return run.template operator()<std::uint64_t>(1);
    case 4: return run.template operator()<std::uint32_t>(1);
    default: return run.template operator()<std::uint16_t>(1);
  }
}
void fold(const View& dx, const Tensor& matrix, const ConvShape& s, std::int64_t first, std::int64_t images) {
  View part = dx;
  part.data = element(dx.data, dx.dtype, first * s.in_image());
  const RowPlan plan = plan_rows(s.in_channels, {part, matrix.view()}, compute_dtype(dx.dtype));
  const auto run = [&]<class C, int width>() {
    const Folding f(s, images, width);
    launch("fold", &fold_rows<C, width>, grid_of(f.count), operand(part), operand(matrix.view()), f);
  };
  if (compute_dtype(dx.dtype) == f64) run.template operator()<double, 1>();
  else if (plan.packs) run.template operator()<float, pack>();
  else run.template operator()<float, 1>();
}

tensor_core::Gemm product(Dtype in, const void* a, std::int64_t lda, const void* b, std::int64_t ldb, void* c,
                          Dtype out, std::int64_t m, std::int64_t n, std::int64_t k) {
  tensor_core::Gemm g;
  g.m = m, g.n = n, g.k = k;
  g.in = in, g.out = out;
  g.a = a, g.b = b, g.c = c;
  g.lda = lda, g.ldb = ldb, g.ldc = n;
  return g;
}

// Calls f(first, images, matrix) with the unfolded matrix of a group of images at a time.
template <class F> void for_matrices(const ConvShape& s, const View& x, Device device, F&& f) {
  if (is_one_pixel(s) && lies_in(x, Layout::channels_last)) return f(0, s.batch, static_cast<const void*>(x.data));
  const std::int64_t image = s.out_pixels() * row_of(s);
  const std::int64_t step = std::clamp<std::int64_t>(most_unfolded / std::max<std::int64_t>(1, image), 1, s.batch);
  const Tensor matrix = Tensor::allocate({step * image}, x.dtype, device);
  for (std::int64_t first = 0; first < s.batch; first += step) {
    const std::int64_t images = std::min(step, s.batch - first);
    unfold(matrix.raw_data(), x, s, first, images);
    f(first, images, static_cast<const void*>(matrix.raw_data()));
  }
}

void forward(const ConvShape& s, const View& y, const View& x, const View& weight, const View& bias) {
  const std::int64_t row = row_of(s);
  for_matrices(s, x, y.device, [&](std::int64_t first, std::int64_t images, const void* matrix) {
    tensor_core::Gemm g =
        product(y.dtype, matrix, row, weight.data, row, element(y.data, y.dtype, first * s.out_image()), y.dtype,
                images * s.out_pixels(), s.out_channels, row);
    g.b_transposed = true;
    g.bias = bias.data;
    run(g, y.device);
  });
}

void input_gradient(const ConvShape& s, const View& dx, const View& g, const View& weight) {
  const std::int64_t row = row_of(s), outs = s.out_channels;
  if (is_one_pixel(s)) {
    return run(
        product(dx.dtype, g.data, outs, weight.data, row, dx.data, dx.dtype, s.batch * s.out_pixels(), row, outs),
        dx.device);
  }
  const std::int64_t image = s.out_pixels() * row;
  const std::int64_t step =
      std::clamp<std::int64_t>(most_unfolded / std::max<std::int64_t>(1, std::max(image, s.in_image())), 1, s.batch);
  const Tensor matrix = Tensor::allocate({step * image}, compute_dtype(dx.dtype), dx.device);
  for (std::int64_t first = 0; first < s.batch; first += step) {
    const std::int64_t images = std::min(step, s.batch - first);
    run(product(dx.dtype, element(g.data, g.dtype, first * s.out_image()), outs, weight.data, row, matrix.raw_data(),
                matrix.dtype(), images * s.out_pixels(), row, outs),
        dx.device);
    fold(dx, matrix, s, first, images);
  }
}

void weight_gradient(const ConvShape& s, const View& dw, const View& x, const View& g, bool add) {
  const std::int64_t row = row_of(s), outs = s.out_channels;
  const Dtype dtype = compute_dtype(x.dtype);
  const bool direct = dw.dtype == dtype && lies_in(dw, Layout::channels_last);
  Tensor apart;
  if (!direct) apart = Tensor::allocate(dw.sizes, dtype, dw.device, Layout::channels_last);
  const View sums = direct ? dw : apart.view();
  for_matrices(s, x, dw.device, [&](std::int64_t first, std::int64_t images, const void* matrix) {
    tensor_core::Gemm p = product(x.dtype, element(g.data, g.dtype, first * s.out_image()), outs, matrix, row,
                                  sums.data, dtype, outs, row, images * s.out_pixels());
    p.a_transposed = true;
    p.accumulate = first > 0 || (direct && add);
    run(p, dw.device);
  });
  if (direct) return;
  if (add) kernels::add_in_place(dw.device, dw, sums, 1.0);
  else copy(dw, sums);
}

}  // namespace

void conv_channels(ConvPass pass, const ConvShape& s, const View& y, const View& a, const View& b, const View& bias,
                   bool add) {
  switch (pass) {
    case ConvPass::forward: return forward(s, y, a, b, bias);
    case ConvPass::input_gradient: return input_gradient(s, y, a, b);
    case ConvPass::weight_gradient: return weight_gradient(s, y, a, b, add);
  }
}

}  // namespace mantissa::cuda_backend
