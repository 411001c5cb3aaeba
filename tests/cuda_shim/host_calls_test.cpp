// Calls of the CUDA runtime that eager work makes once it is under way. Each costs the host time, so an operator makes
// its launches and nothing else: no query, no event, no allocation.
#include "tests/cuda_shim/host_work.h"
#include "tests/cuda_shim/shim.h"
#include "tests/testing.h"

using namespace mantissa;

TEST_CASE("recorded operators and their gradients call the runtime for their launches alone") {
  cuda_shim::set_null_device(true);
  for (const host_work::Work& w : host_work::all()) {
    const auto body = w.make();
    for (int i = 0; i < 3; ++i) body();
    cuda_shim::CallCounter counter;
    body();
    int launches = 0, others = 0;
    std::string list;
    for (const auto& [name, count] : counter.calls) {
      list += concat(name, " ", count, "  ");
      (name == "cudaLaunchKernel" || name == "cublasLtMatmul" ? launches : others) += count;
    }
    INFO(w.name << ": " << list);
    CHECK(launches <= w.launches);
    CHECK(others <= w.others);
  }
  cuda_shim::set_null_device(false);
}
