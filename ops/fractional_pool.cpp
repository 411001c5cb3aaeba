// Fractional max pooling (Graham, 2014), as in PyTorch: windows of one size start at multiples of a fractional step,
// rounded down and shifted by a random number per image. Composed of operators: the indices of the maxima (not recorded
// for autograd), and a gather of these values, which carries the gradient.
#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "core/ops_special.h"
#include "core/random.h"
#include "ops/number_like.h"
#include "ops/registry.h"

namespace mantissa {
namespace {

// Where the windows start along a dimension of `in` elements: i64 [N, C, out], for random numbers u [N, C].
Tensor window_starts(const Tensor& u, std::int64_t in, std::int64_t out, std::int64_t kernel) {
  const std::int64_t end = in - kernel;
  Dims ends = u.sizes();
  ends.push_back(1);
  const Tensor last = full(ends, static_cast<double>(end), {.dtype = i64, .device = u.device()});
  if (out == 1) return last;
  const Tensor step =
      number_like(u, static_cast<double>(end)) / static_cast<double>(out - 1);
  const Tensor each = unsqueeze(u, -1), i = cast(arange(out - 1, {.device = u.device()}), u.dtype());
  return cat({cast(floor((i + each) * step), i64) - cast(floor(each * step), i64), last}, -1);
}

// x [N, C, spatial...] with n spatial dimensions, or without N.
template <std::size_t n>
ValuesIndices pooled(const char* name, const Tensor& x, std::array<int, n> kernel, std::array<int, n> output,
                     const Tensor& samples) {
  constexpr int dims = static_cast<int>(n);
  check(x.is_floating(), name, ": needs floating dtypes; cast integers first, as in cast(x, f32)");
  check(x.dim() == dims + 1 || x.dim() == dims + 2, name, ": x must be ",
        n == 2 ? "[N, C, H, W] or [C, H, W]" : "[N, C, D, H, W] or [C, D, H, W]", ", got ", x);
  if (x.dim() == dims + 1) {
    const ValuesIndices y = pooled<n>(name, unsqueeze(x, 0), kernel, output, samples);
    return {squeeze(y.values, 0), squeeze(y.indices, 0)};
  }
  const std::int64_t images = x.size(0), channels = x.size(1);
  for (std::size_t d = 0; d < n; ++d) {
    const std::int64_t in = x.size(static_cast<int>(d) + 2), windows = output[d];
    check(kernel[d] > 0 && windows > 0 && windows + kernel[d] - 1 <= in, name, ": ", output[d], " windows of ",
          kernel[d], " do not fit into the ", in, " of dimension ", static_cast<int>(d) + 2, " of ", x,
          "; output + kernel - 1 may be no larger");
  }
  check(!samples.defined() || samples.sizes() == Dims{images, channels, dims}, name, ": the random numbers must be [",
        images, ", ", channels, ", ", dims, "], got ", samples);

  // Indices [N, C, out..., kernel...] into the flattened image, built dimension by dimension.
  Tensor inside;
  {
    const NoGrad no_grad;
    const Dtype dtype = compute_dtype(x.dtype());
    const Tensor u = samples.defined()
                         ? cast(samples, dtype).to(x.device())
                         : mantissa::rand({images, channels, dims}, {.dtype = dtype, .device = x.device()});
    for (std::size_t d = 0; d < n; ++d) {
      const int at = static_cast<int>(d);
      // PyTorch uses the first random number for the last dimension of images, but for the first dimension of volumes.
      const Tensor own = select(u, 2, n == 2 ? dims - 1 - at : at);
      Dims begins{images, channels}, offsets;
      for (int i = 0; i < 2 * dims; ++i) {
        begins.push_back(i == at ? output[d] : 1);
        offsets.push_back(i == dims + at ? kernel[d] : 1);
      }
      const Tensor here = reshape(window_starts(own, x.size(at + 2), output[d], kernel[d]), begins) +
                          reshape(arange(kernel[d], {.device = x.device()}), offsets);
      inside =
          d == 0 ? here
                 : inside * full({}, static_cast<double>(x.size(at + 2)), {.dtype = i64, .device = x.device()}) + here;
    }
  }
  std::int64_t windows = 1, area = 1;
  Dims sizes{images, channels};
  for (std::size_t d = 0; d < n; ++d) windows *= output[d], area *= kernel[d], sizes.push_back(output[d]);
  const Tensor flat = flatten(x, 2), indices = reshape(inside, {images, channels, windows * area});
  const Tensor best = [&] {
    const NoGrad no_grad;
    const Tensor each = reshape(gather(flat, 2, indices), {images, channels, windows, area});
    return squeeze(gather(reshape(indices, each.sizes()), 3, max(each, 3, true).indices), 3);
  }();
  return {reshape(gather(flat, 2, best), sizes), reshape(best, sizes)};
}

}  // namespace

ValuesIndices fractional_max_pool2d_with_indices(const Tensor& x, PerDim<2> kernel, PerDim<2> output,
                                                 const Tensor& samples) {
  return pooled<2>("fractional_max_pool2d", x, kernel, output, samples);
}
ValuesIndices fractional_max_pool3d_with_indices(const Tensor& x, PerDim<3> kernel, PerDim<3> output,
                                                 const Tensor& samples) {
  return pooled<3>("fractional_max_pool3d", x, kernel, output, samples);
}
Tensor fractional_max_pool2d(const Tensor& x, PerDim<2> kernel, PerDim<2> output,
                             const Tensor& samples) {
  return fractional_max_pool2d_with_indices(x, kernel, output, samples).values;
}
Tensor fractional_max_pool3d(const Tensor& x, PerDim<3> kernel, PerDim<3> output,
                             const Tensor& samples) {
  return fractional_max_pool3d_with_indices(x, kernel, output, samples).values;
}

namespace {

void fractional_max_pool2d_samples(Samples& s) {
  s.call({s.distinct({3, 5, 5}), s.uniform({1, 3, 2}, 0, 1)}, [](const Tensors& x) {
    return fractional_max_pool2d(x[0], {3, 3}, {1, 3}, x[1].detach());
  });
  s.error_call(
      {s.randn({2, 3, 7, 9})},
      [](const Tensors& x) {
        return fractional_max_pool2d(x[0], {2, 3}, {7, 5});
      },
      "7 windows of 2 do not fit into the 7 of dimension 2");
  s.error_call(
      {s.randn({2, 3})},
      [](const Tensors& x) {
        return fractional_max_pool2d(x[0], {2, 2}, {1, 1});
      },
      "x must be [N, C, H, W] or [C, H, W]");
  s.error_call(
      {s.randn({2, 3, 7, 9}), s.randn({2, 3})},
      [](const Tensors& x) {
        return fractional_max_pool2d(x[0], {2, 2}, {3, 3}, x[1]);
      },
      "the random numbers must be [2, 3, 2]");
}
void fractional_max_pool3d_samples(Samples& s) {
  s.call({s.distinct({1, 2, 4, 5, 4}), s.uniform({1, 2, 3}, 0, 1)}, [](const Tensors& x) {
    return fractional_max_pool3d(x[0], {2, 3, 2}, {3, 2, 1}, x[1].detach());
  });
  s.error_call(
      {s.randn({2, 3, 7, 9})},
      [](const Tensors& x) {
        return fractional_max_pool3d(x[0], {2, 2, 2}, {2, 2, 9});
      },
      "9 windows of 2 do not fit");
}
void fractional_max_pool2d_with_indices_samples(Samples& s) {
  s.call({s.distinct({2, 3, 7, 9}), s.uniform({2, 3, 2}, 0, 1)}, [](const Tensors& x) {
    return fractional_max_pool2d_with_indices(x[0], {2, 3}, {4, 5}, x[1].detach());
  });
}
void fractional_max_pool3d_with_indices_samples(Samples& s) {
  s.call({s.distinct({2, 2, 4, 5, 6}), s.uniform({2, 2, 3}, 0, 1)}, [](const Tensors& x) {
    return fractional_max_pool3d_with_indices(x[0], {2, 2, 3}, {2, 3, 4}, x[1].detach());
  });
}

}  // namespace
MANTISSA_COMPOSITE(fractional_max_pool2d, fractional_max_pool2d_samples)
MANTISSA_COMPOSITE(fractional_max_pool3d, fractional_max_pool3d_samples)
MANTISSA_COMPOSITE(fractional_max_pool2d_with_indices, fractional_max_pool2d_with_indices_samples)
MANTISSA_COMPOSITE(fractional_max_pool3d_with_indices, fractional_max_pool3d_with_indices_samples)

}  // namespace mantissa
