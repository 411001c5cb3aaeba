// Layers and losses on the CUDA device: results, gradients and buffers are PyTorch's, as on the CPU
// (tests/golden_modules_test.cpp).
#include "core/accelerator.h"
#include "tests/catch_compat.h"
#include "tests/golden/modules.h"

using namespace mantissa;
using namespace mantissa::test;

TEST_CASE("layers and losses compute on the device what PyTorch does") {
  if (!cuda_is_available()) {
    WARN("no GPU and no shim: skipped");
    return;
  }
  run_modules("modules_layers", layer_cases(), cuda);
  run_modules("modules_loss", loss_module_cases(), cuda);
}
