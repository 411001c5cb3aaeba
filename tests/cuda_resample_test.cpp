// Interpolation, padding with a tensor's own elements and sampling at points on the CUDA device, compared with f64 on
// the CPU: images and volumes in both layouts, with few and many taps, and with one thread for one element or eight.
#include <functional>
#include <limits>

#include "core/accelerator.h"
#include "nn/roi_align.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

using Map = std::function<Tensor(const Tensors&)>;

bool nothing_to_test() {
  if (!cuda_is_available()) WARN("no GPU: nothing was tested");
  return !cuda_is_available();
}

// The result, and the gradients of all inputs.
Tensors differentiated(const Map& f, const Tensors& inputs, Device device, Dtype dtype, bool last) {
  Tensors x;
  for (const Tensor& t : inputs) {
    const Tensor there = cast(t.detach(), dtype).to(device);
    x.push_back((last && t.dim() > 3 ? channels_last(there) : there).detach().requires_grad_());
  }
  const Tensor y = f(x);
  const Tensor v = cast(random_tensor(y.sizes(), 9), y.dtype()).to(device);
  Tensors all = grad(Tensors{y}, x, Tensors{v}, {});
  all.push_back(y.detach());
  return all;
}

void compare(const Map& f, const Tensors& inputs, std::initializer_list<Dtype> dtypes) {
  for (const Dtype dtype : dtypes) {
    Tensors rounded;
    for (const Tensor& t : inputs) rounded.push_back(cast(t, dtype));
    const Tensors expected = differentiated(f, rounded, cpu, f64, false);
    for (const bool last : {false, true}) {
      INFO(concat(dtype, last ? ", channels-last" : ""));
      const Tensors found = differentiated(f, rounded, cuda, dtype, last);
      const double bound = dtype == f64 ? 1e-9 : dtype == f32 ? 2e-4 : dtype == f16 ? 1e-2 : 5e-2;
      for (std::size_t k = 0; k < found.size(); ++k) {
        INFO("result " << k);
        CHECK(difference(found[k], expected[k], {bound, bound}) == "");
      }
      const Tensors again = differentiated(f, rounded, cuda, dtype, last);
      for (std::size_t k = 0; k < found.size(); ++k) CHECK(same_bits(found[k].to(cpu), again[k].to(cpu)));
    }
  }
}

}  // namespace

TEST_CASE("interpolation in every mode, of lines, images and volumes, up and down, and its gradients") {
  if (nothing_to_test()) return;
  struct Case {
    Dims x;
    InterpolateOptions options;
  };
  const Case cases[] = {
      {{3, 5, 9}, {.size = {17}, .mode = "linear"}},
      {{3, 5, 9}, {.scale_factor = {3}, .mode = "nearest"}},
      {{2, 3, 7, 5}, {.scale_factor = {2}}},
      {{2, 8, 6, 5}, {.scale_factor = {2, 3}, .mode = "nearest-exact"}},
      {{2, 16, 6, 5}, {.scale_factor = {2}, .mode = "bilinear"}},
      {{2, 8, 6, 5}, {.size = {6, 11}, .mode = "bilinear", .align_corners = true}},  // rows stay
      {{2, 8, 6, 5}, {.size = {13, 5}, .mode = "bilinear", .align_corners = true}},  // columns stay
      {{1, 3, 8, 9}, {.size = {3, 4}, .mode = "bicubic"}},
      {{2, 8, 12, 16}, {.size = {5, 3}, .mode = "bilinear", .antialias = true}},
      {{1, 2, 40, 33}, {.size = {7, 5}, .mode = "bicubic", .antialias = true}},
      {{2, 3, 4, 3, 5}, {.scale_factor = {2}, .mode = "trilinear"}},
      {{1, 8, 4, 3, 5}, {.size = {4, 6, 9}, .mode = "trilinear", .align_corners = true}},  // depth stays
      {{2, 8, 3, 4, 4}, {.size = {7, 2, 4}, .mode = "nearest"}},
      {{300, 2, 3, 2}, {.scale_factor = {2}, .mode = "bilinear"}},  // several planes for each thread
  };
  for (const Case& c : cases) {
    INFO(concat(c.x, " ", c.options.mode));
    compare([&](const Tensors& x) { return interpolate(x[0], c.options); }, {random_tensor(c.x, 1)},
            {f32, f64, f16, bf16});
  }
  const Tensor volume = channels_last(ones({1, 4, 2, 3, 3}, {.device = cuda}));
  CHECK(interpolate(volume, {.scale_factor = {2}, .mode = "trilinear"}).layout() == Layout::channels_last);
}

TEST_CASE("padding with a tensor's own elements, of any dtype, and its gradients") {
  if (nothing_to_test()) return;
  struct Case {
    Dims x;
    std::vector<std::int64_t> borders;
  };
  const Case cases[] = {{{2, 3, 8}, {3, 2}},
                        {{2, 8, 5, 6}, {1, 2, 2, 1}},
                        {{2, 3, 5, 16}, {0, 0, 3, 1}},
                        {{2, 4, 4, 3, 5}, {1, 1, 2, 0, 1, 2}},
                        {{1, 3, 3, 4, 4}, {0, 0, 0, 0, 2, 1}},
                        {{1, 1, 1500}, {700, 300}}};
  for (const char* mode : {"reflect", "replicate", "circular"}) {
    for (const Case& c : cases) {
      INFO(concat(c.x, " ", mode));
      const auto padded = [&](const Tensors& x) { return pad(x[0], c.borders, mode); };
      compare(padded, {random_tensor(c.x, 2)}, {f32, f64, f16});
      for (const Dtype dtype : {i64, i32, u8, boolean, bf16}) {
        const Tensor x = cast(random_tensor(c.x, 3) * 3.0 + 3.0, dtype);
        CHECK(same_bits(padded({x.to(cuda)}).to(cpu), padded({x})));
        if (x.dim() > 3) CHECK(same_bits(padded({channels_last(x.to(cuda))}).to(cpu).contiguous(), padded({x})));
      }
    }
  }
}

TEST_CASE("constant padding in words of 16 bytes, in several elements and one by one, of any dtype and layout") {
  if (nothing_to_test()) return;
  struct Case {
    Dims x, borders;
  };
  const Case cases[] = {
      {{3, 5}, {1, 2}},
      {{2, 3, 6, 7}, {1, 0, 2, 1}},
      {{2, 3, 6, 14}, {1, 1, 1, 1}},
      {{2, 16, 5, 6}, {1, 1, 2, 0}},
      {{3, 32}, {16, 0, 1, 1}},
      {{2, 2, 3, 2, 16}, {0, 0, 1, 2, 2, 0}},
      {{1, 1}, {3, 4, 2, 2}},
      {{2, 3, 4, 50}, {1, 1, 1, 1}},
      {{4, 0}, {2, 3}},
      {{7}, {0, 9}},
      {{1, 3, 1, 1}, {1, 1, 1, 1, 0, 1}},
      {{2, 3, 4, 5}, {-1, 2, 1, -2}},
  };
  for (const Case& c : cases)
    for (const Dtype dtype : {f32, f64, f16, bf16, i64, u8, boolean}) {
      const Tensor x = cast(random_tensor(c.x, 4) * 50, dtype);
      for (const bool last : {false, true})
        for (const bool strided : {false, true}) {
          INFO(concat(x, ", borders ", c.borders, last ? ", channels-last" : "", strided ? ", strided" : ""));
          Tensor here = last && x.dim() > 3 ? channels_last(x) : x;
          Tensor there = here.to(cuda);
          if (strided) here = transpose(here, 0, x.dim() - 1), there = transpose(there, 0, x.dim() - 1);
          for (const double value : {0.0, 1.0}) {
            const Tensor expected = pad(here, c.borders, "constant", value);
            const Tensor found = pad(there, c.borders, "constant", value);
            CHECK(found.strides() == expected.strides());
            CHECK(same_bits(found.to(cpu), expected));
          }
        }
    }
}

TEST_CASE("images and volumes sampled at points, with the gradients of both") {
  if (nothing_to_test()) return;
  const auto points = [](const Dims& sizes) { return random_tensor(sizes, 5) * 0.9; };
  for (const char* padding : {"zeros", "border", "reflection"}) {
    for (const bool align : {false, true}) {
      for (const std::string mode : {"bilinear", "nearest", "bicubic"}) {
        INFO(concat(mode, " ", padding, " ", align));
        const auto sampled = [&](const Tensors& x) {
          return grid_sample(x[0], x[1], {.mode = mode, .padding_mode = padding, .align_corners = align});
        };
        compare(sampled, {random_tensor({2, 3, 7, 5}, 1), points({2, 6, 9, 2})}, {f32, f64});
        if (mode != "bicubic")
          compare(sampled, {random_tensor({2, 2, 3, 4, 5}, 1), points({2, 2, 3, 7, 3})}, {f32, f64});
        compare(sampled, {random_tensor({1, 40, 2, 3}, 1), points({1, 20, 20, 2})}, {f32, f64});  // all in six pixels
      }
    }
  }
  const Tensor x = random_tensor({1, 2, 4, 4}, 1).to(cuda);
  const Tensor nowhere = full({1, 1, 3, 2}, std::numeric_limits<double>::quiet_NaN(), {.device = cuda});
  CHECK(all(eq(grid_sample(x, nowhere), Tensor(0.0))));
  CHECK(all(eq(grid_sample(x, nowhere, {.mode = "bicubic"}), Tensor(0.0))));
  const Tensor image = x.clone().requires_grad_();
  const Tensor none = grid_sample(image, zeros({1, 0, 3, 2}, {.device = cuda}));
  CHECK(none.sizes() == Dims{1, 2, 0, 3});
  CHECK(all(eq(grad(none.sum(), {image})[0], Tensor(0.0))));
}

TEST_CASE("averages of regions of images, with their gradient") {
  if (nothing_to_test()) return;
  // Regions that overlap, reach outside, are smaller than a pixel, turned round, and without pixels.
  const Tensor boxes = tensor({{1.0, 3.25, 2.5, 17.75, 14.25},
                               {0.0, -6.5, -4.25, 30.5, 9.125},
                               {1.0, 5.0, 5.0, 5.25, 5.125},
                               {1.0, 12.0, 9.0, 6.5, 4.5},
                               {0.0, 40.0, 40.0, 50.0, 50.0},
                               {1.0, 2.0, 1.0, 16.0, 15.0}},
                              {.dtype = f64});
  for (const bool aligned : {false, true}) {
    for (const std::int64_t samples : {0, 1, 3}) {
      INFO(concat(aligned, " ", samples));
      const nn::RoiAlignOptions o{.spatial_scale = 0.75, .sampling_ratio = samples, .aligned = aligned};
      compare([&](const Tensors& x) { return nn::roi_align(x[0], boxes.to(x[0].device()), {3, 2}, o); },
              {random_tensor({2, 19, 13, 11}, 1)}, {f32, f64, bf16});
      compare([&](const Tensors& x) { return nn::ps_roi_align(x[0], boxes.to(x[0].device()), {3, 2}, o); },
              {random_tensor({2, 18, 9, 14}, 1)}, {f32, f64});
    }
  }
  const Tensor x = ones({2, 1, 8, 8}, {.device = cuda});
  const auto of = [&](double picture, double right) {
    const Tensor box = tensor({{0.0, 0.0, 0.0, 4.0, 4.0}, {picture, 1.0, 1.0, right, 4.0}}, {.device = cuda});
    return nn::roi_align(x, box, 1).to(cpu).to_vector<float>();
  };
  CHECK(of(1, 4) == std::vector<float>{1, 1});
  CHECK_THROWS_WITH(of(2, 4), Catch::Matchers::Contains("index 2 is out of range for a dimension of size 2"));
  CHECK_THROWS_WITH(of(1, std::numeric_limits<double>::infinity()),
                    Catch::Matchers::Contains("the region of box 1 is not finite"));
  CHECK(of(0, 3) == std::vector<float>{1, 1});
  CHECK(nn::roi_align(x, tensor({{1.0, 1.0, 1.0, 4.0, 4.0}}), 1).to(cpu).item() == 1);  // boxes on the host
}

TEST_CASE("the gradients of sampling at points can be differentiated again on the device") {
  if (nothing_to_test()) return;
  const auto second = [](Device device) {
    const Tensor x = random_tensor({1, 2, 4, 5}, 1).to(device).requires_grad_(),
                 at = (random_tensor({1, 3, 3, 2}, 5) * 0.4).to(device).requires_grad_();
    const Tensors first = grad(square(grid_sample(x, at)).sum(), {x, at}, {.create_graph = true});
    return grad(square(first[0]).sum() + square(first[1]).sum(), {x, at});
  };
  const Tensors found = second(cuda), expected = second(cpu);
  for (std::size_t k = 0; k < 2; ++k) CHECK(difference(found[k], expected[k], {2e-4, 2e-4}) == "");
}
