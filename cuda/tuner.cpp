#include "cuda/tuner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <mutex>
#include <vector>

#include "core/choices.h"
#include "core/kernel.h"
#include "core/tuner.h"
#include "cuda/check.h"
#include "cuda/runtime.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)

namespace cuda_backend {
namespace {

constexpr int timed_runs = 5;

tuner::Choices& choices() {
  static tuner::Choices c(tuner::cache_file("cuda.jsonl"));
  return c;
}

// What a choice holds for: the kind of GPU and the version of CUDA. Asking the driver takes long, so it is asked once.
const std::string& machine() {
  static std::mutex mutex;
  static std::vector<std::string> known;
  const std::lock_guard lock(mutex);
  const auto device = static_cast<std::size_t>(current_device());
  if (known.size() <= device) known.resize(device + 1);
  if (known[device].empty()) {
    cudaDeviceProp p{};
    check_status(cudaGetDeviceProperties(&p, current_device()), "cudaGetDeviceProperties");
    known[device] = std::string(p.name) + ", CUDA " + std::to_string(CUDART_VERSION);
  }
  return known[device];
}

// Times of kernels that run on the CPU say nothing.
bool is_timing_wanted() {
#if defined(MANTISSA_CUDA_SHIM)
  return false;
#else
  return tuner::mode() != tuner::Mode::off;
#endif
}

std::size_t run_first(std::span<const Way> ways) {
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (ways[i].run()) return i;
  }
  fail("internal error: no kernel applies");
}

std::vector<float> values_of(const View& v) {
  Tensor copy = Tensor::allocate(v.sizes, f32, v.device);
  kernels::copy(v.device, copy.view(), v);
  return copy.to_vector<float>();
}

// Whether two ways to sum gave the same, up to rounding in the dtype of the result. Where one overflows the other has
// to, or come close.
bool agree(const std::vector<float>& a, const std::vector<float>& b, Dtype dtype) {
  const float nearly_infinite = dtype == f16 ? 6e4f : 3e38f;
  float largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool finite = std::isfinite(a[i]);
    if (finite != std::isfinite(b[i])) {
      if (std::abs(finite ? a[i] : b[i]) < nearly_infinite) return false;
    } else if (finite) {
      largest = std::max(largest, std::abs(a[i]));
      difference = std::max(difference, std::abs(a[i] - b[i]));
    }
  }
  return difference <= largest * (dtype == bf16 ? 2e-2f : dtype == f16 ? 4e-3f : 1e-3f);
}

float time_of(const Way& way) {
  Event begin(true), end(true);
  begin.record();
  for (int i = 0; i < timed_runs; ++i) way.run();
  end.record();
  end.wait();
  return end.milliseconds_since(begin) * 1000 / timed_runs;
}

}  // namespace

Choice run_fastest(const std::string& key, std::span<const Way> ways, std::span<const View> results, bool repeatable) {
  if (!is_timing_wanted()) return {run_first(ways), true};
  if (const auto known = choices().find(machine(), key)) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      if (ways[i].name == *known && ways[i].run()) return {i, true};
    }
  }
  if (!repeatable || is_capturing()) return {run_first(ways), false};

  const std::size_t first = run_first(ways);
  std::vector<std::vector<float>> expected;
  for (const View& r : results) expected.push_back(values_of(r));
  const auto agrees = [&] {
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (!agree(expected[k], values_of(results[k]), results[k].dtype)) return false;
    }
    return true;
  };
  std::size_t best = first;
  float shortest = time_of(ways[first]);
  for (std::size_t i = first + 1; i < ways.size(); ++i) {
    for (const View& r : results) kernels::fill(r.device, r, std::numeric_limits<double>::quiet_NaN());  // to be written
    if (!ways[i].run()) continue;
    if (!agrees()) {
      std::fprintf(stderr, "mantissa: the kernel '%s' disagrees with '%s' for %s and is not used; please report this\n",
                   ways[i].name.c_str(), ways[first].name.c_str(), key.c_str());
      continue;
    }
    const float t = time_of(ways[i]);
    if (t < shortest) best = i, shortest = t;
  }
  choices().keep(machine(), key, ways[best].name);
  ways[best].run();  // what a refused way may have written is written again
  return {best, true};
}

}  // namespace cuda_backend
}  // namespace mantissa
