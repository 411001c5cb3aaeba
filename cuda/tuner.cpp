#include "cuda/tuner.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/choices.h"
#include "core/kernel.h"
#include "core/tuner.h"
#include "cuda/check.h"
#include "cuda/cublaslt.h"
#include "cuda/cudnn.h"
#include "cuda/runtime.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)

namespace cuda_backend {
namespace {

constexpr int timed_runs = 5, timed_rounds = 3;

tuner::Choices& choices() {
  static tuner::Choices c(tuner::cache_file("cuda.jsonl"));
  return c;
}

// The scope of a stored choice: GPU model and CUDA version. Queried once, because the driver is slow to answer.
const std::string& machine() {
  static std::mutex mutex;
  static std::vector<std::string> known;
  const std::lock_guard lock(mutex);
  const auto device = static_cast<std::size_t>(current_device());
  if (known.size() <= device) known.resize(device + 1);
  if (known[device].empty()) {
    cudaDeviceProp p{};
    check_status(cudaGetDeviceProperties(&p, current_device()), "cudaGetDeviceProperties");
    known[device] = concat(p.name, ", CUDA ", CUDART_VERSION, ", cuBLASLt ", cublaslt_version(), ", cuDNN ",
                           cudnn_version());  // which number their plans
  }
  return known[device];
}

bool is_timing_wanted() {
#if defined(MANTISSA_CUDA_SHIM)
  return tuner::mode() == tuner::Mode::on;  // a test wants it: times mean nothing where kernels run on the CPU
#else
  return tuner::mode() != tuner::Mode::off;
#endif
}

std::size_t run_first(std::span<const Way> ways) {
  bool skipped = false;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (is_skipped(ways[i].name)) skipped = true;
    else if (ways[i].run()) return i;
  }
  check(!skipped, "no kernel applies but those that $MANTISSA_TUNER_SKIP leaves out");
  fail("internal error: no kernel applies");
}

// Microseconds of a run, the least of some rounds. The device is kept busy before each, so that the host, which may
// take longer to launch a short kernel than the kernel takes, is ahead when the timing starts; and longer before the
// first of all, because the device's clock rises with work.
float time_of(const Way& way) {
  static const bool warm = (keep_busy(std::chrono::milliseconds(50)), true);
  (void)warm;
  Event begin(true), end(true);
  float shortest = std::numeric_limits<float>::infinity();
  for (int round = 0; round < timed_rounds; ++round) {
    keep_busy(std::chrono::microseconds(100));
    begin.record();
    for (int i = 0; i < timed_runs; ++i) way.run();
    end.record();
    end.wait();
    shortest = std::min(shortest, end.milliseconds_since(begin) * 1000 / timed_runs);
  }
  return shortest;
}

}  // namespace

bool is_skipped(std::string_view name) {
  const char* list = std::getenv("MANTISSA_TUNER_SKIP");
  std::string_view rest = list ? list : "";
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (!one.empty() && name.starts_with(one)) return true;
  }
  return false;
}

Choice find_fastest(const std::string& key, std::span<const Way> ways, const Written& written,
                    const std::function<float(const Way&)>& time_of) {
  const std::span<const View> results = written.results;
  const auto copies = [&] {
    std::vector<Tensor> all;
    for (const View& r : results) {
      all.push_back(Tensor::allocate(r.sizes, r.dtype, r.device));
      kernels::copy(r.device, all.back().view(), r);
    }
    return all;
  };
  std::vector<Tensor> before, expected;
  const auto put_back = [&] {
    for (std::size_t k = 0; k < before.size(); ++k) kernels::copy(results[k].device, results[k], before[k].view());
  };
  std::size_t first = 0;
  float shortest = 0;
  try {
    if (written.adds) before = copies();
    first = run_first(ways);
    expected = copies();
    shortest = time_of(ways[first]);
  } catch (const OutOfMemory&) {  // no comparison is possible with so little memory
    put_back();  // undo what a way may have added before it failed
    before.clear();
    expected.clear();
    return {run_first(ways), true, false};
  }
  const auto agrees = [&] {
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (!agree(expected[k].view(), results[k], written.rounded_to)) return false;
    }
    return true;
  };
  std::size_t best = first;
  bool scarce = false;
  for (std::size_t i = first + 1; i < ways.size(); ++i) {
    if (is_skipped(ways[i].name)) continue;
    if (written.adds) put_back();
    else  // so that missing writes are noticed
      for (const View& r : results) kernels::fill(r.device, r, std::numeric_limits<double>::quiet_NaN());
    try {
      if (!ways[i].run()) continue;
      if (!agrees()) {
        std::fprintf(stderr,
                     "mantissa: the kernel '%s' disagrees with '%s' for %s and is not used; please report this\n",
                     ways[i].name.c_str(), ways[first].name.c_str(), key.c_str());
        continue;
      }
      const float t = time_of(ways[i]);
      if (t < shortest) best = i, shortest = t;
    } catch (const Error& e) {  // a failed launch or lack of workspace memory: other ways remain
      scarce = scarce || dynamic_cast<const OutOfMemory*>(&e);
      std::fprintf(stderr, "mantissa: the kernel '%s' fails for %s and is not used: %s\n", ways[i].name.c_str(),
                   key.c_str(), e.what());
      wait_for_stream();  // throws if the error has made the GPU unusable
    }
  }
  put_back();
  ways[best].run();  // redo the work, since rejected ways have overwritten the results
  return {best, true, !scarce};
}

Choice run_fastest(const std::string& key, std::span<const Way> ways, const Written& written) {
  if (!is_timing_wanted()) return {run_first(ways), true};
  if (const auto known = choices().find(machine(), key)) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      if (ways[i].name == *known && !is_skipped(ways[i].name) && ways[i].run()) return {i, true};
    }
  }
  if (is_capturing()) return {run_first(ways), false};
  const Choice found = find_fastest(key, ways, written, time_of);
  if (found.measured) choices().keep(machine(), key, ways[found.way].name);
  return found;
}

}  // namespace cuda_backend
}  // namespace mantissa
