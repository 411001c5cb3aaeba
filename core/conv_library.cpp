// Convolutions by oneDNN: the batch is cut into chunks, each a single-threaded call. Halves that the processor does not
// multiply are widened chunk by chunk, while they are in the cache.
#include <algorithm>
#include <cstring>

#include "core/conv_ways.h"
#include "core/gemm.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace conv {
namespace {

using onednn::ConvKernel;

// Into how many chunks the batch is cut. Every chunk reads the whole weight, and one of a weight gradient writes a
// partial sum as big, one of Winograd transforms it: these want chunks of many pixels.
std::int64_t chunk_count(ConvKernel kernel, ConvPass pass, const ConvShape& s) {
  constexpr std::int64_t large_weight = 128 << 10;  // elements: more than stays in a second-level cache
  const bool to_weight = pass == ConvPass::weight_gradient;
  std::int64_t pixels = 1, most = 32;  // of the result, in a chunk
  if (to_weight || kernel == ConvKernel::winograd) pixels = 4096, most = to_weight ? 8 : 32;
  else if (s.weights() > large_weight) pixels = 256;
  const double slowness = std::min(s.in_channels, s.out_channels) < 16 ? 3 : 1;  // vectors are mostly empty
  return std::min(
      {pieces_for(s.flops() * slowness), most, s.batch, std::max<std::int64_t>(s.batch * s.out_pixels() / pixels, 2)});
}

// A convolution of some images with its weight packed.
struct Chunk {
  std::shared_ptr<const onednn::Convolution> conv;
  Tensor packed;

  Chunk(onednn::ConvolutionKey key, std::int64_t images) {
    key.shape.batch = images;
    conv = onednn::convolution(key, true);
    check(conv != nullptr, "oneDNN: no kernel for this convolution on this processor");
  }
  void pack(const void* weight) {
    packed = Tensor::allocate({static_cast<std::int64_t>(conv->packed_bytes())}, u8);
    parallel_for(conv->pack_pieces(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) conv->pack(weight, packed.raw_data(), i);
    });
  }
};

// Room for `count` images of v in the dtype that is computed in.
Tensor room(const View& v, std::int64_t count, Dtype inner) {
  Dims sizes = v.sizes;
  sizes[0] = count;
  return Tensor::allocate(sizes, inner, cpu, sizes.rank() == 4 ? Layout::channels_last : Layout::contiguous);
}

}  // namespace

void run_library(ConvKernel kernel, const Call& c) {
  const ConvShape& s = c.shape;
  const bool to_weight = c.pass == ConvPass::weight_gradient, image = s.is_image();
  const Dtype inner = inner_dtype(c.a.dtype);
  const bool widen = c.a.dtype != inner;
  Tensor a_copy, b_copy, bias_copy, y_copy, partial;
  const View a = dense(c.a, c.a.dtype, a_copy);
  const View b = to_weight ? dense(c.b, c.b.dtype, b_copy) : contiguous(c.b, inner, b_copy);
  const View bias = contiguous(c.bias, inner, bias_copy);
  View y = c.y;
  if (!to_weight && !y.is_contiguous() && !is_last(y)) {
    y_copy = Tensor::allocate(y.sizes, y.dtype, cpu);
    y = y_copy.view();
  }

  onednn::ConvolutionKey key{
      .kernel = kernel, .pass = c.pass, .shape = s, .dtype = inner, .bias = static_cast<bool>(bias)};
  key.a_last = image && (widen || is_last(a));
  key.b_last = image && to_weight && (widen || is_last(b));
  key.y_last = image && !to_weight && (widen || is_last(y));
  const std::int64_t wanted = chunk_count(kernel, c.pass, s);
  const std::int64_t step = (s.batch + wanted - 1) / wanted, chunks = (s.batch + step - 1) / step;
  const std::int64_t last = s.batch - (chunks - 1) * step;
  Chunk full(key, step), rest = last == step ? full : Chunk(key, last);
  if (!to_weight) {
    full.pack(b.data);
    if (rest.conv == full.conv || rest.conv->packs_like(*full.conv)) rest.packed = full.packed;
    else rest.pack(b.data);
  }
  const bool direct = to_weight && chunks == 1 && c.y.dtype == f32 && c.y.is_contiguous();
  if (to_weight && !direct) partial = Tensor::allocate({chunks, s.weights()}, f32);

  parallel_for(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Chunk& chunk = i + 1 == chunks ? rest : full;
      const std::int64_t first = i * step, count = i + 1 == chunks ? last : step;
      View left = images(a, first, count), right = to_weight ? images(b, first, count) : View{};
      View out = to_weight ? View{} : images(y, first, count);
      Tensor wide_left, wide_right, wide_out;
      const auto widened = [&](const View& v, Tensor& keep) {
        keep = room(v, count, inner);
        kernels::copy(cpu, keep.view(), v);
        return keep.view();
      };
      if (widen) {
        left = widened(left, wide_left);
        if (to_weight) right = widened(right, wide_right);
        else wide_out = room(out, count, inner);
      }
      void* result = direct      ? y.data
                     : to_weight ? partial.data<float>() + i * s.weights()
                     : widen     ? wide_out.raw_data()
                                 : out.data;
      chunk.conv->run(left.data, to_weight ? right.data : chunk.packed.raw_data(), bias.data, result);
      if (wide_out) kernels::copy(cpu, out, wide_out.view());
    }
  });
  if (partial) add_partials(c.y, partial.data<float>(), chunks);
  if (y_copy) kernels::copy(cpu, c.y, y);
}

}  // namespace conv
}  // namespace mantissa
