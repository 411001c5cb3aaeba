// What jit::capture does when CUDA itself refuses a recording; everything else: tests/cuda_capture_test.cpp.
#include <cuda_runtime.h>

#include "core/accelerator.h"
#include "core/ops.h"
#include "jit/capture.h"
#include "tests/catch_compat.h"

using namespace mantissa;

TEST_CASE("a recording that CUDA refuses in the end is an error, and the next call records again") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  bool spoils = true;
  auto step = jit::capture([&](const Tensor& x) {
    const Tensor y = x * 2;
    if (spoils) (void)cudaEventQuery(event);  // not allowed while a stream records; nothing of ours is told
    return y;
  });
  const Tensor x = full({4}, 1.5).to(cuda);
  CHECK(step(x).to(cpu).to_vector<float>() == std::vector<float>(4, 3.0f));
  for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH(step(x), Catch::Matchers::Contains("capturing a step"));
  CHECK(step.recordings() == 0);
  spoils = false;
  for (int i = 0; i < 2; ++i) CHECK(step(x).to(cpu).to_vector<float>() == std::vector<float>(4, 3.0f));
  CHECK(step.recordings() == 1);
  CHECK(step.replays() == 1);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
}
