// Channels-last images and volumes on the CUDA device: every operator agrees with f64 on the CPU for contiguous ones,
// and those that promise it keep the layout, forward and backward.
#include <functional>

#include "autograd/hooks.h"
#include "core/accelerator.h"
#include "core/layout.h"
#include "mantissa.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

bool has_layout(const Tensor& t) { return t.defined() && (t.dim() == 4 || t.dim() == 5); }
bool has_images(const Sample& s) { return std::any_of(s.inputs.begin(), s.inputs.end(), has_layout); }
Tensors moved_to_cuda(const Tensors& x) {
  Tensors y;
  for (const Tensor& t : x) {
    const bool wanted = t.defined() && t.requires_grad();
    const bool moved = t.defined() && !t.is_weak_scalar();
    y.push_back(!moved ? t : has_layout(t) ? channels_last(t.detach().to(cuda)) : t.detach().to(cuda));
    if (wanted) y.back().requires_grad_();
  }
  return y;
}
bool is_last(const Tensor& t) { return is_channels_last(t.sizes(), t.strides()); }
// Strides do not allow the view: reshape() copies where its operator refuses.
bool refuses(const OpInfo& op, const Sample& s, const Tensors& x) {
  return op.is_view && message_of([&] { run(op, s, x); }).find("do not allow a view") != std::string::npos;
}
Tensors gradients_of(const OpInfo& op, const Sample& s, const Tensors& x) {
  Tensors roots, v;
  for (const Tensor& y : run(op, s, x)) {
    if (!y.requires_grad()) continue;
    roots.push_back(y);
    v.push_back(cast(random_tensor(y.sizes(), 77 + v.size()), y.dtype()).to(y.device()));
  }
  return grad(roots, leaves(x), v, {.allow_unused = true});
}
bool nothing_to_test() {
  if (!cuda_is_available()) WARN("no GPU: nothing was tested");
  return !cuda_is_available();
}

}  // namespace

TEST_CASE("channels-last inputs give on cuda what contiguous ones give on the cpu") {
  if (nothing_to_test()) return;
  for_each_sample([](const OpInfo& op, const Sample& s) {
    if (!has_images(s)) return;
    for (Dtype dtype : {f64, f32, f16, bf16}) {
      if (!op.halves && is_half(dtype)) continue;
      INFO(name_of(dtype));
      const Tensors x = prepared(s, dtype), exact = in_f64(x), moved = moved_to_cuda(x);
      if (refuses(op, s, moved)) continue;
      const Tensors expected = run(op, s, exact), y = run(op, s, moved);
      REQUIRE(y.size() == expected.size());
      for (std::size_t k = 0; k < y.size(); ++k) {
        INFO("result " << k);
        if (!y[k].defined() || !y[k].is_floating()) continue;
        const Nan nan = s.extreme ? Nan::equal : Nan::differs;
        CHECK(difference(y[k], expected[k], tolerance_for(y[k].dtype(), sum_length(op, s), scale_of(exact)), nan) ==
              "");
      }
    }
  });
}

TEST_CASE("gradients of channels-last inputs on cuda are those of contiguous ones") {
  if (nothing_to_test()) return;
  for_each_sample([](const OpInfo& op, const Sample& s) {
    if (!has_images(s) || !can_differentiate(op, s)) return;
    const Tensors x = wanting_gradients(op, prepared(s, f64)), moved = moved_to_cuda(x);
    if (refuses(op, s, moved)) return;
    const Tensors expected = gradients_of(op, s, x), g = gradients_of(op, s, moved);
    REQUIRE(g.size() == expected.size());
    for (std::size_t k = 0; k < g.size(); ++k)
      if (g[k].defined()) CHECK(difference(g[k], expected[k], {1e-9, 1e-9}) == "");
  });
}

TEST_CASE("operators on channels-last images and volumes keep the layout on cuda, forward and backward") {
  if (nothing_to_test()) return;
  const bool volumes = GENERATE(false, true);
  const auto sizes = [&](std::int64_t n, std::int64_t side) {
    return volumes ? Dims{n, 16, side, side, side} : Dims{n, 16, side, side};
  };
  for (const Dtype dtype : {f32, f16, bf16}) {
    const auto random = [&](const Dims& sizes) { return cast(randn(sizes), dtype).to(cuda); };
    const Tensor x = channels_last(random(sizes(2, 4))), other = random(sizes(2, 4)), bias = random(sizes(1, 1));
    CHECK(is_last(x));
    const auto check_kept = [&](const char* what, auto&& f) {
      INFO(what << (volumes ? " of volumes in " : " of images in ") << name_of(dtype));
      Tensor leaf = x.detach();
      leaf.requires_grad_();
      Tensor seen;
      const Tensor inner = leaf * 2.0;
      inner.on_grad([&](const Tensor& g) { seen = g; return Tensor(); });
      const Tensor y = f(inner);
      CHECK(is_last(y));
      y.backward(cast(ones(y.sizes()), y.dtype()).to(cuda));  // a contiguous gradient, as it comes out of flatten
      REQUIRE(seen.defined());
      CHECK(is_last(seen));
    };
    const auto norm = [&](const Tensor& t, const Tensor& z) {
      return batch_norm_relu(t, {}, {}, {}, {}, true, 0.1, 1e-5, z);
    };
    check_kept("relu", [](const Tensor& t) { return relu(t); });
    check_kept("gelu", [](const Tensor& t) { return gelu(t); });
    check_kept("a sum with a contiguous tensor", [&](const Tensor& t) { return relu(other + t); });
    check_kept("a product with one number per channel", [&](const Tensor& t) { return relu(t * bias); });
    check_kept("where", [&](const Tensor& t) { return sigmoid(where(t > 0.0, t, other)); });
    check_kept("cast", [](const Tensor& t) { return relu(cast(t, f64)); });
    check_kept("batch_norm", [&](const Tensor& t) { return batch_norm(t, {}, {}, {}, {}, true); });
    check_kept("batch_norm_relu", [&](const Tensor& t) { return norm(t, {}); });
    check_kept("batch_norm_relu with a residual", [&](const Tensor& t) { return norm(t, other); });
    check_kept("group_norm", [](const Tensor& t) { return group_norm(t, 4); });
    check_kept("instance_norm", [](const Tensor& t) { return instance_norm(t); });
    check_kept("dropout", [](const Tensor& t) { return dropout(t, 0.25); });
    if (volumes) {
      check_kept("max_pool3d", [](const Tensor& t) { return max_pool3d(t, 2); });
      check_kept("adaptive_max_pool3d", [](const Tensor& t) { return adaptive_max_pool3d(t, {2, 3, 1}); });
      check_kept("avg_pool3d", [](const Tensor& t) { return avg_pool3d(t, 2); });
      check_kept("adaptive_avg_pool3d", [](const Tensor& t) { return adaptive_avg_pool3d(t, 1); });
    } else {
      check_kept("max_pool2d", [](const Tensor& t) { return max_pool2d(t, {2, 2}); });
      check_kept("max_pool2d_with_indices", [](const Tensor& t) { return max_pool2d_with_indices(t, {2, 2}).values; });
      check_kept("avg_pool2d", [](const Tensor& t) { return avg_pool2d(t, {2, 2}); });
      check_kept("adaptive_avg_pool2d", [](const Tensor& t) { return adaptive_avg_pool2d(t, {2, 2}); });
    }
    if (is_half(dtype)) {
      const Tensor filter = random(volumes ? Dims{16, 16, 3, 3, 3} : Dims{16, 16, 3, 3});
      check_kept("conv", [&](const Tensor& t) {
        return volumes ? conv3d(t, filter, {}, {.padding = 1}) : conv2d(t, filter, {}, {.padding = {1, 1}});
      });
    }
    CHECK(is_last(cat({x, other}, 1)));
    CHECK(is_last(pad(x, {1, 1, 1, 1})));
    CHECK(same_bits(x.to(cpu), contiguous(x).to(cpu)));
    CHECK(is_last(x.to(cpu)));
  }
}

TEST_CASE("pooling of channels-last volumes, eight channels at a time, has the bits of contiguous ones") {
  if (nothing_to_test()) return;
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> pools[] = {
      {"max", [](const Tensor& t) { return max_pool3d(t, 3, {.stride = 2, .padding = 1}); }},
      {"max, dilated", [](const Tensor& t) { return max_pool3d(t, 2, {.stride = 1, .dilation = 2}); }},
      {"adaptive max", [](const Tensor& t) { return adaptive_max_pool3d(t, {2, 3, 4}); }},
      {"average", [](const Tensor& t) { return avg_pool3d(t, 3, {.stride = 2, .padding = 1}); }},
      {"adaptive average", [](const Tensor& t) { return adaptive_avg_pool3d(t, {3, 2, 5}); }}};
  for (const Dtype dtype : {f32, f16, bf16}) {
    const Tensor x = cast(random_tensor({2, 16, 5, 6, 7}, 3), dtype).to(cuda);
    for (const auto& [what, pool] : pools) {
      INFO(what << " in " << name_of(dtype));
      Tensors results;
      for (const bool last : {false, true}) {
        const Tensor leaf = (last ? channels_last(x) : contiguous(x)).detach().requires_grad_(), y = pool(leaf);
        CHECK(is_last(y) == last);
        y.backward(cast(random_tensor(y.sizes(), 4), dtype).to(cuda));
        results.insert(results.end(), {y.detach().to(cpu), leaf.grad().to(cpu)});
      }
      CHECK(same_bits(results[0], results[2]));
      CHECK(same_bits(results[1], results[3]));
    }
  }
}

TEST_CASE("convolutions of channels-last images are those of contiguous ones") {
  if (nothing_to_test()) return;
  struct Case { Dims x, weight; Conv2dOptions options; };
  const Case cases[] = {{{2, 3, 9, 7}, {16, 3, 3, 3}, {.padding = {1, 1}}},
                        {{2, 16, 8, 8}, {24, 16, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
                        {{3, 16, 5, 6}, {8, 16, 1, 1}, {}},
                        {{2, 16, 6, 6}, {16, 16, 1, 1}, {.stride = {2, 2}}},
                        {{2, 8, 7, 9}, {16, 8, 3, 2}, {.padding = {2, 1}, .dilation = {2, 2}}},
                        {{2, 16, 6, 6}, {16, 8, 3, 3}, {.padding = {1, 1}, .groups = 2}},
                        {{2, 1, 6, 6}, {16, 1, 5, 5}, {}}};
  for (const Case& c : cases) {
    for (const Dtype dtype : {f16, bf16, f32}) {
      for (const bool last : {false, true}) {
        INFO(concat(c.x, " * ", c.weight, " in ", dtype, last ? ", channels-last" : ""));
        const Tensors inputs{cast(randn(c.x), dtype), cast(randn(c.weight), dtype), cast(randn({c.weight[0]}), dtype)};
        const auto differentiated = [&](Device device, Dtype t, bool moved) {
          Tensors x;
          for (const Tensor& input : inputs) x.push_back(cast(input, t).to(device));
          if (moved) x[0] = channels_last(x[0]);
          for (Tensor& input : x) input.requires_grad_();
          const Tensor y = conv2d(x[0], x[1], x[2], c.options);
          const Tensors v{cast(cast(random_tensor(y.sizes(), 5), dtype), t).to(device)};
          Tensors g = grad(Tensors{y}, x, v);
          g.push_back(y.detach());
          return g;
        };
        const Tensors expected = differentiated(cpu, f64, false), found = differentiated(cuda, dtype, last);
        const double bound = dtype == f32 ? 1e-4 : dtype == f16 ? 1e-2 : 6e-2;
        for (std::size_t k = 0; k < found.size(); ++k) {
          INFO("tensor " << k);
          CHECK(difference(found[k], expected[k], {bound, bound * 4}) == "");
        }
      }
    }
  }
}

TEST_CASE("a net of convolutions trains to the same bits with weights in either order") {
  if (nothing_to_test()) return;
  struct Net {
    nn::Conv2d first{3, 16, 3, {.padding = 1, .bias = false}}, second{16, 16, 3, {.stride = 2}}, third{16, 24, 1};
    nn::BatchNormAct2d norm{16};
    nn::Linear head{24 * 3 * 3, 5};
    MANTISSA_FIELDS(first, norm, second, third, head)
    Tensor operator()(const Tensor& x) const { return head(flatten(third(relu(second(norm(first(x))))), 1)); }
  };
  for (const Dtype dtype : {f32, bf16, f16}) {
    std::vector<Tensor> expected;
    for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
      manual_seed(3);
      Net net;
      nn::to(net, cuda);
      nn::to(net, layout);
      optim::Sgd o(nn::named_parameters(net), {.lr = 0.1, .momentum = 0.9});
      amp::GradScaler scaler({.init_scale = 16, .enabled = dtype == f16});
      const Tensor x = randn({4, 3, 8, 8}).to(cuda);
      const auto add_gradients = [&] {
        const Tensor loss = amp::autocast(dtype, [&] { return net(x).square().mean(); });
        backward(scaler.scale(loss));
      };
      for (int step = 0; step < 3; ++step) {
        o.zero_grad();
        for (int micro_batch = 0; micro_batch <= step; ++micro_batch) add_gradients();
        if (layout == Layout::channels_last) CHECK((dtype == f32 || is_last(net.first.weight.grad())));
        scaler.step(o);
        scaler.update();
      }
      const NamedTensors parameters = nn::named_parameters(net);
      if (expected.empty())
        for (const auto& entry : parameters) expected.push_back(entry.second.detach().clone());
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        INFO(parameters[i].first << " in " << name_of(dtype));
        CHECK(same_bits(parameters[i].second, expected[i]));
      }
    }
  }
}
