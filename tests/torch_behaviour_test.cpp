// Details in which users of PyTorch would notice a difference: unbatched images, zero gradients, invalid broadcasts.
// Expected values were printed by PyTorch.
#include <cmath>

#include "autograd/backward.h"
#include "core/ops_matrix.h"
#include "core/ops_special.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {
Tensor gradient(const Tensor& y, const Tensor& x) { return grad(sum(y), {x})[0]; }
}  // namespace

TEST_CASE("images without a batch give what a batch of one gives") {
  const auto same = [](auto f, const Dims& sizes) {
    const Tensor x = random_tensor(sizes, 1), one = unsqueeze(x, 0);
    CHECK(same_bits(f(x), squeeze(f(one), 0)));
  };
  const Tensor k1 = random_tensor({2, 3, 2}, 2), k2 = random_tensor({2, 3, 2, 2}, 3);
  const Tensor k3 = random_tensor({2, 3, 2, 2, 2}, 4);
  const Dims line{3, 6}, image{3, 6, 7}, volume{3, 4, 5, 4};
  same([&](const Tensor& x) { return conv1d(x, k1); }, line);
  same([&](const Tensor& x) { return conv2d(x, k2); }, image);
  same([&](const Tensor& x) { return conv3d(x, k3); }, volume);
  same([&](const Tensor& x) { return conv_transpose1d(x, transpose(k1, 0, 1)); }, line);
  same([&](const Tensor& x) { return conv_transpose2d(x, transpose(k2, 0, 1)); }, image);
  same([&](const Tensor& x) { return conv_transpose3d(x, transpose(k3, 0, 1)); }, volume);
  same([&](const Tensor& x) { return max_pool1d(x, 2) + avg_pool1d(x, 2); }, line);
  same([&](const Tensor& x) { return adaptive_avg_pool1d(x, 4) + adaptive_max_pool1d(x, 4); }, line);
  same([&](const Tensor& x) { return max_pool2d(x, 2) + avg_pool2d(x, 2); }, image);
  same([&](const Tensor& x) { return adaptive_avg_pool2d(x, {4, 4}) + adaptive_max_pool2d(x, {4, 4}); }, image);
  same([&](const Tensor& x) { return max_pool2d(x, {2, 2}, {.dilation = {2, 2}}); }, image);
  same([&](const Tensor& x) { return avg_pool2d(x, {2, 2}, {.divisor_override = 3}); }, image);
  const std::array<int, 3> two{2, 2, 2};
  same([&](const Tensor& x) { return max_pool3d(x, two) + avg_pool3d(x, two); }, volume);
  same([&](const Tensor& x) { return adaptive_avg_pool3d(x, two) + adaptive_max_pool3d(x, two); }, volume);
  same([&](const Tensor& x) { return max_pool2d_with_indices(x, {2, 2}).indices; }, image);
  same([&](const Tensor& x) { return lp_pool2d(abs(x), 3, {2, 2}); }, image);
  same([&](const Tensor& x) { return unfold(x, {2, 3}); }, image);
  same([&](const Tensor& x) { return fold(x, {3, 3}, {1, 3}); }, {3, 3});
  const Tensor image_1 = random_tensor(image, 1);
  const ValuesIndices m = max_pool2d_with_indices(image_1, {2, 2});
  CHECK(max_unpool2d(m.values, m.indices, {2, 2}, {}, {6, 7}).sizes() == image);
}

TEST_CASE("gradients that are zero exist") {
  const Tensor x = tensor({{1, 0}, {-2, 3}, {NAN, 0}}, {.dtype = f64}).requires_grad_();
  CHECK(norm(x, 0).item<double>() == 4);
  CHECK(same_bits(gradient(norm(x, 0), x).detach(), zeros({3, 2}, {.dtype = f64})));
  const Tensor points = tensor({{1, 2}, {3, 2}}, {.dtype = f64}).requires_grad_();
  CHECK(all_close(gradient(cdist(points, points.detach(), 0), points), zeros({2, 2}, {.dtype = f64})));
  CHECK(all_close(gradient(pdist(points, 0), points), zeros({2, 2}, {.dtype = f64})));
  const Tensor image = random_tensor({1, 1, 3, 3}, 1), grid = random_tensor({1, 2, 2, 2}, 2).requires_grad_();
  CHECK(all_close(gradient(grid_sample(image, grid, {.mode = "nearest"}), grid), zeros({1, 2, 2, 2}, {.dtype = f64})));
}

// PyTorch's numbers. Points exactly on elements have the slope towards the next one; points clamped to a border get no
// gradient, and points on the border count as clamped.
TEST_CASE("the gradient of a grid whose points lie on elements") {
  const Tensor x = reshape(square(arange(15, {.dtype = f64})), {1, 1, 3, 5});
  const Tensor same = affine_grid(tensor({{1, 0, 0}, {0, 1, 0}}, {.dtype = f64}).unsqueeze(0), {1, 1, 3, 5}, true);
  const auto gradient_with = [&](std::string_view padding, const Tensor& image) {
    const Tensor grid = same.clone().requires_grad_();
    const Tensor y = sum(grid_sample(image, grid, {.padding_mode = padding, .align_corners = true}));
    const Tensor inputs[] = {grid};
    const Tensor recorded = grad(y, inputs, {.create_graph = true})[0];  // by gathers, as on a GPU
    const Tensor found = grad(y, inputs)[0];
    CHECK(all_close(found, recorded.detach()));
    return found;
  };
  const Tensor zeros_mode = tensor({{2, 25, 6, 35, 10, 45, 14, 55, -32, 65},
                                    {22, 75, 26, 85, 30, 95, 34, 105, -162, 115},
                                    {42, -100, 46, -121, 50, -144, 54, -169, -392, -196}}, {.dtype = f64});
  const Tensor held = tensor({{0, 0, 6, 0, 10, 0, 14, 0, 0, 0},
                              {0, 75, 26, 85, 30, 95, 34, 105, 0, 115},
                              {0, 0, 46, 0, 50, 0, 54, 0, 0, 0}}, {.dtype = f64});
  CHECK(all_close(reshape(gradient_with("zeros", x), {3, 10}), zeros_mode));
  CHECK(all_close(reshape(gradient_with("border", x), {3, 10}), held));
  CHECK(all_close(reshape(gradient_with("reflection", x), {3, 10}), held));
  const Tensor large = x / Tensor(0.0);  // what a point does not touch may be infinite
  const Tensor outside = full({1, 1, 1, 2}, 3, {.dtype = f64});
  CHECK(grid_sample(large, outside).item<double>() == 0);
  CHECK(grid_sample(x, full({1, 1, 1, 2}, NAN, {.dtype = f64})).item<double>() == 0);
  for (const Dtype dtype : {f64, f32, bf16}) {  // by kernels and by gathers
    for (const char* mode : {"bilinear", "bicubic", "nearest"}) {
      INFO(name_of(dtype) << " " << mode);
      const Tensor image = large.to(dtype), grid = outside.clone().to(dtype).detach().requires_grad_();
      const Tensor y = grid_sample(image, grid, {.mode = mode});
      CHECK(y.item<double>() == 0);
      CHECK(all_close(gradient(y, grid).to(f64), zeros({1, 1, 1, 2}, {.dtype = f64})));
      const Tensor inputs[] = {grid};
      const Tensor recorded = grad(grid_sample(image, grid, {.mode = mode}), inputs, {.create_graph = true})[0];
      CHECK(all_close(recorded.detach().to(f64), zeros({1, 1, 1, 2}, {.dtype = f64})));
      if (mode == std::string_view("bicubic")) continue;  // where its neighbours are moved to the border
      const Tensor corner = zeros({1, 1, 3, 5}, {.dtype = dtype});
      corner.slice(2, 0, 1).slice(3, 0, 1).fill_(HUGE_VAL);  // not read by a point at the other end
      const Tensor held = grid_sample(corner, grid.detach(), {.mode = mode, .padding_mode = "border"});
      CHECK(held.item<double>() == 0);
      const Tensor nowhere = full({1, 1, 1, 2}, NAN, {.dtype = dtype});
      CHECK(grid_sample(corner, nowhere, {.mode = mode, .padding_mode = "border"}).item<double>() == 0);
    }
  }
}

TEST_CASE("pow, erf and gelu at the ends of their dtype's range") {
  const auto values = [](const Tensor& t) { return t.to_vector<double>(); };
  const std::vector<double> interesting{0, -0.0, 1, -1, 2, -2, 0.5, -2.5, 3, 20, 1e5, HUGE_VAL, -HUGE_VAL, NAN};
  for (const Dtype dtype : {f64, f32}) {
    for (const double exponent : interesting) {
      const Tensor x = from_data(interesting, {14}).to(dtype), y = pow(x, full({14}, exponent, {.dtype = dtype}));
      for (std::size_t i = 0; i < interesting.size(); ++i) {
        INFO("pow(" << interesting[i] << ", " << exponent << ") in " << name_of(dtype));
        const double got = values(y)[i], expected = dtype == f64 ? std::pow(interesting[i], exponent)
                             : std::pow(static_cast<float>(interesting[i]), static_cast<float>(exponent));
        if (std::isnan(expected)) CHECK(std::isnan(got));
        else if (std::isinf(expected) || expected == 0) CHECK((got == expected && 1 / got == 1 / expected));
        else CHECK(got == Approx(expected).epsilon(1e-5));
      }
    }
  }
  const Tensor far = tensor({1e150, -1e200, 3e307, -3e307}, {.dtype = f64}).requires_grad_();
  CHECK(values(erf(far).detach()) == std::vector<double>{1, -1, 1, -1});
  CHECK(values(gelu(far).detach()) == std::vector<double>{1e150, 0, 3e307, 0});
  CHECK(values(gradient(gelu(far), far)) == std::vector<double>{1, 0, 1, 0});
}

TEST_CASE("logit has no gradient outside [0, 1]") {
  const Tensor x = tensor({-0.5, 0.3, 1, 1.5}, {.dtype = f64}).requires_grad_();
  const Tensor y = logit(x), g = gradient(y, x);
  CHECK(to_string(isnan(y)) == to_string(isnan(g)));
  CHECK(g[1].item<double>() == Approx(1 / (0.3 * 0.7)));
  CHECK(isinf(g[2]).item<bool>());
}

TEST_CASE("a loss refuses a target that would repeat x") {
  const Tensor x = zeros({3, 1}), target = zeros({3});
  for (auto loss : {&mse_loss, &l1_loss}) {
    CHECK_THAT(message_of([&] { loss(x, target, Reduction::mean); }),
               Contains("target has shape [3], which does not broadcast to x's [3, 1]"));
  }
  CHECK_THAT(message_of([&] { smooth_l1_loss(x, target); }), Contains("does not broadcast"));
  CHECK_THAT(message_of([&] { huber_loss(x, target); }), Contains("does not broadcast"));
  CHECK(mse_loss(ones({3, 2}), zeros({})).item() == 1);
}

TEST_CASE("histc refuses a range that is not finite, and without one an element that is not") {
  const Tensor x = tensor({1, HUGE_VAL});
  CHECK_THAT(message_of([&] { histc(x, 3); }), Contains("the range of x, [1, inf], is not finite; give min and max"));
  CHECK_THAT(message_of([&] { histc(tensor({1, NAN}), 3); }), Contains("is not finite"));
  CHECK(same_bits(histc(tensor({1, HUGE_VAL, NAN, 2}), 3, 0, 3), tensor({0, 1, 1}, {.dtype = f32})));
}

TEST_CASE("second derivatives of activations are 0 where they are flat, however large the number") {
  const std::vector<std::pair<const char*, Tensor (*)(const Tensor&)>> activations{
      {"silu", silu}, {"mish", mish}, {"logsigmoid", logsigmoid}, {"selu", selu}, {"sigmoid", sigmoid},
      {"softplus", [](const Tensor& x) { return softplus(x); }}, {"elu", [](const Tensor& x) { return elu(x); }},
      {"celu", [](const Tensor& x) { return celu(x, -0.5); }}, {"gelu", [](const Tensor& x) { return gelu(x); }}};
  for (const auto& [name, f] : activations) {
    for (const Dtype dtype : {f32, f64}) {
      // celu with a negative alpha grows to the left, like PyTorch's.
      const bool right_only = std::string_view(name) == "celu";
      for (const double number : {1e4, 1e10, -1e4, -1e10}) {
        if (right_only && number < 0) continue;
        INFO(name << " of " << number << " in " << name_of(dtype));
        const Tensor x = full({3}, number, {.dtype = dtype}).requires_grad_();
        const Tensor first = grad(sum(f(x)), {x}, {.create_graph = true})[0];
        if (!first.requires_grad()) continue;
        const std::vector<Tensor> second = grad(std::vector{sum(first)}, std::vector{x}, {}, {.allow_unused = true});
        if (second[0].defined()) CHECK(same_bits(abs(second[0]), zeros({3}, {.dtype = dtype})));
      }
    }
  }
  // And values printed by PyTorch near the ends, in f64.
  const auto second_of = [](Tensor (*f)(const Tensor&), double number) {
    const Tensor x = scalar(number, {.dtype = f64}).requires_grad_();
    return grad(grad(f(x), {x}, {.create_graph = true})[0], {x})[0].item<double>();
  };
  CHECK(second_of(silu, -50) == Approx(-9.257999270226807e-21).epsilon(1e-9));
  CHECK(second_of(mish, -20) == Approx(-3.710076504245659e-08).epsilon(1e-9));
  CHECK(second_of(selu, -3) == Approx(0.08753061208026487).epsilon(1e-9));
}

TEST_CASE("the gradients of losses are the same whether they are recorded or not, at their edges too") {
  const auto both = [](const char* name, const auto& loss, const Tensor& at) {
    INFO(name);
    const Tensor x = at.clone().requires_grad_();
    const Tensor plain = grad(loss(x), {x})[0], recorded = grad(loss(x), {x}, {.create_graph = true})[0].detach();
    CHECK(same_bits(isnan(plain), isnan(recorded)));
    CHECK(all_close(where(isnan(plain), Tensor(0.0), plain), where(isnan(recorded), Tensor(0.0), recorded)));
    return plain;
  };
  const Tensor logits = tensor({{1.0, 2.0}, {HUGE_VAL, 4.0}}, {.dtype = f64}), none = full({2}, -100, {.dtype = i64});
  for (const double smoothing : {0.0, 0.1}) {
    const auto loss = [&](const Tensor& target) {
      return [&, target](const Tensor& x) { return cross_entropy(x, target, {.label_smoothing = smoothing}); };
    };
    CHECK(same_bits(both("all ignored", loss(none), logits), zeros({2, 2}, {.dtype = f64})));  // the loss is NaN
    both("one ignored", loss(tensor({1, -100})), logits);
  }
  both("nll_loss", [&](const Tensor& x) { return nll_loss(x, none); }, logits);
  const Tensor infinite = tensor({HUGE_VAL, -HUGE_VAL, 1.0, NAN}, {.dtype = f64});
  both("huber_loss", [&](const Tensor& x) { return huber_loss(x, infinite); }, infinite);
  both("smooth_l1_loss", [&](const Tensor& x) { return smooth_l1_loss(x, infinite); }, infinite);
  const Tensor x = tensor({NAN, 5.0, 0.25}, {.dtype = f64}).requires_grad_();
  const Tensor first = grad(huber_loss(x, zeros({3}, {.dtype = f64}), Reduction::sum), {x}, {.create_graph = true})[0];
  CHECK(same_bits(gradient(first, x), tensor({0.0, 0.0, 1.0}, {.dtype = f64})));
}

TEST_CASE("the spectral norm of a matrix without elements is 0") {
  CHECK(matrix_norm(zeros({0, 3}), 2).item<double>() == 0);
  CHECK(same_bits(matrix_norm(zeros({2, 3, 0}), 2, {-2, -1}, true), zeros({2, 1, 1})));
}

TEST_CASE("a volume of one layer is convolved as an image, with its gradients") {
  for (const Dtype dtype : {f64, f32, f16, bf16}) {
    for (const int stride : {1, 2, 3}) {
      for (const int groups : {1, 2}) {
        INFO(name_of(dtype) << ", stride " << stride << ", groups " << groups);
        const Tensor image = random_tensor({2, 4, 5, 6}, 1).to(dtype).requires_grad_();
        const Tensor weight = random_tensor({4, 4 / groups, 2, 3}, 2).to(dtype).requires_grad_();
        const auto same = [&](auto on_images, auto on_volumes) {
          const Tensor y = on_images(image, weight);
          const Tensor z = squeeze(on_volumes(unsqueeze(image, 2), unsqueeze(weight, 2)), 2);
          CHECK(all_close(z.detach(), y.detach()));
          const std::vector<Tensor> of_image = grad(sum(square(y.to(f32))), {image, weight});
          const std::vector<Tensor> of_volume = grad(sum(square(z.to(f32))), {image, weight});
          for (const std::size_t i : {0u, 1u})
            CHECK(all_close(of_volume[i], of_image[i], {is_half(dtype) ? 0.05 : 1e-4, is_half(dtype) ? 0.02 : 1e-4}));
        };
        same([&](const Tensor& x, const Tensor& w) { return conv2d(x, w, {}, {.stride = stride, .groups = groups}); },
             [&](const Tensor& x, const Tensor& w) {
               return conv3d(x, w, {}, {.stride = {1, stride, stride}, .groups = groups});
             });
        same([&](const Tensor& x, const Tensor& w) {
               return conv_transpose2d(x, w, {}, {.stride = stride, .padding = 1, .groups = groups});
             },
             [&](const Tensor& x, const Tensor& w) {
               return conv_transpose3d(
                   x, w, {}, {.stride = {1, stride, stride}, .padding = {0, 1, 1}, .groups = groups});
             });
      }
    }
  }
}

TEST_CASE("conv_transpose takes an output_padding of a stride and more below the dilation, as PyTorch") {
  const Tensor x = arange(1, 11, 1, {.dtype = f64}).reshape({1, 1, 2, 5}), w = tensor({1.0, -2.0, 0.5}, {.dtype = f64});
  const Tensor y = conv_transpose2d(x, w.reshape({1, 1, 1, 3}), tensor({0.25}, {.dtype = f64}),
                                    {.padding = {0, 2}, .output_padding = {1, 2}, .dilation = {2, 3}});
  CHECK(y.sizes() == Dims{1, 1, 3, 9});
  const Tensor expected = tensor({3.25, 2.25, 1.25, -5.75, -7.25, -8.75, 1.75, 2.25, 2.75, 8.25, -2.75, -3.75,
                                  -15.75, -14.75, -16.25, 4.25, 4.75, 5.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25,
                                  0.25, 0.25, 0.25}, {.dtype = f64});
  CHECK(all_close(y.flatten(), expected));
  const Tensor three = tensor({1, 2, 3}, {.dtype = f64}).reshape({1, 1, 3}), two = full({1, 1, 1}, 2, {.dtype = f64});
  const Tensor line = conv_transpose1d(three, two, {}, {.padding = 1, .output_padding = 2, .dilation = 3});
  CHECK(all_close(line.flatten(), tensor({4, 6, 0}, {.dtype = f64})));
}
