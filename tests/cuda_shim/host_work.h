// Small pieces of eager work on the device, whose cost on the host is looked at on a null device
// (tests/cuda_shim/shim.h): host_bench.cpp times them and counts their instructions, host_calls_test.cpp counts their
// calls of the runtime.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "mantissa.h"

namespace mantissa::host_work {

struct Work {
  const char* name;
  int launches;  // the most it may make, products of a library among them
  int others;    // the most other calls of the runtime
  int per_round;  // calls in one round of the timing
  std::function<std::function<void()>()> make;
};

inline Tensor on_device(const Dims& sizes, Dtype dtype = f32) { return empty(sizes, {.dtype = dtype, .device = cuda}); }
inline Tensor wants_gradient(const Dims& sizes, Dtype dtype = f32) { return on_device(sizes, dtype).requires_grad_(); }

// f(): an operator that is recorded. With `backward`, then its gradients too, which the leaves give up again.
template <class F> std::function<void()> once(std::vector<Tensor> leaves, F f, bool backward) {
  if (!backward) return [=] { (void)f(); };
  const Tensor y = f();
  const Tensor gradient = empty_like(y.detach());
  return [=]() mutable {
    mantissa::backward(f(), gradient);
    for (Tensor& x : leaves) x.set_grad({});
  };
}

inline std::function<void()> add(const Dims& sizes, bool backward) {
  const Tensor a = wants_gradient(sizes), b = wants_gradient(sizes);
  return once({a, b}, [=] { return mantissa::add(a, b); }, backward);
}
inline std::function<void()> add_row() {
  const Tensor a = wants_gradient({1024, 1024}), row = wants_gradient({1024});
  return once({}, [=] { return mantissa::add(a, row); }, false);
}
inline std::function<void()> relu(bool backward) {
  const Tensor x = wants_gradient({1024, 1024});
  return once({x}, [=] { return mantissa::relu(x); }, backward);
}
// Inside an autocast region, as between other layers: x is in bf16 already, parameters are f32 and have their shadows.
inline std::function<void()> linear(Dtype dtype, bool backward) {
  const Tensor x = wants_gradient({128, 1024}, dtype), w = wants_gradient({1024, 1024}), b = wants_gradient({1024});
  const auto f = [=] {
    if (dtype == f32) return mantissa::linear(x, w, b);  // by cuBLASLt; halves by our own kernel, under the shim
    const amp::Autocast region(dtype);
    return mantissa::linear(x, w, b);
  };
  return once({x, w, b}, f, backward);
}
inline std::function<void()> conv(bool backward) {
  const Tensor x = Tensor::allocate({8, 64, 16, 16}, bf16, cuda, Layout::channels_last).requires_grad_();
  const Tensor w = wants_gradient({64, 64, 1, 1}), b = wants_gradient({64});
  const auto f = [=] {
    const amp::Autocast region(bf16);
    return conv2d(x, w, b);
  };
  return once({x, w, b}, f, backward);
}
inline std::function<void()> layer_norm(bool backward) {
  const Tensor x = wants_gradient({128, 1024}), w = wants_gradient({1024}), b = wants_gradient({1024});
  return once({x, w, b}, [=] { return mantissa::layer_norm(x, {1024}, w, b); }, backward);
}
inline std::function<void()> softmax(bool backward) {
  const Tensor x = wants_gradient({128, 1024});
  return once({x}, [=] { return mantissa::softmax(x, -1); }, backward);
}
inline std::function<void()> cross_entropy(bool backward) {
  const Tensor x = wants_gradient({128, 1024}), y = on_device({128}, i64);
  return once({x}, [=] { return mantissa::cross_entropy(x, y); }, backward);
}

inline std::function<void()> embedding(bool backward) {
  const Tensor w = wants_gradient({1000, 256}), x = on_device({8, 64}, i64);
  return once(
      {w}, [=] { return mantissa::embedding(w, x); }, backward);
}

inline std::vector<Tensor> parameters(int count) {
  std::vector<Tensor> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(wants_gradient({64, 64}));
    all.back().set_grad(on_device({64, 64}));
  }
  return all;
}
inline std::function<void()> adam(int count) {
  const auto o = std::make_shared<optim::Adam>(parameters(count));
  return [=] { o->step(); };
}
inline std::function<void()> zero_grad(int count) {
  const auto all = std::make_shared<std::vector<Tensor>>(parameters(count));
  const auto o = std::make_shared<optim::Adam>(*all);
  const Tensor g = on_device({64, 64});
  return [=] {
    for (Tensor& p : *all) p.set_grad(g);
    o->zero_grad();
  };
}
inline std::function<void()> scaler(int count) {
  const auto all = std::make_shared<std::vector<Tensor>>(parameters(count));
  const auto o = std::make_shared<optim::Adam>(*all);
  const auto s = std::make_shared<amp::GradScaler>();
  Tensor loss = wants_gradient({});
  return [=]() mutable {
    backward(s->scale(loss));
    loss.set_grad({});
    for (Tensor& p : *all) p.set_grad(on_device({64, 64}));  // as if from backward
    s->step(*o);
    s->update();
  };
}

// A captured training step of a net with this many layers, once it is recorded.
inline std::function<void()> replay(int layers) {
  std::vector<Tensor> weights;
  for (int i = 0; i < layers; ++i) weights.push_back(wants_gradient({64, 64}));
  const auto o = std::make_shared<optim::Adam>(weights);
  const auto s = std::make_shared<amp::GradScaler>();
  const auto f = [=](const Tensor& x) {
    const Tensor loss = amp::autocast(f16, [&] {
      Tensor y = x;
      for (const Tensor& w : weights) y = mantissa::relu(mantissa::linear(y, w));
      return mean(y.to(f32));
    });
    backward(s->scale(loss));
    s->step(*o);
    s->update();
    o->zero_grad();
    return loss;
  };
  const auto step = std::make_shared<decltype(jit::capture(f))>(jit::capture(f));
  const Tensor x = on_device({32, 64});
  for (int i = 0; i < 3; ++i) (*step)(x);
  return [=] { (void)(*step)(x); };
}

inline const std::vector<Work>& all() {
  static const std::vector<Work> list{
      {"add_64", 1, 0, 5000, [] { return add({64}, false); }},
      {"add_64_backward", 1, 2, 5000, [] { return add({64}, true); }},  // each leaf takes a copy of the gradient
      {"add_1024_1024", 1, 0, 5000,
       [] {
         return add({1024, 1024}, false);
       }},
      {"add_broadcast", 1, 0, 5000, [] { return add_row(); }},
      {"relu", 1, 0, 5000, [] { return relu(false); }},
      {"relu_backward", 2, 0, 5000, [] { return relu(true); }},
      {"linear_bf16", 1, 0, 5000, [] { return linear(bf16, false); }},
      {"linear_bf16_backward", 3, 0, 2000, [] { return linear(bf16, true); }},
      {"linear_f32", 1, 0, 5000, [] { return linear(f32, false); }},
      {"linear_f32_backward", 4, 0, 2000, [] { return linear(f32, true); }},
      {"layer_norm", 1, 0, 5000, [] { return layer_norm(false); }},
      {"layer_norm_backward", 4, 0, 5000, [] { return layer_norm(true); }},
      {"softmax", 1, 0, 5000, [] { return softmax(false); }},
      {"softmax_backward", 2, 0, 5000, [] { return softmax(true); }},
      {"cross_entropy", 2, 0, 5000, [] { return cross_entropy(false); }},
      {"cross_entropy_backward", 3, 0, 5000, [] { return cross_entropy(true); }},
      {"embedding", 1, 0, 5000, [] { return embedding(false); }},
      // gather; memset, keys, sort, sums of parts, sums
      {"embedding_backward", 5, 1, 2000, [] { return embedding(true); }},
      {"conv2d_bf16", 1, 0, 5000, [] { return conv(false); }},
      {"conv2d_bf16_backward", 6, 0, 1000, [] { return conv(true); }},
      {"adam_100", 4, 0, 500, [] { return adam(100); }},
      {"zero_grad_100", 0, 0, 2000, [] { return zero_grad(100); }},
      {"scaler_100", 10, 13, 300, [] { return scaler(100); }},
      {"replay_100", 1, 1, 5000, [] { return replay(100); }},
  };
  return list;
}

}  // namespace mantissa::host_work
