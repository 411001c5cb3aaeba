// What eager work on the device costs on the host: dispatch, shapes, memory from the cache, planning of the launch and
// the launch itself up to the driver, which is a null device and does nothing (tests/cuda_shim/shim.h).
//   cuda_host_bench            for each piece of work of host_work.h: nanoseconds, the minimum over rounds, calls of
//                              the runtime, and launches by name
//   cuda_host_bench N WORK...  does each of these N times after a warm-up, in a process of its own, and says nothing:
//                              for tests/instructions_test.sh, which counts the instructions of measured_loop()
// Nothing here is measured on a GPU. The host code of .cu files is compiled with less optimisation than nvcc gives it.
#include <cstdio>
#include <utility>

#include "bench/host_loop.h"
#include "cuda/launches.h"
#include "tests/cuda_shim/host_work.h"
#include "tests/cuda_shim/shim.h"

using namespace mantissa;

int main(int argc, char** argv) try {
  cuda_shim::set_null_device(true);
  if (argc > 2) return bench::run_alone(host_work::all(), argc, argv);
  for (const host_work::Work& w : host_work::all()) {
    const auto body = w.make();
    for (int i = 0; i < 20; ++i) body();
    std::printf("%-24s %10.1f ns ", w.name, bench::nanoseconds(w.per_round, body));
    cuda_shim::CallCounter calls;
    cuda_backend::LaunchCounter launches;
    body();
    for (const auto& [name, count] : calls.calls) std::printf(" %s %d", name.c_str(), count);
    const char* before = ": ";
    for (const auto& [name, count] : launches.launches) {
      std::printf("%s%s %d", std::exchange(before, ", "), name.c_str(), count);
    }
    std::printf("\n");
  }
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
