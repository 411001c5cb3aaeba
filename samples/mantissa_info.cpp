// Prints the capabilities of this machine and build, and checks their results: products, a convolution and a gradient
// against f64. For bug reports, and to find out why a run is slow.
//   mantissa_info                exit code 1 if a number is wrong
#include <fmt/format.h>
#include <mantissa/mantissa.h>
#include <mantissa/autograd/gradcheck.h>
#include <mantissa/core/amx.h>
#include <mantissa/core/cpu/isa.h>
#include <mantissa/core/device_report.h>
#include <mantissa/core/onednn.h>
#include <mantissa/core/processors.h>
#include <mantissa/data/folders.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

using namespace mantissa;

void line(const char* what, const std::string& text) { fmt::print("{:<12} {}\n", what, text); }

void build_and_processor() {
  line("Mantissa", fmt::format("{}.{}.{}, built by {}", MANTISSA_VERSION_MAJOR, MANTISSA_VERSION_MINOR,
                               MANTISSA_VERSION_PATCH, compiler_report()));
  line("processor", processor_report());
  line("kernels", fmt::format("{} (best here: {}); bf16 products {}", cpu_backend::name_of(cpu_backend::isa()),
                              cpu_backend::name_of(cpu_backend::best_isa()),
                              uses_amx()             ? "by AMX"
                              : onednn::has_bf16() ? "by AVX512_BF16"
                                                   : "in f32: no instructions for them"));
  const auto [threads, cores] = usable_processors();
  line("threads", fmt::format("{} ($MANTISSA_NUM_THREADS); usable here: {} cores, {} hardware threads", num_threads(),
                              cores, threads));
  line("oneDNN", onednn::version());
}

void gpus() {
  const std::vector<std::string> report = gpu_report();
  for (std::size_t i = 0; i < report.size(); ++i) line(i == 0 ? "GPU" : "", report[i]);
}

void data_sets() {
  std::string folders;
  for (const std::string& folder : data::usual_folders("SET")) {
    if (folder.ends_with("/SET")) folders += (folders.empty() ? "" : ", ") + folder;
  }
  line("data", "looked for in " + folders);
  const auto tell = [](const char* name, const auto& source) {  // its origin; empty: not found
    try {
      const std::optional<std::string> found = source();
      line("", found.value_or(fmt::format("{}: not there; scripts/download.sh {}", name, name)));
    } catch (const Error& e) {  // a broken file must not prevent the other output
      line("", fmt::format("{}: cannot be read: {}", name, e.what()));
    }
  };
  using Found = std::optional<std::string>;
  for (const char* name : {"mnist", "fashion-mnist", "cifar10", "cifar100"})
    tell(name, [&] {
      const data::Dataset set = data::load_dataset(name, data::Split::test);
      return set.name.starts_with("synthetic") ? Found() : set.source;
    });
  tell("tinyshakespeare", [] {
    const data::RawText text = data::load_raw_text();
    return text.source.starts_with("synthetic") ? Found() : text.source;
  });
}

// Prints the error of `got` relative to the largest element of `exact`, and returns whether it is within `allowed`.
bool compare(const std::string& what, const Tensor& got, const Tensor& exact, double allowed) {
  const double error = max(abs(got.to(cpu).to(f64) - exact)).item() / max(abs(exact)).item();
  const bool right = error <= allowed;  // false for NaN
  const char* verdict = right ? "" : "  WRONG";
  line("", fmt::format("{:<12} off by {:.1e} of the largest, allowed {:.1e}{}", what, error, allowed, verdict));
  return right;
}

bool computes_right(Device device) {
  const auto seconds = [begin = std::chrono::steady_clock::now()] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  line("self-test", device.is_cpu() ? "on the CPU" : "on the GPU");
  const NoGrad no_grad;
  bool right = true;
  for (const Dtype dtype : {f32, bf16, f16}) {
    // Tolerances: f32 2e-6 sqrt(K) for a sum of length K; f16 and bf16 one rounding of the result.
    const double rounding = dtype == f32 ? 2e-6 : dtype == bf16 ? 8e-3 : 1e-3;
    const auto allowed = [&](double k) { return dtype == f32 ? rounding * std::sqrt(k) : rounding; };
    const Tensor a = randn({256, 512}, {.dtype = f64}).to(dtype), b = randn({512, 192}, {.dtype = f64}).to(dtype);
    right &= compare(fmt::format("matmul {}", name_of(dtype)), matmul(a.to(device), b.to(device)),
                     matmul(a.to(f64), b.to(f64)), allowed(512));
    const Tensor x = randn({4, 32, 28, 28}, {.dtype = f64}).to(dtype);
    const Tensor w = randn({48, 32, 3, 3}, {.dtype = f64}).to(dtype);
    const Conv2dOptions border{.padding = 1};
    right &= compare(fmt::format("conv2d {}", name_of(dtype)), conv2d(x.to(device), w.to(device), {}, border),
                     conv2d(x.to(f64), w.to(f64), {}, border), allowed(288));
  }
  if (device.is_cpu()) {
    try {
      const EnableGrad with_grad;
      const auto variable = [](const Dims& sizes) { return randn(sizes, {.dtype = f64, .requires_grad = true}); };
      gradcheck([](const std::vector<Tensor>& x) { return std::vector{tanh(conv2d(x[0], x[1], x[2]))}; },
                {variable({2, 3, 6, 6}), variable({4, 3, 3, 3}), variable({4})});
      line("", "gradient of tanh(conv2d) in f64 agrees with differences");
    } catch (const Error& e) {
      line("", fmt::format("gradient of tanh(conv2d) in f64 is WRONG: {}", e.what()));
      right = false;
    }
  }
  line("", fmt::format("{} in {:.1f} s", right ? "all right" : "WRONG NUMBERS, please report this", seconds()));
  return right;
}

int main() try {
  manual_seed(1);
  build_and_processor();
  gpus();
  data_sets();
  bool right = computes_right(cpu);
  if (cuda_is_available()) right &= computes_right(cuda);
  return right ? 0 : 1;
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
