// Convolution and its gradients, by cuDNN or as matrix products. Contiguous images are unfolded (im2col) to matrices
// [channels * kernel, pixels] and multiplied by the fastest kernel that cuda/gemm.cpp finds, as many images at once as
// keep the matrices below a size limit. f16 and bf16 accumulate in f32 and are rounded once. Channels-last images:
// cuda/conv_channels.cu.
#include "core/conv.h"

#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/kernel.h"
#include "core/tf32.h"
#include "cuda/conv_channels.h"
#include "cuda/cudnn.h"
#include "cuda/elementwise.cuh"
#include "cuda/gemm.h"
#include "cuda/rows.cuh"
#include "cuda/tuner.h"

namespace mantissa {
MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(add_in_place, const View& y, const View& x, double alpha)
MANTISSA_CUDA_KERNEL(conv2d, ConvPass pass, const ConvShape& shape, const View& y, const View& a, const View& b,
                     const View& bias, bool add, const ConvRelu& relu)
}

namespace mantissa::cuda_backend {
namespace {

constexpr std::int64_t most_unfolded = std::int64_t{1} << 27;  // elements of the matrices at a time

struct Unfolding {
  ConvShape s;
  std::int64_t image_step, group_step, row_step;  // of the matrices, in elements; pixels are contiguous
  MANTISSA_HD std::int64_t group_channels() const { return s.in_channels / s.groups; }
  MANTISSA_HD std::int64_t rows() const { return group_channels() * s.taps(); }
  MANTISSA_HD std::int64_t pixels() const { return s.out_pixels(); }
};

// One thread per element of the matrices of `images` images.
template <class Word> __global__ void unfold_kernel(Word* to, const Word* x, Unfolding u, std::int64_t images) {
  wait_for_previous_kernel();
  const ConvShape& s = u.s;
  const std::int64_t rows = u.rows(), pixels = u.pixels(), n = images * s.groups * rows * pixels;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t p = i % pixels, r = i / pixels % rows, group = i / (pixels * rows) % s.groups,
                       image = i / (pixels * rows * s.groups);
    const std::int64_t kx = r % s.kernel[1], ky = r / s.kernel[1] % s.kernel[0],
                       kz = r / (s.kernel[0] * s.kernel[1]) % s.depth.kernel;
    const std::int64_t c = group * u.group_channels() + r / s.taps();
    const std::int64_t iz = p / (s.out[0] * s.out[1]) * s.depth.stride - s.depth.padding + kz * s.depth.dilation;
    const std::int64_t iy = p / s.out[1] % s.out[0] * s.stride[0] - s.padding[0] + ky * s.dilation[0];
    const std::int64_t ix = p % s.out[1] * s.stride[1] - s.padding[1] + kx * s.dilation[1];
    const bool inside = iz >= 0 && iz < s.depth.in && iy >= 0 && iy < s.in[0] && ix >= 0 && ix < s.in[1];
    to[image * u.image_step + group * u.group_step + r * u.row_step + p] =
        inside ? x[(((image * s.in_channels + c) * s.depth.in + iz) * s.in[0] + iy) * s.in[1] + ix] : Word{};
  }
}

// One thread per input pixel sums the elements that it contributed to, in the order of the kernel's taps.
template <class C> __global__ void fold_kernel(void* y, Dtype dtype, const C* from, Unfolding u, std::int64_t images) {
  wait_for_previous_kernel();
  const ConvShape& s = u.s;
  const std::int64_t n = images * s.in_image();
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t ix = i % s.in[1], iy = i / s.in[1] % s.in[0], iz = i / (s.in[0] * s.in[1]) % s.depth.in;
    const std::int64_t c = i / s.in_pixels() % s.in_channels, image = i / s.in_image();
    const std::int64_t group = c / u.group_channels(), first_row = c % u.group_channels() * s.taps();
    const C* matrix = from + image * u.image_step + group * u.group_step;
    C sum = 0;
    for (std::int64_t kz = 0; kz < s.depth.kernel; ++kz) {
      const std::int64_t inward = iz + s.depth.padding - kz * s.depth.dilation;
      if (inward < 0 || inward % s.depth.stride != 0 || inward / s.depth.stride >= s.depth.out) continue;
      for (std::int64_t ky = 0; ky < s.kernel[0]; ++ky) {
        const std::int64_t down = iy + s.padding[0] - ky * s.dilation[0];
        if (down < 0 || down % s.stride[0] != 0 || down / s.stride[0] >= s.out[0]) continue;
        for (std::int64_t kx = 0; kx < s.kernel[1]; ++kx) {
          const std::int64_t across = ix + s.padding[1] - kx * s.dilation[1];
          if (across < 0 || across % s.stride[1] != 0 || across / s.stride[1] >= s.out[1]) continue;
          const std::int64_t row = first_row + (kz * s.kernel[0] + ky) * s.kernel[1] + kx;
          const std::int64_t pixel =
              (inward / s.depth.stride * s.out[0] + down / s.stride[0]) * s.out[1] + across / s.stride[1];
          sum += matrix[row * u.row_step + pixel];
        }
      }
    }
    store_element(y, dtype, i, sum);
  }
}

struct AddBias {
  template <class T> MANTISSA_HD T f(T x, T bias) const { return x + bias; }
};

// --- host ---
// An operand in the layout and dtype that a way needs: the original, or a copy made on first use.
class Operand {
 public:
  Operand(const View& v, Dtype dtype) : v_(v), dtype_(dtype) {}
  View in(Layout layout) {
    if (!v_ || (v_.dtype == dtype_ && lies_in(v_, layout))) return v_;
    Tensor& copied = copies_[static_cast<int>(layout)];
    if (!copied.defined()) {
      copied = Tensor::allocate(v_.sizes, dtype_, v_.device, layout);
      copy(copied.view(), v_);
    }
    return copied.view();
  }
  View as_it_is() { return v_.dtype == dtype_ ? v_ : in(v_.layout()); }

 private:
  const View& v_;
  Dtype dtype_;
  Tensor copies_[2];
};
void* element(const View& v, std::int64_t i) {
  return static_cast<char*>(v.data) + i * static_cast<std::int64_t>(size_of(v.dtype));
}

void unfold(const Tensor& to, const void* x, Dtype dtype, const Unfolding& u, std::int64_t images) {
  const Grid grid =
      grid_for(std::min<std::int64_t>(images * u.s.groups * u.rows() * u.pixels(), std::int64_t{1} << 30));
  switch (size_of(dtype)) {
    case 8:
      return launch("unfold", &unfold_kernel<std::uint64_t>, grid, static_cast<std::uint64_t*>(to.raw_data()),
                    static_cast<const std::uint64_t*>(x), u, images);
    case 4:
      return launch("unfold", &unfold_kernel<std::uint32_t>, grid, static_cast<std::uint32_t*>(to.raw_data()),
                    static_cast<const std::uint32_t*>(x), u, images);
    default:
      return launch("unfold", &unfold_kernel<std::uint16_t>, grid, static_cast<std::uint16_t*>(to.raw_data()),
                    static_cast<const std::uint16_t*>(x), u, images);
  }
}

// c [images, groups, m, n] = a @ b, with these strides between images and between groups.
struct Steps { std::int64_t image, group; };
tensor_core::Gemm product(void* c, Dtype out, const void* a, const void* b, Dtype in, std::int64_t m, std::int64_t n,
                          std::int64_t k, std::int64_t images, std::int64_t groups, Steps a_steps, Steps b_steps) {
  tensor_core::Gemm g;
  g.m = m, g.n = n, g.k = k, g.items = images * groups;
  g.in = in, g.out = out;
  g.a = a, g.b = b, g.c = c;
  g.lda = k, g.ldb = n, g.ldc = n;
  // libraries support a single batch stride
  const auto lead = [&g](std::int64_t size, std::int64_t a_step, std::int64_t b_step) {
    if (size == 1) return;
    tensor_core::Batch& batch = g.batch;
    batch.sizes[batch.rank] = size, batch.a[batch.rank] = a_step, batch.b[batch.rank++] = b_step;
  };
  lead(images, a_steps.image, b_steps.image);
  lead(groups, a_steps.group, b_steps.group);
  return g;
}

Unfolding image_after_image(const ConvShape& s) {
  Unfolding u{s, 0, 0, 0};
  u.row_step = u.pixels();
  u.group_step = u.rows() * u.pixels();
  u.image_step = s.groups * u.group_step;
  return u;
}
std::int64_t images_at_once(const ConvShape& s, const Unfolding& u) {
  return std::clamp<std::int64_t>(most_unfolded / std::max<std::int64_t>(1, s.groups * u.rows() * u.pixels()), 1,
                                  s.batch);
}
Dtype sum_dtype(Dtype t) { return t == f64 ? f64 : f32; }
// Copies or adds a separately computed result to y.
void put(const View& y, const View& x, bool add) {
  if (add) kernels::add_in_place(y.device, y, x, 1.0);
  else kernels::copy(y.device, y, x);
}

// y = x + bias for every channel.
void add_bias(const View& y, const View& x, const View& bias) {
  View channels = bias;
  channels.sizes = channels.strides = {};
  for (int d = 0; d < y.dim(); ++d) {
    channels.sizes.push_back(d == 1 ? bias.sizes[0] : 1);
    channels.strides.push_back(d == 1 ? bias.strides[0] : 0);
  }
  const View* inputs[] = {&x, &channels};
  visit_compute(y.dtype,
                [&]<class C>() { launch_elementwise<AddBias, C, 2>("conv2d_bias", {}, plan_elementwise(y, inputs)); });
}

void forward(const ConvShape& s, const View& y, const View& x, const View& weight) {
  const Unfolding u = image_after_image(s);
  const std::int64_t step = images_at_once(s, u), outs = s.out_channels / s.groups;
  const Tensor matrices = Tensor::allocate({step * u.image_step}, x.dtype, y.device);
  for (std::int64_t first = 0; first < s.batch; first += step) {
    const std::int64_t images = std::min(step, s.batch - first);
    unfold(matrices, element(x, first * s.in_image()), x.dtype, u, images);
    run(product(element(y, first * s.out_image()), y.dtype, weight.data, matrices.raw_data(), x.dtype, outs, u.pixels(),
                u.rows(), images, s.groups, {0, outs * u.rows()}, {u.image_step, u.group_step}),
        y.device);
  }
}

void input_gradient(const ConvShape& s, const View& dx, const View& g, const View& weight) {
  const Unfolding u = image_after_image(s);
  const std::int64_t step = images_at_once(s, u), outs = s.out_channels / s.groups;
  const Tensor matrices = Tensor::allocate({step * u.image_step}, sum_dtype(dx.dtype), dx.device);
  for (std::int64_t first = 0; first < s.batch; first += step) {
    const std::int64_t images = std::min(step, s.batch - first);
    tensor_core::Gemm p =
        product(matrices.raw_data(), matrices.dtype(), weight.data, element(g, first * s.out_image()), dx.dtype,
                u.rows(), u.pixels(), outs, images, s.groups, {0, outs * u.rows()}, {s.out_image(), outs * u.pixels()});
    p.a_transposed = true;
    p.lda = u.rows();
    run(p, dx.device);
    const Grid grid = grid_for(std::min<std::int64_t>(images * s.in_image(), std::int64_t{1} << 30));
    visit_compute(dx.dtype, [&]<class C>() {
      launch("fold", &fold_kernel<C>, grid, element(dx, first * s.in_image()), dx.dtype,
             static_cast<const C*>(matrices.raw_data()), u, images);
    });
  }
}

// The sum over images is part of the products' inner dimension: the matrices of several images are concatenated.
void weight_gradient(const ConvShape& s, const View& dw, const View& x, const View& g, bool add) {
  Unfolding u{s, 0, 0, 0};
  const std::int64_t step = images_at_once(s, u), outs = s.out_channels / s.groups, pixels = u.pixels();
  const Tensor matrices = Tensor::allocate({s.groups * u.rows() * step * pixels}, x.dtype, dw.device);
  const Tensor gradients = Tensor::allocate({s.out_channels, step, pixels}, x.dtype, dw.device);
  const bool direct = dw.dtype == sum_dtype(x.dtype) && dw.is_contiguous();
  Tensor wide;
  if (!direct) wide = Tensor::allocate(dw.sizes, sum_dtype(x.dtype), dw.device);
  const View sums = direct ? dw : wide.view();
  for (std::int64_t first = 0; first < s.batch; first += step) {
    const std::int64_t images = std::min(step, s.batch - first), length = images * pixels;
    u.image_step = pixels;
    u.row_step = length;
    u.group_step = u.rows() * length;
    unfold(matrices, element(x, first * s.in_image()), x.dtype, u, images);
    View from = g, to = gradients.view();
    from.data = element(g, first * s.out_image());
    from.sizes = to.sizes = {s.out_channels, images, pixels};
    from.strides = {pixels, s.out_image(), 1};
    to.strides = {length, pixels, 1};
    kernels::copy(dw.device, to, from);
    tensor_core::Gemm p = product(sums.data, sums.dtype, gradients.raw_data(), matrices.raw_data(), x.dtype, outs,
                                  u.rows(), length, 1, s.groups, {0, outs * length}, {0, u.group_step});
    p.b_transposed = true;
    p.ldb = length;
    p.accumulate = first > 0 || (direct && add);
    run(p, dw.device);
  }
  if (!direct) put(dw, sums, add);
}

// Parts of the tuning key besides the shape.
struct Kind {
  ConvPass pass;
  Layout layout;
  Dtype in, out;  // of the operands and of the result
  bool has_bias, add, relu;
};
std::string key_of(const Kind& kind, const ConvShape& s) {
  std::string key = concat("conv ", static_cast<int>(kind.pass), ' ', kind.in,
                           kind.out != kind.in ? concat("->", kind.out) : std::string(),
                           kind.layout == Layout::channels_last ? " channels-last" : "", kind.has_bias ? " bias" : "",
                           kind.add ? " add" : "", kind.relu ? " relu" : "", " batch ", s.batch, " channels ",
                           s.in_channels, "->", s.out_channels, " groups ", s.groups);
  const auto add = [&](const char* name, std::int64_t depth, const std::int64_t(&image)[2]) {
    key += concat(' ', name, ' ', depth, 'x', image[0], 'x', image[1]);
  };
  add("in", s.depth.in, s.in);
  add("kernel", s.depth.kernel, s.kernel);
  add("stride", s.depth.stride, s.stride);
  add("padding", s.depth.padding, s.padding);
  add("dilation", s.depth.dilation, s.dilation);
  return key;
}

// The layout of a pass's result; for weights, that of the images.
Layout layout_of(ConvPass pass, const View& y, const View& a, const View& b) {
  const auto is_last = [](const View& v) { return v.layout() == Layout::channels_last; };
  // With one pixel or channel y has both layouts: then x decides.
  const bool last = pass == ConvPass::weight_gradient ? is_last(a) || is_last(b)
                                                      : lies_in(y, Layout::channels_last) && (is_last(y) || is_last(a));
  return last ? Layout::channels_last : Layout::contiguous;
}

void by_planes(ConvPass pass, const ConvShape& s, const View& y, const View& a, const View& b, const View& bias,
               bool add) {
  if (pass == ConvPass::weight_gradient) return weight_gradient(s, y, a, b, add);
  const DenseOutput result(y);
  Tensor wide;
  const bool through_f32 = bias && is_half(y.dtype);  // so that the sum with the bias is rounded only once
  if (through_f32) wide = Tensor::allocate(y.sizes, f32, y.device);
  const View out = through_f32 ? wide.view() : result.view;
  if (pass == ConvPass::forward) forward(s, out, a, b);
  else input_gradient(s, out, a, b);
  if (bias) add_bias(result.view, out, bias);
  result.finish();
}

// The same information as key_of, as numbers.
using ConvNumbers = KeyNumbers<sizeof(ConvShape) / sizeof(std::int64_t) + 2>;
ConvNumbers numbers_of(const Kind& k, const ConvShape& s) {
  ConvNumbers n;
  static_assert(std::has_unique_object_representations_v<ConvShape> &&
                sizeof(n) == sizeof s + 2 * sizeof(std::int64_t));
  std::memcpy(n.data() + 2, &s, sizeof s);
  n[0] = static_cast<std::int64_t>(k.pass) | static_cast<std::int64_t>(k.layout) << 8 |
         static_cast<std::int64_t>(k.in) << 16 | static_cast<std::int64_t>(k.out) << 24 |
         std::int64_t{k.has_bias} << 32 | std::int64_t{k.add} << 33 | std::int64_t{is_tf32_allowed()} << 34 |
         std::int64_t{k.relu} << 35;
  n[1] = current_device();
  return n;
}

// One implementation: unfolding, or one of cuDNN's plans.
struct ConvWay {
  enum Kind { cudnn_with_relu, cudnn_with_bias, cudnn, cudnn_unrounded, unfold } kind;
  int plan;
};
std::string name_of(const ConvWay& w) {
  constexpr const char* names[] = {"cudnn with relu ", "cudnn with bias ", "cudnn ", "cudnn unrounded "};
  return w.kind == ConvWay::unfold ? "unfold" : concat(names[w.kind], w.plan);
}
std::vector<ConvWay> ways_for(const Kind& kind) {
  std::vector<ConvWay> ways;
  if (has_cudnn()) {
    const auto add = [&](ConvWay::Kind k, int most) {
      for (int plan = 0; plan < most; ++plan) ways.push_back({k, plan});
    };
    // f16 and bf16 with a relu or a bias: try the fused plans first, with a pass or two less and a single rounding.
    if (kind.relu && is_half(kind.in) && kind.layout == Layout::channels_last)  // it has no engines for other layouts
      add(ConvWay::cudnn_with_relu, most_cudnn_relu_plans);
    if (kind.has_bias && is_half(kind.in)) add(ConvWay::cudnn_with_bias, most_cudnn_plans);
    add(ConvWay::cudnn, most_cudnn_plans);
    // A weight gradient in f32 that is not rounded before; how fast that is, only the tuner knows.
    if (kind.in != kind.out) add(ConvWay::cudnn_unrounded, most_cudnn_unrounded_plans);
  }
  ways.push_back({ConvWay::unfold, 0});
  return ways;
}

// One convolution, with operands copied to other layouts on demand.
struct Convolution {
  const Kind& kind;
  const ConvShape& s;
  const View &y, &bias;
  const ConvRelu& relu;
  Operand left, right, row;

  // False if the way is not applicable.
  bool run(const ConvWay& way) {
    const ConvPass pass = kind.pass;
    const Layout layout = kind.layout;
    if (way.kind == ConvWay::unfold) {
      if (layout == Layout::channels_last && s.groups == 1 && s.is_image()) {
        const View images = pass == ConvPass::input_gradient ? left.in(layout) : left.as_it_is();
        conv_channels(pass, s, y, images, right.in(layout), row.in(Layout::contiguous), kind.add);
      } else {
        by_planes(pass, s, y, left.in(Layout::contiguous), right.in(Layout::contiguous), bias, kind.add);
      }
      relu.apply_to(y);
      return true;
    }
    const bool with_relu = way.kind == ConvWay::cudnn_with_relu;
    const bool with_bias = with_relu || way.kind == ConvWay::cudnn_with_bias;
    const View inside = with_bias ? row.in(Layout::contiguous) : View{};
    std::optional<Operand> third;
    if (with_relu && relu.made) third.emplace(*relu.made, kind.in);
    const View made = third ? third->in(layout) : View{};
    const ConvRelu relu_inside{with_relu && relu.after, third ? &made : nullptr};
    const Dtype dtype = way.kind == ConvWay::cudnn_unrounded ? kind.out : kind.in;
    Tensor apart;
    if (dtype != kind.out || kind.add || !lies_in(y, layout))
      apart = Tensor::allocate(y.sizes, dtype, y.device, layout);
    const View result = apart.defined() ? apart.view() : y;
    if (!run_cudnn(pass, s, layout, result, left.in(layout), right.in(layout), inside, relu_inside, way.plan))
      return false;
    if (bias && !with_bias) add_bias(result, result, bias);
    if (apart.defined()) put(y, result, kind.add);
    if (!with_relu) relu.apply_to(y);
    return true;
  }
};

}  // namespace

void conv2d(ConvPass pass, const ConvShape& s, const View& y, const View& a, const View& b, const View& bias,
            bool add, const ConvRelu& relu) {
  static thread_local Settled<std::tuple_size_v<ConvNumbers>, ConvWay> settled;
  const Kind kind{pass, layout_of(pass, y, a, b), a.dtype, y.dtype, static_cast<bool>(bias), add, relu.any()};
  const ConvNumbers numbers = numbers_of(kind, s);
  Convolution c{kind, s, y, bias, relu, {a, kind.in}, {b, kind.in}, {bias, kind.in}};
  if (const auto at = settled.find(numbers); at != settled.end() && c.run(at->second)) return;

  const std::vector<ConvWay> all = ways_for(kind);
  std::vector<Way> ways;
  for (const ConvWay& w : all) ways.push_back({name_of(w), [&c, &w] { return c.run(w); }});
  const Choice choice = run_fastest(key_of(kind, s), ways, {std::span(&y, 1), add, rounding_of(kind.in)});
  if (choice.settled) settled.insert_or_assign(numbers, all[choice.way]);
}

}  // namespace mantissa::cuda_backend
