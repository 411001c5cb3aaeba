// How tests/golden/modules.h runs the cases of its tables, and how it saves them.
#include <cstdlib>
#include <set>

#include "tests/golden/module_case.h"
#include "tests/golden/modules.h"
#include "tests/golden/run_cases.h"

namespace mantissa::test {

void check_golden_module(const Golden& golden, const std::string& name, Dtype dtype, const ModuleUnderTest& module) {
  Tensor in[6];
  std::vector<Tensor> leaves;
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
  for (const auto& [key, buffer] : module.buffers()) {
    INFO("buffer " << key << " afterwards");
    CHECK(golden_difference(buffer, golden.find(name + "/after/" + key), dtype) == "");
  }
  check_results(golden, name, dtype, y, leaves, wanted);
}

std::string module_of(const std::string& name) { return name.substr(0, name.find('.')); }

void run_modules(const char* stem, std::span<const ModuleCase> cases, Device device) {
  const char* wish = std::getenv("MANTISSA_MODULE");
  const Golden golden(stem, device);
  std::set<std::string> names;
  for (const ModuleCase& c : cases) {
    CHECK(names.insert(c.name).second);
    if (wish && module_of(c.name) != wish) continue;
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

void save_modules(const char* stem, std::span<const ModuleCase> cases) {
  const char* folder = std::getenv("MANTISSA_SAVE");
  REQUIRE(folder);
  const Golden golden(stem);
  for (const ModuleCase& c : cases) {
    if (golden.below(std::string(c.name) + "/state/").empty()) continue;
    c.save(golden, c.name, std::string(folder) + "/" + c.name + ".safetensors");
  }
}

}  // namespace mantissa::test
