// A custom operator: snake(x, a) = x + sin(a x)^2 / a with a learned frequency a per channel (Ziyin et al., 2020). Its
// loop is plain C++, its gradients are checked by finite differences, and a network learns a wave with it.
#include <fmt/format.h>
#include <mantissa/mantissa.h>
#include <mantissa/autograd/gradcheck.h>
#include <mantissa/ops/apply.h>

#include <cmath>

using namespace mantissa;

struct Snake {
  static constexpr auto name = "snake";
  static constexpr const char* args[] = {"x", "a"};       // names of the inputs in errors
  static constexpr auto autocast = CastPolicy::f32;       // in mixed precision: too steep for 8 bits of mantissa

  Spec infer(const Tensor& x, const Tensor& a) const {    // the result's shape and dtype, with checks of the arguments
    check(x.dtype() == a.dtype() && (x.dtype() == f32 || x.dtype() == f64), "needs f32 or f64, both the same");
    check(x.dim() == 2 && a.sizes() == Dims{x.size(1)}, "x must be [N, C] and a [C]");
    return like(x);
  }
  void run(const View& y, const View& x, const View& a) const {
    if (x.dtype == f32) compute<float>(y, x, a);
    else compute<double>(y, x, a);
  }
  // y is contiguous, x need not be
  template <class T> static void compute(const View& y, const View& x, const View& a) {
    parallel_for(x.size(0), 256, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        for (std::int64_t c = 0; c < x.size(1); ++c) {
          const T in = x.as<T>()[i * x.strides[0] + c * x.strides[1]], frequency = a.as<T>()[c * a.strides[0]],
                  wave = std::sin(frequency * in);
          y.as<T>()[i * x.size(1) + c] = in + wave * wave / frequency;
        }
      }
    });
  }
  // One gradient rule per input, composed of operators. Its parameter types declare what it needs; only that is saved.
  static constexpr auto vjp() {
    return rules(
        [](Grad g, In<0> x, In<1> a) { return g * (1 + sin(2 * a * x)); },
        [](Grad g, In<0> x, In<1> a) { return sum(g * (x * sin(2 * a * x) - square(sin(a * x)) / a) / a, {0}); });
  }
};
Tensor snake(const Tensor& x, const Tensor& a) { return apply(Snake{}, x, a); }

struct Net {
  nn::Linear in{1, 32}, out{32, 1};
  nn::Param frequency{full({32}, 3.0)};
  MANTISSA_FIELDS(in, out, frequency)
  Tensor operator()(const Tensor& x) const { return out(snake(in(x), frequency)); }
};

int main() {
  manual_seed(1);
  // The rules are composed of operators, so second derivatives work too.
  const std::vector<Tensor> inputs{randn({3, 4}, {.dtype = f64, .requires_grad = true}),
                                   (rand({4}, {.dtype = f64}) + 0.5).requires_grad_()};
  const TensorFunction function = [](const std::vector<Tensor>& x) { return std::vector{snake(x[0], x[1])}; };
  gradcheck(function, inputs);
  gradgradcheck(function, inputs);
  fmt::print("gradients and second derivatives agree with differences\n");
  try {
    snake(randn({3, 4}), ones({5}));
  } catch (const Error& e) {
    fmt::print("a mistake reads: {}\n", e.what());
  }

  Net net;
  optim::Adam optimizer(nn::parameters(net), {.lr = 1e-2});
  const Tensor x = linspace(-3, 3, 256).unsqueeze(1), y = sin(4 * x);
  for (int step = 0; step <= 500; ++step) {
    optimizer.zero_grad();
    const Tensor loss = amp::autocast(bf16, [&] { return mse_loss(net(x), y); });
    backward(loss);
    optimizer.step();
    if (step % 100 == 0) fmt::print("step {}: loss {:.4f}\n", step, loss.item());
  }
}
