// Every module compared with PyTorch: it loads PyTorch's state_dict by name, and its results, gradients and buffers
// match PyTorch's. The cases are the lines of tests/golden/modules_*.cpp; tests/golden/make.py computed the expected
// values. Recurrent and attention modules: tests/golden_modules_sequence_test.cpp.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "tests/golden/golden.h"
#include "tests/golden/modules.h"

namespace mantissa::test {
namespace {

// The callable types of nn/*.h: "struct Name" or "class Name" at the start of a line, with an operator() before the
// closing brace at the start of a line.
std::set<std::string> callable_types() {
  std::set<std::string> found;
  const std::regex head("^(?:struct|class) ([A-Za-z0-9]+)");
  for (const auto& entry : std::filesystem::directory_iterator(MANTISSA_SOURCE_DIR "/nn")) {
    if (entry.path().extension() != ".h") continue;
    if (entry.path().stem() == "onnx_program") continue;  // how a file becomes an OnnxModel: not for users
    if (entry.path().stem() == "distributions_transformed") continue;  // its transforms: tests/golden/distributions.cpp
    std::ifstream file(entry.path());
    std::string current;
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (std::regex_search(line, match, head)) current = match[1];
      if (!current.empty() && line.find("operator()(") != std::string::npos) found.insert(current);
      if (line.starts_with("}")) current.clear();
    }
  }
  return found;
}

// Modules without a golden case, and the reason.
const std::map<std::string, std::string> excused = {
    {"BatchNormAct2d", "BatchNorm2d, an addition and relu in one; compared with them in tests/nn_more_test.cpp"},
    {"AnchorGenerator", "of torchvision; tests/detection_test.cpp"},
    {"DeformConv2d", "of torchvision; deform_conv2d is compared in tests/detection_test.cpp"},
    {"DropBlock2d", "random, and of torchvision; tests/detection_test.cpp"},
    {"DropBlock3d", "random, and of torchvision; tests/detection_test.cpp"},
    {"FeaturePyramidNetwork", "of torchvision; tests/detection_test.cpp"},
    {"FractionalMaxPool2d",
     "random; fractional_max_pool2d is compared, and the module with it in tests/nn_layers_test.cpp"},
    {"FractionalMaxPool3d", "random; fractional_max_pool3d is compared"},
    {"LinearAct", "Linear and an activation in one; compared with them in tests/cuda_linear_act_test.cpp"},
    {"MultiScaleRoIAlign", "of torchvision; tests/detection_test.cpp"},
    {"OnnxModel", "what a file says; whole files are compared in tests/onnx_test.cpp and onnx_examples_test.sh"},
    {"AmplitudeToDB", "of torchaudio, not of PyTorch; tests/audio_test.cpp has its definition"},
    {"FrequencyMasking", "random, and of torchaudio; tests/audio_test.cpp"},
    {"MFCC", "of torchaudio; what it is made of is compared in tests/audio_test.cpp"},
    {"MelScale", "of torchaudio; its filters are compared in tests/audio_test.cpp"},
    {"MelSpectrogram", "of torchaudio; what it is made of is compared in tests/audio_test.cpp"},
    {"Spectrogram", "of torchaudio; stft is compared with PyTorch's in tests/audio_test.cpp"},
    {"SqueezeExcitation", "of torchvision; tests/detection_test.cpp"},
    {"StochasticDepth", "random, and of torchvision; tests/nn_more_test.cpp"},
    {"TimeMasking", "random, and of torchaudio; tests/audio_test.cpp"},
    {"Layer", "one layer of a Sequential, of any type: what the layers compute is tested"},
};

}  // namespace

TEST_CASE("layers compute what PyTorch does") { run_modules("modules_layers", layer_cases()); }
TEST_CASE("losses as modules compute what PyTorch does") { run_modules("modules_loss", loss_module_cases()); }

TEST_CASE("every module has a golden case or a reason to have none") {
  std::set<std::string> covered;
  for (const char* stem : {"modules_layers", "modules_sequence", "modules_loss"}) {
    const Golden golden(stem);
    for (const std::string& name : golden.cases()) covered.insert(module_of(name));
  }
  const std::set<std::string> modules = callable_types();
  CHECK(modules.size() >= 60);  // or the lines above no longer find them
  for (const std::string& name : modules) {
    INFO(name << " needs a line in tests/golden/modules_*.cpp and a run of tests/golden/make.py");
    CHECK(covered.contains(name) != excused.contains(name));
  }
  std::ifstream page(MANTISSA_SOURCE_DIR "/docs/pytorch.md");
  const std::string text((std::istreambuf_iterator<char>(page)), {});
  for (const std::string& name : covered) {
    INFO(name << " is missing in docs/pytorch.md: run tests/golden/coverage.py");
    CHECK((text.find("`" + name + "`") != text.npos || text.find("`" + name + "(") != text.npos));
  }
  for (const auto& [name, reason] : excused) {
    INFO(name << " is excused but does not exist");
    CHECK(modules.contains(name));
  }
}

TEST_CASE("modules save files for PyTorch", "[.save]") {
  save_modules("modules_layers", layer_cases());
  save_modules("modules_loss", loss_module_cases());
}

}  // namespace mantissa::test
