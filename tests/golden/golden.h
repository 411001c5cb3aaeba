// What the golden tests share. A golden file (tests/golden/make.py) holds, per case, inputs "case/x", "case/y", ...,
// results "case/0", ..., and the gradients "case/dx", ... of results weighted with cotangent(). Inputs are exact in f32:
// the tests run in f64 and in f32 from the same numbers, and allow 1e-9 and 2e-4.
#pragma once

#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "autograd/backward.h"
#include "core/ops.h"
#include "io/safetensors.h"
#include "tests/testing.h"

namespace mantissa::test {

class Golden {
 public:
  explicit Golden(const std::string& stem, Device device = cpu) : device_(device) {
    // Where the program was not built (scripts/gpu_pack.sh) it runs in the folder of the sources.
    const std::string root = std::filesystem::exists(MANTISSA_SOURCE_DIR) ? MANTISSA_SOURCE_DIR : ".";
    for (auto& [name, tensor] : io::load_safetensors(root + "/tests/golden/" + stem + ".safetensors").tensors) {
      tensors_.emplace(name, tensor);
      cases_.insert(name.substr(0, name.find('/')));
    }
  }
  // Undefined when the file has none. `dtype` is that of f64 values and of inputs.
  Tensor find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? Tensor() : found->second;
  }
  Tensor input(const std::string& name, Dtype dtype) const {
    const Tensor t = find(name);
    if (!t.defined()) return t;
    return (t.is_floating() ? t.to(dtype) : t).clone().to(device_);
  }
  Device device() const { return device_; }  // of inputs
  // Name (without the prefix) and tensor of everything below a prefix.
  std::map<std::string, Tensor> below(const std::string& prefix) const {
    std::map<std::string, Tensor> found;
    for (auto at = tensors_.lower_bound(prefix); at != tensors_.end() && at->first.starts_with(prefix); ++at)
      found.emplace(at->first.substr(prefix.size()), at->second);
    return found;
  }
  const std::set<std::string>& cases() const { return cases_; }

 private:
  Device device_;
  std::map<std::string, Tensor> tensors_;
  std::set<std::string> cases_;
};

// What arrives at result k in backward; tests/golden/common.py has the same formula.
inline Tensor cotangent(const Tensor& y, std::int64_t k) {
  Tensor v = Tensor::allocate(y.sizes(), f64);
  double* p = v.data<double>();
  for (std::int64_t i = 0; i < v.numel(); ++i) p[i] = (static_cast<double>((7 * i + 3 * k) % 13) - 6.25) / 8;
  return v.to(y.dtype()).to(y.device());
}

inline Tolerance golden_tolerance(Dtype dtype) { return dtype == f64 ? Tolerance{1e-9, 1e-9} : Tolerance{2e-4, 2e-4}; }

// Empty when `got` has the golden value, shape and dtype. PyTorch ran in f64: what it gave as f64 is compared in the
// tested dtype; anything else (i64 indices, bool, f32 from integers) must have that very dtype.
inline std::string golden_difference(const Tensor& got, const Tensor& expected, Dtype tested) {
  if (!got.defined()) return "undefined";
  const Dtype dtype = expected.dtype() == f64 ? tested : expected.dtype();
  if (got.dtype() != dtype) return concat("dtype ", got, " instead of ", name_of(dtype));
  if (!is_floating(dtype)) return difference(got.to(cpu), expected, {0, 0});
  if (!(got.sizes() == expected.sizes())) return concat("shape ", got.sizes(), " instead of ", expected.sizes());
  const Tolerance t = golden_tolerance(dtype);
  const std::vector<double> a = got.detach().to_vector<double>(), b = expected.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if ((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i] || std::abs(a[i] - b[i]) <= t.atol + t.rtol * std::abs(b[i])) continue;
    char text[64];
    std::snprintf(text, sizeof text, "%.17g instead of %.17g", a[i], b[i]);
    return concat("element ", static_cast<unsigned long>(i), " of ", describe(got), " is ", text);
  }
  return "";
}

}  // namespace mantissa::test
