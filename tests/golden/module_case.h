// One golden case of a module is one line of a tests/golden/modules_*.cpp:
//
//   MODULE("Linear", "randn(2, 3)", "nn.Linear(3, 4)", "m(x)", (nn::Linear(3, 4)), m(x))
//
// Module.variant; inputs x, y, z, u, v, w; how PyTorch makes and calls the module; and how we do. make.py reads the
// first four from this very line. The module gets PyTorch's state_dict, strictly by name; its results, all gradients
// and its buffers afterwards must be PyTorch's.
#pragma once

#include <functional>

#include "mantissa.h"
#include "tests/golden/case.h"
#include "tests/golden/golden.h"

namespace mantissa::test {

struct ModuleCase {
  const char *name, *inputs, *make, *call;
  void (*run)(const Golden& golden, const char* name, Dtype dtype);
  void (*save)(const Golden& golden, const char* name, const std::string& path);  // null without parameters and buffers
};

inline NamedTensors golden_state(const Golden& golden, const std::string& name) {
  NamedTensors state;
  for (const auto& [key, tensor] : golden.below(name + "/state/")) state.emplace_back(key, tensor);
  return state;
}

// A module as the checks see it: its named tensors and what it computes.
struct ModuleUnderTest {
  NamedTensors parameters;
  std::function<NamedTensors()> buffers;
  std::function<Results(const Tensor*)> call;
};
void check_golden_module(const Golden& golden, const std::string& name, Dtype dtype, const ModuleUnderTest& module);

template <class M, class Call> void run_module(const Golden& golden, const char* name, Dtype dtype, M& m, const Call& call) {
  ModuleUnderTest tested;
  tested.call = [&](const Tensor* t) { return call(t[0], t[1], t[2], t[3], t[4], t[5]); };
  tested.buffers = [] { return NamedTensors{}; };
  if constexpr (nn::Module<M>) {
    nn::to(m, dtype);
    nn::to(m, golden.device());
    nn::load_state_dict(m, golden_state(golden, name));
    tested.parameters = nn::named_parameters(m);
    tested.buffers = [&m] { return nn::named_buffers(m); };
  }
  check_golden_module(golden, name, dtype, tested);
}
template <class M> void save_module(const Golden& golden, const char* name, const std::string& path, M& m) {
  if constexpr (nn::Module<M>) {
    nn::load_state_dict(m, golden_state(golden, name));
    nn::save(m, path);
  }
}

}  // namespace mantissa::test

#define MODULE(name, inputs, torch_make, torch_call, ours, ...)                                                          \
  ::mantissa::test::ModuleCase{name, inputs, torch_make, torch_call,                                                     \
      [](const Golden& golden, const char* key, Dtype dtype) {                                                           \
        auto m = ours;                                                                                                   \
        run_module(golden, key, dtype, m,                                                                                \
                   [&m]([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& y, [[maybe_unused]] const Tensor& z,     \
                       [[maybe_unused]] const Tensor& u, [[maybe_unused]] const Tensor& v, [[maybe_unused]] const Tensor& w) {   \
                     return ::mantissa::test::results(__VA_ARGS__);                                                      \
                   });                                                                                                   \
      },                                                                                                                 \
      [](const Golden& golden, const char* key, const std::string& path) {                                               \
        auto m = ours;                                                                                                   \
        save_module(golden, key, path, m);                                                                               \
      }},
