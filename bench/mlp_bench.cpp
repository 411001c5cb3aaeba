// One training step of an MLP (784-256-128-10, Adam, batch 128): milliseconds per step.
//   mlp_bench                 prints the median and minimum over rounds
//   mlp_bench --worker DIR    the Mantissa side of bench/mlp_vs_torch.py: reads weights and batches
//                             from DIR, then answers "run K" on standard input with the losses of K
//                             steps and the seconds they took
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "mantissa.h"

using namespace mantissa;

struct Mlp {
  nn::Linear fc1{784, 256}, fc2{256, 128}, fc3{128, 10};
  MANTISSA_FIELDS(fc1, fc2, fc3)
  Tensor operator()(const Tensor& x) const { return fc3(relu(fc2(relu(fc1(x))))); }
};

constexpr std::int64_t batch = 128, batches = 32;

struct Trainer {
  Mlp net;
  optim::Adam optimizer{nn::parameters(net), {.lr = 1e-3}};
  std::vector<Tensor> images, labels;
  std::size_t next = 0;

  Tensor step() {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(images[next]), labels[next]);
    next = (next + 1) % images.size();
    backward(loss);
    optimizer.step();
    return loss.detach();
  }
  // Losses are kept as tensors and read after the clock has stopped, as the other side does.
  double run(int steps, std::vector<Tensor>& losses) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) losses.push_back(step());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
};

template <class T> Tensor read_raw(const std::string& path, const Dims& sizes) {
  Tensor t = Tensor::allocate(sizes, dtype_of<T>);
  std::FILE* f = std::fopen(path.c_str(), "rb");
  check(f != nullptr, path, ": cannot be opened");
  const std::size_t got = std::fread(t.raw_data(), 1, static_cast<std::size_t>(t.nbytes()), f);
  std::fclose(f);
  check(static_cast<std::int64_t>(got) == t.nbytes(), path, ": has ", static_cast<unsigned long>(got), " bytes, expected ", t.nbytes());
  return t;
}

int serve(const std::string& dir) {
  Trainer t;
  const NoGrad no_grad;
  for (auto& [name, parameter] : nn::named_parameters(t.net)) {
    Tensor value = parameter;
    value.copy_(read_raw<float>(dir + "/" + name, value.sizes()));
  }
  const Tensor x = read_raw<float>(dir + "/images", {batches, batch, 784});
  const Tensor y = read_raw<std::int64_t>(dir + "/labels", {batches, batch});
  for (int i = 0; i < batches; ++i) t.images.push_back(x[i]), t.labels.push_back(y[i]);
  const EnableGrad grad;
  std::printf("ready\n");
  std::fflush(stdout);
  int steps = 0;
  while (std::scanf(" run %d", &steps) == 1) {
    std::vector<Tensor> losses;
    const double seconds = t.run(steps, losses);
    std::printf("%.9f", seconds);
    for (const Tensor& loss : losses) std::printf(" %.9g", loss.item<double>());
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}

int main(int argc, char** argv) try {
  if (argc == 3 && std::strcmp(argv[1], "--worker") == 0) return serve(argv[2]);
  manual_seed(1);
  Trainer t;
  for (int i = 0; i < batches; ++i) {
    t.images.push_back(randn({batch, 784}));
    t.labels.push_back(randint(0, 10, {batch}));
  }
  std::vector<double> ms;
  std::vector<Tensor> losses;
  for (int round = 0; round < 20; ++round) ms.push_back(t.run(50, losses) * 1000 / 50);
  std::sort(ms.begin(), ms.end());
  std::printf("MLP 784-256-128-10, Adam, batch 128, %d threads: median %.3f ms per step, minimum %.3f\n", num_threads(), ms[ms.size() / 2], ms[0]);
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
