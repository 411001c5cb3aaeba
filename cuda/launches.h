// Counts the kernels that a piece of code launches, by name: for tests, and for inspecting a step.
#pragma once

#include <map>
#include <string>

namespace mantissa::cuda_backend {

// Counts this thread's launches during its lifetime. Scopes nest; only the innermost one counts.
class LaunchCounter {
 public:
  LaunchCounter();
  ~LaunchCounter();
  LaunchCounter(const LaunchCounter&) = delete;
  std::map<std::string, int> launches;
  int of(const std::string& name) const {
    const auto at = launches.find(name);
    return at == launches.end() ? 0 : at->second;
  }
  int products() const { return of("gemm_mma") + of("gemm_hopper"); }  // by our kernels for Tensor Cores

 private:
  LaunchCounter* before_;
};

}  // namespace mantissa::cuda_backend
