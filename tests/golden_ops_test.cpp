// Every operator compared with PyTorch: results and gradients, with PyTorch's options. The cases are the lines of
// tests/golden/ops_*.h; tests/golden/make.py computed the expected values. $MANTISSA_OP=softmax runs one operator's.
// The other half of the tables is in golden_ops_more_test.cpp, so that each file compiles quickly.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ops/registry.h"
#include "tests/golden/ops_linalg.h"
#include "tests/golden/ops_pointwise.h"
#include "tests/golden/ops_reduce.h"
#include "tests/golden/ops_shape.h"
#include "tests/golden/run_cases.h"

using namespace mantissa;
using namespace mantissa::test;

// Allowed reasons for an operator without a golden case.
const std::map<std::string, std::string> excused = {
    {"batch_norm_relu", "batch_norm, add and relu in one; compared with them by the operator tests"},
    {"bessel_j0", "PyTorch's is right to 1e-8; compared with the standard library's in tests/special_test.cpp"},
    {"bessel_j1", "PyTorch's is right to 1e-7; compared with the standard library's in tests/special_test.cpp"},
    {"linear_act",
     "linear and an activation in one; compared with them by the operator tests and tests/cuda_linear_act_test.cpp"},
    {"max_pool2d_taps",
     "what max_pool2d calls for channels-last images; compared with it in tests/channels_last_test.cpp"},
    {"channels_last",
     "the elements in another order of memory; compared with what it copies in tests/channels_last_test.cpp"},
    {"constant_pad", "what pad calls for its mode constant; compared there"},
    {"conv2d_relu",
     "conv2d and relu in one; compared with them by the operator tests and tests/cuda_conv_relu_test.cpp"},
    {"conv3d_relu", "the same for conv3d"},
    {"conv2d_weight_grad", "the gradient of conv2d with respect to its weight; compared there"},
    {"cross_entropy_soft", "what cross_entropy calls for a target of probabilities; compared there"},
    {"adaptive_max_pool1d_with_indices", "adaptive_max_pool1d with its indices; compared there"},
    {"adaptive_max_pool2d_with_indices", "adaptive_max_pool2d with its indices; compared there"},
    {"adaptive_max_pool3d_with_indices", "adaptive_max_pool3d with its indices; compared there"},
    {"fractional_max_pool2d_with_indices", "fractional_max_pool2d with its indices; compared there"},
    {"fractional_max_pool3d_with_indices", "fractional_max_pool3d with its indices; compared there"},
    {"conv3d_weight_grad", "the gradient of conv3d with respect to its weight; compared there"},
    {"max_pool1d_with_indices", "max_pool1d with its indices; compared there"},
    {"max_pool2d_with_indices", "max_pool2d with its indices; compared there"},
    {"max_pool3d_with_indices", "max_pool3d with its indices; compared there"},
    {"scatter_amax", "what scatter_reduce calls; compared there"},
    {"scatter_amin", "what scatter_reduce calls; compared there"},
    {"scatter_prod", "what scatter_reduce calls; compared there"},
    {"recurrent_layer", "what nn::RNN, nn::LSTM and nn::GRU call; compared there (tests/golden_modules_test.cpp)"},
    {"split_sizes", "split with a list of sizes; compared there"},
    {"unfold_windows", "unfold along a dimension; compared there"},
    {"gelu_tanh", "what gelu calls when told approximate = \"tanh\"; compared there"},
    {"linear_recurrence", "PyTorch has none; compared with a loop in tests/tensor_test.cpp"},
    {"gamma_slope",
     "PyTorch approximates it to 1e-3 (torch._standard_gamma_grad); compared with quotients of differences in "
     "tests/distributions_test.cpp"},
    {"roi_align", "is torchvision's; compared with it in tests/boxes_test.cpp and tests/detection_test.cpp"},
    {"to", "copies between devices"},
};
std::string reason_for_none(const OpInfo& op) {
  if (std::string_view(op.name).ends_with("_backward")) return "the gradient of another operator, compared there";
  if (op.random) return "draws random numbers, which are our own";
  const auto found = excused.find(op.name);
  return found == excused.end() ? "" : found->second;
}

TEST_CASE("every operator has a golden case or a reason to have none") {
  std::set<std::string> covered;
  for (const char* stem :
       {"ops_pointwise", "ops_reduce", "ops_shape", "ops_linalg", "ops_nn", "ops_loss", "ops_more", "ops_fft"}) {
    const Golden golden(stem);
    for (const std::string& name : golden.cases()) covered.insert(operator_of(name));
  }
  std::set<std::string> registered;
  for (const OpInfo& op : registry()) {
    registered.insert(op.name);
    INFO(op.name << " needs a line in tests/golden/ops_*.h and a run of tests/golden/make.py");
    CHECK((covered.contains(op.name) || !reason_for_none(op).empty()));
  }
  for (const auto& [name, reason] : excused) {
    INFO(name << " is excused but not registered, or has a golden case");
    CHECK((registered.contains(name) && !covered.contains(name)));
  }
  for (const std::string& name : covered) {
    INFO(name << " has a golden case but is not registered");
    CHECK(registered.contains(name));
  }
  std::ifstream page(MANTISSA_SOURCE_DIR "/docs/pytorch.md");
  const std::string text((std::istreambuf_iterator<char>(page)), {});
  for (const std::string& name : covered) {
    INFO(name << " is missing in docs/pytorch.md: run tests/golden/coverage.py");
    CHECK((text.find("`" + name + "`") != text.npos || text.find("`" + name + "(") != text.npos));
  }
  std::printf("golden cases of %zu of %zu registered operators\n", covered.size(), registered.size());
}

TEST_CASE("golden files stay small") {
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MANTISSA_SOURCE_DIR "/tests/golden"))
    if (entry.path().extension() == ".safetensors") bytes += entry.file_size();
  CHECK(bytes > 0);
  CHECK(bytes < 5'000'000);
}

TEST_CASE("elementwise operators compute what PyTorch does") { run_cases("ops_pointwise", pointwise_cases); }
TEST_CASE("reductions compute what PyTorch does") { run_cases("ops_reduce", reduce_cases); }
TEST_CASE("indexing and views compute what PyTorch does") { run_cases("ops_shape", shape_cases); }
TEST_CASE("linear algebra computes what PyTorch does") { run_cases("ops_linalg", linalg_cases); }
