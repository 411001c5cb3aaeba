// add_layer_norm and add_rms_norm: bitwise equal to add followed by the norm, in every dtype, with and without
// gradients, on the CPU and on a GPU (or the shim); and the norms' gradients, which are added to those that reached
// their input by other paths.
#include <cstdio>

#include "core/accelerator.h"
#include "core/fused_ops.h"
#include "cuda/launches.h"
#include "mantissa.h"
#include "tests/catch_compat.h"
#include "tests/devices.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

bool same(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return same_bits(a.detach().to(cpu), b.detach().to(cpu));
}

struct Inputs {
  Tensor x, delta, weight, bias;
  Inputs(Device device, const Dims& sizes, Dtype first, Dtype second, bool affine) {
    manual_seed(3);
    const auto make = [&](const Dims& d, Dtype dtype) { return randn(d).to(dtype).to(device).requires_grad_(); };
    x = make(sizes, first), delta = make(sizes, second);
    if (affine) weight = make({sizes.back()}, first), bias = make({sizes.back()}, first);
  }
  SumAndNorm together(bool centred) const {
    const Dims shape{x.sizes().back()};
    return centred ? add_layer_norm(x, delta, shape, weight, bias) : add_rms_norm(x, delta, shape, weight);
  }
  Tensor norm(const Tensor& sum, bool centred) const {
    const Dims shape{x.sizes().back()};
    return centred ? layer_norm(sum, shape, weight, bias) : rms_norm(sum, shape, weight);
  }
  SumAndNorm apart(bool centred) const {
    const Tensor sum = x + delta;
    return {sum, norm(sum, centred)};
  }
  std::vector<Tensor> gradients() const {
    std::vector<Tensor> g;
    for (const Tensor* t : {&x, &delta, &weight, &bias}) g.push_back(t->defined() ? t->grad() : Tensor());
    return g;
  }
};

enum class Used { both, sum, y };

void compare(Device device, const Dims& sizes, Dtype first, Dtype second, bool affine, bool centred) {
  INFO(name_of(first) << " and " << name_of(second) << " affine " << affine << " centred " << centred << " row "
                      << sizes.back() << (device.is_cpu() ? " cpu" : " cuda"));
  {
    const NoGrad no_grad;
    const Inputs in(device, sizes, first, second, affine);
    const SumAndNorm one = in.together(centred), two = in.apart(centred);
    CHECK(one.sum.dtype() == promote(first, second));
    CHECK(same(one.sum, two.sum));
    CHECK(same(one.y, two.y));
  }
  for (const Used used : {Used::both, Used::sum, Used::y}) {
    INFO("used " << static_cast<int>(used));
    const Inputs one(device, sizes, first, second, affine), two(device, sizes, first, second, affine);
    const SumAndNorm a = one.together(centred), b = two.apart(centred);
    const Tensor g = randn(sizes).to(a.sum.dtype()).to(device), h = randn(sizes).to(a.sum.dtype()).to(device);
    for (const SumAndNorm& r : {a, b}) {
      if (used == Used::sum) r.sum.backward(g);
      else if (used == Used::y) r.y.backward(h);
      else backward(std::vector<Tensor>{r.sum, r.y}, std::vector<Tensor>{g, h});
    }
    const std::vector<Tensor> ga = one.gradients(), gb = two.gradients();
    for (std::size_t i = 0; i < ga.size(); ++i) CHECK(same(ga[i], gb[i]));
    if (used != Used::both) continue;
    // One pass, with the bits of a gradient that is stored and then added.
    const Tensor sum = two.x.detach() + two.delta.detach(), leaf = sum.detach().requires_grad_();
    const Tensor dx = grad(std::vector<Tensor>{two.norm(leaf, centred)}, std::vector<Tensor>{leaf},
                           std::vector<Tensor>{h}, {})[0];
    CHECK(same(ga[0], (g + dx).to(first)));
    CHECK(same(ga[1], (g + dx).to(second)));
  }
}

}  // namespace

TEST_CASE("a residual and its norm in one operator have the bits of the two") {
  const Dims sizes[] = {{6, 40}, {3, 37}, {70, 8}, {2, 520}, {2, 1544}, {0, 8}};
  constexpr std::pair<Dtype, Dtype> dtypes[] = {{f64, f64}, {f32, f32},  {f16, f16}, {bf16, bf16},
                                                {f32, f16}, {f32, bf16}, {bf16, f32}, {f64, f32}, {bf16, f16}};
  for (const Device device : devices()) {
    for (const auto& [first, second] : dtypes) {
      for (const Dims& d : sizes) {
        for (const bool affine : {false, true}) {
          for (const bool centred : {false, true}) compare(device, d, first, second, affine, centred);
        }
      }
    }
  }
}

TEST_CASE("rows that no block holds have the bits of add and norm, too") {
  for (const Device device : devices()) {
    for (const Dtype dtype : {f32, bf16}) {
      for (const Dims& d : {Dims{2, 12296}, Dims{2, 16400}, Dims{2, 2053}}) {
        for (const bool centred : {false, true}) compare(device, d, dtype, dtype, true, centred);
      }
    }
    for (const bool centred : {false, true}) compare(device, {2, 4099}, f64, f64, true, centred);
  }
}

TEST_CASE("with a bias alone, over several dimensions, and of tensors that are not contiguous") {
  for (const Device device : devices()) {
    manual_seed(4);
    const auto make = [&](const Dims& d) { return randn(d).to(device).requires_grad_(); };
    const Tensor x = make({4, 5, 6}), delta = make({6, 5, 4}), bias = make({5, 6});
    const Tensor turned = transpose(delta, 0, 2);
    const auto [sum, y] = add_layer_norm(x, turned, {5, 6}, {}, bias, 1e-3);
    const Tensor expected = layer_norm(x + turned, {5, 6}, {}, bias, 1e-3);
    CHECK(same(sum, x + turned));
    CHECK(same(y, expected));
    const Tensor g = randn({4, 6, 5}).to(device).transpose(1, 2);  // neither is the gradient
    using List = std::vector<Tensor>;
    const List leaves{x, delta, bias}, gradients{g, g};
    const List all = grad(List{sum, y}, leaves, gradients, {.retain_graph = true});
    const List wanted = grad(List{x + turned, expected}, leaves, gradients, {});
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(difference(all[i], wanted[i], {1e-6, 1e-6}) == "");
  }
}

// x in f32 and delta the bf16 result of a layer, in a region: add_layer_norm or add_rms_norm, or the separate operators
// with a cast of y.
struct InRegion {
  Inputs in;
  Tensor delta;
  InRegion(Device device, const Dims& sizes, bool affine) : in(device, sizes, f32, f32, affine) {}
  SumAndNorm run(bool fused, bool centred) {
    return amp::autocast(bf16, [&] {
      delta = amp::lowered(in.delta * 0.5);
      if (fused) {
        const Dims shape{in.x.sizes().back()};
        return centred ? add_layer_norm(in.x, delta, shape, in.weight, in.bias)
                       : add_rms_norm(in.x, delta, shape, in.weight);
      }
      const Tensor sum = in.x + delta;
      return SumAndNorm{sum, amp::lowered(in.norm(sum, centred))};
    });
  }
};

TEST_CASE("in a region of autocast the residual stream stays in f32, and what is normalised is of the region's dtype") {
  for (const Device device : devices()) {
    for (const Dims& sizes : {Dims{5, 24}, Dims{70, 8}, Dims{3, 37}, Dims{2, 12296}}) {
      for (const bool centred : {false, true}) {
        INFO("row " << sizes.back() << " centred " << centred);
        for (const Used used : {Used::both, Used::sum, Used::y}) {
          InRegion one(device, sizes, sizes[0] != 70), two(device, sizes, sizes[0] != 70);
          const SumAndNorm a = one.run(true, centred), b = two.run(false, centred);
          CHECK(a.sum.dtype() == f32);
          CHECK(a.y.dtype() == bf16);
          CHECK(one.delta.dtype() == bf16);
          CHECK(same(a.sum, b.sum));
          CHECK(same(a.y, b.y));
          const Tensor g = randn(sizes).to(device), h = randn(sizes).to(bf16).to(device);
          for (int pass = 0; pass < 2; ++pass) {  // the second one over a graph that was kept
            for (const SumAndNorm& r : {a, b}) {
              const BackwardOptions o{.retain_graph = true};
              if (used == Used::sum) backward(r.sum, g, o);
              else if (used == Used::y) backward(r.y, h, o);
              else backward(std::vector<Tensor>{r.sum, r.y}, std::vector<Tensor>{g, h}, o);
            }
            for (std::size_t i = 0; i < 4; ++i) CHECK(same(one.in.gradients()[i], two.in.gradients()[i]));
          }
        }
      }
    }
  }
}

TEST_CASE("delta's gradient in halves is that of the sum, whoever looks at or replaces that") {
  for (const Device device : devices()) {
    const Tensor h = randn({6, 32}).to(bf16).to(device), g = randn({6, 32}).to(device);
    for (const bool replaced : {false, true}) {
      InRegion one(device, {6, 32}, true), two(device, {6, 32}, true);
      const SumAndNorm a = one.run(true, true), b = two.run(false, true);
      for (const SumAndNorm& r : {a, b}) {
        // A backward pass that ends at the sum, then one that begins there, without the norm's gradient.
        using List = std::vector<Tensor>;
        (void)grad(List{r.y}, List{r.sum}, List{h}, {.retain_graph = true});
        backward(r.sum, g, {.retain_graph = true});
        r.sum.on_grad([&](const Tensor& t) { return replaced ? t * 2.0 : Tensor(); });
        backward(std::vector<Tensor>{r.sum, r.y}, std::vector<Tensor>{g, h}, {.retain_graph = true});
      }
      for (std::size_t i = 0; i < 4; ++i) CHECK(same(one.in.gradients()[i], two.in.gradients()[i]));
      // With create_graph the rules are those of the operators.
      const auto second = [&](const InRegion& r, const SumAndNorm& s) {
        const Tensor d = grad(std::vector<Tensor>{s.y}, std::vector<Tensor>{r.in.delta}, std::vector<Tensor>{h},
                              {.create_graph = true})[0];
        return grad(std::vector<Tensor>{sum(square(d))}, std::vector<Tensor>{r.in.x}, {}, {})[0];
      };
      CHECK(difference(second(one, a), second(two, b), {2e-2, 2e-2}) == "");
    }
  }
}

TEST_CASE("the dtype of y in a region: asked for, by policies, without a delta") {
  for (const Device device : devices()) {
    const Inputs in(device, {5, 24}, f32, f32, true);
    const Dims shape{24};
    const auto norm = [&](NormDtype dtype) {
      return add_layer_norm(in.x, in.delta, shape, in.weight, in.bias, 1e-5, dtype).y;
    };
    const Tensor plain = norm(NormDtype::of_region);
    CHECK(plain.dtype() == f32);  // outside a region
    amp::autocast(bf16, [&] {
      CHECK(same(norm(NormDtype::of_sum), plain));
      CHECK(same(norm(NormDtype::of_region), plain.to(bf16)));
      CHECK(layer_norm(in.x, shape, in.weight, in.bias).dtype() == f32);  // as PyTorch's
      const auto [sum, y] = add_layer_norm(in.x, {}, shape, in.weight, in.bias);
      CHECK(sum.impl() == in.x.impl());
      CHECK(same(y, layer_norm(in.x, shape, in.weight, in.bias).to(bf16)));
      CHECK(same(add_rms_norm(in.x, {}, shape, in.weight).y, rms_norm(in.x, shape, in.weight).to(bf16)));
      const amp::Autocast off(amp::disabled);
      CHECK(norm(NormDtype::of_region).dtype() == f32);
    });
    amp::autocast({.dtype = bf16, .policies = amp::Policies::torch_cuda()}, [&] {
      CHECK(same(norm(NormDtype::of_region), plain));
      CHECK(add_rms_norm(in.x, {}, shape, in.weight).y.dtype() == f32);
    });
    const Inputs wide(device, {5, 24}, f64, f32, false), half(device, {5, 24}, f16, f16, false);
    amp::autocast(bf16, [&] {
      CHECK(wide.together(true).y.dtype() == f64);
      CHECK(half.together(true).y.dtype() == f16);
    });
    amp::Explain explain;  // one after the other, to the same bits
    CHECK(same(amp::autocast(bf16, [&] { return norm(NormDtype::of_region); }), plain.to(bf16)));
  }
}

TEST_CASE("a region's own policies and observers see the addition and the norm") {
  const Inputs in(cpu, {2, 8}, bf16, bf16, true);
  const auto policies = amp::Policies().set("layer_norm", CastPolicy::f32);
  const SumAndNorm r = amp::autocast({.dtype = bf16, .policies = policies}, [&] { return in.together(true); });
  CHECK(r.sum.dtype() == bf16);
  CHECK(r.y.dtype() == f32);
  amp::Explain explain;
  amp::autocast(bf16, [&] { return in.together(true); });
  REQUIRE(explain.decisions().size() == 2);
  CHECK(std::string(explain.decisions()[0].op) == "add");
  CHECK(std::string(explain.decisions()[1].op) == "layer_norm");
}

TEST_CASE("second derivatives are those of add and norm") {
  for (const bool centred : {true, false}) {
    const auto second = [&](bool fused) {
      const Inputs in(cpu, {4, 16}, f64, f64, true);
      const SumAndNorm r = fused ? in.together(centred) : in.apart(centred);
      const Tensor g = grad(sum(square(r.y) * r.sum), {in.x}, {.create_graph = true})[0];
      return grad(sum(square(g)), {in.x, in.delta, in.weight});
    };
    const auto one = second(true), two = second(false);
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(same(one[i], two[i]));
  }
}

TEST_CASE("only the results that depend on what wants a gradient have one") {
  const Tensor x = randn({3, 8}), weight = ones({8}).requires_grad_();
  const auto [sum, y] = add_layer_norm(x, x, {8}, weight);
  CHECK(!sum.requires_grad());
  CHECK(y.requires_grad());
  y.backward(ones_like(y));
  CHECK(weight.grad().defined());
  const NoGrad no_grad;
  CHECK(!add_layer_norm(x, x, {8}, weight).y.requires_grad());
}

TEST_CASE("what has arrived at a norm's input belongs to others, too: a hook, the user, another node") {
  for (const Device device : devices()) {
    manual_seed(8);
    const Tensor x = randn({6, 32}).to(device).requires_grad_(), g = randn({6, 32}).to(device), kept = g.clone();
    const Tensor z = x * 1.0, y = layer_norm(z, {32});
    Tensor seen, copy;
    z.on_grad([&](const Tensor& t) {
      seen = t, copy = t.clone();
      return Tensor();
    });
    backward(std::vector<Tensor>{z, y}, std::vector<Tensor>{g, g});
    CHECK(same(g, kept));
    CHECK(same(seen, copy));
    CHECK(same(x.grad(), seen));
    // A gradient of another dtype is added separately, as before: here from an f64 scalar beside f32.
    const Tensor leaf = randn({6, 32}).to(device).requires_grad_(), n = layer_norm(leaf, {32});
    (sum(n * g) + sum(leaf.to(f64))).backward();
    const Tensor alone = grad(sum(layer_norm(leaf, {32}) * g), {leaf})[0];
    CHECK(same(leaf.grad(), alone + ones_like(alone)));
  }
}

TEST_CASE("modules: a norm called with x and delta") {
  manual_seed(9);
  const nn::LayerNorm layer(16);
  const nn::RMSNorm rms(16);
  const Tensor x = randn({3, 16}), delta = randn({3, 16});
  CHECK(same(layer(x, delta).y, layer(x + delta)));
  CHECK(same(rms(x, delta).y, rms(x + delta)));
  CHECK(same(rms(x, delta).sum, x + delta));
}

TEST_CASE("on a GPU a residual and its norm are one kernel forward and no addition of gradients backward") {
  if (!cuda_is_available()) {
    WARN("no GPU and no shim: nothing was tested");
    return;
  }
  const auto count = [](bool fused) {
    const Inputs in(cuda, {64, 768}, bf16, bf16, true);
    const Tensor up = randn({768, 768}).to(bf16).to(cuda);
    std::map<std::string, int> both[2];
    cuda_backend::LaunchCounter counter;
    const SumAndNorm r = fused ? in.together(true) : in.apart(true);
    const Tensor z = layer_norm(r.sum + matmul(r.y, up), {768});
    both[0] = std::exchange(counter.launches, {});
    z.backward(full(z.sizes(), 1.0, {.dtype = bf16, .device = cuda}));
    both[1] = counter.launches;
    for (const auto& pass : both) {
      std::printf("%s, %s:", fused ? "one operator" : "two operators", &pass == both ? "forward" : "backward");
      for (const auto& [name, n] : pass) std::printf(" %s %d", name.c_str(), n);
      std::printf("\n");
    }
    return std::pair(both[0], both[1]);
  };
  auto [forward, backward] = count(true);
  CHECK(forward["add_layer_norm"] == 1);
  CHECK(forward["pointwise"] == 1);  // the last addition, whose norm is apart
  CHECK(backward["layer_norm_backward"] == 2);
  for (const char* addition : {"pointwise", "add_in_place"}) CHECK(!backward.contains(addition));
  CHECK(count(false).second == backward);
}

TEST_CASE("on a GPU a residual in f32 and layers in bf16 need no cast of an activation or its gradient around a norm") {
  if (!cuda_is_available()) {
    WARN("no GPU and no shim: nothing was tested");
    return;
  }
  const auto count = [](bool fused) {
    InRegion r(cuda, {64, 768}, true);
    const Tensor up = randn({768, 768}).to(cuda).requires_grad_();
    const auto step = [&] {
      const SumAndNorm s = r.run(fused, true);
      const Tensor z = amp::autocast(bf16, [&] { return linear(s.y, up); });
      backward(std::vector<Tensor>{s.sum, z}, std::vector<Tensor>{ones({64, 768}, {.device = cuda}),
                                                                   ones({64, 768}, {.dtype = bf16, .device = cuda})});
    };
    step();  // makes the shadow of the weight
    cuda_backend::LaunchCounter counter;
    step();
    std::printf("in a region, %s:", fused ? "one operator" : "two operators");
    for (const auto& [name, n] : counter.launches) std::printf(" %s %d", name.c_str(), n);
    std::printf("\n");
    return std::map<std::string, int>(counter.launches);
  };
  auto one = count(true), two = count(false);
  // The remaining launches belong to the test: delta to bf16 and its gradient back, and two gradients filled with ones.
  CHECK(one["copy"] == 4);
  CHECK(two["copy"] == 7);
}
