// Runs golden cases of operators: results and gradients against PyTorch's, in f64 and f32. Next: tests/golden/case.h.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/golden/golden.h"
#include "tests/golden/case.h"

namespace mantissa::test {

inline std::string operator_of(const std::string& name) { return name.substr(0, name.find('.')); }

// Checks the results of the case `name`, and the gradients of `leaves`, which are called `wanted` in the file.
inline void check_results(const Golden& golden, const std::string& name, Dtype dtype, const Results& y,
                          const std::vector<Tensor>& leaves, const std::vector<std::string>& wanted) {
  CHECK(!golden.find(concat(name, "/", static_cast<int>(y.size()))).defined());
  std::vector<Tensor> roots, v;
  for (std::size_t k = 0; k < y.size(); ++k) {
    const Tensor expected = golden.find(concat(name, "/", static_cast<int>(k)));
    INFO("result " << k);
    REQUIRE(expected.defined());
    CHECK(golden_difference(y[k], expected, dtype) == "");
    if (!y[k].requires_grad()) continue;
    roots.push_back(y[k]);
    v.push_back(cotangent(y[k], static_cast<std::int64_t>(k)));
  }
  if (leaves.empty()) return;
  REQUIRE(!roots.empty());
  const std::vector<Tensor> g = grad(roots, leaves, v, {.allow_unused = true});
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    INFO("gradient " << wanted[i]);
    CHECK(golden_difference(g[i], golden.find(wanted[i]), dtype) == "");
  }
}

inline void run_case(const Golden& golden, const Case& c, Dtype dtype) {
  const std::string name = c.name;
  Tensor in[6];
  std::vector<Tensor> leaves;
  std::vector<std::string> wanted;
  for (int i = 0; i < 6; ++i) {
    const std::string letter(1, "xyzuvw"[i]);
    in[i] = golden.input(name + "/" + letter, dtype);
    if (!golden.find(name + "/d" + letter).defined()) continue;
    leaves.push_back(in[i].requires_grad_());
    wanted.push_back(name + "/d" + letter);
  }
  check_results(golden, name, dtype, c.run(in[0], in[1], in[2], in[3], in[4], in[5]), leaves, wanted);
}

inline void run_cases(const char* stem, std::span<const Case> cases) {
  const char* wish = std::getenv("MANTISSA_OP");
  const Golden golden(stem);
  std::set<std::string> names;
  for (const Case& c : cases) {
    CHECK(names.insert(c.name).second);
    if (wish && operator_of(c.name) != wish) continue;
    for (Dtype dtype : {f64, f32}) {
      INFO(c.name << " in " << name_of(dtype) << ": " << c.torch);
      try {
        run_case(golden, c, dtype);
      } catch (const std::exception& e) {
        FAIL_CHECK("threw: " << e.what());
      }
    }
  }
  CHECK(names == golden.cases());  // the file was made from these very lines
}

}  // namespace mantissa::test
