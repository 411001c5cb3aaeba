// Measures what mixed precision gains on this machine: the comparison of PyTorch's recipe "Automatic Mixed Precision".
// Trains the same network in f32 and under autocast for some iterations each, and prints time and peak memory.
//   amp_benchmark                                    on the CPU in bf16
//   amp_benchmark --device cuda --dtype f16 --width 4096
#include <fmt/format.h>
#include <mantissa/mantissa.h>

#include <CLI/CLI.hpp>
#include <chrono>

using namespace mantissa;

struct Settings {
  std::int64_t width = 1024, layers = 3, batch = 512;
  int iterations = 100;
  Device device = cpu;
};

struct Found {
  double seconds = 0, loss = 0;
  std::int64_t peak_bytes = 0;  // held by tensors: weights, gradients, data and activations saved for backward
};

nn::Sequential make_model(const Settings& s) {
  nn::Sequential net;
  for (std::int64_t i = 1; i < s.layers; ++i) {
    net.add(nn::Linear(s.width, s.width));
    net.add(nn::ReLU{});
  }
  net.add(nn::Linear(s.width, s.width));
  return net;
}

Found train(const Settings& s, Dtype dtype) {  // f32: no autocast
  manual_seed(1);
  nn::Sequential net = make_model(s);
  nn::to(net, s.device);
  const Tensor input = randn({s.batch, s.width}, {.device = s.device});
  const Tensor target = randn({s.batch, s.width}, {.device = s.device});
  optim::Sgd optimizer(nn::parameters(net), {.lr = 1e-3});
  amp::GradScaler scaler({.enabled = dtype == f16});  // bf16 has the range of f32
  Tensor loss;
  const auto step = [&] {
    optimizer.zero_grad();
    loss = amp::autocast(dtype, [&] { return mse_loss(net(input), target); });
    backward(scaler.scale(loss));
    scaler.step(optimizer);
    scaler.update();
  };
  step();  // warm-up: allocates memory and selects kernels
  (void)loss.item();
  reset_peak_memory_stats(s.device);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < s.iterations; ++i) step();
  const double last = loss.item<double>();  // synchronises with a GPU
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return {time.count(), last, memory_stats(s.device).peak_allocated};
}

int main(int argc, char** argv) try {
  Settings s;
  std::string device = "cpu", dtype = "bf16";
  const auto count = CLI::Range(1, 1 << 20);
  CLI::App app("Compares training in f32 and in mixed precision: time and peak memory.");
  app.add_option("--width", s.width, "Numbers in each layer")->check(count)->capture_default_str();
  app.add_option("--layers", s.layers, "Linear layers")->check(count)->capture_default_str();
  app.add_option("--batch", s.batch, "Rows at once")->check(count)->capture_default_str();
  app.add_option("--iterations", s.iterations, "Steps that are timed")->check(count)->capture_default_str();
  app.add_option("--device", device, "cpu, cuda, cuda:1 or auto")->capture_default_str();
  app.add_option("--dtype", dtype, "Of autocast")->check(CLI::IsMember({"bf16", "f16"}))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  s.device = parse_device(device);
  fmt::print("{} layers of {}, batch {}, {} iterations\n", s.layers, s.width, s.batch, s.iterations);
  const auto print = [](const std::string& name, const Found& f) {
    const double mb = static_cast<double>(f.peak_bytes) / 1e6;
    fmt::print("{:<16} {:8.3f} s  {:8.1f} MB at most  loss {:.4f}\n", name, f.seconds, mb, f.loss);
  };
  const Found full = train(s, f32), mixed = train(s, dtype == "f16" ? f16 : bf16);
  print("f32", full);
  print("autocast " + dtype, mixed);
  fmt::print("{:.2f} times as fast, {:.2f} of the memory\n", full.seconds / mixed.seconds,
             static_cast<double>(mixed.peak_bytes) / static_cast<double>(full.peak_bytes));
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
