// What a training step costs beside its arithmetic. Each loop is small work done again and again, from one
// operator to a step of a network:
//   overhead_bench                   nanoseconds for each loop, the minimum over rounds
//   overhead_bench N LOOP...         runs each of these N times after a warm-up, in a process of its own, and says
//                                    nothing: for perf, and for tests/instructions_test.sh, which counts the
//                                    instructions of measured_loop()
#include <cstdio>
#include <functional>
#include <vector>

#include "bench/host_loop.h"
#include "mantissa.h"

using namespace mantissa;

namespace {

struct Mlp {
  nn::Linear fc1, fc2, fc3;
  explicit Mlp(std::int64_t in, std::int64_t first, std::int64_t second)
      : fc1(in, first), fc2(first, second), fc3(second, 10) {}
  MANTISSA_FIELDS(fc1, fc2, fc3)
  Tensor operator()(const Tensor& x) const { return fc3(relu(fc2(relu(fc1(x))))); }
};

struct LeNet {  // of the PyTorch tutorial on CIFAR-10
  nn::Conv2d conv1{3, 6, 5}, conv2{6, 16, 5};
  nn::Linear fc1{400, 120}, fc2{120, 84}, fc3{84, 10};
  MANTISSA_FIELDS(conv1, conv2, fc1, fc2, fc3)
  Tensor operator()(const Tensor& x) const {
    Tensor h = max_pool2d(relu(conv1(x)), 2);
    h = max_pool2d(relu(conv2(h)), 2);
    return fc3(relu(fc2(relu(fc1(flatten(h, 1))))));
  }
};

// One training step of `net` on one batch.
template <class Optimizer, class Net, class Settings> std::function<void()> step(Net made, Tensor x, Settings o) {
  auto net = std::make_shared<Net>(std::move(made));
  auto optimizer = std::make_shared<Optimizer>(nn::parameters(*net), o);
  const Tensor y = randint(0, 10, {x.size(0)});
  return [=] {
    optimizer->zero_grad();
    backward(cross_entropy((*net)(x), y));
    optimizer->step();
  };
}

struct Work {
  const char* name;
  int per_round;  // calls in one round of the timing
  std::function<std::function<void()>()> make;
};

Tensor one(bool wants_gradient = false) { return full({4}, 0.5, {.requires_grad = wants_gradient}); }

// Twelve vectors of four elements with gradients and an optimizer over them.
std::function<void()> tiny_optimizer() {
  std::vector<Tensor> w;
  for (int i = 0; i < 12; ++i) {
    w.push_back(one(true));
    w.back().set_grad(one());
  }
  auto adam = std::make_shared<optim::Adam>(w);
  return [=] { adam->step(); };
}
std::function<void()> tiny_scaler() {
  std::vector<Tensor> w{one(true), one(true)};
  auto sgd = std::make_shared<optim::SGD>(w, optim::SGDOptions{.lr = 0.1});
  auto scaler = std::make_shared<amp::GradScaler>();
  return [=] {
    sgd->zero_grad();
    backward(scaler->scale(sum(w[0] * w[1])));
    scaler->step(*sgd);
    scaler->update();
  };
}

const Work loops[] = {
    {"add", 20000, [] { return [a = one(), b = one()] { (void)add(a, b); }; }},
    {"add_recorded", 20000, [] { return [a = one(true), b = one()] { (void)add(a, b); }; }},
    {"add_number", 20000, [] { return [a = one()] { (void)(a + 1.0); }; }},
    {"ten_multiplications", 2000,
     [] {
       return [w = one(true)]() mutable {
         Tensor y = w;
         for (int i = 0; i < 10; ++i) y = y * w;
         backward(sum(y));
         w.set_grad({});
       };
     }},
    {"adam_12_tensors", 2000, tiny_optimizer},
    {"scaler_step", 1000, tiny_scaler},
    {"mlp_tiny", 500,
     [] {
       return step<optim::Adam>(Mlp(8, 8, 8), randn({2, 8}), optim::AdamOptions{});
     }},
    {"mlp_32", 100,
     [] {
       return step<optim::Adam>(Mlp(784, 256, 128), randn({32, 784}), optim::AdamOptions{});
     }},
    {"mlp_128", 40,
     [] {
       return step<optim::Adam>(Mlp(784, 256, 128), randn({128, 784}), optim::AdamOptions{});
     }},
    {"mlp_1024", 5,
     [] {
       return step<optim::Adam>(Mlp(784, 256, 128), randn({1024, 784}), optim::AdamOptions{});
     }},
    {"lenet_4", 50,
     [] {
       return step<optim::SGD>(LeNet(), randn({4, 3, 32, 32}), optim::SGDOptions{.lr = 1e-3, .momentum = 0.9});
     }},
};

}  // namespace

int main(int argc, char** argv) try {
  manual_seed(1);
  if (argc > 2) return bench::run_alone(loops, argc, argv);
  for (const Work& loop : loops)
    std::printf("%-22s %10.1f ns\n", loop.name, bench::nanoseconds(loop.per_round, loop.make()));
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
