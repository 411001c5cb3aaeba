// Every module compared with PyTorch: it loads PyTorch's state_dict by name, and its results, gradients and buffers
// match PyTorch's. The cases are the lines of tests/golden/modules_*.h; tests/golden/make.py computed the expected
// values.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "tests/golden/module_case.h"
#include "tests/golden/modules_layers.h"
#include "tests/golden/modules_loss.h"
#include "tests/golden/modules_sequence.h"

namespace mantissa::test {

void check_golden_module(const Golden& golden, const std::string& name, Dtype dtype, const ModuleUnderTest& module) {
  Tensor in[6];
  std::vector<Tensor> leaves, roots, v;
  std::vector<std::string> wanted;  // names of their gradients in the file
  for (int i = 0; i < 6; ++i) {
    const std::string letter(1, "xyzuvw"[i]);
    in[i] = golden.input(name + "/" + letter, dtype);
    if (!golden.find(name + "/d" + letter).defined()) continue;
    leaves.push_back(in[i].requires_grad_());
    wanted.push_back(name + "/d" + letter);
  }
  std::size_t expected_gradients = golden.below(name + "/grad/").size();
  for (const auto& [key, p] : module.parameters) {
    if (!golden.find(name + "/grad/" + key).defined()) continue;
    --expected_gradients;
    leaves.push_back(p);
    wanted.push_back(name + "/grad/" + key);
  }
  CHECK(expected_gradients == 0);
  const Results y = module.call(in);
  CHECK(!golden.find(concat(name, "/", static_cast<int>(y.size()))).defined());
  for (std::size_t k = 0; k < y.size(); ++k) {
    const Tensor expected = golden.find(concat(name, "/", static_cast<int>(k)));
    INFO("result " << k);
    REQUIRE(expected.defined());
    CHECK(golden_difference(y[k], expected, dtype) == "");
    if (!y[k].requires_grad()) continue;
    roots.push_back(y[k]);
    v.push_back(cotangent(y[k], static_cast<std::int64_t>(k)));
  }
  for (const auto& [key, buffer] : module.buffers()) {
    INFO("buffer " << key << " afterwards");
    CHECK(golden_difference(buffer, golden.find(name + "/after/" + key), dtype) == "");
  }
  if (leaves.empty()) return;
  REQUIRE(!roots.empty());
  const std::vector<Tensor> g = grad(roots, leaves, v, {.allow_unused = true});
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    INFO("gradient " << wanted[i]);
    CHECK(golden_difference(g[i], golden.find(wanted[i]), dtype) == "");
  }
}

namespace {

std::string module_of(const std::string& name) { return name.substr(0, name.find('.')); }
bool selected_module(const std::string& name) {
  const char* wish = std::getenv("MANTISSA_MODULE");
  return !wish || module_of(name) == wish;
}

template <std::size_t n> void run_modules(const char* stem, const ModuleCase (&cases)[n]) {
  const Golden golden(stem);
  std::set<std::string> names;
  for (const ModuleCase& c : cases) {
    CHECK(names.insert(c.name).second);
    if (!selected_module(c.name)) continue;
    for (Dtype dtype : {f64, f32}) {
      INFO(c.name << " in " << name_of(dtype) << ": " << c.make << ": " << c.call);
      try {
        c.run(golden, c.name, dtype);
      } catch (const std::exception& e) {
        FAIL_CHECK("threw: " << e.what());
      }
    }
  }
  CHECK(names == golden.cases());  // the file was made from these very lines
}

// The callable types of nn/*.h: "struct Name" or "class Name" at the start of a line, with an operator() before the
// closing brace at the start of a line.
std::set<std::string> callable_types() {
  std::set<std::string> found;
  const std::regex head("^(?:struct|class) ([A-Za-z0-9]+)");
  for (const auto& entry : std::filesystem::directory_iterator(MANTISSA_SOURCE_DIR "/nn")) {
    if (entry.path().extension() != ".h") continue;
    if (entry.path().stem() == "onnx_program") continue;  // how a file becomes an OnnxModel: not for users
    if (entry.path().stem() == "distributions_transformed") continue;  // its transforms: tests/golden/distributions.h
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
    {"StochasticDepth", "random, and of torchvision; tests/nn_more_test.cpp"},
    {"TimeMasking", "random, and of torchaudio; tests/audio_test.cpp"},
    {"Layer", "one layer of a Sequential, of any type: what the layers compute is tested"},
};

template <std::size_t n>
void save_all(const std::filesystem::path& folder, const char* stem, const ModuleCase (&cases)[n]) {
  const Golden golden(stem);
  for (const ModuleCase& c : cases) {
    if (golden.below(std::string(c.name) + "/state/").empty()) continue;
    c.save(golden, c.name, (folder / (std::string(c.name) + ".safetensors")).string());
  }
}

}  // namespace

TEST_CASE("layers compute what PyTorch does") { run_modules("modules_layers", layer_cases); }
TEST_CASE("recurrent and attention modules compute what PyTorch does") {
  run_modules("modules_sequence", sequence_cases);
}
TEST_CASE("losses as modules compute what PyTorch does") { run_modules("modules_loss", loss_module_cases); }

TEST_CASE("every module has a golden case or a reason to have none") {
  std::set<std::string> covered;
  for (const char* stem : {"modules_layers", "modules_sequence", "modules_loss"}) {
    const Golden golden(stem);
    for (const std::string& name : golden.cases()) covered.insert(module_of(name));
  }
  const std::set<std::string> modules = callable_types();
  CHECK(modules.size() >= 60);  // or the lines above no longer find them
  for (const std::string& name : modules) {
    INFO(name << " needs a line in tests/golden/modules_*.h and a run of tests/golden/make.py");
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

// For tests/golden/load_back.py, which loads files of nn::save in PyTorch: $MANTISSA_SAVE names a folder.
TEST_CASE("modules save files for PyTorch", "[.save]") {
  const char* folder = std::getenv("MANTISSA_SAVE");
  REQUIRE(folder);
  save_all(folder, "modules_layers", layer_cases);
  save_all(folder, "modules_sequence", sequence_cases);
  save_all(folder, "modules_loss", loss_module_cases);
}

}  // namespace mantissa::test
