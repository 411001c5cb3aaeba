// What several processes take together, for bench/distributed.sh:
//   mantissa_run -n 2 distributed_bench
// Prints milliseconds, medians of rank 0: of an all_reduce of so many bytes of f32, and of a training step of an MLP.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "mantissa.h"

using namespace mantissa;

namespace {

struct Mlp {
  nn::Linear fc1{784, 1024}, fc2{1024, 1024}, fc3{1024, 10};
  MANTISSA_FIELDS(fc1, fc2, fc3)
  Tensor operator()(const Tensor& x) const { return fc3(relu(fc2(relu(fc1(x))))); }
};

double milliseconds(int warm_up, int times, const std::function<void()>& f) {
  std::vector<double> seen;
  for (int i = 0; i < warm_up + times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    if (i >= warm_up) seen.push_back(took.count());
  }
  std::ranges::sort(seen);
  return seen[seen.size() / 2];
}

double step(bool parallel_net, std::optional<Dtype> compress = {}) {
  manual_seed(1);
  Mlp net;
  std::optional<nn::DataParallel> parallel;
  if (parallel_net) parallel.emplace(net, nn::DataParallelOptions{.compress = compress});
  optim::Sgd sgd(nn::parameters(net), {.lr = 0.01});
  const Tensor image = randn({128, 784}), label = randint(0, 10, {128});
  return milliseconds(5, 25, [&] {
    sgd.zero_grad();
    backward(cross_entropy(net(image), label));
    sgd.step();
  });
}

}  // namespace

int main() try {
  distributed::ProcessGroup& world = distributed::world();
  const auto print = [&](const char* what, std::int64_t bytes, double ms) {
    if (world.is_first()) std::printf("%s %lld %.4f\n", what, static_cast<long long>(bytes), ms);
  };
  for (const std::int64_t bytes : {1 << 10, 1 << 13, 1 << 16, 1 << 20, 10 << 20, 100 << 20}) {
    const Tensor x = zeros({bytes / 4});
    const int times = bytes > (50 << 20) ? 5 : bytes > (5 << 20) ? 20 : bytes > (1 << 18) ? 100 : 1000;
    print("all_reduce", bytes, milliseconds(times / 5 + 1, times, [&] { world.all_reduce(x); }));
  }
  print("step", 0, step(true));
  print("step_bf16", 0, step(true, bf16));
  world.barrier();
  print("step_alone", 0, step(false));
  world.barrier();
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
