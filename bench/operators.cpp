#include "operators.h"

#include <memory>

#include "inference.h"

namespace bench {

using namespace mantissa;

Tensor draw(const Dims& sizes, Device device, std::uint32_t seed) {
  const Tensor t = Tensor::allocate(sizes, f32);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const std::uint32_t hash = (static_cast<std::uint32_t>(i) + seed * 977) * 2654435761u;
    t.data<float>()[i] = static_cast<float>(hash >> 8) * 0x1p-24f - 0.5f;
  }
  return t.to(device);
}

namespace {

Tensor labels(std::int64_t n, std::int64_t classes, Device device) {
  const Tensor t = Tensor::allocate({n}, i64);
  for (std::int64_t i = 0; i < n; ++i) t.data<std::int64_t>()[i] = i * 7 % classes;
  return t.to(device);
}
Tensor wanting(Tensor t) { return t.requires_grad_(); }

// Forward, and backward from a gradient of ones; the result is the gradient of `x`.
template <class F> Operator with_backward(Tensor x, std::vector<Tensor> others, F forward) {
  return [=]() mutable {
    x.set_grad({});
    for (Tensor& t : others) t.set_grad({});
    backward(sum(forward()));
    return x.grad();
  };
}
template <class F> Operator in_bf16(F body) {
  return [=] { return amp::autocast(bf16, body); };
}

Operator overhead(const std::string& name, Device d) {
  const Tensor a = draw({1}, d), b = draw({1}, d, 2);
  Tensor w = wanting(draw({1}, d, 3));
  if (name == "add") return [=] { return add(a, b); };
  if (name == "add recorded") return [=] { return add(w, b); };
  if (name == "ten products and backward")
    return [=]() mutable {
      w.set_grad({});
      Tensor y = w;
      for (int i = 0; i < 10; ++i) y = y * w;
      backward(sum(y));
      return w.grad();
    };
  const Tensor x = draw({8, 16}, d), weight = wanting(draw({16, 16}, d, 2));
  if (name == "small linear") return [=] { return linear(x, weight); };
  if (name == "small linear, autocast") return in_bf16([=] { return linear(x, weight); });
  return {};
}

Operator product(const std::string& name, Device d) {
  for (const std::int64_t n : {256, 1024}) {
    const std::string size = std::to_string(n);
    if (!name.starts_with("matmul " + size)) continue;
    const Tensor a = draw({n, n}, d), b = draw({n, n}, d, 2);
    if (name == "matmul " + size) return [=] { return matmul(a, b); };
    if (name == "matmul " + size + ", autocast") return in_bf16([=] { return matmul(a, b); });
  }
  return {};
}

Operator convolution(const std::string& name, Device d) {
  if (!name.starts_with("conv2d")) return {};
  const Tensor x = draw({32, 64, 32, 32}, d), w = draw({64, 64, 3, 3}, d, 2);
  const auto forward = [](const Tensor& a, const Tensor& b) { return conv2d(a, b, {}, {.padding = {1, 1}}); };
  if (name == "conv2d") return [=] { return forward(x, w); };
  if (name == "conv2d, autocast") return in_bf16([=] { return forward(x, w); });
  const Tensor xg = wanting(x), wg = wanting(w);
  if (name == "conv2d and backward") return with_backward(wg, {xg}, [=] { return forward(xg, wg); });
  if (name == "conv2d and backward, autocast")
    return with_backward(wg, {xg}, [=] { return amp::autocast(bf16, [&] { return forward(xg, wg); }); });
  return {};
}

// A sum of squares lets the gradient of a norm be other than zero.
Operator rows(const std::string& name, Device d) {
  if (name == "batch_norm and backward") {
    const Tensor x = wanting(draw({32, 64, 32, 32}, d)), w = wanting(draw({64}, d, 2)), b = wanting(draw({64}, d, 3));
    const Tensor mean = zeros({64}, {.device = d}), var = ones({64}, {.device = d});
    return with_backward(w, {x, b}, [=] { return square(batch_norm(x, w, b, mean, var, true)); });
  }
  if (name == "layer_norm and backward") {
    const Tensor x = wanting(draw({1024, 384}, d)), w = wanting(draw({384}, d, 2)), b = wanting(draw({384}, d, 3));
    return with_backward(w, {x, b}, [=] { return square(layer_norm(x, {384}, w, b)); });
  }
  if (name == "softmax and backward") {
    const Tensor x = wanting(draw({1024, 1024}, d));
    return with_backward(x, {}, [=] { return square(softmax(x, -1)); });
  }
  if (name == "cross_entropy and backward") {
    const Tensor x = wanting(draw({1024, 1000}, d)), y = labels(1024, 1000, d);
    return with_backward(x, {}, [=] { return square(cross_entropy(x, y)); });
  }
  if (name == "gelu and backward") {
    const Tensor x = wanting(draw({1024, 1536}, d));
    return with_backward(x, {}, [=] { return gelu(x); });
  }
  if (name == "attention and backward") {
    const Dims sizes{8, 4, 128, 32};
    const Tensor q = wanting(draw(sizes, d)), k = wanting(draw(sizes, d, 2)), v = wanting(draw(sizes, d, 3));
    return with_backward(q, {k, v}, [=] {
      return square(scaled_dot_product_attention(q, k, v, {}, {.is_causal = true}));
    });
  }
  return {};
}

// A sequence of 64 steps of 32 samples, 128 numbers in and 256 units.
Operator recurrent(const std::string& name, Device d) {
  const auto with = [&](const auto& module) {
    const auto net = std::make_shared<std::decay_t<decltype(module)>>(module.clone());
    std::vector<Tensor> weights;
    for (std::uint32_t i = 0; i < 4; ++i) {
      net->weights[i] = nn::Param(draw(net->weights[i].sizes(), d, i + 2) * 0.125);
      weights.push_back(net->weights[i]);
    }
    const Tensor x = wanting(draw({64, 32, 128}, d));
    const auto forward = [=] { return (*net)(x).output; };
    if (!name.ends_with(", autocast")) return with_backward(x, weights, forward);
    return with_backward(x, weights, [=] { return amp::autocast(bf16, forward); });
  };
  if (name.starts_with("LSTM and backward")) return with(nn::LSTM(128, 256));
  if (name.starts_with("GRU and backward")) return with(nn::GRU(128, 256));
  return {};
}

Operator adam(const std::string& name, Device d) {
  if (name != "Adam step") return {};
  std::vector<Tensor> p;
  for (std::uint32_t i = 0; i < 10; ++i) {
    p.push_back(wanting(draw({100'000}, d, i + 1)));
    p.back().set_grad(draw({100'000}, d, i + 20));
  }
  const auto optimizer = std::make_shared<optim::Adam>(optim::Parameters(p), optim::AdamOptions{.lr = 1e-6});
  return [=] {
    optimizer->step();
    return p[0].detach();
  };
}

}  // namespace

Operator make_operator(const std::string& name, Device device) {
  for (const auto make : {overhead, product, convolution, rows, recurrent, adam, make_inference})
    if (Operator made = make(name, device)) return made;
  fail("no operator of the benchmark is called \"", name, "\"");
}

}  // namespace bench
