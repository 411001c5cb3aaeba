// add_layer_norm and add_rms_norm: the bits of add followed by the norm, in every dtype, with and without gradients, on
// the CPU and on a GPU (or the shim); and the norms' gradients, which add what has reached their input on other ways.
#include <cstdio>

#include "core/accelerator.h"
#include "core/fused_ops.h"
#include "cuda/launches.h"
#include "mantissa.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

std::vector<Device> devices() {
  if (cuda_is_available()) return {cpu, cuda};
  return {cpu};
}
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
    // One pass, and the bits of a gradient that is stored and then added.
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

TEST_CASE("in a region of autocast the residual stream stays in f32") {
  for (const Device device : devices()) {
    const Inputs one(device, {5, 24}, f32, f32, true), two(device, {5, 24}, f32, f32, true);
    const auto run = [&](const Inputs& in, bool fused) {
      return amp::autocast(bf16, [&] {
        const Tensor weight = full({24, 24}, 0.125).to(device), product = linear(in.delta, weight, {});
        const Tensor sum = in.x + product;
        return fused ? add_layer_norm(in.x, product, {24}, in.weight, in.bias) : SumAndNorm{sum, in.norm(sum, true)};
      });
    };
    const SumAndNorm a = run(one, true), b = run(two, false);
    CHECK(a.sum.dtype() == f32);
    CHECK(a.y.dtype() == f32);
    CHECK(same(a.sum, b.sum));
    CHECK(same(a.y, b.y));
    for (const SumAndNorm& r : {a, b}) sum(r.sum * r.y).backward();
    for (std::size_t i = 0; i < 4; ++i) CHECK(same(one.gradients()[i], two.gradients()[i]));
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
    // A gradient of another dtype is added as before: here of a number of f64 beside f32.
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
