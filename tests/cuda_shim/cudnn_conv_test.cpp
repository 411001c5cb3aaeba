// Convolutions by cuDNN (cuda/library/cudnn.cpp): every pass, dtype, layout and plan against the CPU in f64, with the
// shim's cuDNN, whose first engines give NaN, as they are not reproducible or sum in 16 bits.
#include <vector>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "core/accelerator.h"
#include "core/conv.h"
#include "core/layout.h"
#include "core/ops.h"
#include "cuda/cublaslt.h"
#include "cuda/cudnn.h"
#include "cuda/launches.h"
#include "mantissa.h"
#include "tests/cuda_shim/shim.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

// batch, channels in and out, groups; sizes of x and y; kernel, stride, padding, dilation. The last one is a volume.
const ConvShape shapes[] = {
    {2, 3, 5, 1, {7, 6}, {7, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {1, 4, 6, 2, {9, 8}, {4, 3}, {3, 2}, {2, 3}, {1, 0}, {1, 2}},
    {3, 8, 8, 8, {5, 5}, {3, 7}, {3, 1}, {1, 1}, {0, 1}, {1, 1}},
    {2, 16, 4, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {2, 3, 4, 1, {5, 6}, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {4, 2, 3, 2, 1, 1}},
};

// The two operands and the result of a pass.
struct Operands {
  Dims a, b, y;
};
Operands operands_of(const ConvShape& s, ConvPass pass) {
  const auto with = [&](std::int64_t outer, std::int64_t channels, std::int64_t depth, const std::int64_t(&plane)[2]) {
    return s.is_image() ? Dims{outer, channels, plane[0], plane[1]} : Dims{outer, channels, depth, plane[0], plane[1]};
  };
  const Dims image = with(s.batch, s.in_channels, s.depth.in, s.in);
  const Dims result = with(s.batch, s.out_channels, s.depth.out, s.out);
  const Dims filter = with(s.out_channels, s.in_channels / s.groups, s.depth.kernel, s.kernel);
  if (pass == ConvPass::forward) return {image, filter, result};
  if (pass == ConvPass::input_gradient) return {result, filter, image};
  return {image, result, filter};
}
Tensor on_cuda(const Tensor& t, Layout layout) {
  return layout == Layout::channels_last ? channels_last(t.to(cuda)) : t.to(cuda);
}

// How many plans computed the pass; each is held against the CPU. out: the result's dtype. relu: ConvRelu, where a NaN
// passes.
int check_plans(const ConvShape& s, ConvPass pass, Dtype dtype, Layout layout, bool has_bias, Dtype out,
                bool relu = false) {
  const Operands sizes = operands_of(s, pass);
  const Tensor a = cast(random_tensor(sizes.a, 1), dtype), b = cast(random_tensor(sizes.b, 2), dtype);
  const Tensor made = cast(mantissa::relu(random_tensor(sizes.y, 4)), dtype), there_made = on_cuda(made, layout);
  const bool backward = pass == ConvPass::input_gradient;
  if (relu) a[0].fill_(NAN);  // of the first image: relu, too, lets it pass
  const Tensor bias = has_bias ? cast(random_tensor({s.out_channels}, 3), dtype) : Tensor();
  const Tensor expected = Tensor::allocate(sizes.y, f64), made_f64 = cast(made, f64);
  const View exact_view = made_f64.view(), made_view = there_made.view();
  const auto relu_of = [&](const View& v) { return ConvRelu{relu && !backward, relu && backward ? &v : nullptr}; };
  kernels::conv2d(cpu, pass, s, expected.view(), cast(a, f64).view(), cast(b, f64).view(),
                  has_bias ? cast(bias, f64).view() : View{}, {}, false, relu_of(exact_view));
  const Tensor there_a = on_cuda(a, layout), there_b = on_cuda(b, layout);
  const Tensor there_bias = has_bias ? bias.to(cuda) : Tensor();
  int plans = 0;
  for (int plan = 0; plan < cuda_backend::most_cudnn_plans; ++plan) {
    INFO("plan " << plan);
    const Tensor y = Tensor::allocate(sizes.y, out, cuda, layout);
    if (!cuda_backend::run_cudnn(pass, s, layout, y.view(), there_a.view(), there_b.view(),
                                 has_bias ? there_bias.view() : View{}, relu_of(made_view), plan))
      continue;
    ++plans;
    const bool tf32 = dtype == f32 && is_tf32_allowed();
    const Tolerance t = tf32 ? Tolerance{2e-3, 1e-2} : tolerance_for(out, 100, 4);
    CHECK(difference(cast(y.to(cpu), f64), expected, t, relu ? Nan::equal : Nan::differs) == "");
  }
  return plans;
}

}  // namespace

TEST_CASE("cuDNN's plans for convolutions agree with the CPU, and those that break a promise are not used") {
  cuda_shim::set_cudnn(true);
  CHECK(cuda_backend::has_cudnn());
  for (const ConvShape& s : shapes) {
    for (const ConvPass pass : {ConvPass::forward, ConvPass::input_gradient, ConvPass::weight_gradient}) {
      for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
        for (const Dtype dtype : {f64, f32, f16, bf16}) {
          for (const bool has_bias : {false, true}) {
            if (has_bias && pass != ConvPass::forward) continue;
            INFO("shape " << &s - shapes << " pass " << static_cast<int>(pass) << " " << name_of(dtype)
                          << (layout == Layout::channels_last ? " channels-last" : "") << (has_bias ? " bias" : ""));
            // Of six, two are wrong, one wants too much memory, and one rounds f32 to TF32.
            CHECK(check_plans(s, pass, dtype, layout, has_bias, dtype) == (dtype == f32 ? 2 : 3));
            if (!is_half(dtype)) continue;
            const bool is_last = layout == Layout::channels_last || s.in_pixels() == 1;
            if (pass != ConvPass::weight_gradient)
              CHECK(check_plans(s, pass, dtype, layout, has_bias, dtype, true) == (is_last ? 3 : 0));
            if (pass != ConvPass::weight_gradient) continue;
            const bool has_f32 = is_last && s.groups == 1 && s.in_channels % 4 == 0;
            CHECK(check_plans(s, pass, dtype, layout, false, f32) == (has_f32 ? 3 : 0));
          }
        }
      }
    }
  }
  allow_tf32();
  CHECK(check_plans(shapes[0], ConvPass::forward, f32, Layout::contiguous, false, f32) == 3);
  allow_tf32(false);
  cuda_shim::set_cudnn(false);
}

TEST_CASE("cuDNN is not asked for tensors that are not aligned as its plans are told") {
  cuda_shim::set_cudnn(true);
  const ConvShape& s = shapes[0];
  const Operands sizes = operands_of(s, ConvPass::forward);
  const Tensor memory = zeros({2 * 3 * 7 * 6 + 1}).to(cuda), w = zeros(sizes.b).to(cuda), y = zeros(sizes.y).to(cuda);
  View a = reshape(slice(memory, 0, 0, 2 * 3 * 7 * 6), sizes.a).view();
  CHECK(cuda_backend::run_cudnn(ConvPass::forward, s, Layout::contiguous, y.view(), a, w.view(), {}, {}, 0));
  a.data = static_cast<char*>(a.data) + 4;
  CHECK_FALSE(cuda_backend::run_cudnn(ConvPass::forward, s, Layout::contiguous, y.view(), a, w.view(), {}, {}, 0));
  cuda_shim::set_cudnn(false);
}

TEST_CASE("a layer's convolution and both of its gradients are one call of cuDNN each, with the bias in the first") {
  cuda_shim::set_cudnn(true);
  const bool volumes = GENERATE(false, true);
  const Tensor x = random_tensor(volumes ? Dims{2, 4, 3, 6, 6} : Dims{2, 4, 6, 6}, 1);
  const Tensor w = random_tensor(volumes ? Dims{8, 4, 3, 3, 3} : Dims{8, 4, 3, 3}, 2), b = random_tensor({8}, 3);
  const auto convolve = [&](const std::vector<Tensor>& in) {
    return volumes ? conv3d(in[0], in[1], in[2], {.padding = 1}) : conv2d(in[0], in[1], in[2], {.padding = 1});
  };
  for (const Dtype region : {bf16, f16}) {
    INFO(name_of(region) << (volumes ? " volumes" : " images"));
    std::vector<Tensor> in;
    for (const Tensor& t : {x, w, b}) in.push_back(cast(t, f32).to(cuda).requires_grad_());
    const cuda_shim::CallCounter counter;
    const Tensor y = amp::autocast(region, [&] { return convolve(in); });
    CHECK(y.layout() == Layout::channels_last);
    const std::vector<Tensor> found = grad({cast(y, f32).sum()}, in);
    CHECK(counter.calls.at("cudnnBackendExecute") == 3);
    std::vector<Tensor> exact;
    for (const Tensor& t : {x, w, b}) exact.push_back(t.detach().requires_grad_());
    const Tensor z = convolve(exact);
    const std::vector<Tensor> expected = grad({z.sum()}, exact);
    CHECK(difference(cast(y.detach().to(cpu), f64), z.detach(), {0.03, 0.1}) == "");
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(difference(cast(found[i].to(cpu), f64), expected[i], {0.03, 0.1}) == "");
  }
  cuda_shim::set_cudnn(false);
}

TEST_CASE("relu before and after a convolution is part of its call of cuDNN") {
  cuda_shim::set_cudnn(true);
  nn::ConvReLU2d first(4, 8, 3, {.padding = 1}), second(8, 8, 3, {.padding = 1});
  nn::to(first, cuda), nn::to(second, cuda);
  const Tensor x = cast(random_tensor({2, 4, 6, 6}, 1), f32).to(cuda);
  for (const Dtype region : {bf16, f16}) {
    INFO(name_of(region));
    const Tensor image = x.clone().requires_grad_();
    const cuda_shim::CallCounter calls;
    const Tensor y = amp::autocast(region, [&] { return second(first(image)); });
    CHECK(calls.calls.at("cudnnBackendExecute") == 2);
    const cuda_backend::LaunchCounter launches;
    y.backward(ones_like(y));
    CHECK(calls.calls.at("cudnnBackendExecute") == 2 + 4);
    CHECK(launches.of("pointwise") == 1);  // of the last relu
    const Tensor exact = x.clone().requires_grad_();
    const Tensor z = relu(conv2d(relu(conv2d(exact, first.weight.detach(), first.bias.detach(), {.padding = 1})),
                                 second.weight.detach(), second.bias.detach(), {.padding = 1}));
    z.backward(ones_like(z));
    CHECK(difference(cast(y.detach().to(cpu), f64), cast(z.detach().to(cpu), f64), {0.03, 0.1}) == "");
    CHECK(difference(cast(image.grad().to(cpu), f64), cast(exact.grad().to(cpu), f64), {0.03, 0.1}) == "");
  }
  cuda_shim::set_cudnn(false);
}

namespace {

struct VolumeNet {
  nn::Conv3d conv1{1, 16, 3, {.padding = 1}}, conv2{16, 32, 3, {.padding = 1}}, last{32, 8, 1};
  nn::BatchNorm3d norm1{16}, norm2{32};
  MANTISSA_FIELDS(conv1, conv2, last, norm1, norm2)
  Tensor operator()(const Tensor& x) const {
    const Tensor y = max_pool3d(relu(norm1(conv1(x))), 2);
    return flatten(adaptive_avg_pool3d(last(relu(norm2(conv2(y)))), 1), 1);
  }
};

}  // namespace

TEST_CASE("a network of volumes rearranges none of them, only the weights of kernels larger than a pixel") {
  cuda_shim::set_cudnn(true);
  for (const Dtype region : {f16, bf16}) {
    INFO(name_of(region));
    VolumeNet net;
    nn::to(net, cuda);
    const Tensor x = randn({2, 1, 4, 6, 6}).to(cuda);
    cuda_backend::LaunchCounter forward;
    const Tensor loss = amp::autocast(region, [&] { return sum(net(x)); });
    CHECK(forward.of("rearrange") == 1);  // the weight of conv2: conv1's has one channel
    cuda_backend::LaunchCounter backward;
    loss.backward();
    CHECK(backward.of("rearrange") == 1 + 1);  // for its input gradient, and its weight gradient
    for (const Tensor& p : nn::parameters(net)) CHECK(p.grad().is_contiguous());
  }
  cuda_shim::set_cudnn(false);
}
