// Convolutions by oneDNN: the batch is cut into chunks, or few images into rows, each a single-threaded call. f16 or
// bf16 that the processor cannot multiply is widened to f32 chunk by chunk, while it is in cache.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/conv_algorithms.h"
#include "core/gemm.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace conv {
namespace {

using onednn::ConvKernel;

constexpr std::int64_t most_row_parts = 8;

// Number of chunks that the batch is cut into. Every chunk reads the whole weight; one of a weight gradient also writes
// a partial sum of the same size, and one of Winograd transforms the weight: these want chunks of many pixels.
std::int64_t chunk_count(ConvKernel kernel, ConvPass pass, const ConvShape& s) {
  constexpr std::int64_t large_weight = 128 << 10;  // elements: more than fits in the L2 cache
  const bool to_weight = pass == ConvPass::weight_gradient;
  std::int64_t pixels = 1, most = 32;  // of the result, in a chunk
  if (to_weight || kernel == ConvKernel::winograd) pixels = to_weight ? 1024 : 4096, most = to_weight ? 16 : 32;
  else if (s.weights() > large_weight) pixels = 128;
  const double slowness = std::min(s.in_channels, s.out_channels) < 16 ? 3 : 1;  // vectors are mostly empty
  return std::min(
      {pieces_for(s.flops() * slowness), most, s.batch, std::max<std::int64_t>(s.batch * s.out_pixels() / pixels, 2)});
}

// Convolution of a chunk of images with the packed weight.
struct Chunk {
  std::shared_ptr<const onednn::Convolution> conv;
  Tensor packed;

  Chunk() = default;
  Chunk(onednn::ConvolutionKey key, std::int64_t images) {
    key.shape.batch = images;
    conv = onednn::convolution(key, true);
    check(conv != nullptr, "oneDNN: no kernel for this convolution on this processor");
  }
  // `contiguous_weight` returns the weight in the convolution's dtype; called only if no packed form is cached.
  template <class F> void pack(const Call& c, F&& contiguous_weight) {
    const auto same = [](const void* mine, const void* other) {
      return static_cast<const onednn::Convolution*>(mine)->packs_like(*static_cast<const onednn::Convolution*>(other));
    };
    PackedWeight kept(c.kept, c.b, "oneDNN", conv, same);
    if (!kept) {
      const Tensor fresh = Tensor::allocate({static_cast<std::int64_t>(conv->packed_bytes())}, u8);
      const void* weight = contiguous_weight();
      parallel_for(conv->pack_pieces(), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) conv->pack(weight, fresh.raw_data(), i);
      });
      kept.fill(fresh);
    }
    packed = kept.tensor();
  }
};

// Memory for `count` images of v in the compute dtype.
Tensor room(const View& v, std::int64_t count, Dtype inner) {
  Dims sizes = v.sizes;
  sizes[0] = count;
  return Tensor::allocate(sizes, inner, cpu, sizes.rank() == 4 ? Layout::channels_last : Layout::contiguous);
}

// --- few images: each is cut into runs of rows ---

// Number of parts that each image is cut into if there are too few images to cut the batch, by its share of the work.
// Only for channels-last images, whose rows are contiguous.
std::int64_t row_parts(ConvKernel kernel, const Call& c) {
  const ConvShape& s = c.shape;
  if (kernel != ConvKernel::channels_last || c.pass == ConvPass::input_gradient || !s.is_image()) return 1;
  const double slowness = std::min(s.in_channels, s.out_channels) < 16 ? 3 : 1;
  std::int64_t pieces = std::min(pieces_for(s.flops() * slowness), most_row_parts);
  if (c.pass == ConvPass::weight_gradient)  // every part has a partial sum as big as the weight
    pieces = std::min(pieces, std::max<std::int64_t>(s.batch * s.out_pixels() / 1024, 2));
  const std::int64_t parts = std::min(pieces / s.batch, s.out[0] / 2);
  if (parts <= 1) return 1;
  const std::int64_t step = (s.out[0] + parts - 1) / parts;
  return (s.out[0] + step - 1) / step;  // none is empty
}

// Rows [first, last) of the image `i`.
View rows(const View& v, std::int64_t i, std::int64_t first, std::int64_t last) {
  View part = images(v, i, 1);
  part.sizes[2] = last - first;
  part.data = part.as<char>() + first * v.strides[2] * static_cast<std::int64_t>(size_of(v.dtype));
  return part;
}
View channels_last(const View& v, Tensor& keep) {
  if (is_last(v)) return v;
  keep = Tensor::allocate(v.sizes, v.dtype, cpu, Layout::channels_last);
  return keep.view();
}

// A part of each image: the rows that its rows of the result depend on.
struct Rows {
  std::int64_t in_first, in_last, out_first, out_last;
  ConvShape shape;
  Rows() = default;
  Rows(const ConvShape& s, std::int64_t parts, std::int64_t part) : shape(s) {
    const std::int64_t step = (s.out[0] + parts - 1) / parts, stride = s.stride[0];
    out_first = std::min(part * step, s.out[0]);
    out_last = std::min(out_first + step, s.out[0]);
    const std::int64_t top = out_first * stride - s.padding[0];
    const std::int64_t bottom = (out_last - 1) * stride - s.padding[0] + (s.kernel[0] - 1) * s.dilation[0] + 1;
    in_first = std::clamp<std::int64_t>(top, 0, s.in[0] - 1);
    in_last = std::clamp<std::int64_t>(bottom, in_first + 1, s.in[0]);
    shape.batch = 1;
    shape.in[0] = in_last - in_first;
    shape.out[0] = out_last - out_first;
    shape.padding[0] = in_first - top;
  }
};

void run_rows(const Call& c, std::int64_t parts) {
  const ConvShape& s = c.shape;
  const bool to_weight = c.pass == ConvPass::weight_gradient;  // then y is the sum of the parts' partial results
  const Dtype inner = inner_dtype(c.a.dtype);
  const bool widen = c.a.dtype != inner;
  Tensor a_copy, b_copy, bias_copy, out_copy, partial;
  const View a = channels_last(c.a, a_copy), out = channels_last(to_weight ? c.b : c.y, out_copy);
  const View bias = contiguous(c.bias, inner, bias_copy);
  if (a_copy.defined()) kernels::copy(cpu, a, c.a);
  if (to_weight && out_copy.defined()) kernels::copy(cpu, out, c.b);
  if (to_weight) partial = Tensor::allocate({s.batch * parts, s.weights()}, f32);
  std::array<Rows, most_row_parts> cut;
  std::array<Chunk, most_row_parts> chunks;
  const auto weight = [&] { return contiguous(c.b, inner, b_copy).data; };
  for (std::int64_t i = 0; i < parts; ++i) {
    const auto at = static_cast<std::size_t>(i);
    cut[at] = Rows(s, parts, i);
    Chunk& chunk = chunks[at];
    chunk = Chunk({.kernel = ConvKernel::channels_last, .pass = c.pass, .shape = cut[at].shape, .dtype = inner,
                   .bias = static_cast<bool>(bias), .a_last = true, .b_last = to_weight, .y_last = !to_weight}, 1);
    if (to_weight) continue;
    if (i > 0 && chunk.conv->packs_like(*chunks[0].conv)) chunk.packed = chunks[0].packed;
    else chunk.pack(c, weight);
  }
  parallel_for(s.batch * parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i % parts);
      const Rows& r = cut[at];
      View from = rows(a, i / parts, r.in_first, r.in_last);
      const View part = rows(out, i / parts, r.out_first, r.out_last);
      View inside = part;
      Tensor wide_from, wide_inside;
      if (widen) {
        wide_from = room(from, 1, inner), wide_inside = room(part, 1, inner);
        kernels::copy(cpu, wide_from.view(), from);
        if (to_weight) kernels::copy(cpu, wide_inside.view(), part);
        from = wide_from.view(), inside = wide_inside.view();
      }
      if (to_weight) {
        chunks[at].conv->run(from.data, inside.data, nullptr, partial.data<float>() + i * s.weights());
      } else {
        chunks[at].conv->run(from.data, chunks[at].packed.raw_data(), bias.data, inside.data);
        if (widen) kernels::copy(cpu, part, inside);
      }
    }
  });
  if (to_weight) add_partials(c.y, partial.data<float>(), s.batch * parts);
  else if (out_copy.defined()) kernels::copy(cpu, c.y, out);
}

// --- one volume: its output channels are cut ---

constexpr std::int64_t channels_of_part = 32;  // at least; the library's kernels process so many together

// Whether parts of the output channels can be computed as separate convolutions: their memory is contiguous.
bool can_cut_channels(const Call& c) {
  const ConvShape& s = c.shape;
  return !s.is_image() && s.batch == 1 && s.groups == 1 && c.pass != ConvPass::input_gradient &&
         s.out_channels >= 2 * channels_of_part && pieces_for(s.flops()) > 1 && inner_dtype(c.a.dtype) == c.a.dtype &&
         c.y.is_contiguous() && c.a.is_contiguous() && c.b.is_contiguous() && (!c.bias || c.bias.is_contiguous());
}
View part_of(const View& v, int dim, std::int64_t first, std::int64_t count) {
  if (!v) return v;
  View part = v;
  part.sizes[dim] = count;
  part.data = part.as<char>() + first * v.strides[dim] * static_cast<std::int64_t>(size_of(v.dtype));
  return part;
}
void run_channels(ConvKernel kernel, const Call& c) {
  const bool to_weight = c.pass == ConvPass::weight_gradient;
  const std::int64_t channels = c.shape.out_channels, parts = channels / channels_of_part;
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * channels_of_part, count = i + 1 == parts ? channels - first : channels_of_part;
      ConvShape shape = c.shape;
      shape.out_channels = count;
      // channels are dimension 1 of images, dimension 0 of weights
      const View y = part_of(c.y, to_weight ? 0 : 1, first, count), b = part_of(c.b, to_weight ? 1 : 0, first, count);
      run_library(kernel, {c.pass, shape, y, c.a, b, part_of(c.bias, 0, first, count)});
    }
  });
}

// Volumes in another layout: the library would reorder them as well, and only contiguous ones can be cut.
bool needs_contiguous(const Call& c) {
  const bool to_weight = c.pass == ConvPass::weight_gradient;
  return !c.shape.is_image() && !(c.y.is_contiguous() && c.a.is_contiguous() && (!to_weight || c.b.is_contiguous()));
}
void run_contiguous(ConvKernel kernel, const Call& c) {
  Tensor a_copy, b_copy, y_copy;
  const View a = contiguous(c.a, c.a.dtype, a_copy);
  const View b = c.pass == ConvPass::weight_gradient ? contiguous(c.b, c.b.dtype, b_copy) : c.b;
  if (!c.y.is_contiguous()) y_copy = Tensor::allocate(c.y.sizes, c.y.dtype, cpu);
  const View y = y_copy.defined() ? y_copy.view() : c.y;
  run_library(kernel, {c.pass, c.shape, y, a, b, c.bias, c.kept});
  if (y_copy.defined()) kernels::copy(cpu, c.y, y);
}

}  // namespace

void run_library(ConvKernel kernel, const Call& c) {
  const ConvShape& s = c.shape;
  if (needs_contiguous(c)) return run_contiguous(kernel, c);
  if (can_cut_channels(c)) return run_channels(kernel, c);
  if (const std::int64_t parts = row_parts(kernel, c); parts > 1) return run_rows(c, parts);
  const bool to_weight = c.pass == ConvPass::weight_gradient, image = s.is_image();
  const Dtype inner = inner_dtype(c.a.dtype);
  const bool widen = c.a.dtype != inner;
  Tensor a_copy, b_copy, bias_copy, y_copy, partial;
  const View a = dense(c.a, c.a.dtype, a_copy);
  const View b = to_weight ? dense(c.b, c.b.dtype, b_copy) : c.b;
  const View bias = contiguous(c.bias, inner, bias_copy);
  View y = c.y;
  if (!to_weight && !y.is_contiguous() && !is_last(y)) {
    y_copy = Tensor::allocate(y.sizes, y.dtype, cpu);
    y = y_copy.view();
  }

  // Contiguous images are transposed here: the library's own reorders take up to five times as long.
  const auto turned = [&](const View& v) { return kernel == ConvKernel::channels_last && image && !is_last(v); };
  const bool copy_a = widen || turned(a), copy_b = widen || (to_weight && turned(b));
  onednn::ConvolutionKey key{
      .kernel = kernel, .pass = c.pass, .shape = s, .dtype = inner, .bias = static_cast<bool>(bias)};
  key.a_last = image && (copy_a || is_last(a));
  key.b_last = image && to_weight && (copy_b || is_last(b));
  key.y_last = image && !to_weight && (widen || is_last(y));
  key.wide = !to_weight && !widen && y.dtype != inner;
  const std::int64_t wanted = chunk_count(kernel, c.pass, s);
  const std::int64_t step = (s.batch + wanted - 1) / wanted, chunks = (s.batch + step - 1) / step;
  const std::int64_t last = s.batch - (chunks - 1) * step;
  Chunk full(key, step), rest = last == step ? full : Chunk(key, last);
  if (!to_weight) {
    const auto weight = [&] { return contiguous(c.b, inner, b_copy).data; };
    full.pack(c, weight);
    if (rest.conv == full.conv || rest.conv->packs_like(*full.conv)) rest.packed = full.packed;
    else rest.pack(c, weight);
  }
  const bool direct = to_weight && chunks == 1 && c.y.dtype == f32 && c.y.is_contiguous();
  if (to_weight && !direct) partial = Tensor::allocate({chunks, s.weights()}, f32);

  parallel_for(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Chunk& chunk = i + 1 == chunks ? rest : full;
      const std::int64_t first = i * step, count = i + 1 == chunks ? last : step;
      View left = images(a, first, count), right = to_weight ? images(b, first, count) : View{};
      View out = to_weight ? View{} : images(y, first, count);
      Tensor left_copy, right_copy, wide_out;
      const auto copied = [&](const View& v, Tensor& keep) {
        keep = room(v, count, inner);
        kernels::copy(cpu, keep.view(), v);
        return keep.view();
      };
      if (copy_a) left = copied(left, left_copy);
      if (copy_b && to_weight) right = copied(right, right_copy);
      if (widen && !to_weight) wide_out = room(out, count, inner);
      void* result = direct      ? y.data
                     : to_weight ? partial.data<float>() + i * s.weights()
                     : widen     ? wide_out.raw_data()
                                 : out.data;
      chunk.conv->run(left.data, to_weight ? right.data : chunk.packed.raw_data(), bias.data, result);
      if (wide_out.defined()) kernels::copy(cpu, out, wide_out.view());
    }
  });
  if (partial.defined()) add_partials(c.y, partial.data<float>(), chunks);
  if (y_copy.defined()) kernels::copy(cpu, c.y, y);
}

}  // namespace conv
}  // namespace mantissa
