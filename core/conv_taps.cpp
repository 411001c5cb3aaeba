// The weight gradient of images as one matrix product per kernel position:
//   dw[:, :, ky, kx] = transpose(g [pixels, out channels]) @ x, shifted by (ky, kx) [pixels, in channels]
// For many channels and few pixels, where a direct kernel spends its time on edges and on partial sums: here the work
// is cut by kernel position and output channels, and each piece sums over all pixels.
#include <algorithm>
#include <cstring>

#include "core/conv_algorithms.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace conv {
namespace {

constexpr std::int64_t bytes_of_block = 512 << 10;  // of shifted images: half an L2 cache

struct Tap {
  std::int64_t y, x;
};

// Pixels of x under the output rows [row, row + rows) of all images (counted through the batch) at one kernel
// position, as a matrix [rows * out width, channels]; zeros outside.
void gather(const ConvShape& s, const View& x, Tap tap, std::int64_t row, std::int64_t rows, char* to) {
  const std::int64_t bytes = s.in_channels * static_cast<std::int64_t>(size_of(x.dtype)), width = s.out[1] * bytes;
  const std::int64_t shift = tap.x * s.dilation[1] - s.padding[1], stride = s.stride[1];
  const std::int64_t first = std::min(s.out[1], shift < 0 ? (-shift + stride - 1) / stride : 0);
  const std::int64_t last = std::clamp(s.in[1] > shift ? (s.in[1] - shift - 1) / stride + 1 : 0, first, s.out[1]);
  for (std::int64_t r = row; r < row + rows; ++r, to += width) {
    const std::int64_t image = r / s.out[0], iy = r % s.out[0] * s.stride[0] - s.padding[0] + tap.y * s.dilation[0];
    if (iy < 0 || iy >= s.in[0]) {
      std::memset(to, 0, static_cast<std::size_t>(width));
      continue;
    }
    const char* from = x.as<const char>() + ((image * s.in[0] + iy) * s.in[1] + first * stride + shift) * bytes;
    std::memset(to, 0, static_cast<std::size_t>(first * bytes));
    if (stride == 1) {
      std::memcpy(to + first * bytes, from, static_cast<std::size_t>((last - first) * bytes));
    } else {
      for (std::int64_t i = first; i < last; ++i) {
        std::memcpy(to + i * bytes, from + (i - first) * stride * bytes, static_cast<std::size_t>(bytes));
      }
    }
    std::memset(to + last * bytes, 0, static_cast<std::size_t>(width - last * bytes));
  }
}

// A matrix in f32, in memory owned by `keep`.
const void* widened(const void* data, Dtype dtype, std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                    Tensor& keep) {
  if (!keep.defined() || keep.size(0) < rows) keep = Tensor::allocate({rows, columns}, f32);
  View from = keep.view(), to = keep.view();
  from.data = const_cast<void*>(data);
  from.dtype = dtype;
  from.sizes[0] = to.sizes[0] = rows;
  from.strides[0] = row_stride;
  kernels::copy(cpu, to, from);
  return keep.raw_data();
}

// `v` in channels-last order.
View channels_last(const View& v, Tensor& keep) {
  if (is_last(v)) return v;
  keep = Tensor::allocate(v.sizes, v.dtype, cpu, Layout::channels_last);
  kernels::copy(cpu, keep.view(), v);
  return keep.view();
}

}  // namespace

void run_taps(const Call& c) {
  const ConvShape& s = c.shape;
  const std::int64_t outs = s.out_channels, ins = s.in_channels, taps = s.taps(), rows = s.batch * s.out[0];
  const auto size = static_cast<std::int64_t>(size_of(c.a.dtype));
  Tensor x_copy, g_copy;
  const View x = channels_last(c.a, x_copy), g = channels_last(c.b, g_copy);
  // Cut by output channels only as far as pieces are needed: every cut gathers again.
  std::int64_t cuts = 1;
  while (taps * cuts < 16 && outs % (2 * cuts) == 0 && outs / (2 * cuts) >= 64) cuts *= 2;
  const std::int64_t m = outs / cuts;
  const std::int64_t block = std::clamp<std::int64_t>(bytes_of_block / (s.out[1] * ins * size), 1, rows);
  const Tensor sums = Tensor::allocate({taps, outs, ins}, f32);
  const Dtype inner = inner_dtype(c.a.dtype);
  parallel_for(taps * cuts, 1, [&](std::int64_t begin, std::int64_t end) {
    const Tensor shifted = Tensor::allocate({block * s.out[1] * ins * size}, u8);
    Tensor wide_x, wide_g;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t tap = i / cuts, channel = i % cuts * m;
      float* out = sums.data<float>() + (tap * outs + channel) * ins;
      for (std::int64_t row = 0; row < rows; row += block) {
        const std::int64_t now = std::min(block, rows - row), pixels = now * s.out[1];
        gather(s, x, {tap / s.kernel[1], tap % s.kernel[1]}, row, now, static_cast<char*>(shifted.raw_data()));
        const void* left = g.as<const char>() + (row * s.out[1] * outs + channel) * size;
        const void* right = shifted.raw_data();
        if (inner != c.a.dtype) {
          left = widened(left, c.a.dtype, pixels, m, outs, wide_g);
          right = widened(right, c.a.dtype, pixels, ins, ins, wide_x);
        }
        const std::int64_t a_row = inner != c.a.dtype ? m : outs;
        const auto product = onednn::product(
            {.dtype = inner, .m = m, .n = ins, .k = pixels, .a_row = a_row, .accumulate = row > 0});
        product->run(left, right, out);
      }
    }
  });
  // [taps, outs, ins] to [outs, ins, taps], one output channel after the other.
  const bool direct = c.y.dtype == f32 && c.y.is_contiguous();
  const Tensor turned = direct ? Tensor() : Tensor::allocate({outs, ins, taps}, f32);
  float* result = direct ? c.y.as<float>() : turned.data<float>();
  parallel_for(outs, std::max<std::int64_t>(grain_size / (ins * taps), 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      const float* from = sums.data<float>() + o * ins;
      float* to = result + o * ins * taps;
      for (std::int64_t k = 0; k < taps; ++k) {
        for (std::int64_t j = 0; j < ins; ++j) to[j * taps + k] = from[k * outs * ins + j];
      }
    }
  });
  if (!direct) kernels::copy(cpu, c.y, turned.raw_view(c.y.sizes, contiguous_strides(c.y.sizes)).view());
}

}  // namespace conv
}  // namespace mantissa
