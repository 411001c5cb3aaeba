// Which kernels a piece of a program launched, by the names they are launched with: for
// tests, and for looking at a step.
#pragma once

#include <map>
#include <string>

namespace mantissa::cuda_backend {

// While it lives, launches of this thread are counted. Scopes nest; the innermost one counts.
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

 private:
  LaunchCounter* before_;
};

}  // namespace mantissa::cuda_backend
